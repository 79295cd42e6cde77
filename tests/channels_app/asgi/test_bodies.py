"""The body of a request is read within its limits of bytes and of seconds, and not beyond them."""

import asyncio
import json
from typing import Any

import pytest
from pytest_django import Settings

from channels_app.asgi.bodies import Body, limited
from channels_app.asgi.http import ClientGoneError, RefusedError, Request, Scope
from tests.gateway_project.processes.connections import Clock, settle

LIMIT, SECONDS = 8, 7
MOMENT = 0.01
LONG = 100_000
GONE: Scope = {"type": "http.disconnect"}
FINISHED: Scope = {"type": "http.response.body", "body": b"the page"}


@pytest.fixture(autouse=True)
def limits(settings: Settings) -> None:
    """Set limits that no default has."""
    settings.MAX_BODY_BYTES, settings.BODY_SECONDS = LIMIT, SECONDS


@pytest.fixture
async def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    """Return the clock of the event loop, which stands still."""
    made = Clock()
    monkeypatch.setattr(asyncio.get_running_loop(), "time", made.time)
    return made


class Sender:
    """A client that sends messages; after the last one it waits, until ``leave``."""

    def __init__(self, *messages: Scope) -> None:
        self.messages: asyncio.Queue[Scope] = asyncio.Queue()
        for each in messages:
            self.messages.put_nowait(each)

    async def receive(self) -> Scope:
        return await self.messages.get()

    def send(self, message: Scope) -> None:
        self.messages.put_nowait(message)


def part(data: bytes, *, more: bool = False) -> Scope:
    """Return a piece of a body."""
    return {"type": "http.request", "body": data, "more_body": more}


def head(method: str = "POST", **fields: str) -> Scope:
    """Return the scope of a request."""
    named = [(name.replace("_", "-").encode(), value.encode()) for name, value in fields.items()]
    return {"type": "http", "method": method, "path": "/x", "headers": named}


def refused(error: BaseException | None) -> tuple[int, str]:
    """Return the status and the text of a refusal."""
    assert isinstance(error, RefusedError)
    return error.status, str(error)


async def outcome(body: Body) -> bytes | tuple[int, str]:
    """Return the whole body, or its refusal."""
    try:
        return await body.read()
    except RefusedError as error:
        return refused(error)


TOO_LARGE = (413, "The body is larger than 8 bytes.")
TOO_SLOW = (408, "The body came too slowly.")


@pytest.mark.parametrize(
    ("pieces", "read"),
    [
        ([b""], b""),
        ([b"a" * 8], b"a" * 8),
        ([b"abc", b"", b"defgh"], b"abcdefgh"),
        ([b"a" * 9], TOO_LARGE),
        ([b"a" * 4, b"b" * 5], TOO_LARGE),
        ([b"a" * 9, b""], TOO_LARGE),
    ],
)
async def test_a_body_is_read_up_to_its_limit(
    pieces: list[bytes], read: bytes | tuple[int, str]
) -> None:
    *first, last = pieces
    client = Sender(*(part(each, more=True) for each in first), part(last))
    assert await outcome(Body(client.receive)) == read


async def test_messages_may_leave_out_empty_parts() -> None:
    """As ASGI defines them."""
    client = Sender({"type": "http.request", "more_body": True}, {"type": "http.request"})
    assert await Body(client.receive).read() == b""


async def test_no_piece_is_asked_for_beyond_the_limit() -> None:
    client = Sender(part(b"a" * 9, more=True), part(b"b"))
    assert await outcome(Body(client.receive)) == TOO_LARGE
    assert client.messages.qsize() == 1


@pytest.mark.parametrize("limit", [0, 3])
async def test_a_body_may_have_a_limit_and_words_of_its_own(limit: int, clock: Clock) -> None:
    def made(*messages: Scope) -> Body:
        return Body(
            Sender(*messages).receive,
            limit=limit,
            seconds=limit,
            too_large="More than {limit}.",
            too_slow="Too slow.",
        )

    assert await made(part(b"a" * limit)).read() == b"a" * limit
    assert await outcome(made(part(b"a" * (limit + 1)))) == (413, f"More than {limit}.")
    with pytest.raises(RefusedError) as caught:
        made().check_declared(Request(head(content_length=str(limit + 1))))
    assert refused(caught.value) == (413, f"More than {limit}.")
    slow = asyncio.create_task(outcome(made()))
    await settle()
    clock.now += limit
    assert await slow == (408, "Too slow.")


@pytest.mark.parametrize("check", [Body.check_declared, Body.check_head])
def test_a_length_over_the_limit_is_refused_before_the_body(check: Any) -> None:
    body = Body(Sender().receive)
    for length in ("", "0", "8", "-9", "x"):
        check(body, Request(head(content_length=length)))
    for length in ("9", "9" * 400):
        with pytest.raises(RefusedError) as caught:
            check(body, Request(head(content_length=length)))
        assert refused(caught.value) == TOO_LARGE


def test_a_compressed_body_is_refused() -> None:
    """It would be of any size once it is unpacked."""
    body = Body(Sender().receive)
    for plain in (head(), head(content_encoding=""), head(content_encoding="identity")):
        body.check_head(Request(plain))
    for coding in ("gzip", "identity, gzip", "br"):
        with pytest.raises(RefusedError) as caught:
            body.check_head(Request(head(content_encoding=coding)))
        assert caught.value.status == 415
        body.check_declared(Request(head(content_encoding=coding)))


