"""The web process waits so long for a request's head, and for a client that was refused."""

import gc
import weakref
from collections.abc import AsyncIterator
from typing import Any

import pytest
from pytest_django import Settings

from channels_app.asgi.http import no_socket
from gateway_project.processes.bounded_http import IDLE_SECONDS, BoundedHttpProtocol
from tests.gateway_project.processes.connections import (
    CHUNKED,
    LARGE,
    NO_HEAD,
    PIECES,
    Server,
    padded,
    request,
    serving,
)

HEAD_BYTES, HEAD_SECONDS = 400, 7
LINGER_SECONDS, LINGER_BYTES = 2, 2**20
MOMENT = 0.01
LONG = 100_000
HALF = b"GET / HTTP/1.1\r\nX: "
REST = b"a\r\n\r\n"
UPGRADE = (
    "Connection: Upgrade",
    "Upgrade: websocket",
    f"Sec-WebSocket-Key: {'A' * 22}==",
    "Sec-WebSocket-Version: 13",
)
NO_REQUEST = b"\x00"


@pytest.fixture(autouse=True)
def limits(settings: Settings) -> None:
    """Set limits that no default has."""
    settings.MAX_HEAD_BYTES, settings.HEAD_SECONDS = HEAD_BYTES, HEAD_SECONDS


@pytest.fixture
async def server(limits: None) -> AsyncIterator[Server]:
    """Yield a server with these limits."""
    async with serving() as server:
        yield server


@pytest.mark.parametrize("sent", [b"", b"\r\n", b"\r\n" * 9])
async def test_a_connection_without_a_request_is_closed_in_silence(
    sent: bytes, server: Server
) -> None:
    client = await server.connect()
    await client.send(sent)
    await server.wait(HEAD_SECONDS - MOMENT)
    assert not client.is_closed()
    await server.wait(MOMENT)
    assert client.is_closed()
    assert await client.read() == b""


async def test_a_head_that_comes_slowly_is_408(server: Server) -> None:
    """Its time begins with the connection, and no byte of it prolongs it."""
    client = await server.connect()
    await server.wait(1)
    await client.send(HALF)
    for _ in range(HEAD_SECONDS - 2):
        await server.wait(1)
        await client.send(b"a")
    await server.wait(1 - MOMENT)
    assert await client.read() == b""
    await server.wait(MOMENT)
    assert await client.statuses() == [408]
    assert b"The request's head arrived too slowly." in client.received
    assert b"connection: close" in client.received
    assert client.is_ended
    assert server.site.scopes == []


async def test_a_complete_head_ends_the_wait_for_it(server: Server) -> None:
    """Its application limits the time of the body, and of the answer."""
    held, chunked = await server.connect(), await server.connect()
    await held.send(request("/held")[:-1])
    await server.wait(HEAD_SECONDS - MOMENT)
    await held.send(b"\n")
    await chunked.send(request("/begun", CHUNKED, method="POST"))
    for each in (b"1\r\n", b"a", b"\r\n0\r\n", b"Y: ", b"a\r\n", b"\r\n", b"\r\n"):
        await server.wait(LONG)
        await chunked.send(each)
    await server.wait(LONG)
    await server.release()
    assert await held.bodies() == ["/held 0"]
    assert await chunked.bodies() == ["/begun 1"]


async def test_after_an_answer_the_wait_begins_with_the_first_byte(server: Server) -> None:
    """Until then uvicorn's own limit holds."""
    slow, blank, idle = [await server.connect() for _ in range(3)]
    for each in (slow, blank, idle):
        await each.send(request())
    await server.wait(IDLE_SECONDS - 1)
    await slow.send(HALF)
    await blank.send(b"\r\n")
    await server.wait(1)
    assert [each.is_closed() for each in (slow, blank, idle)] == [False, False, True]
    await server.wait(HEAD_SECONDS - 1 - MOMENT)
    assert await slow.statuses() == await blank.statuses() == [200]
    assert not blank.is_closed()
    await server.wait(MOMENT)
    assert await slow.statuses() == [200, 408]
    assert await blank.statuses() == [200]
    assert blank.is_closed()


