"""The ends of an event stream: its own, its reader's, its limits', its process's. The clock stands
still.
"""

import asyncio
from collections.abc import AsyncGenerator, Coroutine
from typing import Any

import pytest
from pytest_django import Settings

from channels_app.asgi import event_stream
from channels_app.asgi.bodies import Body
from channels_app.asgi.event_stream import send_stream, sse, stopping
from channels_app.asgi.http import Headers
from tests.gateway_project.processes.connections import Clock, settle

STALL_SECONDS, MOST_SECONDS, MOST_BYTES = 20, 700, 10
LAST = 1.5
MOMENT = 0.01
BYE = b"bye"


@pytest.fixture(autouse=True)
def limits(settings: Settings) -> None:
    """Set limits that no default has."""
    settings.STREAM_STALL_SECONDS, settings.MAX_STREAM_SECONDS = STALL_SECONDS, MOST_SECONDS
    settings.MAX_STREAM_BYTES = MOST_BYTES


@pytest.fixture
async def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    """Return the clock of the event loop, which stands still."""
    made = Clock()
    monkeypatch.setattr(asyncio.get_running_loop(), "time", made.time)
    return made


class Stream:
    """A stream to one reader. ``say`` gives it a block, and ``end`` its own end.

    ``stalls_at``: the reader takes so many messages and the next one only after ``take``.
    ``sends_on``: the body of its request goes on.
    """

    def __init__(self, clock: Clock, *, stalls_at: int = 1000, sends_on: bool = False) -> None:
        self.clock, self.stalls_at, self.sends_on = clock, stalls_at, sends_on
        self.sent: list[dict[str, Any]] = []
        self.said: asyncio.Queue[bytes | Exception | None] = asyncio.Queue()
        self.received: asyncio.Queue[dict[str, Any]] = asyncio.Queue()
        self.takes, self.revoked = asyncio.Event(), asyncio.Event()
        self.is_ending = self.is_closed = False
        self.task: asyncio.Task[bool] | None = None

    async def blocks(self) -> AsyncGenerator[bytes, None]:
        """Yield what is said."""
        try:
            while (block := await self.said.get()) is not None:
                if isinstance(block, Exception):
                    raise block
                yield block
        finally:
            self.is_ending = True
            for _ in range(9):  # work that ends what the blocks came from
                await asyncio.sleep(0)
            self.is_closed = True

    async def send(self, message: Any) -> None:
        """Take a message; where the reader stalls, this is what waits."""
        self.sent.append(dict(message))
        if len(self.sent) > self.stalls_at:
            await self.takes.wait()

    async def until_revoked(self) -> None:
        """Return when the reader may read it no longer."""
        await self.revoked.wait()

    def begin(
        self,
        *,
        headers: Headers | None = None,
        farewell: bytes | None = BYE,
        is_watched: bool = False,
    ) -> None:
        """Begin to send it, to a client that has sent its request."""
        self.received.put_nowait({"type": "http.request", "more_body": self.sends_on})
        body = Body(self.received.get, limit=3)
        stream = send_stream(
            body,
            self.send,
            self.blocks(),
            headers=headers or {},
            farewell=farewell,
            ended=self.until_revoked if is_watched else None,
        )
        self.task = asyncio.create_task(self.whole(stream))

    async def whole(self, stream: Coroutine[Any, Any, bool]) -> bool:
        """Return the outcome of ``stream``, and look at what it leaves behind."""
        before = asyncio.all_tasks()
        outcome = await stream
        assert self.is_closed
        assert asyncio.all_tasks() <= before
        return outcome

    async def say(self, *blocks: bytes) -> None:
        """Have these blocks sent."""
        for each in blocks:
            self.said.put_nowait(each)
        await settle()

    async def end(self, error: Exception | None = None) -> None:
        """End the blocks."""
        self.said.put_nowait(error)
        await settle()

    async def receive(self, **message: Any) -> None:
        """Let the client send something."""
        self.received.put_nowait(message)
        await settle()

    async def wait(self, seconds: float) -> None:
        """Let time pass."""
        self.clock.now += seconds
        await settle()

    async def take(self) -> None:
        """Let the reader take what it did not."""
        self.stalls_at = 1000
        self.takes.set()
        await settle()

    def outcome(self) -> bool | None:
        """Return what the stream returned; None while it goes on."""
        assert self.task is not None
        return self.task.result() if self.task.done() else None

    def bodies(self) -> list[bytes]:
        """Return the pieces that were sent; the last chunk of a complete answer is ``b""``."""
        for each in self.sent[1:-1]:
            assert each["more_body"]
        ended = len(self.sent) > 1 and not self.sent[-1].get("more_body")
        assert (self.sent[-1].get("body") == b"") is ended
        return [each["body"] for each in self.sent[1:]]


