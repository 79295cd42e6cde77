"""The ASGI application: our ASGI endpoints, Django for the rest, WebSockets."""

import os

from django.core.asgi import get_asgi_application

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "gateway_project.settings")
django_application = get_asgi_application()

# Below, because importing these needs the apps that the line above sets up.
from channels.routing import ProtocolTypeRouter  # noqa: E402

from channels_app.asgi import router  # noqa: E402
from channels_app.bridge import routes as bridge  # noqa: E402
from channels_app.http_api import routes as http_api  # noqa: E402
from channels_app.mcp import routes as mcp  # noqa: E402
from channels_app.openai_api import routes as openai_api  # noqa: E402
from channels_app.ops import health  # noqa: E402
from channels_app.telegram import urls as telegram  # noqa: E402
from channels_app.ui_stream import routes as ui_stream  # noqa: E402
from channels_app.webchat import urls as webchat  # noqa: E402

ROUTES = [
    *health.ROUTES,
    *bridge.ROUTES,
    *http_api.ROUTES,
    *mcp.ROUTES,
    *openai_api.ROUTES,
    *telegram.ROUTES,
    *ui_stream.ROUTES,
    *webchat.ROUTES,
]
application = ProtocolTypeRouter(
    {
        "http": router.application(ROUTES, django_application),
        "websocket": webchat.websocket_application,
    }
)
