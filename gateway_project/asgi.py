"""The ASGI application: Channels' router for consumers and sockets, Django for views and pages."""

import os
from typing import Any

from django.core.asgi import get_asgi_application

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "gateway_project.settings")
django_application = get_asgi_application()

# Below, because importing these needs the apps that the line above sets up.
from channels.routing import ProtocolTypeRouter, URLRouter  # noqa: E402
from django.urls import URLPattern, path, re_path  # noqa: E402

from channels_app.asgi.bodies import limited  # noqa: E402
from channels_app.asgi.hosts import our_host  # noqa: E402
from channels_app.asgi.http import Receive, Scope, Send  # noqa: E402
from channels_app.asgi.views import ViewHandler  # noqa: E402
from channels_app.client_api import routes as client_api  # noqa: E402
from channels_app.http_api import endpoints as http_api  # noqa: E402
from channels_app.mcp.endpoints import Mcp  # noqa: E402
from channels_app.webchat import urls as webchat  # noqa: E402
from core.lib import log_ids, tracing  # noqa: E402
from gateway_project.urls import VIEWS  # noqa: E402

CONSUMERS = [
    path("inbound", http_api.Inbound.as_asgi()),
    path("inbound/result", http_api.Result.as_asgi()),
    path("inbound/cancel", http_api.Cancel.as_asgi()),
    path("runs/<str:run_id>/events", http_api.RunEvents.as_asgi()),
    *client_api.ROUTES,
    re_path(r"^mcp/?$", Mcp.as_asgi()),
    *webchat.ROUTES,
]
view_handler: Any = ViewHandler()  # Django resolves the address again
pages: Any = limited(django_application)
ROUTES = [*CONSUMERS, *(URLPattern(view.pattern, view_handler) for view in VIEWS)]
router = URLRouter([*ROUTES, re_path(r"", pages)])
# Channels' router takes ``//x`` for ``/x``, which Django does not. Of clients with a slash at the
# end of their base URL: none of these addresses is served, all are told the one that is meant.
two_slashes = URLRouter([*client_api.UNKNOWN, re_path(r"", pages)])


async def http_application(scope: Scope, receive: Receive, send: Send) -> None:
    """Route to consumers and views by address, all else to pages."""
    caller = tracing.caller_of(scope["headers"]) if tracing.is_on() else None
    log_ids.begin(caller=caller)
    application = two_slashes if scope["path"].startswith("//") else router
    await application(scope, receive, send)


application = ProtocolTypeRouter(
    {"http": our_host(http_application), "websocket": webchat.websocket_application}
)