async def test_an_idle_connection_outlives_its_place_in_the_pools_of_clients_and_proxies(
    server: Server,
) -> None:
    """They reuse one for 60 s at most; a program that polls every five seconds met its end."""
    client = await server.connect()
    for _ in range(3):
        await client.send(request())
        await server.wait(60 + MOMENT)
    assert await client.statuses() == [200] * 3
    assert not client.is_ended
    await server.wait(IDLE_SECONDS - 60)
    assert client.is_closed()


async def test_each_head_has_the_whole_time(server: Server) -> None:
    client = await server.connect()
    for _ in range(3):
        await client.send(HALF)
        await server.wait(HEAD_SECONDS - MOMENT)
        await client.send(REST)
        await client.send(HALF)
        await server.wait(HEAD_SECONDS - MOMENT)
        await client.send(REST)
    assert await client.statuses() == [200] * 6


async def test_a_slow_head_behind_a_request_has_no_answer_before_that_one(server: Server) -> None:
    """A client would take it for the answer to its first request."""
    client = await server.connect()
    await client.send(request("/held"))
    await server.wait(LONG)
    await client.send(HALF)
    await server.wait(HEAD_SECONDS - MOMENT)
    assert not client.is_closed()
    await server.wait(MOMENT)
    assert client.is_closed()
    assert await client.read() == b""


async def test_a_slow_head_is_408_after_the_answer_to_the_request_before_it(
    server: Server,
) -> None:
    client = await server.connect()
    await client.send(request("/held") + HALF)
    await server.wait(HEAD_SECONDS - 1)
    await server.release()
    await server.wait(1)
    assert await client.statuses() == [200, 408]


async def test_a_head_that_is_not_read_is_not_late(server: Server) -> None:
    """While a request waits for the one before it, the connection is not read."""
    client = await server.connect()
    for each in (request("/held"), request("/two") + HALF, REST):
        await client.send(each)
    await server.wait(HEAD_SECONDS)
    await server.wait(LONG)
    assert not client.is_closed()
    await server.release()
    assert await client.bodies() == ["/held 0", "/two 0", "/ 0"]


async def test_a_slow_head_is_408_once_the_connection_is_read_again(server: Server) -> None:
    client = await server.connect()
    for each in (request("/held"), request("/two") + HALF):
        await client.send(each)
    await server.wait(HEAD_SECONDS - 1)
    await server.wait(1)
    await server.release()
    for _ in range(HEAD_SECONDS - 1):
        await client.send(b"a")
        await server.wait(1)
    assert await client.statuses() == [200, 200]
    await server.wait(1)
    assert await client.statuses() == [200, 200, 408]


async def test_a_body_that_comes_slowly_after_its_answer_ends_in_silence(server: Server) -> None:
    client = await server.connect()
    await client.send(request("/early", "Content-Length: 9", method="POST"))
    await client.send(b"a")
    await server.wait(HEAD_SECONDS - MOMENT)
    await client.send(b"a")
    assert not client.is_closed()
    await server.wait(MOMENT)
    assert client.is_closed()
    assert await client.bodies() == ["/early 0"]


async def test_an_answer_that_is_still_being_read_is_the_last(server: Server) -> None:
    """The connection closes with its last byte, though half a head followed."""
    client = await server.connect()
    await client.send(request("/large") + HALF)
    await server.wait(HEAD_SECONDS)
    body = b""
    while not client.is_ended:
        body = await client.read()
    assert body.endswith(b"\r\n\r\n" + LARGE)


async def test_an_ended_connection_is_not_kept_until_its_time(server: Server) -> None:
    client = await server.connect()
    (connection,) = [weakref.ref(each) for each in server.state.connections]
    client.socket.close()
    await server.wait(MOMENT)
    gc.collect()
    assert connection() is None
    assert not server.state.connections


