"""HTTP without Django's request cycle, for the hot doors: request, JSON answer, event stream.

An async Django view spends most of its time in thread hops (docs/decisions/002).
"""

import asyncio
import contextlib
import hmac
import ipaddress
import re
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, MutableMapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import parse_qs

import orjson
from django.conf import settings

from channels_app.asgi import strict_json
from core.lib.per_loop import per_loop

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]
Headers = Mapping[str, str]
ErrorBody = Callable[[int, str], Mapping[str, Any]]

MAX_IDEMPOTENCY_KEY = 128
JSON_TYPE = re.compile(r"application/(?:[a-z0-9!#$&^_.+-]+\+)?json", re.IGNORECASE)
JSON_CHARSET = re.compile(r"\s*(?:charset\s*=\s*\"?utf-?8\"?)?\s*;?\s*", re.IGNORECASE)
RETRY_SECONDS = "5"  # of a 429 that says nothing better
LAST_SECONDS = 1.5  # of a stream whose process is stopped
RESTARTS = "The gateway restarts. The run goes on."
CONTROLS = re.compile("[\x00-\x1f\x7f]")
SECURITY_HEADERS: Headers = {
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Content-Security-Policy": "default-src 'none'; base-uri 'none'; frame-ancestors 'none'",
    "Cache-Control": "no-store",
}


class RefusedError(Exception):
    """The request is refused; a door answers it in its own shape."""

    def __init__(
        self, status: int, message: str, *, field: str = "", headers: Headers | None = None
    ) -> None:
        """``field`` names what was wrong with the input."""
        super().__init__(message)
        self.status = status
        self.field = field
        self.headers = headers or {}


class ClientGoneError(Exception):
    """The client closed the connection."""


class Request:
    """One HTTP request over ASGI."""

    def __init__(self, scope: Scope, receive: Receive) -> None:
        """Nothing is read yet."""
        self.scope = scope
        self.method: str = scope["method"]
        self.path: str = scope["path"]
        self._receive = receive
        self._headers: dict[str, str] = {
            name.decode("latin-1").lower(): value.decode("latin-1")
            for name, value in scope["headers"]
        }

    def header(self, name: str) -> str:
        """The header ``name`` (lower case), or an empty string."""
        return self._headers.get(name, "")

    def query(self, name: str) -> str:
        """The first value of a query parameter, or an empty string."""
        values: list[str] = parse_qs(self.scope["query_string"].decode("latin-1")).get(name, [""])
        return values[0]

    @property
    def address(self) -> str:
        """The client's address; behind a trusted proxy, the last one it did not add itself."""
        client: str = (self.scope.get("client") or ("", 0))[0]
        if client in settings.GATEWAY_TRUSTED_PROXIES or (
            client == "" and settings.GATEWAY_TRUSTED_PROXIES
        ):
            forwarded = self.header("x-forwarded-for").split(",")[-1].strip()
            client = forwarded or client
        return plain_address(client)

    async def body(self, limit: int) -> bytes:
        """The whole body. Raises RefusedError: 413 over ``limit`` bytes, 408 when too slow."""
        declared = self.header("content-length")
        if declared.isascii() and declared.isdigit() and int(declared[:18]) > limit:
            raise RefusedError(413, f"The body is larger than {limit} bytes.")
        if self.header("content-encoding") not in {"", "identity"}:
            raise RefusedError(415, "Compressed bodies are not accepted.")
        parts: list[bytes] = []
        size = 0
        try:
            async with asyncio.timeout(settings.BODY_SECONDS):
                while True:
                    message = await self._receive()
                    if message["type"] == "http.disconnect":
                        raise ClientGoneError
                    parts.append(message.get("body", b""))
                    size += len(parts[-1])
                    if size > limit:
                        raise RefusedError(413, f"The body is larger than {limit} bytes.")
                    if not message.get("more_body"):
                        return b"".join(parts)
        except TimeoutError as error:
            raise RefusedError(408, "The body came too slowly.") from error

    def require_json(self) -> None:
        """Raises RefusedError 415 unless the client says that the body is JSON in UTF-8.

        A page of another site may send any other type without asking first.
        """
        kind, _, parameters = self.header("content-type").partition(";")
        if not JSON_TYPE.fullmatch(kind.strip()) or not JSON_CHARSET.fullmatch(parameters):
            text = "The body must be JSON: send Content-Type: application/json."
            raise RefusedError(415, text, field="Content-Type")

    async def json(self) -> dict[str, Any]:
        """The body as a JSON object. Raises RefusedError."""
        self.require_json()
        data = await self.body(settings.MAX_BODY_BYTES)
        try:
            value = strict_json.parse(data, max_depth=settings.MAX_JSON_DEPTH)
        except strict_json.BadJSONError as error:
            raise RefusedError(400, error.sentence, field=error.field or "body") from error
        if not isinstance(value, dict):
            raise RefusedError(400, "The body must be a JSON object.", field="body")
        return value

    def language(self) -> str:
        """The first language that the client asks for, or an empty string."""
        return self.header("accept-language").split(",", 1)[0].split(";", 1)[0].strip()

    def idempotency_key(self) -> str:
        """The header that makes a repeated request the same run. Raises RefusedError 400."""
        key = self.header("idempotency-key")
        if len(key) > MAX_IDEMPOTENCY_KEY:
            text = f"Idempotency-Key is longer than {MAX_IDEMPOTENCY_KEY} characters."
            raise RefusedError(400, text, field="Idempotency-Key")
        return key

    async def gone(self) -> None:
        """Return when the client has closed the connection."""
        while (await self._receive())["type"] != "http.disconnect":
            pass


