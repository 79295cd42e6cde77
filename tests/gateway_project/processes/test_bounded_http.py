"""Limits of the size of a request's head, and the refusal of a request over a limit."""

from collections.abc import AsyncIterator

import orjson
import pytest
from pytest_django import Settings

from channels_app.asgi import http
from tests.gateway_project.processes.connections import (
    CHUNKED,
    Server,
    padded,
    request,
    serving,
)

HEAD_BYTES, HEAD_FIELDS = 400, 5
TOO_LARGE = "The request's head is larger than 400 bytes."
TOO_MANY = "The request has more than 5 header fields."
SLICE = 16 * 1024
MOST_AHEAD = 32


@pytest.fixture(autouse=True)
def limits(settings: Settings) -> None:
    """Set limits that no default has."""
    settings.MAX_HEAD_BYTES, settings.MAX_HEAD_FIELDS = HEAD_BYTES, HEAD_FIELDS


@pytest.fixture
async def server(limits: None) -> AsyncIterator[Server]:
    """Yield a server with these limits."""
    async with serving() as server:
        yield server


def numbered(number: int) -> list[str]:
    """Return so many header fields."""
    return [f"X-{index}: a" for index in range(number)]


def error_of(received: bytes) -> str:
    """Return the sentence of the only answer, a refusal."""
    found: str = orjson.loads(received.partition(b"\r\n\r\n")[2])["error"]
    return found


@pytest.mark.parametrize(
    ("begin", "filler", "end"),
    [
        ("GET /", "a", " HTTP/1.1\r\n\r\n"),
        ("GET /?", "a=b&", " HTTP/1.1\r\n\r\n"),
        ("GET / HTTP/1.1\r\nX: ", "a", "\r\n\r\n"),
        ("GET / HTTP/1.1\r\nX", "a", ": a\r\n\r\n"),
        ("GET / HTTP/1.1\r\n", "X: a\r\n", "Y: b\r\n\r\n"),
    ],
)
async def test_a_head_of_the_largest_size_is_answered_and_one_byte_more_refused(
    begin: str, filler: str, end: str, server: Server, settings: Settings
) -> None:
    """The target and the fields count, with the ends of their lines."""
    settings.MAX_HEAD_FIELDS = 1000
    head = (begin + filler * 50 + end).encode()
    settings.MAX_HEAD_BYTES = len(head) - len(b"GET ") - len(b" HTTP/1.1\r\n") - len(b"\r\n")
    taken, refused = await server.connect(), await server.connect()
    await taken.send(head)
    assert await taken.statuses() == [200]
    settings.MAX_HEAD_BYTES -= 1
    await refused.send(head)
    assert await refused.statuses() == [431]
    size = f"The request's head is larger than {settings.MAX_HEAD_BYTES} bytes."
    assert error_of(refused.received) == size
    assert len(server.site.scopes) == 1


async def test_a_head_of_the_most_fields_is_answered_and_one_field_more_refused(
    server: Server,
) -> None:
    taken, refused = await server.connect(), await server.connect()
    await taken.send(request("/", *numbered(HEAD_FIELDS)))
    assert await taken.statuses() == [200]
    await refused.send(request("/", *numbered(HEAD_FIELDS + 1)))
    assert await refused.statuses() == [431]
    assert error_of(refused.received) == TOO_MANY
    assert len(server.site.scopes) == 1


async def test_each_request_of_a_connection_is_counted_anew(server: Server) -> None:
    client = await server.connect()
    head = padded(HEAD_BYTES, "/", *numbered(HEAD_FIELDS - 1))
    for _ in range(3):
        await client.send(head)
    await client.send(head * 3)
    assert await client.statuses() == [200] * 6
    await client.send(head * 2 + request("/", *numbered(HEAD_FIELDS + 1)))
    assert await client.statuses() == [200] * 6
    assert client.is_closed()


@pytest.mark.parametrize("size", [1, 2, 7, 100])
async def test_a_head_in_pieces_is_a_head(size: int, server: Server) -> None:
    client = await server.connect()
    head = request("/one?two=three", "Host: localhost", "X-Name: value", "Y: z")
    await client.send_in_pieces(head * 2, size)
    assert await client.bodies() == ["/one 0", "/one 0"]
    fields = [(b"host", b"localhost"), (b"x-name", b"value"), (b"y", b"z")]
    assert server.site.fields() == [fields, fields]
    await client.send_in_pieces(request("/", *numbered(HEAD_FIELDS + 1)), size)
    assert (await client.statuses())[2:] == [431]


