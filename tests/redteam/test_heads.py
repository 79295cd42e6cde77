"""Limits on unauthenticated input: each part of a request, on every path, and memory too; the host
must be one of ours.

A running gateway and raw sockets; both web servers, where both have the limit.
"""

import contextlib
import socket
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import orjson
import psutil
import pytest
from websockets.sync.client import connect as ws_connect

from tests.channels_app.client import people
from tests.gateways import Gateway
from tests.redteam.test_headers import EXACT
from tests.servers import wait_until

pytestmark = pytest.mark.slow
MEGABYTE = 2**20
HEAD_BYTES = 64 * 1024
MORE_MEGABYTES = 40
# One of each kind of handler: consumers, views, Django's pages, its API, static files, none.
PATHS = (
    *("/healthz", "/readyz", "/inbound", "/v1/models", "/files/out?token=x", "/mcp", "/ui/chat"),
    *(
        "/telegram/none/webhook",
        "/",
        "/admin/",
        "/api/sessions",
        "/static/none.css",
        "/none",
        "/ws",
    ),
)
UPGRADE = ("Connection: Upgrade", "Upgrade: websocket")


def web_alone(new_database: Callable[[], str], folder: Path, **extra: str) -> Gateway:
    """Return a web process without workers."""
    (folder / "home").mkdir()
    gateway = Gateway(
        folder=folder,
        database_url=new_database(),
        extra={
            "RATE_PER_MINUTE_ADDRESS": "0",
            "HEAD_SECONDS": "2",
            "BODY_SECONDS": "2",
            **extra,
        },
        roles=("web",),
    )
    gateway.start()
    return gateway


@pytest.fixture(scope="module")
def web(
    new_database: Callable[[], str], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Gateway]:
    """Yield the web process of all tests here."""
    gateway = web_alone(new_database, tmp_path_factory.mktemp("heads"))
    for path in PATHS[:-1]:
        status(ask(gateway, head(path)))  # all is loaded before memory is measured
    yield gateway
    gateway.stop()


@pytest.fixture(autouse=True)
def bounded(web: Gateway) -> Iterator[None]:
    """Check after each attack that the gateway answers and has not grown."""
    process = psutil.Process(web.pid("web"))
    memory = process.memory_info().rss
    yield
    assert status(ask(web, head("/healthz"))) == 200
    grown = (process.memory_info().rss - memory) / MEGABYTE
    assert grown < MORE_MEGABYTES, f"{grown:.0f} MB"


def head(path: str, *lines: str, method: str = "GET", host: str = "127.0.0.1") -> bytes:
    """Return a request without a body."""
    named = [f"Host: {host}"] if host else []
    return "\r\n".join([f"{method} {path} HTTP/1.1", *named, *lines, "", ""]).encode()


def connect(web: Gateway) -> socket.socket:
    """Connect to the web process."""
    return socket.create_connection(("127.0.0.1", web.port), timeout=30)


def answer_on(connection: socket.socket) -> bytes:
    """Read until the gateway closes, or until the end of the first answer's head."""
    got = b""
    with contextlib.suppress(OSError):
        while b"\r\n\r\n" not in got and (part := connection.recv(65536)):
            got += part
    return got


def ask(web: Gateway, request: bytes) -> bytes:
    """Send ``request``; return the head of the answer."""
    with connect(web) as connection:
        with contextlib.suppress(OSError):
            connection.sendall(request)
        return answer_on(connection)


def status(answer: bytes) -> int:
    """Return the status of an answer; 0 for none."""
    first = answer.split(b"\r\n", 1)[0].split(b" ")
    return int(first[1]) if len(first) > 1 else 0


def fields(number: int, size: int = 1) -> list[str]:
    """Return so many header fields with values of so many characters."""
    return [f"X-{index}: {'a' * size}" for index in range(number)]


@pytest.mark.parametrize("path", PATHS)
def test_a_head_over_the_limits_is_431_on_every_path(path: str, web: Gateway) -> None:
    upgrade = UPGRADE if path == "/ws" else ()
    too_many = ask(web, head(path, *upgrade, *fields(120)))
    too_large = ask(web, head(path, *upgrade, *fields(70, 1000)))
    one_large = ask(web, head(path, *upgrade, f"Cookie: {'a' * HEAD_BYTES}"))
    assert [status(each) for each in (too_many, too_large, one_large)] == [431, 431, 431]


def test_a_head_just_below_the_limits_is_taken(web: Gateway) -> None:
    assert status(ask(web, head("/healthz", *fields(98)))) == 200
    assert status(ask(web, head("/healthz", *fields(64, 1000)))) == 200
    assert status(ask(web, head("/healthz?" + "a" * 60_000))) == 200
    assert status(ask(web, head("/healthz?" + "a" * HEAD_BYTES))) == 431


