"""Connections to the HTTP protocol of the web process, in one event loop whose clock stands still.

Sockets of one machine deliver at once, and time passes only when a test says so: after some rounds
of the loop, all that can happen has happened.
"""

import asyncio
import re
import select
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
import uvicorn
from uvicorn.server import ServerState

from gateway_project.processes.bounded_http import BoundedHttpProtocol
from gateway_project.processes.keepalive import AlignedPings

ROUNDS = 60
BUFFER_BYTES = 2**20
STATUS = re.compile(rb"HTTP/1\.1 (\d{3}) ")
CHUNKED = "Transfer-Encoding: chunked"
LARGE = b"a" * 4 * 2**20
NO_HEAD = b"\r\ntransfer-encoding: chunked\r\n\r\nin a body"
PIECES = (b"data: one\n\n", b"", b"0\r\n\r\n", b"a\r\n" * 9, b"data: [DONE]\n\n")


class Clock:
    """The time of an event loop, in seconds."""

    def __init__(self) -> None:
        self.now = 1000.0

    def time(self) -> float:
        """Return the time, as ``loop.time``."""
        return self.now


class Site:
    """An application; its answer is the target and the number of bytes of the body.

    ``/held`` waits for ``release`` before its answer, ``/begun`` in it, ``/unread`` before it
    reads; ``/early`` reads nothing, nor does ``/eager``, which waits in its answer; ``/large``
    answers more than buffers take, and closes; ``/broken`` fails in its answer; ``/stream`` is a
    body in pieces, without its length; ``/head`` is NO_HEAD.
    """

    def __init__(self) -> None:
        self.release = asyncio.Event()
        self.scopes: list[dict[str, Any]] = []
        self.gone: list[str] = []

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """Answer a request, or echo the texts of a WebSocket."""
        self.scopes.append(scope)
        if scope["type"] == "websocket":
            await self.echo(receive, send)
            return
        path, size = scope["path"], 0
        if path == "/unread":
            await self.release.wait()
        if path not in {"/early", "/eager", "/broken"}:
            size = await self.size_of_body(receive)
        if size < 0:
            self.gone.append(path)
            return
        await self.answer(path, size, send)

    async def size_of_body(self, receive: Any) -> int:
        """Return the bytes of a body; -1 when the client is gone."""
        size, more = 0, True
        while more:
            message = await receive()
            if message["type"] == "http.disconnect":
                return -1
            size += len(message["body"])
            more = message["more_body"]
        return size

    async def answer(self, path: str, size: int, send: Any) -> None:
        """Send the answer of ``path``."""
        if path == "/held":
            await self.release.wait()
        if path == "/stream":
            await self.stream(send)
            return
        body = {"/large": LARGE, "/head": NO_HEAD}.get(path, f"{path} {size}".encode())
        fields = [(b"content-length", b"%d" % len(body))]
        fields += [(b"connection", b"close")] if path == "/large" else []
        await send({"type": "http.response.start", "status": 200, "headers": fields})
        if path in {"/begun", "/eager"}:
            await self.release.wait()
        if path == "/broken":
            raise ValueError
        await send({"type": "http.response.body", "body": body})

    async def stream(self, send: Any) -> None:
        """Send PIECES, and an empty end."""
        await send({"type": "http.response.start", "status": 200, "headers": []})
        for piece in PIECES:
            await send({"type": "http.response.body", "body": piece, "more_body": True})
        await send({"type": "http.response.body", "body": b"", "more_body": False})

    async def echo(self, receive: Any, send: Any) -> None:
        """Accept a WebSocket, and return its texts."""
        await receive()
        await send({"type": "websocket.accept"})
        while (message := await receive())["type"] == "websocket.receive":
            await send({"type": "websocket.send", "text": message["text"]})

    def fields(self) -> list[list[tuple[bytes, bytes]]]:
        """Return the header fields of each request."""
        return [each["headers"] for each in self.scopes]


