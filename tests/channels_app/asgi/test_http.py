"""The base of all HTTP endpoints: bodies, streams, failures, limits, strict JSON."""

import asyncio
import json
import threading
from collections import deque
from collections.abc import AsyncGenerator, AsyncIterator, Iterable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Any

import pytest
from channels.exceptions import StopConsumer
from channels.routing import URLRouter
from django.db import InterfaceError, OperationalError
from django.http import HttpResponse
from django.urls import path, re_path
from hypothesis import given
from hypothesis import strategies as st
from pytest_django import Settings

from channels_app.asgi import event_stream, http, strict_json, throttling, views
from channels_app.asgi.consumer import Endpoint
from channels_app.asgi.http import RefusedError, Request
from channels_app.asgi.views import EndpointRequest, ViewHandler
from core.database import transactions
from gateway_project.asgi import application

Message = dict[str, Any]
JSON = ("content-type", "application/json")


class Wire:
    """An ASGI connection of a test: the client's messages, and those that it got."""

    def __init__(self, *incoming: Message) -> None:
        self.incoming = deque(incoming)
        self.sent: list[Message] = []
        self.stalled = False
        self.left = asyncio.Event()

    async def receive(self) -> Message:
        if self.incoming:
            return self.incoming.popleft()
        await self.left.wait()
        return {"type": "http.disconnect"}

    async def send(self, message: Any) -> None:
        if self.stalled:
            await asyncio.Event().wait()
        self.sent.append(dict(message))

    @property
    def body(self) -> bytes:
        return b"".join(message.get("body", b"") for message in self.sent)

    @property
    def status(self) -> int:
        return int(self.sent[0]["status"])


def part(data: bytes, *, more: bool = False) -> Message:
    """Return a piece of a request's body."""
    return {"type": "http.request", "body": data, "more_body": more}


def scope_of(
    headers: Iterable[tuple[str, str]] = (),
    *,
    method: str = "GET",
    query: str = "",
    client: str = "10.1.1.1",
) -> Message:
    """Return the ASGI scope that a server passes on."""
    return {
        "type": "http",
        "method": method,
        "path": "/x",
        "headers": [(name.encode(), value.encode("latin-1")) for name, value in headers],
        "query_string": query.encode(),
        "client": (client, 5) if client else None,
    }


class Echo(Endpoint):
    """Answers the JSON that it gets."""

    methods = ("GET", "POST")
    takes_json = True

    async def handle(self, body: bytes) -> None:
        await self.answer(200, http.parse_object(body))


@views.endpoint("GET", "POST")
async def echo(request: EndpointRequest) -> HttpResponse:
    """Answer with the JSON of the request, as a view."""
    return views.json_response(200, http.parse_object(await request.read_body()))


class Urls:
    """A URL configuration of a test."""

    urlpatterns = [path("x", echo)]


KINDS = ["consumer", "view"]


@pytest.fixture(params=KINDS)
def app(request: pytest.FixtureRequest, settings: Settings) -> Any:
    """Return an endpoint of each kind, while messages are accepted."""
    settings.MAX_BODY_BYTES = 100
    settings.ROOT_URLCONF = Urls
    return Echo.as_asgi() if request.param == "consumer" else ViewHandler()