def test_the_refusal_is_json_with_the_headers_of_every_answer(web: Gateway) -> None:
    with connect(web) as connection:
        connection.sendall(head("/", *fields(120)))
        got = b""
        while part := connection.recv(65536):
            got += part
    top, _, body = got.partition(b"\r\n\r\n")
    sent = dict(line.split(b": ", 1) for line in top.lower().split(b"\r\n")[1:])
    assert orjson.loads(body)["status"] == 431
    assert "100" in orjson.loads(body)["error"]
    assert sent[b"connection"] == b"close"
    for name, value in EXACT.items():
        assert sent[name.encode()] == value.lower().encode()


def pour(web: Gateway, begin: bytes, piece: bytes, megabytes: int) -> tuple[int, bytes]:
    """Send ``piece`` again and again until the gateway stops taking it; (bytes sent, answer)."""
    sent = 0
    with connect(web) as connection:
        with contextlib.suppress(OSError):
            connection.sendall(begin)
            while sent < megabytes * MEGABYTE:
                connection.sendall(piece)
                sent += len(piece)
        return sent, answer_on(connection)


CHUNKED = head("/inbound", "Transfer-Encoding: chunked", method="POST")
ENDLESS = {
    "fields": (head("/")[:-2], b"X-Field: aaaaaaaaaaaaaaaaaaaaaa\r\n" * 2000),
    "one value": (head("/")[:-2] + b"X: ", b"a" * 65536),
    "one name": (head("/")[:-2], b"a" * 65536),
    "a folded value": (head("/")[:-2] + b"X: a\r\n", b" and so on\r\n" * 5000),
    "the target": (b"GET /", b"a" * 65536),
    "the query": (b"GET /?", b"a=b&" * 16384),
    "the method": (b"", b"A" * 65536),
    "empty lines": (b"", b"\r\n" * 32768),
    "a cookie of a handshake": (head("/ws", *UPGRADE)[:-2] + b"Cookie: ", b"a=b; " * 16384),
    "chunk extensions": (CHUNKED + b"1;x=", b"a" * 65536),
    "trailers": (CHUNKED + b"1\r\na\r\n0\r\n", b"X-Field: aaaaaaaaaaaaaaaaaaaaaa\r\n" * 2000),
    "one trailer": (CHUNKED + b"1\r\na\r\n0\r\nX: ", b"a" * 65536),
    "requests sent ahead": (b"", head("/healthz") * 1500),
}


@pytest.mark.parametrize("part", ENDLESS)
def test_no_part_of_a_request_that_is_not_known_yet_grows_without_end(
    part: str, web: Gateway
) -> None:
    """The connection ends after some buffers full; 40 MB are never taken."""
    begin, piece = ENDLESS[part]
    started = time.monotonic()
    sent, answer = pour(web, begin, piece, 40)
    assert sent < 12 * MEGABYTE, "it was read to its end"
    assert status(answer) in {0, 200, 400, 401, 408, 415, 429, 431}
    assert time.monotonic() - started < 20


def test_a_head_that_comes_slowly_ends_at_its_limit(web: Gateway) -> None:
    """One huge field, a byte at a time, and an empty connection."""
    with connect(web) as slow, connect(web) as silent, connect(web) as blank:
        slow.sendall(head("/")[:-2] + b"X: ")
        blank.sendall(b"\r\n")
        for each in (slow, silent, blank):
            each.settimeout(0.1)
        deadline = time.monotonic() + 20
        answer = b""
        while not answer and time.monotonic() < deadline:
            with contextlib.suppress(TimeoutError, BrokenPipeError):
                slow.sendall(b"a")
                answer = slow.recv(65536)
        assert status(answer) == 408
        for each in (silent, blank):
            each.settimeout(20)
            assert each.recv(10) == b""


def test_many_connections_with_large_heads_cost_no_more_than_the_limit_allows(web: Gateway) -> None:
    """200 connections, each with a head of nearly the limit that never ends."""
    process = psutil.Process(web.pid("web"))
    memory = process.memory_info().rss
    part = head("/")[:-2] + b"X: " + b"a" * (HEAD_BYTES - 2000)
    with contextlib.ExitStack() as every:
        for _ in range(200):
            every.enter_context(connect(web)).sendall(part)
        assert status(ask(web, head("/healthz"))) == 200
        grown = (process.memory_info().rss - memory) / MEGABYTE
        assert grown < 200 * HEAD_BYTES / MEGABYTE * 3
    wait_until(lambda: process.num_fds() < 100, what="closed connections")


