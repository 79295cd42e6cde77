"""HTTP to an MCP server: allowed addresses only, no redirect to another server, bounded bodies.

The SDK turns most failures into errors of its own; :attr:`Guard.stopped` keeps the reason.
"""

from collections.abc import AsyncIterator
from urllib.parse import urljoin, urlsplit

import aiohttp
import httpx2
import orjson

from core.lib.safe_fetch import AGENT, REDIRECTS, RefusedAddressError, port_of
from core.lib.text import one_line
from core.providers import addresses
from core.providers.checked_transport import CheckedBody, CheckedTransport, as_read_errors
from core.tools.mcp.errors import McpError, StoppedError

MOST_BYTES = 4 * 1024 * 1024  # of one response
MOST_ALL_BYTES = 16 * 1024 * 1024  # of all that belong to one call
MOST_REQUESTS = 60  # of one call: a server may ask for a stream to be opened again and again
UNNAMED = "?"  # an address that is none
UNPACKED = {b"content-encoding", b"content-length", b"transfer-encoding"}


class Guard(CheckedTransport):
    """Sends the requests of one connection.

    ``stopped``: why it was ended; ``refused``: the last status of a POST that was an error;
    ``is_open``: whether the body of a response is being read; ``sent``: the method of the protocol
    that was sent, and may have been carried out: its refusals alone are noted from then on.
    """

    def __init__(self, allowed: addresses.Allowed, *, most_bytes: int = MOST_BYTES) -> None:
        """Connect lazily. ``most_bytes``: of one response."""
        super().__init__(allowed)
        self._most = most_bytes
        self._requests = 0
        self._left = MOST_ALL_BYTES
        self.stopped: McpError | None = None
        self.refused: tuple[int, str] | None = None
        self.is_open = False
        self.sent = ""

    def send(self, method: str) -> None:
        """Note that a method is sent now, and forget earlier refusals."""
        self.refused, self.sent = None, method

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        """Return a response whose body is still to be read. Raises httpx2.TransportError."""
        self._requests += 1
        if self._requests > MOST_REQUESTS:
            raise self.stop("endless", f"It wanted more than {MOST_REQUESTS} requests for a call.")
        try:
            answer = await self.answer_to(request, **{"User-Agent": AGENT})
        except RefusedAddressError as error:
            words = "Its address is inside the network, and its settings do not allow that."
            raise self.stop("address", words) from error
        return self._response(request, answer)

    def _response(self, request: httpx2.Request, answer: aiohttp.ClientResponse) -> httpx2.Response:
        """Return the response. Raises httpx2.TransportError for one that leads elsewhere."""
        if answer.status in REDIRECTS:
            location = answer.headers.get("Location", "")
            if other := other_server(str(request.url), location):
                answer.close()
                words = f"It sent the gateway on to another server ({other}), which was not asked."
                raise self.stop("redirect", words)
        if answer.status >= 400 and request.method == "POST" and self._counts(request):
            challenges = answer.headers.getall("WWW-Authenticate", ())
            self.refused = answer.status, ", ".join(challenges)
        headers = [each for each in answer.raw_headers if each[0].lower() not in UNPACKED]
        return httpx2.Response(answer.status, headers=headers, stream=Body(self, answer))

    def _counts(self, request: httpx2.Request) -> bool:
        """Return whether a refusal of a request, whose body was read, is noted."""
        return not self.sent or method_of(request.content) == self.sent

    def count(self, size: int, read: int) -> None:
        """Count bytes of a response, of which ``read`` were read. Raises httpx2.TransportError."""
        self._left -= size
        if read > self._most or self._left < 0:
            most = self._most if read > self._most else MOST_ALL_BYTES
            most_words = f"{most // 1024 // 1024} MB" if most >= 1024**2 else f"{most // 1024} kB"
            words = f"It sent more than {most_words}, and the rest was not read."
            raise self.stop("too_big", words)

    def stop(self, code: str, words: str) -> httpx2.TransportError:
        """Note why the connection ends, and return the exception to raise."""
        self.stopped = self.stopped or StoppedError(code, words)
        return httpx2.RemoteProtocolError(code)


class Body(CheckedBody):
    """The body of a response, counted."""

    def __init__(self, guard: Guard, answer: aiohttp.ClientResponse) -> None:
        super().__init__(answer)
        self._guard = guard

    async def __aiter__(self) -> AsyncIterator[bytes]:
        read = 0
        self._guard.is_open = True
        with as_read_errors():
            async for piece in self._answer.content.iter_any():
                read += len(piece)
                self._guard.count(len(piece), read)
                yield piece
        self._guard.is_open = False


def method_of(body: bytes) -> str:
    """Return the method of a message of JSON-RPC; empty for a response."""
    try:
        message = orjson.loads(body)
    except orjson.JSONDecodeError:
        return ""
    return str(message.get("method", "")) if isinstance(message, dict) else ""


def other_server(here: str, location: str) -> str:
    """Return the other server to which a redirect leads; empty for the same origin."""
    try:
        old, new = urlsplit(here), urlsplit(urljoin(here, location))
        has_user = new.username is not None or new.password is not None
        same = (old.hostname, port_of(old)) == (new.hostname, port_of(new))
        if same and old.scheme == new.scheme and not has_user:
            return ""
        return one_line(new.netloc.rpartition("@")[2], 80) or UNNAMED
    except ValueError:
        return UNNAMED
