"""The head of an HTTP request, refusals, JSON bodies and answers: shared by consumers and views."""

import asyncio
import hmac
import ipaddress
import logging
import re
from collections.abc import Awaitable, Callable, Mapping, MutableMapping
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qs

import orjson
from django.conf import settings
from django.db import Error as DatabaseFailure
from django.utils.translation import gettext_lazy

from channels_app.asgi import strict_json

if TYPE_CHECKING:
    from django.utils.functional import _StrPromise as StrPromise

logger = logging.getLogger(__name__)

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]
Application = Callable[[Any, Any, Any], Awaitable[None]]
Headers = Mapping[str, str]

MAX_IDEMPOTENCY_KEY = 128
JSON_TYPE = re.compile(r"application/(?:[a-z0-9!#$&^_.+-]+\+)?json", re.IGNORECASE)
# No two kinds of spaces side by side: a header of spaces would be tried in each division of them.
JSON_CHARSET = re.compile(r"(?:charset\s*=\s*\"?utf-?8\"?)?\s*;?", re.IGNORECASE)
RETRY_SECONDS = "5"  # the default for a 429
# The official clients of /v1 obey this: they repeat a 429 and any 5xx by themselves otherwise.
NO_REPEAT: Headers = {"x-should-retry": "false"}
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
    """The request is refused; each endpoint answers it in its own shape."""

    def __init__(
        self,
        status: int,
        message: "str | StrPromise",
        *,
        field: str = "",
        headers: Headers | None = None,
    ) -> None:
        """Take the status and message; ``field`` names the invalid field of the input. A
        lazy message is read in the language that is active where it is answered.
        """
        super().__init__(message)
        self.status = status
        self.field = field
        # More fields of the answer.
        self.details: Mapping[str, Any] = {}
        self.headers = headers or {}


class ClientGoneError(Exception):
    """The client closed the connection."""


class Request:
    """The head of an HTTP request over ASGI."""

    def __init__(self, scope: Scope) -> None:
        self.scope = scope
        self.method: str = scope["method"]
        self.path: str = scope["path"]
        self._headers: dict[str, str] = {
            name.decode("latin-1").lower(): value.decode("latin-1")
            for name, value in scope["headers"]
        }
        self._query: dict[str, list[str]] | None = None

    def header(self, name: str) -> str:
        """Return the header ``name`` (lower case), or an empty string."""
        return self._headers.get(name, "")

    def query(self, name: str) -> str:
        """Return the first value of a query parameter, or an empty string."""
        return next(iter(self.queries(name)), "")

    def queries(self, name: str) -> list[str]:
        """Return the values of a query parameter."""
        if self._query is None:  # a long one takes a while
            self._query = parse_qs(self.scope["query_string"].decode("latin-1"))
        return self._query.get(name, [])

    @property
    def address(self) -> str:
        """Return the client's address; behind trusted proxies, the last one not added by them."""
        client: str = (self.scope.get("client") or [""])[0]
        if client in settings.GATEWAY_TRUSTED_PROXIES or (
            client == "" and settings.GATEWAY_TRUSTED_PROXIES
        ):
            forwarded = self.header("x-forwarded-for").split(",")[-1].strip()
            client = forwarded or client
        return plain_address(client)

    @property
    def declared_length(self) -> int:
        """Return the size of the body in bytes by ``Content-Length``; 0 without one."""
        declared = self.header("content-length")
        return int(declared[:18]) if declared.isascii() and declared.isdigit() else 0

    def require_json(self) -> None:
        """Raise RefusedError 415 unless the body is declared as JSON in UTF-8.

        A page of another site may send other types without a preflight request.
        """
        kind, _, parameters = self.header("content-type").partition(";")
        if not JSON_TYPE.fullmatch(kind.strip()) or not JSON_CHARSET.fullmatch(parameters.strip()):
            text = "The body must be JSON: send Content-Type: application/json."
            raise RefusedError(415, text, field="Content-Type")

    def require_bytes(self) -> None:
        """Raise RefusedError 415 for a form, whose boundaries would become a part of the file."""
        if self.header("content-type").lower().startswith("multipart/form-data"):
            text = "The body is the bytes of the file, not a form: with curl, --data-binary @file."
            raise RefusedError(415, text)

    def language(self) -> str:
        """Return the client's first preferred language, or an empty string."""
        return self.header("accept-language").partition(",")[0].partition(";")[0].strip()

    def idempotency_key(self) -> str:
        """Return the ``Idempotency-Key``, which names one run. Raises RefusedError 400."""
        key = self.header("idempotency-key")
        if len(key) > MAX_IDEMPOTENCY_KEY:
            text = f"Idempotency-Key is longer than {MAX_IDEMPOTENCY_KEY} characters."
            raise RefusedError(400, text, field="Idempotency-Key")
        return key