async def test_an_ended_connection_is_freed_at_once(server: Server) -> None:
    """Without the garbage collector, and so is a request after its answer."""
    client = await server.connect()
    (connection,) = server.state.connections
    assert isinstance(connection, BoundedHttpProtocol)
    gc.disable()
    try:
        await client.send(request())
        kept: list[weakref.ref[Any]] = [weakref.ref(connection), weakref.ref(connection.cycle)]
        await client.send(request())
        assert kept[1]() is None
        assert await client.statuses() == [200, 200]
        del connection
        client.socket.close()
        await server.wait(MOMENT)
        assert kept[0]() is None
    finally:
        gc.enable()


async def test_an_application_learns_that_a_client_left_which_asked_before_its_body(
    server: Server,
) -> None:
    client = await server.connect()
    fields = "Expect: 100-continue", "Content-Length: 1"
    await client.send(request("/unread", *fields, method="POST"))
    client.socket.close()
    await server.wait(MOMENT)
    await server.release()
    assert server.site.gone == ["/unread"]


async def test_a_refused_client_has_time_to_read_its_answer(server: Server) -> None:
    """Its further bytes are taken: a reset would discard the answer."""
    client = await server.connect()
    await client.send(NO_REQUEST)
    await server.wait(LINGER_SECONDS - MOMENT)
    assert await client.send(request() * 100) == len(request() * 100)
    assert not client.is_closed()
    await server.wait(MOMENT)
    assert client.is_closed()
    assert await client.statuses() == [400]
    assert server.site.scopes == []


async def test_a_refused_client_that_leaves_is_left(server: Server) -> None:
    client = await server.connect()
    await client.send(NO_REQUEST)
    client.socket.close()
    await server.wait(MOMENT)
    assert not server.state.connections
    await server.wait(LINGER_SECONDS)