@pytest.fixture
async def stream(clock: Clock) -> Stream:
    """Return a stream that has not begun."""
    return Stream(clock)


# The whole of it ---------------------------------------------------------------------------------


async def test_blocks_are_sent_as_they_come_and_then_the_end(stream: Stream) -> None:
    stream.begin()
    await settle()
    assert len(stream.sent) == 1, "the head is not held back until there is something to say"
    await stream.say(b"a", b"bc")
    assert (stream.bodies(), stream.outcome()) == ([b"a", b"bc"], None)
    await stream.say(b"d")
    assert stream.bodies() == [b"a", b"bc", b"d"]
    await stream.end()
    assert (stream.bodies(), stream.outcome(), stream.is_closed) == (
        [b"a", b"bc", b"d", b""],
        True,
        True,
    )


async def test_its_head_keeps_caches_and_proxies_from_holding_it_back(stream: Stream) -> None:
    stream.begin(headers={"X-Run-Id": "r"})
    await stream.end()
    start = stream.sent[0]
    headers = {name.decode(): value.decode() for name, value in start["headers"]}
    assert (start["type"], start["status"]) == ("http.response.start", 200)
    assert headers["content-type"] == "text/event-stream; charset=utf-8"
    assert headers["cache-control"] == "no-cache"
    assert headers["x-accel-buffering"] == "no"
    assert headers["x-content-type-options"] == "nosniff"
    assert headers["x-run-id"] == "r"


async def test_a_stream_may_have_another_type(stream: Stream) -> None:
    stream.begin(headers={"Content-Type": "audio/mpeg"})
    await stream.end()
    assert (b"content-type", b"audio/mpeg") in stream.sent[0]["headers"]


async def test_blocks_that_fail_fail_the_request(stream: Stream) -> None:
    stream.begin()
    await stream.say(b"a")
    await stream.end(LookupError())
    assert stream.task is not None
    assert isinstance(stream.task.exception(), LookupError)
    assert stream.bodies() == [b"a"]


# Its reader and its limits -----------------------------------------------------------------------


async def test_a_reader_that_leaves_ends_it(stream: Stream) -> None:
    stream.begin()
    await stream.say(b"a")
    await stream.receive(type="http.request")
    assert stream.outcome() is None
    await stream.receive(type="http.disconnect")
    assert (stream.bodies(), stream.outcome(), stream.is_closed) == ([b"a"], False, True)


async def test_a_reader_that_may_read_it_no_longer_ends_it(stream: Stream) -> None:
    stream.begin(is_watched=True)
    await stream.say(b"a")
    assert stream.outcome() is None
    stream.revoked.set()
    await settle()
    assert (stream.bodies(), stream.outcome(), stream.is_closed) == ([b"a"], False, True)


async def test_a_reader_that_may_read_it_gets_all_of_it(stream: Stream) -> None:
    stream.begin(is_watched=True)
    await stream.say(b"a")
    await stream.end()
    assert (stream.bodies(), stream.outcome()) == ([b"a", b""], True)


async def test_a_reader_that_sends_too_much_ends_it(clock: Clock) -> None:
    stream = Stream(clock, sends_on=True)
    stream.begin()
    await stream.say(b"a")
    await stream.receive(type="http.request", body=b"abcd", more_body=True)
    assert (stream.bodies(), stream.outcome(), stream.is_closed) == ([b"a"], False, True)