async def test_a_body_is_not_counted(server: Server) -> None:
    """Whether its size is declared or comes in chunks."""
    client = await server.connect()
    body = b"a" * 3 * HEAD_BYTES
    declared = padded(HEAD_BYTES, "/one", f"Content-Length: {len(body)}", method="POST")
    chunked = padded(HEAD_BYTES, "/two", CHUNKED, method="POST")
    await client.send(declared + body)
    await client.send_in_pieces(declared + body, 399)
    chunks = b"".join([b"%x\r\n%b\r\n" % (len(body), body), b"1\r\na\r\n" * 200, b"0\r\n\r\n"])
    await client.send(chunked + chunks)
    await client.send_in_pieces(chunked + chunks, 399)
    size = len(body)
    assert await client.bodies() == [f"/one {size}"] * 2 + [f"/two {size + 200}"] * 2


@pytest.mark.parametrize(
    ("trailers", "refusal"),
    [
        ("Y: " + "a" * 95, None),
        ("Y: " + "a" * 96, TOO_LARGE),
        ("\r\n".join(numbered(3)), None),
        ("\r\n".join(numbered(4)), TOO_MANY),
    ],
)
@pytest.mark.parametrize("is_one_piece", [True, False])
async def test_trailers_count_with_the_head(
    trailers: str, refusal: str | None, is_one_piece: bool, server: Server
) -> None:
    """The request is refused while the application waits for its body's end."""
    client = await server.connect()
    head = padded(HEAD_BYTES - 100, "/", CHUNKED, method="POST") + b"1\r\na\r\n"
    end = f"0\r\n{trailers}\r\n\r\n".encode()
    for each in (head + end,) if is_one_piece else (head, end):
        await client.send(each)
    if refusal is None:
        assert await client.bodies() == ["/ 1"]
        return
    assert await client.statuses() == [431]
    assert error_of(client.received) == refusal
    assert server.site.gone == ["/"]


@pytest.mark.parametrize("is_one_piece", [True, False])
async def test_trailers_are_no_fields_of_the_head(is_one_piece: bool, server: Server) -> None:
    """A proxy in front sets some fields of the head, and passes trailers on."""
    client = await server.connect()
    head = request("/", CHUNKED, method="POST") + b"1\r\na\r\n"
    end = b"0\r\nX-Forwarded-For: 192.0.2.1\r\n\r\n"
    for each in (head + end,) if is_one_piece else (head, end):
        await client.send(each)
    assert await client.statuses() == [200]
    assert server.site.fields() == [[(b"transfer-encoding", b"chunked")]]


@pytest.mark.parametrize("end", [b"0\r\nX: ", b"0\r\nX", b"1;x="])
async def test_an_unfinished_trailer_or_extension_has_the_limit_of_a_head(
    end: bytes, server: Server
) -> None:
    client = await server.connect()
    await client.send(padded(HEAD_BYTES, "/", CHUNKED, method="POST") + b"1\r\na\r\n")
    await client.send(end + b"a" * (HEAD_BYTES - len(end)))
    assert await client.statuses() == []
    await client.send(b"a")
    assert await client.statuses() == [431]
    assert error_of(client.received) == TOO_LARGE


async def test_each_extension_is_counted_anew(server: Server) -> None:
    client = await server.connect()
    await client.send(padded(HEAD_BYTES, "/", CHUNKED, method="POST"))
    for _ in range(3):
        await client.send(b"1;x=" + b"a" * (HEAD_BYTES - 6))
        await client.send(b"\r\na")
        await client.send(b"\r\n")
    await client.send(b"0\r\n\r\n")
    assert await client.bodies() == ["/ 3"]


