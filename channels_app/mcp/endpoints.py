"""``POST /mcp``: stateless streamable HTTP, so that any process may answer.

The Origin is checked first (DNS rebinding; the Host was already), then the key; the SDK, which is
large, is loaded by the first call.
"""

from dataclasses import replace
from http import HTTPStatus
from typing import Any
from urllib.parse import urlsplit

import orjson
from django.conf import settings

from allowlist.models import ApiKey
from channels_app.asgi import http, strict_json, throttling
from channels_app.asgi.authentication import slot
from channels_app.asgi.consumer import Endpoint
from channels_app.asgi.http import Receive, RefusedError, Send
from core.models import User

SESSION_HEADER = "x-session-id"
PARSE_ERROR, INVALID_REQUEST, REFUSED, FAILED = -32700, -32600, -32000, -32603


class Mcp(Endpoint):
    """One message of an MCP client."""

    methods = ("POST",)
    key_scope = ApiKey.Scope.SEND_RESULT
    user: User
    message_id: Any = None

    async def check_head(self) -> None:
        """Check the Origin, then the key. Raises RefusedError 401, 403 or 429."""
        origin = self.request.header("origin")
        if origin and origin not in allowed_origins():
            raise RefusedError(403, "This origin is not allowed.")
        await super().check_head()
        self.user = self.caller.person

    async def handle(self, body: bytes) -> None:
        """Pass valid JSON-RPC messages to the SDK."""
        value, flaw = read(body, self.user)
        self.message_id = value.get("id") if isinstance(value, dict) else None
        if flaw is not None:
            await self.answer(400, flaw)
            return
        from channels_app.mcp import transport  # noqa: PLC0415 - 57 MB that few installations use

        caller = replace(self.caller, session_id=self.request.header(SESSION_HEADER))
        with slot(caller):
            await transport.serve(
                self.request.scope,
                replayed(body, self.incoming.receive),
                guarded(self.send, self.message_id),
                principal=caller,
                host=self.request.header("host"),
                origins=allowed_origins(),
            )

    async def refuse(self, error: RefusedError) -> None:
        """Answer a refused request, or an unexpected failure, as JSON-RPC."""
        is_failure = error.status >= HTTPStatus.INTERNAL_SERVER_ERROR
        code = FAILED if is_failure else REFUSED
        body = rpc_error(code, str(error), self.message_id)
        await self.answer(error.status, body, error.headers)


def allowed_origins() -> list[str]:
    """Return the gateway's own origin and the configured ones."""
    own = urlsplit(settings.GATEWAY_URL)
    return [f"{own.scheme}://{own.netloc}", *settings.MCP_ALLOWED_ORIGINS]


def read(raw: bytes, user: User) -> tuple[Any, dict[str, Any] | None]:
    """Return a message, and the JSON-RPC error for invalid JSON (-32700) or an invalid message
    (-32600); None for a valid one. Raises RefusedError 429 for too large a batch.
    """
    try:
        value = strict_json.parse(raw, max_depth=settings.MAX_JSON_DEPTH, storable=False)
    except strict_json.BadJSONError as error:
        return None, rpc_error(PARSE_ERROR, error.sentence)
    return value, flaw_of(value, user)


def flaw_of(value: Any, user: User) -> dict[str, Any] | None:
    """Return the JSON-RPC error for an invalid message. Raises RefusedError 429."""
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
    """Build a JSON-RPC error; ``name`` is the id of the message that it answers. It has none where
    that is not known: clients of the protocol refuse an id that is null.
    """
    error = {"jsonrpc": "2.0", "error": {"code": code, "message": message}}
    return {**error, "id": name} if is_usable(name) else error


def is_usable(name: Any) -> bool:
    """Return whether ``name`` is an id that an answer can carry."""
    return is_id(name) and (isinstance(name, str) or abs(name) < 2**63)


def replayed(raw: bytes, receive: Receive) -> Receive:
    """Deliver the body that was read, then the client's further events."""
    waiting = [{"type": "http.request", "body": raw, "more_body": False}]

    async def again() -> Any:
        return waiting.pop() if waiting else await receive()

    return again


def guarded(send: Send, name: Any) -> Send:
    """Add the gateway's standard headers to every response; a refusal of the SDK's, whose id is
    null, gets the id of the message that it answers.
    """
    held: list[Any] = []

    async def add(message: Any) -> None:
        if message["type"] == "http.response.start":
            present = {name.lower() for name, _ in message["headers"]}
            added = [pair for pair in http.encoded({}) if pair[0] not in present]
            message = {**message, "headers": [*message["headers"], *added]}
            if message["status"] >= HTTPStatus.BAD_REQUEST:
                held.append(message)
                return
        elif held:
            held.append(message)
            if message.get("more_body"):
                return
            for each in with_id(held[0], b"".join(piece["body"] for piece in held[1:]), name):
                await send(each)
            held.clear()
            return
        await send(message)

    return add


def with_id(start: Any, body: bytes, name: Any) -> list[Any]:
    """Return a refusal with the id ``name``, as ASGI messages; without one where it is unknown."""
    try:
        error = orjson.loads(body)
    except orjson.JSONDecodeError:
        error = None
    if isinstance(error, dict) and error.get("id") is None:
        error.pop("id", None)
        body = orjson.dumps({**error, "id": name} if is_usable(name) else error)
        length = (b"content-length", str(len(body)).encode())
        kept = [pair for pair in start["headers"] if pair[0].lower() != b"content-length"]
        start = {**start, "headers": [*kept, length]}
    return [start, {"type": "http.response.body", "body": body}]
