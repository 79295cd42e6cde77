"""Clients that keep no rule: slow, silent, half-closed, endless. Memory stays bounded."""

import contextlib
import socket
from collections.abc import Callable, Iterator

import psutil
import pytest

from tests.channels_app.client import Client, people
from tests.gateways import Gateway
from tests.servers import wait_until

pytestmark = pytest.mark.slow
MEGABYTE = 2**20
# A member's key with the scopes inbound and chat: these endpoints do not read the body.
REFUSED_BEFORE = ("/process", "/mcp")
BODIES = (
    *("/inbound", "/v1/chat/completions", "/ui/chat", "/files", "/api/sessions", "/none"),
    *("/sign-in", *REFUSED_BEFORE),
)
MORE_MEGABYTES = 120  # generous: several times an endpoint's maximum body (12 MB)
MORE_DESCRIPTORS = 30


@pytest.fixture(scope="module")
def gateway(module_gateways: Callable[..., Gateway]) -> Gateway:
    """Return a gateway for all tests here."""
    return module_gateways(
        RATE_PER_MINUTE_USER="0", RATE_PER_MINUTE_ADDRESS="0", STREAM_STALL_SECONDS="1"
    )


@pytest.fixture(scope="module")
def ada(gateway: Gateway) -> Client:
    """Return a user with a key, after one request: everything is loaded."""
    found = people(gateway, number=1)[0]
    assert found.say("hello").status == 200
    return found


@pytest.fixture(autouse=True)
def bounded(gateway: Gateway, ada: Client) -> Iterator[None]:
    """Check after each attack that the gateway answers and has released the memory."""
    process = psutil.Process(gateway.pid("web"))
    memory, descriptors = process.memory_info().rss, process.num_fds()
    yield
    assert ada.say("still there?").status == 200
    wait_until(lambda: process.num_fds() < descriptors + MORE_DESCRIPTORS, what="closed sockets")
    grown = (process.memory_info().rss - memory) / MEGABYTE
    assert grown < MORE_MEGABYTES, f"{grown:.0f} MB"


def connect(gateway: Gateway) -> socket.socket:
    """Return a connection to the web process."""
    return socket.create_connection(("127.0.0.1", gateway.port), timeout=200)


def head(ada: Client, *lines: str) -> bytes:
    """Return the head of a request to ``/inbound``."""
    every = ["POST /inbound HTTP/1.1", "Host: 127.0.0.1", f"Authorization: Bearer {ada.token}"]
    return "\r\n".join([*every, "Content-Type: application/json", *lines, "", ""]).encode()


def pour(connection: socket.socket, megabytes: int) -> int:
    """Send so many bytes, or until the gateway hangs up; return the megabytes sent."""
    piece = b" " * MEGABYTE
    for sent in range(megabytes):
        try:
            connection.sendall(piece)
        except OSError:
            return sent
    return megabytes


@pytest.mark.parametrize("path", BODIES)
def test_rw11_300_megabytes_are_not_kept(path: str, gateway: Gateway, ada: Client) -> None:
    """[RW11] Declared, at an endpoint, at a page and at a missing address."""
    request = head(ada, f"Content-Length: {300 * MEGABYTE}")
    with connect(gateway) as connection:
        connection.sendall(request.replace(b"/inbound", path.encode(), 1))
        first = connection.recv(16)  # before a byte of the body is sent
        pour(connection, 300)
    assert first.startswith(b"HTTP/1.1 403" if path in REFUSED_BEFORE else b"HTTP/1.1 413")


@pytest.mark.parametrize("path", ["/inbound", "/none", "/files", "/ui/chat", "/api/sessions"])
def test_rw11_an_endless_chunked_body_is_cut(path: str, gateway: Gateway, ada: Client) -> None:
    """[RW11] No length is declared, and it never ends."""
    with connect(gateway) as connection:
        request = head(ada, "Transfer-Encoding: chunked")
        connection.sendall(request.replace(b"/inbound", path.encode(), 1))
        piece = b"100000\r\n" + b" " * MEGABYTE + b"\r\n"
        with contextlib.suppress(OSError):
            for _ in range(100):
                connection.sendall(piece)


def test_rws12_hundreds_of_silent_and_half_open_connections_delay_no_client(
    gateway: Gateway, ada: Client
) -> None:
    """[RWS12] Half a request line, half a head, half a body, a handshake that never goes on."""
    beginnings = (
        b"",
        b"POST /inb",
        head(ada)[:-10],
        head(ada, "Content-Length: 100") + b"{",
        b"GET /ws HTTP/1.1\r\nHost: x\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n",
    )
    with contextlib.ExitStack() as every:
        for number in range(250):
            connection = every.enter_context(connect(gateway))
            connection.sendall(beginnings[number % len(beginnings)])
        assert ada.say("room for me?").status == 200


def test_a_client_that_closes_its_half_is_answered_or_let_go(gateway: Gateway, ada: Client) -> None:
    body = b'{"text": "hi"}'
    for request in (
        head(ada, f"Content-Length: {len(body)}") + body,
        head(ada, "Content-Length: 9"),
    ):
        with connect(gateway) as connection:
            connection.sendall(request)
            connection.shutdown(socket.SHUT_WR)
            with contextlib.suppress(OSError):
                while connection.recv(65536):
                    pass


@pytest.mark.parametrize(
    "garbage",
    [
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
        b"GET / HTTP/9.9\r\n\r\n",
        b"GET /" + b"a" * 100_000 + b" HTTP/1.1\r\n\r\n",
        b"GET / HTTP/1.1\r\nX: " + b"a" * 500_000 + b"\r\n\r\n",
        b"POST /inbound HTTP/1.1\r\nContent-Length: -1\r\n\r\n",
        b"POST / HTTP/1.1\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        b"\x00" * 10_000,
    ],
    ids=["TLS", "version", "long line", "long header", "negative", "two lengths", "zeros"],
)
def test_invalid_http_is_refused_or_cut(garbage: bytes, gateway: Gateway) -> None:
    with connect(gateway) as connection:
        answer = b""
        with contextlib.suppress(OSError):
            connection.sendall(garbage)
            connection.shutdown(socket.SHUT_WR)
            while part := connection.recv(65536):
                answer += part
    assert b" 500 " not in answer.split(b"\r\n")[0]
    assert b"Traceback" not in answer
