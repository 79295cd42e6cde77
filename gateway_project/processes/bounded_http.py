"""uvicorn's HTTP protocol with limits on unauthenticated input.

The server keeps a request's head until it is complete, and a parser keeps the field that it reads:
neither has a limit of its own. Sizes here are in bytes on the wire.
"""

import asyncio
import sys
from collections.abc import Callable
from typing import Any

import httptools
import orjson
from django.conf import settings
from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol

from channels_app.asgi import http

# The maximum of an unfinished field in the parser between two checks.
SLICE_BYTES = 16 * 1024
FIELD_OVERHEAD = 4  # ": " and the end of the line
# A client of Java offers HTTP/2 so with each request over http.
OFFERS = (b"upgrade", b"http2-settings", b"connection")
# Usual clients do not pipeline; each queued request costs some KB.
MAX_PIPELINED = 32
# A refused client reads its answer when what it sent meanwhile is taken: a close with unread bytes
# is a reset, which discards the answer. After the limits of a head; a body has HEAD_SECONDS.
LINGER_SECONDS = 2.0
LINGER_BYTES = 1024 * 1024
# Most clients and proxies reuse an idle connection for 60 s at most (httpx and Node's agents for
# 5 s, but Go's client for 90 s): one that ends in the same moment is a request without an answer.
IDLE_SECONDS = 75
CONTINUE = b"HTTP/1.1 100 Continue\r\n\r\n"  # as uvicorn writes it
CHUNKED = b"\r\ntransfer-encoding: chunked"  # as uvicorn writes it, last in a head


class RefusedRequestError(Exception):
    """The request is refused during parsing."""


class LateClose:
    """A connection that is not closed before the end of its request's body."""

    def __init__(self, protocol: "BoundedHttpProtocol") -> None:
        self._protocol = protocol
        self.write: Callable[[bytes], None] = protocol.transport.write
        self.is_closing = protocol.transport.is_closing

    def close(self) -> None:
        last = self._protocol.cycle  # a body that is still coming is that of the last request
        if last.response_complete and last.more_body:
            self._protocol.linger()
        else:
            self._protocol.transport.close()


class WithoutChunks:
    """The writing to a client of HTTP/1.0, which knows no chunks (RFC 9112, 6.1): the close of the
    connection ends a body whose length is not known, as of a stream.
    """

    def __init__(self, write: Callable[[bytes], None]) -> None:
        self._write = write
        self._is_chunked: bool | None = None  # not known before the head

    def __call__(self, data: bytes) -> None:
        """Write what uvicorn does: first the head, then a chunk, or the last one, at a time."""
        if self._is_chunked is None:
            self._is_chunked = CHUNKED in data
            data = data.replace(CHUNKED, b"", 1)
        elif self._is_chunked:
            size, _, rest = data.partition(b"\r\n")
            data = rest[: int(size or b"0", 16)]
        self._write(data)


class BeforeBody:
    """The writing to a client that asks before it sends a body: a final answer in place of the
    ``100 Continue`` ends the connection (RFC 9110, 10.1.1), as Go's client before 1.22.5 would send
    its next request where the body was announced.
    """

    def __init__(self, protocol: "BoundedHttpProtocol") -> None:
        self._cycle = protocol.cycle  # the protocol's is that of the next request soon
        self._is_kept, self._cycle.keep_alive = self._cycle.keep_alive, False
        self._write = protocol.transport.write

    def __call__(self, data: bytes) -> None:
        if data == CONTINUE:
            self._cycle.keep_alive = self._is_kept
        self._write(data)