@pytest.fixture(autouse=True)
def accepting(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make acceptance independent of workers in the database."""
    monkeypatch.setattr("core.conversations.runs.why_none_works", lambda: "")


@pytest.fixture(autouse=True)
async def threads_end() -> AsyncIterator[None]:
    """End the database threads after the test."""
    yield
    await asyncio.to_thread(transactions.close_pool)


async def ask(app: Any, wire: Wire, *headers: tuple[str, str], method: str = "POST") -> None:
    """Send one request; return the response."""
    await app(scope_of([JSON, *headers], method=method), wire.receive, wire.send)


async def test_a_body_in_pieces_is_joined(app: Any) -> None:
    wire = Wire(part(b'{"a"', more=True), part(b": 1}"))
    await ask(app, wire)
    assert (wire.status, wire.body) == (200, b'{"a":1}')


async def test_a_consumer_is_silent_when_its_client_leaves_in_the_body() -> None:
    wire = Wire(part(b"{", more=True), {"type": "http.disconnect"})
    await ask(Echo.as_asgi(), wire)
    assert wire.sent == []


async def test_a_view_ends_when_its_client_leaves_in_the_body(settings: Settings) -> None:
    settings.ROOT_URLCONF = Urls
    wire = Wire(part(b"{", more=True), {"type": "http.disconnect"})
    await ask(ViewHandler(), wire)
    assert wire.status == 400


async def test_a_view_needs_no_thread(settings: Settings) -> None:
    """Django's handler would take one twice, for the handlers of its signals."""
    settings.ROOT_URLCONF = Urls
    wire = Wire(part(b"{}"))
    await ask(ViewHandler(), Wire(part(b"{}")))  # acceptance is checked in a thread, once
    before = set(threading.enumerate())
    hops: list[object] = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(asyncio.get_running_loop(), "run_in_executor", hops.append, raising=False)
        await ask(ViewHandler(), wire)
    assert (wire.status, hops) == (200, [])
    assert set(threading.enumerate()) == before


@pytest.mark.parametrize(
    ("headers", "status", "unread"),
    [
        ([("content-length", "101")], 413, 5),
        ([("content-length", "9" * 5000)], 413, 5),
        ([("content-encoding", "br")], 415, 5),
        ([], 413, 2),
    ],
)
async def test_a_body_is_bounded(
    app: Any, headers: list[tuple[str, str]], status: int, unread: int
) -> None:
    """A refusal by the head comes before the body is read."""
    wire = Wire(*[part(b"x" * 50, more=True)] * 5)
    await ask(app, wire, *headers)
    assert (wire.status, len(wire.incoming)) == (status, unread)


@pytest.mark.parametrize("method", ["DELETE", "TRACE"])
async def test_a_method_that_an_endpoint_does_not_have_is_a_405(app: Any, method: str) -> None:
    wire = Wire(part(b"{}"))
    await ask(app, wire, method=method)
    assert (wire.status, len(wire.incoming)) == (405, 1)
    assert (b"allow", b"GET, POST") in [(n.lower(), v) for n, v in wire.sent[0]["headers"]]


async def test_a_body_that_comes_too_slowly_is_a_408(app: Any, settings: Settings) -> None:
    settings.BODY_SECONDS = 0.05
    wire = Wire(part(b"{", more=True))
    await ask(app, wire)
    assert wire.status == 408


def request(
    headers: Iterable[tuple[str, str]] = (), *, query: str = "", client: str = "10.1.1.1"
) -> Request:
    """Return the head of a request."""
    return Request(scope_of(headers, query=query, client=client))


def test_a_query_has_first_values_and_empty_ones() -> None:
    asked = request(query="after=5&after=6&x=%F0%9F%98%80&y=%ff")
    assert (asked.query("after"), asked.query("x"), asked.query("none")) == ("5", "😀", "")


@pytest.mark.parametrize(
    ("client", "forwarded", "proxies", "address"),
    [
        ("10.1.1.1", "1.2.3.4", [], "10.1.1.1"),
        ("10.1.1.1", "1.2.3.4", ["10.1.1.1"], "1.2.3.4"),
        ("10.1.1.1", "6.6.6.6, 1.2.3.4", ["10.1.1.1"], "1.2.3.4"),
        ("10.1.1.1", "", ["10.1.1.1"], "10.1.1.1"),
        ("", "1.2.3.4", ["10.1.1.1"], "1.2.3.4"),
        ("::ffff:10.1.1.1", "", [], "10.1.1.1"),
        ("2001:db8::1", "", [], "2001:db8::1"),
        ("unix", "", [], "unix"),
        ("", "", [], ""),
    ],
)
def test_the_address_is_the_clients_or_the_one_that_our_proxy_saw(
    client: str, forwarded: str, proxies: list[str], address: str, settings: Settings
) -> None:
    settings.GATEWAY_TRUSTED_PROXIES = proxies
    headers = [("x-forwarded-for", forwarded)] if forwarded else []
    assert request(headers, client=client).address == address


def test_secrets_are_compared_whatever_they_hold() -> None:
    assert http.same_secret("a", "a")
    assert not http.same_secret("é", "a")


async def blocks(*data: bytes) -> AsyncGenerator[bytes, None]:
    """Yield the blocks of ``data``."""
    for each in data:
        yield each


def streaming(source: AsyncGenerator[bytes, None], ends: list[bool] | None = None) -> Any:
    """Return an endpoint that answers ``source``; ``ends`` gets whether the client received all of
    it.
    """

    class Streaming(Endpoint):
        async def handle(self, body: bytes) -> None:
            whole = await self.stream(source, headers={}, farewell=b"")
            if ends is not None:
                ends.append(whole)

    return Streaming.as_asgi()


async def streamed(wire: Wire, source: AsyncGenerator[bytes, None]) -> bool:
    """Return whether the client of ``wire`` received all of ``source``."""
    ends: list[bool] = []
    wire.incoming.append(part(b""))
    await ask(streaming(source, ends), wire, method="GET")
    return ends[0]


async def test_a_stream_is_sent_in_pieces_and_ended(settings: Settings) -> None:
    settings.STREAM_PIECE_BYTES = 1000
    wire = Wire()
    big = b"x" * 2001
    assert await streamed(wire, blocks(b"a", big))
    assert wire.body == b"a" + big
    assert max(len(message.get("body", b"")) for message in wire.sent) == 1000
    assert [message.get("more_body") for message in wire.sent[1:]] == [True] * 4 + [False]


async def test_a_client_that_leaves_ends_the_stream_and_its_source() -> None:
    wire, closed = Wire(), asyncio.Event()

    async def endless() -> AsyncGenerator[bytes, None]:
        try:
            while True:
                yield b"x"
                wire.left.set()
                await asyncio.sleep(0.01)
        finally:
            closed.set()

    assert not await streamed(wire, endless())
    assert closed.is_set()


async def test_ri13_a_stalled_reader_is_left_and_its_source_closed(settings: Settings) -> None:
    settings.STREAM_STALL_SECONDS = 0.05
    wire, closed = Wire(), asyncio.Event()
    wire.stalled = True

    async def source() -> AsyncGenerator[bytes, None]:
        try:
            yield b"x"
        finally:
            closed.set()

    assert not await event_stream.push(wire.send, source(), event_stream.Progress())
    assert closed.is_set()
    assert not await event_stream.push(wire.send, blocks(), event_stream.Progress())


async def endless(closed: asyncio.Event) -> AsyncGenerator[bytes, None]:
    """Yield blocks without end; set ``closed`` when closed."""
    try:
        while True:
            yield b"x" * 100
            await asyncio.sleep(0)
    finally:
        closed.set()


async def test_ri13_a_stream_has_a_most_of_bytes_and_its_source_is_closed(
    settings: Settings,
) -> None:
    """[RI13] The body is cut, so that the client knows that it has to resume."""
    settings.MAX_STREAM_BYTES = 1050
    wire, closed = Wire(), asyncio.Event()
    assert not await streamed(wire, endless(closed))
    assert len(wire.body) == 1000
    assert not any(each.get("more_body") is False for each in wire.sent)
    assert closed.is_set()


async def test_ri13_a_stream_has_a_most_of_seconds(settings: Settings) -> None:
    """[RI13]"""
    settings.MAX_STREAM_SECONDS = 0.05
    wire, closed = Wire(), asyncio.Event()
    assert not await streamed(wire, endless(closed))
    assert not any(each.get("more_body") is False for each in wire.sent)
    assert closed.is_set()


async def test_a_source_that_fails_is_not_hidden(caplog: pytest.LogCaptureFixture) -> None:
    wire = Wire()

    async def broken() -> AsyncGenerator[bytes, None]:
        yield b"a"
        raise OperationalError("gone")

    with caplog.at_level("ERROR"):
        wire.incoming.append(part(b""))
        await ask(streaming(broken()), wire, method="GET")
    assert "the database failed" in caplog.text
    assert not any(each.get("more_body") is False for each in wire.sent)


def test_ri14_an_event_is_one_line_of_data() -> None:
    event = event_stream.sse({"text": "a\n\ndata: x\r\r\n\u2028"}, seq=7)
    assert event.startswith(b"id: 7\ndata: ")
    assert event.count(b"\n") == 3
    assert b"\r" not in event
    assert event_stream.sse({}) == b"data: {}\n\n"


# Failures and routes -----------------------------------------------------------------------------


def failing(kind: str, error: Exception, settings: Settings) -> Any:
    """Return an endpoint of this kind that fails."""

    class Fails(Endpoint):
        async def handle(self, body: bytes) -> None:
            raise error

    @views.endpoint("GET")
    async def fails(request: EndpointRequest) -> HttpResponse:
        raise error

    class FailingUrls:
        urlpatterns = [path("x", fails)]

    settings.ROOT_URLCONF = FailingUrls
    return Fails.as_asgi() if kind == "consumer" else ViewHandler()


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    ("error", "status"),
    [(OperationalError("x"), 503), (InterfaceError("closed"), 503), (KeyError("secret"), 500)],
)
async def test_rc6_an_endpoint_that_fails_answers_once(
    kind: str, error: Exception, status: int, settings: Settings
) -> None:
    """[RC6]"""
    wire = Wire(part(b""))
    await ask(failing(kind, error, settings), wire, method="GET")
    assert wire.status == status
    body = json.loads(wire.body)
    assert (body["ok"], body["status"], body["text"]) == (False, status, "")
    assert "secret" not in str(body)


