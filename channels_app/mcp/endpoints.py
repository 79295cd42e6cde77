"""``POST /mcp``: stateless streamable HTTP, so that any process may answer.

The Origin is checked first (DNS rebinding; the Host was already), then the key; the SDK, which is
large, is loaded by the first call.
"""

from dataclasses import replace
from http import HTTPStatus
from typing import Any
from urllib.parse import urlsplit

from django.conf import settings

from allowlist.models import ApiKey
from channels_app.asgi import http, strict_json, throttling
from channels_app.asgi.authentication import slot
from channels_app.asgi.consumer import Endpoint
from channels_app.asgi.http import Receive, RefusedError, Request, Send
from core.models import User

SESSION_HEADER = "x-session-id"
PARSE_ERROR, INVALID_REQUEST, REFUSED, FAILED = -32700, -32600, -32000, -32603


class Mcp(Endpoint):
    """One message of an MCP client."""

    methods = ("POST",)
    key_scope = ApiKey.Scope.SEND_RESULT
    user: User

    async def check_head(self) -> None:
        """Check the Origin, then the key. Raises RefusedError 401, 403 or 429."""
        check_sender(self.request)
        await super().check_head()
        self.user = self.caller.person

    async def handle(self, body: bytes) -> None:
        """Pass valid JSON-RPC messages to the SDK."""
        flaw = flaw_of(body, self.user)
        if flaw is not None:
            await self.answer(400, flaw)
            return
        from channels_app.mcp import transport  # noqa: PLC0415 - 57 MB that few installations use

        caller = replace(self.caller, session_id=self.request.header(SESSION_HEADER))
        with slot(caller):
            await transport.serve(
                self.request.scope,
                replayed(body, self.incoming.receive),
                guarded(self.send),
                principal=caller,
                host=self.request.header("host"),
                origins=allowed_origins(),
            )

    async def refuse(self, error: RefusedError) -> None:
        """Answer a refused request, or an unexpected failure, as JSON-RPC."""
        is_failure = error.status >= HTTPStatus.INTERNAL_SERVER_ERROR
        body = rpc_error(FAILED if is_failure else REFUSED, str(error))
        await self.answer(error.status, body, error.headers)


def check_sender(request: Request) -> None:
    """Raise RefusedError 403 for an Origin that is not allowed; the Host was checked before."""
    origin = request.header("origin")
    if origin and origin not in allowed_origins():
        raise RefusedError(403, "This origin is not allowed.")


def allowed_origins() -> list[str]:
    """Return the gateway's own origin and the configured ones."""
    own = urlsplit(settings.GATEWAY_URL)
    return [f"{own.scheme}://{own.netloc}", *settings.MCP_ALLOWED_ORIGINS]


def flaw_of(raw: bytes, user: User) -> dict[str, Any] | None:
    """Return the JSON-RPC error for invalid JSON (-32700) or an invalid message (-32600), with the
    message's id where it has one; None for a valid message. Raises RefusedError 429 for too
    large a batch.
    """
    try:
        value = strict_json.parse(raw, max_depth=settings.MAX_JSON_DEPTH, storable=False)
    except strict_json.BadJSONError as error:
        return rpc_error(PARSE_ERROR, error.sentence)
    if isinstance(value, list):
        for _ in value:
            throttling.people.here(subject=f"user:{user.id}", limit=settings.RATE_PER_MINUTE_USER)
        return rpc_error(
            INVALID_REQUEST, "Batches are not supported: send one message per request."
        )
    if not isinstance(value, dict):
        return rpc_error(INVALID_REQUEST, "The body must be a JSON-RPC message.")
    reason = invalid(value)
    return rpc_error(INVALID_REQUEST, reason, value.get("id")) if reason else None


def invalid(message: dict[str, Any]) -> str:
    """Return why ``message`` is no JSON-RPC message; empty when it is one."""
    if message.get("jsonrpc") != "2.0":
        return 'jsonrpc must be "2.0".'
    if "id" in message and not is_id(message["id"]):
        return "id must be a string or a whole number."
    if "method" not in message:
        answers = "id" in message and ("result" in message or "error" in message)
        return "" if answers else "method is missing."
    if not isinstance(message["method"], str):
        return "method must be a string."
    if not isinstance(message.get("params", {}), dict):
        return "params must be an object."
    return ""


def is_id(value: Any) -> bool:
    return isinstance(value, str | int) and not isinstance(value, bool)


def rpc_error(code: int, message: str, name: Any = None) -> dict[str, Any]:
    """Build a JSON-RPC error; ``name`` is the id of the message that it answers."""
    found = name if is_id(name) and (isinstance(name, str) or abs(name) < 2**63) else None
    return {"jsonrpc": "2.0", "id": found, "error": {"code": code, "message": message}}


def replayed(raw: bytes, receive: Receive) -> Receive:
    """Deliver the body that was read, then the client's further events."""
    waiting = [{"type": "http.request", "body": raw, "more_body": False}]

    async def again() -> Any:
        return waiting.pop() if waiting else await receive()

    return again


def guarded(send: Send) -> Send:
    """Add the gateway's standard headers to every response."""

    async def add(message: Any) -> None:
        if message["type"] == "http.response.start":
            present = {name.lower() for name, _ in message["headers"]}
            added = [pair for pair in http.encoded({}) if pair[0] not in present]
            message = {**message, "headers": [*message["headers"], *added]}
        await send(message)

    return add