class BoundedHttpProtocol(HttpToolsProtocol):
    """One connection: heads of at most MAX_HEAD_BYTES and MAX_HEAD_FIELDS (431), within
    HEAD_SECONDS (408). Trailers count as part of the head and are not kept; chunk extensions have
    the same bound."""

    slice: bytes  # that is being parsed

    def __init__(self, **named: Any) -> None:
        super().__init__(**named)
        self.timeout_keep_alive = IDLE_SECONDS
        self.head_timer: asyncio.TimerHandle | None = None
        self.in_head = False
        # pending: since the last part that is not a head, a trailer or an extension
        self.head_bytes = self.head_fields = self.pending_bytes = self.discarded_bytes = 0
        self.refusal: tuple[int, str] | None = None
        self.is_refused = False
        self.is_lingering = False
        self.head_again = b""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self.start_head_timer()

    def connection_lost(self, exc: Exception | None) -> None:
        self.stop_head_timer()
        super().connection_lost(exc)
        if self.cycle is not None:
            self.cycle.transport = self.transport  # LateClose refers to this connection

    def data_received(self, data: bytes) -> None:
        """Parse ``data`` in pieces, until the request is refused or becomes a WebSocket."""
        if self.is_refused:
            self.discard(len(data))
            return
        for start in range(0, len(data), SLICE_BYTES):
            self.parse(data[start : start + SLICE_BYTES])
            if self.is_refused or self.transport.get_protocol() is not self:
                return
        if self.head_timer is None and (self.in_head or not self.is_answering()):
            self.start_head_timer()

    def parse(self, data: bytes) -> None:
        """Feed the parser; refuse too much input without progress."""
        self.slice = data
        self.pending_bytes += len(data)
        super().data_received(data)
        if self.pending_bytes > settings.MAX_HEAD_BYTES and not self.is_refused:
            self.refuse(431, f"The request's head is larger than {settings.MAX_HEAD_BYTES} bytes.")

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self.in_head = True
        self.pending_bytes = self.head_bytes = self.head_fields = 0

    def on_url(self, url: bytes) -> None:
        self.count(len(url))
        super().on_url(url)

    def on_header(self, name: bytes, value: bytes) -> None:
        """Count a field of the head, or of the trailers.

        Only those of the head are kept: a proxy that sets fields may pass trailers on unread.
        """
        self.head_fields += 1
        self.count(len(name) + len(value) + FIELD_OVERHEAD)
        if self.head_fields > settings.MAX_HEAD_FIELDS:
            most = settings.MAX_HEAD_FIELDS
            self.refusal = 431, f"The request has more than {most} header fields."
            raise RefusedRequestError
        if self.in_head:
            super().on_header(name, value)

    def on_headers_complete(self) -> None:
        """Stop the limits of the head; the application checks the body."""
        if self.parser.get_method() == b"CONNECT":  # its body would be read as another request
            self.refusal = 501, "CONNECT is not supported."
            raise RefusedRequestError
        is_offer = self.parser.should_upgrade()
        is_handshake = is_offer and self._should_upgrade()
        if is_offer and not is_handshake:
            self.head_again = self.without_offer()
            return
        self.in_head = False
        self.pending_bytes = 0
        self.stop_head_timer()
        if len(self.pipeline) >= MAX_PIPELINED or (is_handshake and self.is_answering()):
            raise RefusedRequestError  # without an answer: the request before it waits for its own
        super().on_headers_complete()
        if not is_handshake:
            late = LateClose(self)
            self.cycle.transport = late  # type: ignore[assignment]  # what it calls
            if self.parser.get_http_version() == "1.0":
                late.write = WithoutChunks(self.transport.write)
                self.cycle.waiting_for_100_continue = False
            elif self.cycle.waiting_for_100_continue:
                late.write = BeforeBody(self)

    def on_body(self, body: bytes) -> None:
        self.pending_bytes = 0
        super().on_body(body)

    def _should_upgrade(self) -> bool:
        """Return whether a request is a handshake of a WebSocket, which is a GET."""
        return self.parser.get_method() == b"GET" and super()._should_upgrade()

    def without_offer(self) -> bytes:
        """Return the head without the offer of another protocol."""
        first = self.parser.get_method(), self.url, self.parser.get_http_version().encode()
        lines = [b"%b %b HTTP/%b" % first]
        lines += [b"%b: %b" % field for field in self.headers if field[0] not in OFFERS]
        if not self.parser.should_keep_alive():
            lines.append(b"connection: close")
        return b"\r\n".join([*lines, b"", b""])

    def _unsupported_upgrade_warning(self) -> None:
        """Read a request with an offer again, as one without: after it the parser takes no body.
        Called by uvicorn while it handles the parser's exception, which says where the body begins.
        """
        error, head = sys.exception(), self.head_again
        if error is not None:
            self.head_again = b""
            self.parser = httptools.HttpRequestParser(self)  # the other one may be at its end
            self.parser.set_dangerous_leniencies(lenient_data_after_close=True)  # as uvicorn's
            self.parse(head + self.slice[error.args[0] :])

    def on_message_complete(self) -> None:
        if self.head_again:
            return
        super().on_message_complete()
        if self.is_lingering:
            self.transport.close()
            raise RefusedRequestError  # no other request follows

    def count(self, size: int) -> None:
        self.head_bytes += size
        if self.head_bytes > settings.MAX_HEAD_BYTES:
            most = settings.MAX_HEAD_BYTES
            self.refusal = 431, f"The request's head is larger than {most} bytes."
            raise RefusedRequestError

    def send_400_response(self, msg: str) -> None:
        """Answer a request that the parser refuses, by our own limits too; called by uvicorn."""
        self.refuse(*(self.refusal or (400, msg)))

    def is_answering(self) -> bool:
        return self.cycle is not None and not self.cycle.response_complete

    def refuse(self, status: int, message: str) -> None:
        """Answer with ``status`` and close; while another request waits for its answer, only close.

        Another one: not the body or the trailers of the last request are refused.
        """
        self.is_refused = True
        self.stop_head_timer()
        if self.is_lingering:
            self.transport.close()
            return
        if self.is_answering():
            if self.pipeline or self.cycle.response_started or not self.cycle.more_body:
                self.transport.abort()
                return
            self.cycle.disconnected = True
            self.cycle.message_event.set()
        self.flow.resume_reading()  # its body may have paused it
        self.transport.write(refusal(status, message))
        self.transport.write_eof()
        self.loop.call_later(LINGER_SECONDS, self.transport.abort)

    def linger(self) -> None:
        """End the answer; close when the rest of the request's body was read and discarded."""
        self.is_lingering = True
        self.transport.write_eof()
        if self.head_timer is None:
            self.start_head_timer()

    def discard(self, size: int) -> None:
        """Read a refused client's remaining input, up to a limit."""
        self.discarded_bytes += size
        if self.discarded_bytes > LINGER_BYTES:
            self.transport.abort()

    def start_head_timer(self) -> None:
        """Require a complete head within HEAD_SECONDS."""
        self.head_timer = self.loop.call_later(settings.HEAD_SECONDS, self.on_head_timeout)

    def stop_head_timer(self) -> None:
        if self.head_timer is not None:
            self.head_timer.cancel()
            self.head_timer = None

    def on_head_timeout(self) -> None:
        """Refuse a head that did not arrive in time; close a connection without one."""
        self.head_timer = None
        if not self.in_head:
            self.transport.close()
        elif self.flow.read_paused:
            self.start_head_timer()  # it waits for us
        elif not self.transport.is_closing():
            self.refuse(408, "The request's head arrived too slowly.")


def refusal(status: int, message: str) -> bytes:
    """Return a complete HTTP response, after which the connection ends."""
    body = orjson.dumps(http.error_body(status, message))
    fields = {
        "Content-Type": "application/json",
        "Content-Length": str(len(body)),
        "Connection": "close",
    }
    lines = [b"%b: %b\r\n" % pair for pair in http.encoded(fields)]
    return b"".join([STATUS_LINE[status], *lines, b"\r\n", body])