def test_a_request_in_parts_and_several_on_one_connection_are_answered(web: Gateway) -> None:
    """The bounds are of a request, not of a connection."""
    with connect(web) as connection:
        for _ in range(5):
            request = head("/healthz", *fields(60, 900))
            for start in range(0, len(request), 7001):
                connection.sendall(request[start : start + 7001])
            assert status(answer_on(connection)) == 200


SLOW_BODIES = (
    *("/inbound", "/v1/chat/completions", "/ui/chat", "/telegram/none/webhook"),
    *("/sign-in", "/chat/settings", "/api/sessions", "/admin/login/", "/none"),
)


def test_a_slow_body_ends_at_its_limit_on_every_path(web: Gateway) -> None:
    """One byte at a time: nothing of it is waited for beyond BODY_SECONDS."""
    begin = [head(path, "Content-Length: 1000", method="POST") for path in SLOW_BODIES]
    with contextlib.ExitStack() as every:
        waiting = [every.enter_context(connect(web)) for _ in begin]
        for connection, request in zip(waiting, begin, strict=True):
            connection.sendall(request + b"{")
            connection.settimeout(0)
        answers: dict[str, bytes] = {}
        deadline = time.monotonic() + 30
        while len(answers) < len(begin) and time.monotonic() < deadline:
            for path, connection in zip(SLOW_BODIES, waiting, strict=True):
                with contextlib.suppress(BlockingIOError):
                    answers[path] = answers.get(path) or connection.recv(65536)
                with contextlib.suppress(OSError):
                    connection.send(b" ")
            time.sleep(0.05)
    found = {path: status(answer) for path, answer in answers.items()}
    assert set(found) == set(SLOW_BODIES), "some wait for ever"
    assert set(found.values()) <= {401, 403, 404, 408}, found
    assert {found[path] for path in SLOW_BODIES[4:]} == {408}, found


@pytest.mark.parametrize("host", ["evil.example", "evil.example:8000", "192.0.2.1", "", "a b"])
@pytest.mark.parametrize("path", PATHS)
def test_a_foreign_host_is_refused_on_every_path(path: str, host: str, web: Gateway) -> None:
    """DNS rebinding: a page whose name was made to lead here reads nothing, whatever it asks."""
    upgrade = (*UPGRADE, f"Sec-WebSocket-Key: {'A' * 22}==", "Sec-WebSocket-Version: 13")
    answer = ask(web, head(path, *(upgrade if path == "/ws" else ()), host=host))
    by_address = path in {"/healthz", "/readyz"} and host in {"192.0.2.1", ""}
    allowed = {200, 503} if by_address else {403, 400} if path == "/ws" else {400}
    assert status(answer) in allowed, answer


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost:1", "LOCALHOST", "[::1]:8000"])
def test_our_own_hosts_are_answered(host: str, web: Gateway) -> None:
    assert status(ask(web, head("/v1/models", host=host))) == 401


def test_two_hosts_are_none(web: Gateway) -> None:
    """A proxy in front may have read the other one."""
    assert status(ask(web, head("/v1/models", "Host: evil.example"))) == 400


def test_daphne_has_bounds_of_its_own(
    new_database: Callable[[], str], tmp_path_factory: pytest.TempPathFactory
) -> None:
    """16 KiB and the same number of fields; its server answers 400."""
    web = web_alone(new_database, tmp_path_factory.mktemp("daphne"), GATEWAY_SERVER="daphne")
    try:
        assert status(ask(web, head("/healthz", *fields(120)))) in {400, 431}
        assert status(ask(web, head("/healthz", *fields(70, 1000)))) in {400, 431}
        assert status(ask(web, head("/healthz", *fields(20)))) == 200
    finally:
        web.stop()


def test_rws12_idle_sockets_block_no_client(web: Gateway) -> None:
    """[RWS12] 250 of one address show no key; a client with a key, from there too, comes in."""
    ada = people(web, number=1)[0]
    upgrade = (*UPGRADE, "Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==", "Sec-WebSocket-Version: 13")
    with contextlib.ExitStack() as every:
        for _ in range(250):
            connection = every.enter_context(connect(web))
            connection.sendall(head("/ws", *upgrade))
            assert status(answer_on(connection)) == 101
        with ws_connect(web.ws_url, proxy=None) as socket_with_key:
            socket_with_key.send(orjson.dumps({"type": "auth", "key": ada.token}).decode())
            assert orjson.loads(socket_with_key.recv(timeout=30))["type"] == "authenticated"