async def test_a_refused_client_may_send_so_much_more(server: Server) -> None:
    client = await server.connect()
    await client.send(NO_REQUEST)
    piece = b"a" * (LINGER_BYTES // 8)
    for _ in range(8):
        await client.send(piece)
    assert not client.is_closed()
    await client.send(b"a")
    assert client.is_closed()


async def test_a_refused_client_is_read_though_its_body_was_not(server: Server) -> None:
    """The application had not asked for it yet."""
    client = await server.connect()
    body = b"%x\r\n%b\r\n" % (2**17, b"a" * 2**17)
    await client.send(request("/unread", CHUNKED, method="POST") + body + b"x\r\n")
    assert await client.statuses() == [400]
    sent = LINGER_BYTES // 2
    assert await client.send(b"a" * sent) == sent
    await client.send(b"a" * sent)
    await client.send(b"a")
    assert client.is_closed()


async def test_a_refused_slow_head_is_refused_once(server: Server, settings: Settings) -> None:
    settings.HEAD_SECONDS = 1
    client = await server.connect()
    await client.send(HALF)
    await client.send(b"a" * (HEAD_BYTES + 1))
    await server.wait(1)
    assert await client.statuses() == [431]
    assert not client.is_closed()


def frame(text: str) -> bytes:
    """Return a text of less than 126 characters as a client's frame, under a mask of zeros."""
    return bytes([0x81, 0x80 + len(text), 0, 0, 0, 0]) + text.encode()


@pytest.mark.parametrize("size", [1, 1000])
async def test_a_websocket_has_no_limit_of_heads(size: int, server: Server) -> None:
    client = await server.connect()
    await client.send_in_pieces(request("/ws", *UPGRADE), size)
    assert await client.statuses() == [101]
    await server.wait(HEAD_SECONDS)
    for _ in range(HEAD_BYTES // 100 + 1):
        await client.send(frame("a" * 100))
    await server.wait(HEAD_SECONDS)
    assert (await client.read()).count(b"a" * 100) == HEAD_BYTES // 100 + 1
    assert not client.is_closed()


@pytest.mark.parametrize("is_one_piece", [True, False])
async def test_a_handshake_behind_an_unanswered_request_ends_the_connection(
    is_one_piece: bool, server: Server
) -> None:
    """The answer would come into the WebSocket, and its application not learn of the end."""
    client = await server.connect()
    both = request("/held"), request("/ws", *UPGRADE)
    for each in (b"".join(both),) if is_one_piece else both:
        await client.send(each)
    await server.release()
    assert await client.read() == b""
    assert client.is_closed()


async def test_a_handshake_that_is_refused_with_an_answer_is_no_error_of_the_gateway(
    server: Server, caplog: pytest.LogCaptureFixture
) -> None:
    """Codex makes one at the beginning of each session."""
    server.config.app = no_socket
    server.config.load()
    client = await server.connect()
    await client.send(request("/v1/responses", *UPGRADE))
    assert await client.statuses() == [426]
    assert client.is_closed()
    assert caplog.messages == []


async def test_a_handshake_after_an_answer_is_taken(server: Server) -> None:
    client = await server.connect()
    await client.send(request())
    await client.send(request("/ws", *UPGRADE))
    assert await client.statuses() == [200, 101]


async def test_another_upgrade_than_to_a_websocket_is_a_usual_request(server: Server) -> None:
    client = await server.connect()
    await client.send(request("/held"))
    await client.send(request("/two", "Connection: Upgrade", "Upgrade: h2c"))
    await server.release()
    assert await client.bodies() == ["/held 0", "/two 0"]


JAVA = ("Connection: Upgrade, HTTP2-Settings", "Upgrade: h2c", "HTTP2-Settings: AAEAAEAAAAIAAAAA")


@pytest.mark.parametrize("size", [1, 7, 100, 10_000])
async def test_a_request_that_offers_http_2_keeps_its_body(
    size: int, server: Server, settings: Settings, caplog: pytest.LogCaptureFixture
) -> None:
    """As each of Java's client does over http: its body was left out, and read as a request."""
    client = await server.connect()
    declared = request("/one", *JAVA, "Content-Length: 300", "X-Name: value", method="POST")
    chunked = request("/two?a=b", *JAVA, CHUNKED, method="POST")
    sent = declared + b"a" * 300 + chunked + b"3\r\nabc\r\n0\r\n\r\n" + request("/three")
    settings.MAX_HEAD_BYTES = len(declared)
    await client.send_in_pieces(sent * 2, size)
    assert await client.bodies() == ["/one 300", "/two 3", "/three 0"] * 2
    assert server.site.fields()[0] == [(b"content-length", b"300"), (b"x-name", b"value")]
    assert server.site.scopes[1]["query_string"] == b"a=b"
    assert caplog.messages == []


async def test_a_request_that_offers_http_2_may_close_and_has_the_limits_of_others(
    server: Server, settings: Settings
) -> None:
    closing, large, slow = [await server.connect() for _ in range(3)]
    fields = ("Connection: close, Upgrade", "Upgrade: h2c", "Content-Length: 1")
    await closing.send(request("/one", *fields, method="POST") + b"a" + request())
    assert await closing.bodies() == ["/one 1"]
    assert closing.is_closed()
    await large.send(padded(HEAD_BYTES + 1, "/two", *JAVA, method="POST"))
    assert await large.statuses() == [431]
    await slow.send(request("/one", *JAVA)[:-2])
    await server.wait(HEAD_SECONDS)
    assert await slow.statuses() == [408]


async def test_a_handshake_is_a_get(server: Server) -> None:
    """Another request with its fields had no answer at all."""
    client = await server.connect()
    await client.send(request("/one", *UPGRADE, "Content-Length: 1", method="POST") + b"a")
    assert await client.bodies() == ["/one 1"]


async def test_connect_is_refused(server: Server) -> None:
    """The parser takes no body of it: a proxy that passed one on would send another request."""
    client = await server.connect()
    await client.send(request("/one", "Content-Length: 18", method="CONNECT"))
    await client.send(request("/two"))
    assert await client.statuses() == [501]
    assert b"CONNECT is not supported." in client.received
    assert client.is_ended
    assert server.site.scopes == []


@pytest.mark.parametrize(
    ("target", "field", "status"),
    [
        ("/ws", "Content-Length: 5", 400),
        ("/ws", CHUNKED, 400),
        ("/ws", f"Cookie: {'a' * 9000}", 431),
        (f"/ws?{'a' * 9000}", "X: a", 414),
    ],
)
async def test_a_handshake_that_cannot_be_read_is_refused(
    target: str, field: str, status: int, server: Server, settings: Settings
) -> None:
    """It had no answer, and its connection no end."""
    settings.MAX_HEAD_BYTES = 10_000
    client = await server.connect()
    await client.send(request(target, *UPGRADE, field))
    assert await client.statuses() == [status]
    assert status != 400 or b"The handshake is not valid." in client.received
    assert client.is_closed()
    assert server.site.scopes == []


async def test_a_handshake_over_the_limit_is_refused(server: Server) -> None:
    client = await server.connect()
    await client.send(padded(HEAD_BYTES + 1, "/ws", *UPGRADE))
    assert await client.statuses() == [431]


async def test_bytes_right_behind_a_handshake_are_left_out(server: Server) -> None:
    """A client waits for the answer; later bytes are frames."""
    client = await server.connect()
    await client.send(request("/ws", *UPGRADE) + request() * 1000)
    assert await client.statuses() == [101]
    await client.send(frame("a" * 100))
    assert (await client.read()).endswith(b"a" * 100)
    assert len(server.site.scopes) == 1


def closing(size: int, target: str = "/early") -> bytes:
    """Return the head of a request that closes its connection, with a body of ``size`` bytes."""
    return request(target, f"Content-Length: {size}", "Connection: close", method="POST")


async def test_a_client_that_closes_has_sent_its_body_when_the_connection_of_an_early_answer_ends(
    server: Server,
) -> None:
    """As Python's urllib, which reads no answer before: it was cut off without its 413."""
    client, size = await server.connect(), 4 * 2**20
    await client.send(closing(size) + b"a")
    assert await client.bodies() == ["/early 0"]
    assert [client.is_ended, client.is_closed()] == [True, False]
    assert await client.send(b"a" * (size - 2)) == size - 2
    assert not client.is_closed()
    assert await client.send(b"a") == 1
    assert client.is_closed()


@pytest.mark.parametrize("is_one_piece", [True, False])
async def test_no_request_follows_one_that_closes(is_one_piece: bool, server: Server) -> None:
    client = await server.connect()
    await client.send(closing(3) + b"a")
    for each in (b"aa" + request(),) if is_one_piece else (b"aa", request()):
        await client.send(each)
    assert await client.bodies() == ["/early 0"]
    assert client.is_closed()
    assert len(server.site.scopes) == 1


async def test_the_rest_of_a_body_has_as_long_as_a_head(server: Server, settings: Settings) -> None:
    """However often a little of it comes."""
    client = await server.connect()
    await client.send(closing(1000))
    for _ in range(3):
        await client.send(b"a")
        assert not client.is_closed()
        await server.wait(settings.HEAD_SECONDS / 3)
    assert client.is_closed()
    silent = await server.connect()
    await silent.send(closing(1000))
    await server.wait(settings.HEAD_SECONDS)
    assert silent.is_closed()


async def test_a_connection_that_closes_ends_with_its_answer(server: Server) -> None:
    """After a whole body; and with half an answer, whose rest does not come."""
    whole, broken = await server.connect(), await server.connect()
    await whole.send(closing(1, "/") + b"a")
    assert await whole.bodies() == ["/ 1"]
    await broken.send(closing(9, "/broken") + b"a")
    assert await broken.statuses() == [200]
    assert [whole.is_closed(), broken.is_closed()] == [True, True]


async def test_a_client_that_asks_first_is_told_to_send_its_body(server: Server) -> None:
    client = await server.connect()
    await client.send(
        request(
            "/", "Content-Length: 1", "Expect: 100-continue", "Connection: close", method="POST"
        )
    )
    assert await client.statuses() == [100]
    await client.send(b"a")
    assert await client.statuses() == [100, 200]
    assert client.is_closed()


@pytest.mark.parametrize(("path", "is_kept"), [("/", True), ("/early", False)])
async def test_an_answer_in_place_of_a_body_that_was_not_asked_for_ends_the_connection(
    path: str, is_kept: bool, server: Server
) -> None:
    """RFC 9110, 10.1.1. Go's client sent its next request where the body had been announced
    (CVE-2024-24791), and it was lost.
    """
    client = await server.connect()
    ask = request(path, "Content-Length: 1", "Expect: 100-continue", method="POST")
    for _ in range(2 if is_kept else 1):
        await client.send(ask)
        await client.send(b"a" if is_kept else b"")
    assert await client.statuses() == ([100, 200] * 2 if is_kept else [200])
    assert (b"connection: close" in client.received) is not is_kept


async def test_a_request_behind_a_body_that_did_not_wait_is_answered(server: Server) -> None:
    """Both are parsed before the first of them is told to send its body."""
    client = await server.connect()
    ask = request("/", "Content-Length: 1", "Expect: 100-continue", method="POST")
    await client.send(ask + b"a" + request("/", "Connection: close"))
    assert await client.statuses() == [100, 200, 200]
    assert client.is_closed()


async def test_a_client_of_http_1_0_gets_no_chunks(server: Server) -> None:
    """RFC 9112, 6.1: a body without its length ends with the connection; one of HTTP/1.1 is in
    chunks as before.
    """
    old, new = await server.connect(), await server.connect()
    await old.send(request("/stream").replace(b"HTTP/1.1", b"HTTP/1.0"))
    await new.send(request("/stream"))
    head, _, body = (await old.read()).partition(b"\r\n\r\n")
    assert body == b"".join(PIECES)
    assert (b"transfer-encoding" in head, b"connection: close" in head) == (False, True)
    assert old.is_closed()
    assert b"transfer-encoding: chunked\r\n\r\n" in await new.read()
    assert new.received.endswith(b"\r\n0\r\n\r\n")


async def test_an_ended_connection_of_http_1_0_is_freed_at_once(server: Server) -> None:
    """Each of its requests has one; the garbage collector would have them to look through."""
    client = await server.connect()
    (connection,) = [weakref.ref(each) for each in server.state.connections]
    gc.disable()
    try:
        await client.send(request("/stream").replace(b"HTTP/1.1", b"HTTP/1.0"))
        assert await client.statuses() == [200]
        assert client.is_closed()
        await server.wait(MOMENT)
        assert connection() is None
    finally:
        gc.enable()


async def test_a_client_of_http_1_0_gets_a_body_of_known_length_as_it_is(server: Server) -> None:
    """Its expectation of a 100 is ignored (RFC 9110, 10.1.1), since it knows no such status."""
    old = await server.connect()
    ask = request("/", "Content-Length: 1", "Expect: 100-continue", method="POST")
    await old.send(ask.replace(b"HTTP/1.1", b"HTTP/1.0"))
    assert await old.statuses() == []
    await old.send(b"a")
    assert (await old.statuses(), await old.bodies()) == ([200], ["/ 1"])
    assert old.is_closed()


async def test_a_body_that_looks_like_a_head_reaches_a_client_of_http_1_0_as_it_is(
    server: Server,
) -> None:
    """As a file that is the record of another answer; nginx asks by HTTP/1.0 as it comes."""
    old = await server.connect()
    await old.send(request("/head").replace(b"HTTP/1.1", b"HTTP/1.0"))
    assert (await old.read()).endswith(b"\r\n\r\n" + NO_HEAD)