async def test_a_reader_that_takes_nothing_is_cut_off(clock: Clock) -> None:
    stream = Stream(clock, stalls_at=2)
    stream.begin()
    await stream.say(b"a", b"b", b"c")
    await stream.wait(STALL_SECONDS - MOMENT)
    assert stream.outcome() is None
    await stream.wait(MOMENT)
    assert (stream.bodies(), stream.outcome(), stream.is_closed) == ([b"a", b"b"], False, True)


async def test_a_reader_that_takes_in_time_gets_the_rest(clock: Clock) -> None:
    stream = Stream(clock, stalls_at=2)
    stream.begin()
    await stream.say(b"a", b"b", b"c")
    await stream.wait(STALL_SECONDS - MOMENT)
    await stream.take()
    await stream.wait(STALL_SECONDS)
    await stream.end()
    assert (stream.bodies(), stream.outcome()) == ([b"a", b"b", b"c", b""], True)


async def test_a_stream_lasts_so_long(stream: Stream) -> None:
    stream.begin()
    await stream.say(b"a")
    await stream.wait(MOST_SECONDS - MOMENT)
    assert stream.outcome() is None
    await stream.wait(MOMENT)
    assert (stream.bodies(), stream.outcome(), stream.is_closed) == ([b"a"], False, True)


async def test_a_stream_is_so_large(stream: Stream) -> None:
    """The block that is beyond its limit is not sent in part."""
    stream.begin()
    await stream.say(b"a" * 4, b"b" * 6)
    assert stream.outcome() is None
    await stream.say(b"c")
    assert (stream.bodies(), stream.outcome()) == ([b"aaaa", b"bbbbbb"], False)


# The end of the process --------------------------------------------------------------------------


async def stop() -> None:
    """Say that this process is about to stop."""
    stopping().set()
    await settle()


async def test_a_stopped_process_waits_for_an_end_that_comes_at_once(stream: Stream) -> None:
    stream.begin()
    await stream.say(b"a")
    await stop()
    await stream.wait(LAST - MOMENT)
    await stream.say(b"b")
    await stream.end()
    assert (stream.bodies(), stream.outcome()) == ([b"a", b"b", b""], True)


@pytest.mark.parametrize(
    ("farewell", "bodies"), [(BYE, [b"a", BYE, b""]), (b"", [b"a", b"", b""]), (None, [b"a"])]
)
async def test_a_stopped_process_says_farewell_between_two_events(
    farewell: bytes | None, bodies: list[bytes], stream: Stream
) -> None:
    """Without one the answer does not look complete."""
    stream.begin(farewell=farewell)
    await stream.say(b"a")
    await stop()
    await stream.wait(LAST - MOMENT)
    assert stream.outcome() is None
    await stream.wait(MOMENT)
    assert [each["body"] for each in stream.sent[1:]] == bodies
    assert [each["more_body"] for each in stream.sent[1:]] == [
        True,
        *([True, False] if farewell is not None else []),
    ]
    assert (stream.outcome(), stream.is_closed) == (farewell is not None, True)


async def test_a_stream_that_begins_in_a_stopped_process_has_its_time(stream: Stream) -> None:
    await stop()
    stream.begin()
    await stream.say(b"a")
    await stream.wait(LAST - MOMENT)
    assert stream.outcome() is None
    await stream.wait(MOMENT)
    assert (stream.bodies(), stream.outcome()) == ([b"a", BYE, b""], True)


async def test_the_event_that_is_being_sent_is_sent_whole_and_is_the_last(clock: Clock) -> None:
    stream = Stream(clock, stalls_at=2)
    stream.begin()
    await stream.say(b"a", b"b", b"c")
    await stop()
    await stream.wait(LAST)
    await stream.wait(LAST - MOMENT)
    assert stream.outcome() is None
    await stream.take()
    assert (stream.bodies(), stream.outcome()) == ([b"a", b"b", BYE, b""], True)
    assert stream.is_closed


@pytest.mark.parametrize("farewell", [BYE, None])
async def test_a_reader_that_stalls_in_an_event_gets_no_farewell_inside_it(
    farewell: bytes | None, clock: Clock
) -> None:
    stream = Stream(clock, stalls_at=2)
    stream.begin(farewell=farewell)
    await stream.say(b"a", b"b", b"c")
    await stop()
    await stream.wait(LAST)
    await stream.wait(LAST)
    assert (stream.bodies(), stream.outcome(), stream.is_closed) == ([b"a", b"b"], False, True)


