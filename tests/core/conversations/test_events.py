"""The event log: one writer that never dies, no gap, nothing twice, with and without Redis."""

import asyncio
import sqlite3
import threading
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import aclosing, contextmanager
from typing import Any

import psycopg
import pytest
from django.conf import settings as django_settings
from django.db import DataError, InterfaceError, OperationalError, connection
from pytest_django import Settings

from core.conversations import events, inbox, runs
from core.conversations.event_codec import joined
from core.conversations.events import Log, LostLeaseError
from core.database import driver, transactions
from core.messages import (
    MessageDict,
    error_message,
    fold,
    message_start,
    progress,
    text_delta,
    thinking_delta,
    to_dict,
    tool_call_message,
)
from core.models import ChannelAccount, ChatSession, Run, RunEvent
from core.signals import pubsub
from tests.core.conftest import Say
from tests.core.conversations.test_runs import OK, claimed, end, logged, wait_for_events
from tests.servers import wait_until

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("woken")]

Frames = list[pubsub.Frame]


@pytest.fixture
def frames(monkeypatch: pytest.MonkeyPatch) -> Frames:
    """Return the published frames, in order."""
    published: Frames = []
    monkeypatch.setattr(pubsub, "publish_events", published.extend)
    return published


@pytest.fixture
def log(say: Say) -> Log:
    """Return the log of a claimed run."""
    return events.log_of(run=claimed(say("1")), seq=0)


def run_of(log: Log) -> Run:
    """Return the run of ``log``."""
    return Run.objects.select_related("session").get(id=log.run_id)


def said(run: Run) -> str:
    """Return the text that the log of ``run`` adds up to."""
    texts = [each for each in fold(event for _, event in logged(run)) if each["type"] == "text"]
    return "".join(str(each["props"]["content"]) for each in texts)


def test_m2_many_deltas_become_few_events_and_the_same_text(log: Log, frames: Frames) -> None:
    words = [f"w{number} " for number in range(2000)]
    for word in words:
        log.append(text_delta(word, message_id="t"))
    end(log, run_of(log))
    assert said(run_of(log)) == "".join(words)
    assert RunEvent.objects.count() < 200
    numbers = [seq for seq, _ in logged(run_of(log))]
    assert numbers == list(range(1, len(numbers) + 1))
    assert next(frame["first"] for frame in frames if "events" in frame) == 1
    assert str(RunEvent.objects.first()) == f"{log.run_id}#1"


def test_the_first_event_does_not_wait_for_a_frame(log: Log, settings: Settings) -> None:
    settings.EVENT_FRAME_MILLISECONDS = 60_000
    log.append(progress("now"))
    wait_for_events(run_of(log), 1)
    log.append(text_delta("later", message_id="t"))
    end(log, run_of(log))  # the end does not wait either
    assert len(logged(run_of(log))) == 3