async def test_empty_lines_before_a_head_have_the_same_limit(server: Server) -> None:
    client = await server.connect()
    await client.send(b"\r\n" * (HEAD_BYTES // 2))
    await client.send(request())
    await client.send(b"\r\n" * (HEAD_BYTES // 2))
    assert await client.statuses() == [200]
    await client.send(b"\n")
    assert await client.statuses() == [200, 431]


async def test_an_unfinished_head_is_refused_one_slice_over_the_limit_at_the_latest(
    server: Server, settings: Settings
) -> None:
    """After another request, too."""
    settings.MAX_HEAD_BYTES = 4 * SLICE
    unfinished = b"GET / HTTP/1.1\r\nX: "
    unfinished += b"a" * (5 * SLICE - len(unfinished))
    for before in (b"", request()):
        taken, refused = await server.connect(), await server.connect()
        for each in (taken, refused):
            await each.send(before)
        await taken.send(unfinished)
        await refused.send(unfinished + b"a")
        assert await taken.statuses() == [200] * bool(before)
        assert await refused.statuses() == [*[200] * bool(before), 431]


async def test_at_most_so_many_requests_wait_for_the_one_before_them(server: Server) -> None:
    """Of all that are sent ahead, the connection has the answers; one more ends it."""
    client, greedy = await server.connect(), await server.connect()
    ahead = b"".join(request(f"/{number}") for number in range(MOST_AHEAD))
    await client.send(request("/held") + ahead)
    await greedy.send(request("/held") + ahead + request())
    assert await client.statuses() == await greedy.statuses() == []
    assert [greedy.is_closed(), client.is_closed()] == [True, False]
    await server.release()
    answers = ["/held 0", *(f"/{number} 0" for number in range(MOST_AHEAD))]
    assert await client.bodies() == answers
    await client.send(ahead)
    assert len(await client.bodies()) == 2 * MOST_AHEAD + 1


async def test_a_refusal_is_json_with_the_headers_of_every_answer(server: Server) -> None:
    client = await server.connect()
    await client.send(request("/", *numbered(HEAD_FIELDS + 1)))
    head, _, body = (await client.read()).partition(b"\r\n\r\n")
    status, *lines = head.decode().split("\r\n")
    assert status == "HTTP/1.1 431 Request Header Fields Too Large"
    assert dict(line.split(": ", 1) for line in lines) == http.every_header(
        {
            "Content-Type": "application/json",
            "Content-Length": str(len(body)),
            "Connection": "close",
        }
    )
    assert orjson.loads(body) == http.error_body(431, TOO_MANY)
    assert client.is_ended


@pytest.mark.parametrize(
    "sent",
    [b"\x00", b"GET / HTTP/1.1\r\na b: c\r\n\r\n", b"GET \xff HTTP/1.1\r\n", request("http://")],
)
async def test_garbage_is_400_in_the_same_form(sent: bytes, server: Server) -> None:
    client = await server.connect()
    await client.send(sent)
    assert await client.statuses() == [400]
    assert error_of(client.received) == "Invalid HTTP request received."
    assert client.is_ended


async def test_a_wrong_body_is_400_and_its_application_is_told(server: Server) -> None:
    client = await server.connect()
    await client.send(request("/", CHUNKED, method="POST"))
    await client.send(b"x\r\n")
    assert await client.statuses() == [400]
    assert server.site.gone == ["/"]


TOO_LARGE_HEAD = padded(HEAD_BYTES + 1)
NO_HOST = request("http://")  # refused when its head is complete


@pytest.mark.parametrize("refused", [TOO_LARGE_HEAD, NO_HOST, b"\x00", b"\n" * 401])
@pytest.mark.parametrize("path", ["/held", "/begun"])
async def test_a_refusal_is_no_answer_to_the_request_before_it(
    path: str, refused: bytes, server: Server
) -> None:
    """A client takes the first answer for that of its first request."""
    client = await server.connect()
    await client.send(request(path))
    before = await client.statuses()
    await client.send(refused)
    assert await client.statuses() == before
    assert client.is_closed()


async def test_refused_trailers_behind_another_request_have_no_answer(server: Server) -> None:
    client = await server.connect()
    await client.send(request("/held") + request("/two", CHUNKED, method="POST"))
    await client.send(b"0\r\n" + "\r\n".join([*numbered(HEAD_FIELDS), "", ""]).encode())
    assert await client.read() == b""
    assert client.is_closed()


async def test_refused_trailers_end_an_answer_that_has_begun(server: Server) -> None:
    client = await server.connect()
    await client.send(request("/eager", CHUNKED, method="POST"))
    assert await client.statuses() == [200]
    await client.send(b"0\r\n" + "\r\n".join([*numbered(HEAD_FIELDS), "", ""]).encode())
    assert await client.statuses() == [200]
    assert client.is_closed()