def error_body(status: int, message: str) -> dict[str, Any]:
    """An error in the shape of ``/inbound`` ([D1])."""
    return {"ok": False, "status": status, "error": message, "text": "", "format": "plain"}


def refused_body(error: RefusedError) -> dict[str, Any]:
    """A refused request in that shape; ``field`` names what was wrong with it."""
    body = error_body(error.status, str(error))
    return {**body, "field": error.field} if error.field else body


def plain_address(address: str) -> str:
    """``address`` with an IPv4-mapped IPv6 form undone: both count as one."""
    try:
        parsed = ipaddress.ip_address(address)
    except ValueError:
        return address
    mapped = parsed.ipv4_mapped if isinstance(parsed, ipaddress.IPv6Address) else None
    return str(mapped or parsed)


def same_secret(given: str, secret: str) -> bool:
    """Whether two secrets are equal, in constant time."""
    return hmac.compare_digest(given.encode(), secret.encode())


def encoded(headers: Headers) -> list[tuple[bytes, bytes]]:
    """Headers as ASGI wants them, with the ones that every answer carries."""
    every = {**SECURITY_HEADERS, **transport_security(), **headers}
    return [(name.lower().encode(), header_value(value)) for name, value in every.items()]


def header_value(value: str) -> bytes:
    """``value`` on one line: uvicorn writes what it is given, also the end of a line."""
    return CONTROLS.sub(" ", value).encode("latin-1", "replace")


def transport_security() -> Headers:
    """HSTS, where people reach us over TLS: as Django's middleware sends it for the pages."""
    seconds = settings.SECURE_HSTS_SECONDS
    more = "; includeSubDomains" if settings.SECURE_HSTS_INCLUDE_SUBDOMAINS else ""
    more += "; preload" if settings.SECURE_HSTS_PRELOAD else ""
    return {"Strict-Transport-Security": f"max-age={seconds}{more}"} if seconds else {}


async def answer(
    send: Send, status: int, body: Mapping[str, Any], headers: Headers | None = None
) -> None:
    """Send ``body`` as JSON."""
    await answer_bytes(send, status, orjson.dumps(body), "application/json", headers)


async def answer_text(send: Send, status: int, text: str, headers: Headers | None = None) -> None:
    """Send ``text`` as it is."""
    await answer_bytes(send, status, text.encode(), "text/plain; charset=utf-8", headers)


async def answer_bytes(
    send: Send, status: int, data: bytes, content_type: str, headers: Headers | None
) -> None:
    """Send a whole body. A 429 always says when to come again."""
    every = {
        "Content-Type": content_type,
        "Content-Length": str(len(data)),
        **({"Retry-After": RETRY_SECONDS} if status == 429 else {}),
        **(headers or {}),
    }
    await send({"type": "http.response.start", "status": status, "headers": encoded(every)})
    await write(send, data, more=False)