async def test_a_body_has_its_time_from_the_first_wait_and_no_piece_prolongs_it(
    clock: Clock,
) -> None:
    client = Sender()
    body = Body(client.receive)
    clock.now += LONG
    reading = asyncio.create_task(outcome(body))
    await settle()
    for _ in range(SECONDS - 1):
        clock.now += 1
        client.send(part(b"a", more=True))
        await settle()
    clock.now += 1 - MOMENT
    await settle()
    assert not reading.done()
    clock.now += MOMENT
    await settle()
    assert await reading == TOO_SLOW


async def test_a_body_that_comes_at_the_last_moment_is_read(clock: Clock) -> None:
    client = Sender(part(b"a", more=True))
    reading = asyncio.create_task(outcome(Body(client.receive)))
    await settle()
    clock.now += SECONDS - MOMENT
    client.send(part(b"b"))
    await settle()
    assert await reading == b"ab"


async def test_after_its_body_a_client_may_wait_for_the_answer_for_ever(clock: Clock) -> None:
    client = Sender(part(b"a"))
    body = Body(client.receive)
    assert await body.read() == b"a"
    waiting = asyncio.create_task(body.gone())
    await settle()
    clock.now += LONG
    await settle()
    client.send(part(b"a" * 9))
    await settle()
    assert not waiting.done()
    client.send(GONE)
    await settle()
    assert waiting.done()
    assert waiting.exception() is None


async def test_a_client_that_leaves_in_its_body_has_sent_none() -> None:
    with pytest.raises(ClientGoneError):
        await Body(Sender(part(b"a", more=True), GONE).receive).read()
    with pytest.raises(ClientGoneError):
        await Body(Sender(GONE).receive).read()


async def test_the_limits_hold_for_a_body_of_which_only_the_end_is_awaited(clock: Clock) -> None:
    large, slow = (Body(Sender(part(b"a" * size, more=True)).receive) for size in (9, 1))
    with pytest.raises(RefusedError) as caught:
        await large.gone()
    assert refused(caught.value) == TOO_LARGE
    waiting = asyncio.create_task(slow.gone())
    await settle()
    clock.now += SECONDS
    await settle()
    assert refused(waiting.exception()) == TOO_SLOW


# Around Django's pages ---------------------------------------------------------------------------


class Page:
    """An application that reads the body and answers; ``early`` begins its answer before."""

    def __init__(self, *, early: bool = False) -> None:
        self.early = early
        self.scopes: list[Scope] = []
        self.read: list[bytes] = []
        self.sent: list[Any] = []

    async def __call__(self, scope: Scope, receive: Any, send: Any) -> None:
        self.scopes.append(scope)
        if self.early:
            await send(START)
        message = {"more_body": True}
        while message["more_body"]:
            message = await receive()
            self.read.append(message["body"])
        if not self.early:
            await send(START)
        await send(FINISHED)

    async def ask(self, scope: Scope, client: Sender) -> None:
        """Send a request."""

        async def send(message: Any) -> None:
            self.sent.append(message)

        await limited(self)(scope, client.receive, send)

    def answer(self) -> tuple[int, dict[str, str], dict[str, Any]]:
        """Return the only answer: its status, headers and JSON."""
        start, body = self.sent
        headers = {name.decode(): value.decode() for name, value in start["headers"]}
        assert not body.get("more_body")
        return start["status"], headers, json.loads(body["body"])


START: Scope = {"type": "http.response.start", "status": 200, "headers": []}


@pytest.fixture
def page() -> Page:
    """Return a page that answers when it has read the body."""
    return Page()


async def test_a_page_gets_the_request_and_its_answer_is_sent(page: Page) -> None:
    asked = head(content_length="3", content_encoding="gzip")
    await page.ask(asked, Sender(part(b"a", more=True), part(b"bc")))
    assert (page.scopes, page.read) == ([asked], [b"a", b"bc"])
    assert page.sent == [START, FINISHED]


async def test_a_page_is_not_asked_for_a_body_that_is_declared_too_large(page: Page) -> None:
    await page.ask(head(content_length="9"), Sender())
    status, headers, body = page.answer()
    assert (status, headers["connection"]) == (413, "close")
    assert (body["status"], body["error"]) == TOO_LARGE
    assert page.scopes == []


async def test_a_page_whose_body_comes_too_slowly_is_refused(page: Page, clock: Clock) -> None:
    asking = asyncio.create_task(page.ask(head(), Sender(part(b"a", more=True))))
    await settle()
    clock.now += SECONDS
    await settle()
    await asking
    status, headers, body = page.answer()
    assert (status, headers["connection"]) == (408, "close")
    assert (body["status"], body["error"]) == TOO_SLOW


async def test_an_answer_that_has_begun_is_not_followed_by_a_second_one() -> None:
    page = Page(early=True)
    await page.ask(head(), Sender(part(b"a" * 9)))
    assert page.sent == [START]


async def test_no_page_answers_trace(page: Page) -> None:
    """It would echo what a script must not read."""
    await page.ask(head("TRACE", cookie="sessionid=secret"), Sender())
    status, headers, body = page.answer()
    assert (status, headers["allow"]) == (405, "GET, HEAD")
    assert (body["status"], body["error"]) == (405, "Use GET.")
    assert page.scopes == []