class Client:
    """The other end of a connection."""

    def __init__(self, near: socket.socket) -> None:
        self.socket = near
        self.received = b""
        self.is_ended = False

    async def send(self, data: bytes) -> int:
        """Send ``data`` until the server takes no more; return how many bytes it took."""
        size = len(data)
        while data:
            try:
                data = data[self.socket.send(data) :]
            except OSError:
                break
            await settle()
        return size - len(data)

    async def send_in_pieces(self, data: bytes, size: int) -> None:
        """Send ``data``, so many bytes at a time."""
        for start in range(0, len(data), size):
            await self.send(data[start : start + size])

    async def read(self) -> bytes:
        """Return all that the server has sent until now."""
        part = b"-"
        while part:
            await settle()
            try:
                part = self.socket.recv(2**20)
            except BlockingIOError:
                break
            except ConnectionResetError:
                part = b""
            self.received += part
            self.is_ended = not part
        return self.received

    async def statuses(self) -> list[int]:
        """Return the statuses of all answers until now."""
        return [int(each) for each in STATUS.findall(await self.read())]

    async def bodies(self) -> list[str]:
        """Return the bodies of complete answers without line ends, until now."""
        parts = (await self.read()).decode().split("\r\n\r\n")[1:]
        return [each.partition("HTTP/1.1")[0] for each in parts]

    def is_closed(self) -> bool:
        """Return whether the server has closed both ways."""
        poll = select.poll()
        poll.register(self.socket, 0)
        return any(event & select.POLLHUP for _, event in poll.poll(0))


class Server:
    """The protocol with a site of its own."""

    def __init__(self, clock: Clock) -> None:
        self.clock = clock
        self.site = Site()
        self.state = ServerState()
        self.config = uvicorn.Config(
            self.site,
            http=BoundedHttpProtocol,
            ws=AlignedPings,
            lifespan="off",
            access_log=False,
            log_config=None,
            log_level="warning",
            proxy_headers=False,
        )
        self.clients: list[Client] = []

    def protocol(self) -> BoundedHttpProtocol:
        """Make a protocol, as uvicorn does."""
        return BoundedHttpProtocol(config=self.config, server_state=self.state, app_state={})

    async def connect(self) -> Client:
        """Open a connection."""
        near, far = socket.socketpair()
        for each in (near, far):
            each.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, BUFFER_BYTES)
        near.settimeout(0)
        await asyncio.get_running_loop().connect_accepted_socket(self.protocol, far)
        self.clients.append(Client(near))
        return self.clients[-1]

    async def wait(self, seconds: float) -> None:
        """Let time pass."""
        self.clock.now += seconds
        await settle()

    async def release(self) -> None:
        """Let the answers come that wait."""
        self.site.release.set()
        await settle()

    async def close(self) -> None:
        """End all connections and what serves them."""
        self.site.release.set()
        for each in self.clients:
            each.socket.close()
        await settle()


@asynccontextmanager
async def serving() -> AsyncIterator[Server]:
    """Yield a server on a clock that stands still."""
    with pytest.MonkeyPatch.context() as patch:
        clock = Clock()
        patch.setattr(asyncio.get_running_loop(), "time", clock.time)
        server = Server(clock)
        yield server
        await server.close()


async def settle() -> None:
    """Run the loop until all is done that needs no time."""
    for _ in range(ROUNDS):
        await asyncio.sleep(0)


def request(target: str = "/", *fields: str, method: str = "GET") -> bytes:
    """Return a head."""
    return "\r\n".join([f"{method} {target} HTTP/1.1", *fields, "", ""]).encode()


def padded(size: int, target: str = "/", *fields: str, method: str = "GET") -> bytes:
    """Return a head that counts ``size`` bytes: its target, and fields with their line ends."""
    rest = size - len(target) - sum(len(each) + 2 for each in fields)
    return request(target, *fields, f"X: {'a' * (rest - 5)}", method=method)
