"""The SDK's streamable HTTP transport for one request; imported on first use."""

from functools import cache
from typing import Any

from django.conf import settings
from mcp.server.context import ServerRequestContext
from mcp.server.lowlevel import Server
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
from mcp.server.transport_security import TransportSecuritySettings

from channels_app.asgi.http import Receive, Scope, Send
from channels_app.mcp.endpoints import ASKER
from channels_app.mcp.server import Asker, build


async def who(context: ServerRequestContext[Any, Any]) -> Asker:
    """Return the caller that the endpoint authenticated."""
    assert context.request is not None  # noqa: S101 - streamable HTTP always has one
    user, session_id = context.request.scope[ASKER]
    return Asker(user, session_id)


@cache
def server() -> Server[Any]:
    """Return the server of this process."""
    return build(who)


async def serve(
    scope: Scope, receive: Receive, send: Send, *, host: str, origins: list[str]
) -> None:
    """Answer one request. ``host`` was checked by the endpoint; the SDK checks it again."""
    manager = StreamableHTTPSessionManager(
        server(),
        stateless=True,
        security_settings=TransportSecuritySettings(allowed_hosts=[host], allowed_origins=origins),
        max_request_body_size=settings.MAX_BODY_BYTES,
    )
    async with manager.run():
        await manager.handle_request(scope, receive, send)
