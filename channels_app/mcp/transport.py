"""The SDK's streamable HTTP transport for one request; imported on first use."""

from functools import cache
from typing import Any

from django.conf import settings
from mcp.server.context import ServerRequestContext
from mcp.server.lowlevel import Server
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
from mcp.server.transport_security import TransportSecuritySettings

from channels_app.asgi.http import Receive, Scope, Send
from channels_app.asgi.principal import Principal
from channels_app.mcp.server import build

PRINCIPAL = "latchkey.principal"  # in the ASGI scope of a request


async def identify(context: ServerRequestContext[Any, Any]) -> Principal:
    assert context.request is not None  # noqa: S101 - streamable HTTP always has one
    found: Principal = context.request.scope[PRINCIPAL]
    return found


@cache
def server() -> Server[Any]:
    return build(identify)


async def serve(
    scope: Scope,
    receive: Receive,
    send: Send,
    *,
    principal: Principal,
    host: str,
    origins: list[str],
) -> None:
    """Answer one request of ``principal``. ``host`` is checked already; the SDK does it again."""
    scope[PRINCIPAL] = principal
    manager = StreamableHTTPSessionManager(
        server(),
        stateless=True,
        security_settings=TransportSecuritySettings(allowed_hosts=[host], allowed_origins=origins),
        max_request_body_size=settings.MAX_BODY_BYTES,
    )
    async with manager.run():
        await manager.handle_request(scope, receive, send)