async def test_a_reader_that_stalls_at_the_end_gets_no_farewell_after_it(clock: Clock) -> None:
    """It has its whole answer: no word of a run that goes on may follow."""
    stream = Stream(clock, stalls_at=2)
    stream.begin()
    await stream.say(b"a")
    await stream.end()
    assert stream.bodies() == [b"a", b""]
    await stop()
    await stream.wait(LAST)
    await stream.wait(LAST)
    assert (stream.bodies(), stream.outcome()) == ([b"a", b""], False)


async def test_a_reader_that_takes_the_end_late_has_all_of_it(clock: Clock) -> None:
    stream = Stream(clock, stalls_at=2)
    stream.begin()
    await stream.say(b"a")
    await stream.end()
    await stop()
    await stream.wait(LAST)
    await stream.take()
    assert (stream.bodies(), stream.outcome()) == ([b"a", b""], True)


async def test_a_reader_that_stalls_in_the_farewell_has_no_end(clock: Clock) -> None:
    stream = Stream(clock, stalls_at=2)
    stream.begin()
    await stream.say(b"a")
    await stop()
    await stream.wait(LAST)
    assert (stream.bodies(), stream.outcome()) == ([b"a", BYE], None)
    await stream.wait(STALL_SECONDS)
    assert (stream.bodies(), stream.outcome()) == ([b"a", BYE], False)


async def test_a_stream_beyond_its_size_gets_no_farewell(stream: Stream) -> None:
    """A part of an event is missing."""
    stream.begin()
    await stop()
    await stream.say(b"a" * 11)
    await stream.wait(LAST)
    assert (stream.bodies(), stream.outcome()) == ([], False)


async def test_blocks_that_fail_in_a_stopped_process_fail_the_request(stream: Stream) -> None:
    stream.begin()
    await stop()
    await stream.end(LookupError())
    assert stream.task is not None
    assert isinstance(stream.task.exception(), LookupError)
    assert len(stream.sent) == 1


async def test_a_reader_that_has_left_a_stopped_process_gets_no_more(stream: Stream) -> None:
    stream.begin()
    await stream.say(b"a")
    stopping().set()
    await stream.receive(type="http.disconnect")
    assert (stream.bodies(), stream.outcome(), stream.is_closed) == ([b"a"], False, True)


def test_each_event_loop_is_stopped_for_itself() -> None:
    async def is_stopping(*, stops: bool) -> bool:
        if stops:
            stopping().set()
        return stopping().is_set()

    assert asyncio.run(is_stopping(stops=True))
    assert not asyncio.run(is_stopping(stops=False))


# The events --------------------------------------------------------------------------------------


def test_an_event_is_one_line_of_json_with_its_number_before_it() -> None:
    """A line end in a text would end the event, and what follows could pass for another one."""
    assert sse({"a": "b\n\ndata: {}\r"}) == b'data: {"a":"b\\n\\ndata: {}\\r"}\n\n'
    assert sse({"a": 1}, seq=0) == b'id: 0\ndata: {"a":1}\n\n'
    assert sse({"a": 1}, seq=7) == b'id: 7\ndata: {"a":1}\n\n'
    assert event_stream.LAST_SECONDS == LAST


async def test_a_request_that_is_cancelled_ends_its_blocks(stream: Stream) -> None:
    stream.begin()
    await stream.say(b"a")
    assert stream.task is not None
    stream.task.cancel()
    await settle()
    assert stream.task.cancelled()
    assert stream.is_closed


async def test_a_request_that_is_cancelled_at_its_end_is_cancelled(clock: Clock) -> None:
    stream = Stream(clock)
    stream.begin()
    await stream.say(b"a")
    assert stream.task is not None
    stream.received.put_nowait({"type": "http.disconnect"})
    while not (is_ending := stream.is_ending) and not stream.task.done():
        await asyncio.sleep(0)
    assert is_ending
    stream.task.cancel()
    await settle()
    assert stream.task.cancelled()