def count_batches(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Return a list to which each later commit adds its number of runs."""
    batches: list[int] = []
    write = events.write_batch

    def counted(batch: events.Batch) -> list[pubsub.Frame]:
        batches.append(len(batch))
        return write(batch)

    monkeypatch.setattr(events, "write_batch", counted)
    return batches


def test_events_of_all_runs_are_committed_in_one_batch(
    say: Say, log: Log, frames: Frames, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings.EVENT_FRAME_MILLISECONDS = 200
    other = events.Log(2**40, "x", "s", 1, 1, 0)
    log.append(progress("a"))
    wait_for_events(run_of(log), 1)
    batches = count_batches(monkeypatch)
    other.fresh = False
    for number in range(20):
        log.append(progress(str(number)))
        other.append(progress(str(number)))
    wait_for_events(run_of(log), 21)
    assert batches == [2]
    assert other.lost


@pytest.mark.parametrize(
    ("first", "second", "joins"),
    [
        (text_delta("a", message_id="1"), text_delta("b", message_id="1"), True),
        (text_delta("a", message_id="1"), text_delta("b", message_id="2"), False),
        (text_delta("a", message_id="1"), thinking_delta("b", message_id="1"), False),
        (progress("a"), progress("b"), False),
        (
            message_start(message_id="1", message_type="text"),
            text_delta("b", message_id="1"),
            False,
        ),
        (text_delta("a" * 20_000, message_id="1"), text_delta("b", message_id="1"), False),
    ],
)
def test_only_neighbouring_appends_to_one_text_are_joined(
    first: Any, second: Any, joins: bool
) -> None:
    before = to_dict(first)
    assert joined(before, to_dict(second)) is joins
    if joins:
        assert before["props"]["content"] == "ab"


def test_texts_that_no_database_holds_are_cleaned_however_deep(log: Log) -> None:
    log.append(error_message("a\x00b\ud800", "x\x00"))
    log.append(tool_call_message("c", "t", '{"a": "\ud83d"}', message_id="t"))
    end(log, run_of(log))
    [error, call] = [event["props"] for _, event in logged(run_of(log))][:2]
    assert error["message"] == "ab\ufffd"
    assert call["arguments"] == '{"a": "\ufffd"}'


def test_nothing_follows_the_end(log: Log) -> None:
    run = run_of(log)
    end(log, run)
    with pytest.raises(LostLeaseError):
        log.append(progress("late"))
    with pytest.raises(LostLeaseError):
        events.writer().add(log, to_dict(progress("late")))
    assert [events.ends(event) for _, event in logged(run)] == [True]


def test_a_run_that_cannot_be_stored_costs_no_other_run(
    say: Say, log: Log, account: Any, user: Any, settings: Settings
) -> None:
    other_session = inbox.open_session(user=user, account=account, chat="43")
    other = events.log_of(run=claimed(say("2", into=other_session)), seq=0)
    settings.EVENT_FRAME_MILLISECONDS = 100
    for each in (log, other):
        each.append(progress("begin"))
    wait_for_events(run_of(other), 1)
    wait_for_events(run_of(log), 1)
    broken = to_dict(progress("x"))
    broken["props"] = {"message": object()}
    events.writer().add(log, broken)
    other.append(progress("fine"))
    end(other, run_of(other))
    assert len(logged(run_of(other))) == 3
    wait_until(lambda: log.lost)
    with pytest.raises(LostLeaseError):
        log.append(progress("more"))


def test_an_end_that_fails_leaves_the_run_to_the_next_attempt(log: Log) -> None:
    def finish(seq: int) -> None:
        raise DataError("too long")

    with pytest.raises(DataError):
        log.close(finish, [progress("x")]).result(10)
    assert log.lost
    assert run_of(log).state == Run.State.RUNNING
    assert logged(run_of(log)) == []


def test_given_up_events_never_leave_a_gap(
    log: Log, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A lost batch is not followed by the end of the run: the next attempt sends it all."""
    settings.RUN_LEASE_SECONDS = 0
    write = events.write_batch

    def away(batch: events.Batch) -> Frames:
        raise OperationalError("away")

    monkeypatch.setattr(events, "write_batch", away)
    log.append(progress("lost"))
    wait_until(lambda: log.lost)
    monkeypatch.setattr(events, "write_batch", write)
    with pytest.raises(LostLeaseError):
        end(log, run_of(log))
    assert logged(run_of(log)) == []


@contextmanager
def locked_database() -> Iterator[None]:
    """Hold the database's lock in another connection."""
    values = connection.settings_dict
    if connection.vendor == "sqlite":
        other = sqlite3.connect(values["NAME"], isolation_level=None)
        other.execute("BEGIN IMMEDIATE")
    else:
        other = psycopg.connect(  # type: ignore[assignment]
            host=values["HOST"], port=values["PORT"], user=values["USER"],
            password=values["PASSWORD"], dbname=values["NAME"],
        )  # fmt: skip
        other.execute("LOCK TABLE core_runevent IN ACCESS EXCLUSIVE MODE")
    try:
        yield
    finally:
        other.rollback() if connection.vendor != "sqlite" else other.execute("ROLLBACK")
        other.close()


def test_the_writer_waits_while_the_database_is_locked(log: Log) -> None:
    with locked_database():
        log.append(text_delta("a", message_id="t"))
        threading.Event().wait(0.3)
        log.append(text_delta("b", message_id="t"))
        assert not log.lost
    end(log, run_of(log))
    assert said(run_of(log)) == "ab"


@pytest.mark.parametrize("error", [OperationalError, InterfaceError])
def test_the_writer_goes_on_after_the_database_was_away(
    log: Log, error: type[Exception], monkeypatch: pytest.MonkeyPatch
) -> None:
    write, failures = events.write_batch, [error("away"), error("away")]

    def sometimes(batch: events.Batch) -> Frames:
        if failures:
            raise failures.pop()
        return write(batch)

    monkeypatch.setattr(events, "write_batch", sometimes)
    log.append(text_delta("a", message_id="t"))
    end(log, run_of(log))
    assert said(run_of(log)) == "a"


def test_an_end_that_is_on_its_way_cannot_be_cancelled(log: Log, say: Say) -> None:
    """A cancelled future once killed the writer, and with it every run of the worker."""
    run = run_of(log)
    done = log.close(lambda seq: runs.settle(run=run, outcome=OK, last_seq=seq), [])
    assert not done.cancel()
    done.result(10)
    events.resolve(log, LostLeaseError())
    assert done.exception() is None
    later = events.log_of(run=claimed(say("2")), seq=0)
    end(later, run_of(later))


def test_gathered_events_are_committed_at_the_flush(
    account: ChannelAccount, log: Log, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A flush ends the frame; the writer is not woken before it."""
    settings.EVENT_FRAME_MILLISECONDS = 60_000
    log.append(progress("first, at once"))
    wait_for_events(run_of(log), 1)
    place = ChatSession.objects.create(user=run_of(log).user, account=account, chat="another")
    another = Run.objects.create(session=place, user=place.user, origin="test")
    batches = count_batches(monkeypatch)
    other = events.log_of(run=claimed(another), seq=0)
    other.fresh = False
    events.gather()
    log.append(progress("a"))
    other.append(progress("b"))
    assert not batches
    events.flush()
    wait_for_events(run_of(log), 2)
    wait_for_events(run_of(other), 1)
    assert batches == [2]


def test_told_frames_are_published_with_the_next_events_and_before_them(
    log: Log, frames: Frames, settings: Settings
) -> None:
    settings.EVENT_FRAME_MILLISECONDS = 60_000
    told: pubsub.Frame = {"keys": [], "kind": "events", "run": "x"}
    events.writer().tell([told])
    assert not frames
    log.append(progress("now"))
    wait_until(lambda: len(frames) == 2, seconds=20)
    assert frames[0] is told


def test_told_frames_wait_a_frame_at_most(frames: Frames, settings: Settings) -> None:
    settings.EVENT_FRAME_MILLISECONDS = 50
    events.writer().tell([{"keys": [], "kind": "events", "run": "x"}])
    wait_until(lambda: len(frames) == 1, seconds=20)


def test_a_hub_that_fails_in_its_own_way_does_not_kill_the_writer(
    log: Log, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(frames: Frames) -> None:
        raise ValueError("not our day")

    monkeypatch.setattr(pubsub, "publish_events", broken)
    log.append(progress("a"))
    end(log, run_of(log))
    assert len(logged(run_of(log))) == 2


def test_a_writer_that_stops_writes_its_pending_events(log: Log, settings: Settings) -> None:
    settings.EVENT_FRAME_MILLISECONDS = 60_000
    log.append(progress("a"))
    wait_for_events(run_of(log), 1)
    log.append(progress("b"))
    events.close_writer()
    assert len(logged(run_of(log))) == 2
    events.close_writer()


def test_the_log_of_a_run_without_a_worker_can_be_ended(log: Log, frames: Frames) -> None:
    run = run_of(log)
    with transactions.atomic_write():
        assert events.append_unheld(run=run, seq=0, messages=[progress("a"), progress("b")]) == 2
    assert [seq for seq, _ in logged(run)] == [1, 2]
    events.close_writer()
    assert [frame["first"] for frame in frames] == [1]


# Following ---------------------------------------------------------------------------------------

Item = tuple[int, MessageDict]


async def collect(log: Log, *, seq: int = 0) -> list[Item]:
    """Follow ``log`` to its end."""
    found: list[Item] = []
    async with asyncio.timeout(20):
        async for item in events.follow(run_id=log.run_id, public_id=log.public_id, seq=seq):
            assert item is not None
            found.append(item)
    return found


@pytest.fixture
async def listening() -> AsyncIterator[Callable[[int], Any]]:
    """Wait until so many followers listen and the subscription stands."""

    async def wait(number: int) -> None:
        async with asyncio.timeout(60):
            while not (pubsub.local().connected and pubsub.local().count() >= number):
                await asyncio.sleep(0.01)

    yield wait
    await pubsub.local().close()


async def speak(log: Log, number: int) -> None:
    """Append ``number`` words in the time of a few frames."""
    for each in range(number):
        log.append(text_delta(f"{each} ", message_id="t"))
        if each % 20 == 0:
            await asyncio.sleep(0.01)


async def finish(log: Log) -> None:
    """End the run of ``log``."""
    run = await transactions.in_thread(run_of, log)
    await transactions.in_thread(end, log, run)


async def test_followers_hear_every_event_once_live_and_after_any_seq(
    log: Log, listening: Callable[[int], Any]
) -> None:
    first = asyncio.create_task(collect(log))
    await listening(1)
    await speak(log, 200)
    second = asyncio.create_task(collect(log))
    await listening(2)
    await speak(log, 200)
    await finish(log)
    heard = await first
    assert [seq for seq, _ in heard] == list(range(1, len(heard) + 1))
    assert await second == heard
    assert heard == await transactions.in_thread(events.after, run_id=log.run_id, seq=0)
    for seq in range(len(heard)):
        assert await collect(log, seq=seq) == heard[seq:]


async def test_the_log_is_followed_without_redis(
    log: Log, settings: Settings, listening: Callable[[int], Any]
) -> None:
    settings.REDIS_URL = "redis://127.0.0.1:1/0"
    pubsub.sender.cache_clear()
    task = asyncio.create_task(collect(log))
    await speak(log, 50)
    await finish(log)
    heard = await task
    assert not pubsub.local().connected
    assert heard == await transactions.in_thread(events.after, run_id=log.run_id, seq=0)
    pubsub.sender.cache_clear()


async def test_lost_hub_frames_are_read_from_the_log(
    log: Log, monkeypatch: pytest.MonkeyPatch, listening: Callable[[int], Any]
) -> None:
    tell, number = pubsub.publish_events, iter(range(10_000))
    monkeypatch.setattr(
        pubsub, "publish_events", lambda frames: tell(frames) if next(number) % 3 else None
    )
    monkeypatch.setattr(events, "POLL_CONNECTED_SECONDS", 0.2)
    task = asyncio.create_task(collect(log))
    await listening(1)
    await speak(log, 400)
    await finish(log)
    assert await task == await transactions.in_thread(events.after, run_id=log.run_id, seq=0)


async def test_a_follower_that_lags_reads_the_log(
    log: Log, monkeypatch: pytest.MonkeyPatch, listening: Callable[[int], Any]
) -> None:
    monkeypatch.setattr(django_settings, "MAX_QUEUED_FRAMES", 2)
    follower = events.follow(run_id=log.run_id, public_id=log.public_id, seq=0)
    async with aclosing(follower), asyncio.timeout(20):
        await speak(log, 1)
        heard = [await anext(follower)]
        await listening(1)
        for number in range(30):
            log.append(progress(str(number)))
            await asyncio.sleep(0.02)
        await finish(log)
        heard += [item async for item in follower]
    assert heard == await transactions.in_thread(events.after, run_id=log.run_id, seq=0)


async def test_a_log_longer_than_a_page_is_followed_to_its_end(
    log: Log, monkeypatch: pytest.MonkeyPatch, listening: Callable[[int], Any]
) -> None:
    monkeypatch.setattr(events, "PAGE", 3)
    for number in range(10):
        log.append(progress(str(number)))
    await finish(log)
    started = time.monotonic()
    assert len(await collect(log)) == 11
    assert time.monotonic() - started < 5


async def test_d2_a_heartbeat_comes_when_nothing_else_does(
    log: Log, listening: Callable[[int], Any]
) -> None:
    follower = events.follow(run_id=log.run_id, public_id=log.public_id, seq=0, idle_seconds=0.05)
    async with aclosing(follower), asyncio.timeout(60):
        assert await anext(follower) is None
        log.append(progress("a"))
        while (item := await anext(follower)) is None:
            pass
        assert item[0] == 1


def test_frames_with_a_gap_are_no_answer() -> None:
    def frame(first: int, number: int) -> pubsub.Frame:
        found = [to_dict(progress(str(first + each))) for each in range(number)]
        return {"keys": [], "kind": "events", "first": first, "events": found}

    def numbers(frames: Frames, seq: int) -> list[int] | None:
        found = events.next_events(frames, seq=seq)
        return None if found is None else [number for number, _ in found]

    assert numbers([frame(1, 2), frame(3, 1)], 0) == [1, 2, 3]
    assert numbers([frame(1, 3), frame(2, 3)], 1) == [2, 3, 4]
    assert numbers([frame(1, 2), frame(4, 1)], 0) is None
    assert numbers([frame(2, 1)], 0) is None
    assert numbers([{"keys": [], "kind": "other"}], 0) == []
    assert django_settings.EVENT_FRAME_MILLISECONDS > 0


def test_the_last_words_of_a_run_are_committed_with_its_end(
    log: Log, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    log.append(progress("a"))
    wait_for_events(run_of(log), 1)
    settings.EVENT_FRAME_MILLISECONDS = 20
    batches = count_batches(monkeypatch)
    log.append(progress("b"))
    log.hold()
    time.sleep(0.1)
    assert batches == [], "not at the end of the frame"
    log.close(lambda _: None, [progress("c")]).result(60)
    assert batches == [1]
    assert len(logged(run_of(log))) == 3


def test_a_frame_is_one_transaction_also_without_an_end(
    log: Log, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No other worker takes the run over between the check of the fence and the INSERT."""
    fenced: list[bool] = []
    fetched = driver.fetch

    def watched(here: Any, sql: str, given: Any) -> Any:
        if 'FROM "core_run"' in sql:
            fenced.append(connection.in_atomic_block or "INSERT" in sql)
        return fetched(here, sql, given)

    monkeypatch.setattr(driver, "fetch", watched)
    events.write_batch([(log, [to_dict(progress("a"))], None)])
    assert fenced == [True]