def parse_object(data: bytes, *, clean: Callable[[Any], None] | None = None) -> dict[str, Any]:
    """Parse a JSON object; ``clean`` first removes what some database cannot store. Raises
    RefusedError 400.
    """
    try:
        value = strict_json.parse(data, max_depth=settings.MAX_JSON_DEPTH, storable=clean is None)
        if clean is not None:
            clean(value)
            strict_json.check_storable(value)
    except strict_json.BadJSONError as error:
        raise RefusedError(400, error.sentence, field=error.field or "body") from error
    if not isinstance(value, dict):
        raise RefusedError(400, "The body must be a JSON object.", field="body")
    return value


def refusal_of(error: Exception) -> RefusedError:
    """Return ``error`` as a refusal. Unexpected errors are logged: 503 (database) or 500."""
    if isinstance(error, RefusedError):
        return error
    if isinstance(error, DatabaseFailure):
        logger.error("the database failed under a request", exc_info=error)
        return RefusedError(
            503, gettext_lazy("Try again in a moment."), headers={"Retry-After": "2"}
        )
    logger.error("a request failed", exc_info=error)
    return RefusedError(500, gettext_lazy("Something went wrong."))


def error_body(status: int, message: str) -> dict[str, Any]:
    """Return an error in the shape of ``/inbound`` ([D1])."""
    return {"ok": False, "status": status, "error": message, "text": "", "format": "plain"}


def refused_body(error: RefusedError) -> dict[str, Any]:
    """Return a refusal in that shape, with its details; ``field`` names the invalid field."""
    body = {**error_body(error.status, str(error)), **error.details}
    return {**body, "field": error.field} if error.field else body


def plain_address(address: str) -> str:
    """Return ``address`` with an IPv4-mapped IPv6 form undone: both count as one."""
    try:
        parsed = ipaddress.ip_address(address)
    except ValueError:
        return address
    mapped = parsed.ipv4_mapped if isinstance(parsed, ipaddress.IPv6Address) else None
    return str(mapped or parsed)


def same_secret(given: str, secret: str) -> bool:
    """Return whether two secrets are equal, in constant time."""
    return hmac.compare_digest(given.encode(), secret.encode())


def encoded(headers: Headers) -> list[tuple[bytes, bytes]]:
    """Encode headers for ASGI, with those of every response."""
    return [
        (name.encode(), value.encode("latin-1", "replace"))
        for name, value in every_header(headers).items()
    ]


def every_header(headers: Headers) -> dict[str, str]:
    """Return ``headers`` with those of every response, names in lower case, each value on one line:
    uvicorn writes them unchecked, line ends included.

    With SECURE_HSTS_SECONDS also the HSTS header, as Django's middleware sends it.
    """
    every = {**SECURITY_HEADERS, **headers}
    if settings.SECURE_HSTS_SECONDS:
        more = "; includeSubDomains" if settings.SECURE_HSTS_INCLUDE_SUBDOMAINS else ""
        more += "; preload" if settings.SECURE_HSTS_PRELOAD else ""
        every["Strict-Transport-Security"] = f"max-age={settings.SECURE_HSTS_SECONDS}{more}"
    return {name.lower(): CONTROLS.sub(" ", value) for name, value in every.items()}


async def answer(
    send: Send, status: int, body: Mapping[str, Any], headers: Headers | None = None
) -> None:
    """Send ``body`` as JSON."""
    await answer_bytes(send, status, orjson.dumps(body), "application/json", headers)


async def answer_bytes(
    send: Send, status: int, data: bytes, content_type: str, headers: Headers | None = None
) -> None:
    """Send a complete body."""
    more = body_headers(status, data, content_type, headers or {})
    await send({"type": "http.response.start", "status": status, "headers": encoded(more)})
    await write(send, data, more=False)


def body_headers(status: int, data: bytes, content_type: str, headers: Headers) -> dict[str, str]:
    """Return the headers of a complete body. A 429 always has ``Retry-After``."""
    return {
        "Content-Type": content_type,
        "Content-Length": str(len(data)),
        **({"Retry-After": RETRY_SECONDS} if status == 429 else {}),
        **headers,
    }


async def no_socket(scope: Scope, receive: Receive, send: Send) -> None:
    """Refuse the handshake of a WebSocket at an address of HTTP. After a 426 Codex asks over HTTP,
    after anything else it tries five times more.
    """
    del receive
    if "websocket.http.response" in (scope.get("extensions") or {}):
        await send({"type": "websocket.http.response.start", "status": 426, "headers": []})
        await send({"type": "websocket.http.response.body", "body": b""})
    else:  # Daphne
        await send({"type": "websocket.close"})


async def write(send: Send, data: bytes, *, more: bool) -> bool:
    """Send ``data``; return False when the reader takes nothing for STREAM_STALL_SECONDS.

    In pieces, so that the server buffers only what the reader has not taken yet.
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