async def stream(
    request: Request,
    send: Send,
    blocks: AsyncGenerator[bytes, None],
    *,
    status: int = 200,
    headers: Headers | None = None,
    farewell: bytes = b"",
) -> bool:
    """Send ``blocks`` as an event stream; False when the client left first.

    When this process is stopped, ``farewell`` is the last event and the body ends as it should: the
    client learns how to go on, and does not take a cut connection for a failed request.

    A reader that takes nothing for STREAM_STALL_SECONDS is cut off, and so is a stream that lasts
    MAX_STREAM_SECONDS or has had MAX_STREAM_BYTES: the client can resume.
    """
    every = {
        "Content-Type": "text/event-stream; charset=utf-8",
        "Cache-Control": "no-cache",
        "X-Accel-Buffering": "no",
        **(headers or {}),
    }
    await send({"type": "http.response.start", "status": status, "headers": encoded(every)})
    pace = Pace()
    pump = asyncio.ensure_future(push(send, blocks, pace))
    gone = asyncio.ensure_future(request.gone())
    stopped = asyncio.ensure_future(stopping().wait())
    try:
        await asyncio.wait(
            {pump, gone, stopped},
            timeout=settings.MAX_STREAM_SECONDS,
            return_when=asyncio.FIRST_COMPLETED,
        )
        if stopped.done() and not (pump.done() or gone.done()):
            return await part(send, pump, pace, farewell)
        if not pump.done():
            return False
        return pump.result()
    finally:
        for task in (pump, gone, stopped):
            task.cancel()
        with contextlib.suppress(asyncio.CancelledError, ClientGoneError):
            await asyncio.gather(pump, gone, stopped, return_exceptions=True)


@dataclass(slots=True)
class Pace:
    """Where a stream stands: whether a block is being sent, and whether it is the last one."""

    is_sending: bool = False
    ends: bool = False


async def push(send: Send, blocks: AsyncGenerator[bytes, None], pace: Pace) -> bool:
    """Send every block; False when the reader stalled, has had enough, or must leave."""
    left = settings.MAX_STREAM_BYTES
    async with contextlib.aclosing(blocks):
        async for block in blocks:
            left -= len(block)
            pace.is_sending = True
            if left < 0 or not await write(send, block, more=True):
                return False
            pace.is_sending = False
            if pace.ends:
                return False
    return await write(send, b"", more=False)


async def part(send: Send, pump: "asyncio.Future[bool]", pace: Pace, farewell: bytes) -> bool:
    """The end of a stream whose process is stopped: its own, if that comes at once, else the block
    that is being sent and ``farewell``."""
    await asyncio.wait({pump}, timeout=LAST_SECONDS)
    pace.ends = True
    if not pump.done() and pace.is_sending:
        await asyncio.wait({pump}, timeout=LAST_SECONDS)
    if pump.done() and pump.result():
        return True
    if pace.is_sending:  # a reader that stalls in the middle of an event
        return False
    pump.cancel()
    await asyncio.wait({pump})
    return await write(send, farewell, more=True) and await write(send, b"", more=False)


@per_loop
def stopping() -> asyncio.Event:
    """Return what is set when the process of this event loop is about to stop."""
    return asyncio.Event()


async def write(send: Send, data: bytes, *, more: bool) -> bool:
    """Send ``data``; False when the reader takes nothing for STREAM_STALL_SECONDS.

    In pieces: the server holds no more of it in memory than the reader is behind.
    """
    size = settings.STREAM_PIECE_BYTES
    pieces = [data[start : start + size] for start in range(0, len(data), size)]
    try:
        for number, piece in enumerate(pieces or [b""], 1):
            last = number >= len(pieces) and not more
            async with asyncio.timeout(settings.STREAM_STALL_SECONDS):
                await send({"type": "http.response.body", "body": piece, "more_body": not last})
    except TimeoutError:
        return False
    return True


def sse(data: Mapping[str, Any], *, seq: int | None = None) -> bytes:
    """One event: ``id: <seq>`` when given, and ``data:`` with JSON, which holds no line break."""
    head = b"" if seq is None else b"id: %d\n" % seq
    return head + b"data: " + orjson.dumps(data) + b"\n\n"