@pytest.mark.parametrize("error", [OperationalError("x"), KeyError("x"), RefusedError(400, "x")])
async def test_an_answer_that_began_is_not_followed_by_another(error: Exception) -> None:
    class Fails(Endpoint):
        async def handle(self, body: bytes) -> None:
            await self.send_headers(status=200, headers=[])
            raise error

    wire = Wire(part(b""))
    await ask(Fails.as_asgi(), wire, method="GET")
    assert [message["type"] for message in wire.sent] == ["http.response.start"]


async def test_a_consumer_may_handle_each_part_of_a_body() -> None:
    parts: list[bytes] = []

    class Parts(Endpoint):
        async def http_request(self, message: Any) -> None:
            parts.append(message["body"])
            if not message["more_body"]:
                await self.answer(200, {})
                raise StopConsumer

    wire = Wire(part(b"a", more=True), part(b"b", more=True), part(b"c"))
    await ask(Parts.as_asgi(), wire)
    assert (parts, wire.status) == ([b"a", b"b", b"c"], 200)


async def test_routes_match_whole_paths_and_django_gets_the_rest() -> None:
    heard: list[str] = []

    async def ours(scope: Any, receive: Any, send: Any) -> None:
        heard.append("ours")

    async def django(scope: Any, receive: Any, send: Any) -> None:
        heard.append("django")

    consumer: Any = ours
    pages: Any = django
    router = URLRouter([path("inbound", consumer), re_path(r"", pages)])
    for address in ("/inbound", "/inbound/x", "/x/inbound", "/inbound\n"):
        await router({"type": "http", "path": address}, None, None)
    assert heard == ["ours", "django", "django", "django"]


async def test_two_slashes_are_no_endpoint(db: None) -> None:
    """Channels' router takes them for one; Django does not."""
    wire = Wire(part(b""))
    headers = [("host", "testserver")]
    scope = {**scope_of(headers), "path": "//healthz"}
    await application(scope, wire.receive, wire.send)
    assert wire.status == 404


# Limits ------------------------------------------------------------------------------------------


def test_ri17_the_101st_request_in_a_minute_is_refused_for_that_one_only() -> None:
    rate = throttling.Rate()
    for number in range(100):
        rate.check(subject="a", limit=100, now=1000 + number / 10)
    with pytest.raises(RefusedError) as error:
        rate.check(subject="a", limit=100, now=1010.0)
    assert (error.value.status, error.value.headers["Retry-After"]) == (429, "50")
    rate.check(subject="b", limit=100, now=1010.0)
    rate.check(subject="a", limit=100, now=1060.05)
    rate.check(subject="a", limit=0, now=1010.0)


def test_a_rate_forgets_inactive_subjects(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(throttling, "MAX_COUNTED", 10)
    rate = throttling.Rate()
    for number in range(1000):
        rate.check(subject=str(number), limit=1)
    assert len(rate._seen) <= 10


def test_a_rate_counts_exactly_when_many_threads_ask() -> None:
    rate, refused = throttling.Rate(), []
    start = threading.Barrier(16)

    def ask(number: int) -> None:
        start.wait(timeout=10)
        for _ in range(200):
            try:
                rate.check(subject="a", limit=1000)
            except RefusedError:
                refused.append(number)

    with ThreadPoolExecutor(16) as pool:
        list(pool.map(ask, range(16)))
    assert len(refused) == 16 * 200 - 1000


def test_ri18_streams_are_counted_and_given_back() -> None:
    streams = throttling.Streams()
    streams.enter(user_id=1, limit=2)
    streams.enter(user_id=1, limit=2)
    streams.enter(user_id="account:3:x", limit=2)
    with pytest.raises(RefusedError):
        streams.enter(user_id=1, limit=2)
    streams.leave(user_id=1)
    streams.enter(user_id=1, limit=2)
    for subject in (1, 1, "account:3:x"):
        streams.leave(user_id=subject)
    assert streams._open == {}


# Strict JSON -------------------------------------------------------------------------------------

VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**70), 2**70)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda children: (
        st.lists(children, max_size=4) | st.dictionaries(st.text(), children, max_size=4)
    ),
    max_leaves=20,
)


@given(VALUES)
def test_every_json_value_is_read(value: Any) -> None:
    data = json.dumps(value).encode()
    assert strict_json.parse(data, max_depth=30, storable=False) == value


@pytest.mark.parametrize(
    ("value", "field"),
    [
        ("\x00", "body"),
        ({"a": ["b", {"c": "d\ud800"}]}, "a[1].c"),
        ({"a": {"b\x00": 1}}, "a"),
        ([2**64], "[0]"),
        ({"a": -(2**63) - 1}, "a"),
        ({"\u202e": "\x00"}, "⟨U+202E⟩"),
    ],
)
def test_values_that_a_database_cannot_store_are_refused_by_path(value: Any, field: str) -> None:
    with pytest.raises(strict_json.BadJSONError) as caught:
        strict_json.parse(json.dumps(value).encode(), max_depth=30)
    assert caught.value.field == field


@pytest.mark.parametrize("value", [2**64 - 1, -(2**63), 1e300, True, "😀", {"é": "\x01\x7f"}])
def test_values_that_every_database_stores_are_accepted(value: Any) -> None:
    assert strict_json.parse(json.dumps(value).encode(), max_depth=30) == value


@given(st.binary(max_size=200))
def test_any_bytes_are_a_value_or_a_refusal(data: bytes) -> None:
    with suppress(strict_json.BadJSONError):
        strict_json.parse(data, max_depth=10)


@pytest.mark.parametrize(("depth", "fine"), [(5, True), (6, False)])
@pytest.mark.parametrize(("before", "after"), [("[", "]"), ('{"a":', "}")])
def test_ri9_depth_is_bounded_exactly(depth: int, fine: bool, before: str, after: str) -> None:
    data = (before * depth + "1" + after * depth).encode()
    if fine:
        strict_json.parse(data, max_depth=5)
    else:
        with pytest.raises(strict_json.BadJSONError, match="deep"):
            strict_json.parse(data, max_depth=5)
