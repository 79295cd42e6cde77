"""The event log: live tokens, checkpoints, one writer that never dies; no gap, nothing twice."""

import asyncio
import signal
import sqlite3
import threading
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import aclosing, contextmanager
from pathlib import Path
from random import Random
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
    message_end,
    message_start,
    progress,
    text_delta,
    thinking_delta,
    to_dict,
    tool_call_message,
)
from core.models import ChatSession, Run, RunEvent
from core.signals import live_events, pubsub
from core.signals.live_events import EventFrame
from tests.core.conftest import Say
from tests.core.conversations.test_runs import OK, claimed, end, logged, wait_for_events
from tests.servers import Valkey, wait_until

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("woken")]

Frames = list[EventFrame]


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


def numbers(frames: Frames) -> list[int]:
    """Return the numbers of the published events."""
    return [frame["first"] + at for frame in frames for at in range(len(frame["events"]))]


def test_m2_many_deltas_become_few_rows_and_the_same_text(log: Log, published: Frames) -> None:
    words = [f"w{number} " for number in range(2000)]
    for word in words:
        log.append(text_delta(word, message_id="t"))
    end(log, run_of(log))
    assert said(run_of(log)) == "".join(words)
    assert RunEvent.objects.count() < 10
    stored = [seq for seq, _ in logged(run_of(log))]
    assert stored == sorted(set(stored))
    assert stored[-1] == 2001, "a row has the number of the last event that it holds"
    assert numbers(published) == list(range(1, 2002))
    assert str(RunEvent.objects.first()).startswith(f"{log.run_id}#")


def test_a_text_is_published_before_it_is_stored_and_anything_else_after(
    log: Log, published: Frames
) -> None:
    with locked_database():
        log.append(message_start(message_id="t", message_type="text"))
        log.append(text_delta("a", message_id="t"))
        log.append(text_delta("b", message_id="t"))
        assert numbers(published) == [1, 2, 3]
        log.append(progress("a tool"))
        wait_until(lambda: not log.rows)
        log.append(text_delta("c", message_id="t"))
        assert numbers(published) == [1, 2, 3], "what follows waits as well"
    wait_until(lambda: numbers(published) == [1, 2, 3, 4, 5])
    assert [seq for seq, _ in logged(run_of(log))] == [1, 3, 4], "a live event again"
    end(log, run_of(log))
    assert said(run_of(log)) == "abc"


def test_an_event_is_published_once_it_is_stored_and_the_next_is_not(
    log: Log, published: Frames
) -> None:
    """A reader hears of a step neither before it is kept nor later than that."""
    for name in ("a tool", "another"):
        log.number(to_dict(progress(name)))
    log.publish()
    assert numbers(published) == []
    log.stored = 1
    log.publish()
    assert numbers(published) == [1]
    log.stored = 2
    log.publish()
    assert numbers(published) == [1, 2]


def test_a_growing_text_is_stored_at_checkpoints(
    log: Log, published: Frames, monkeypatch: pytest.MonkeyPatch
) -> None:
    batches = count_batches(monkeypatch)
    monkeypatch.setattr(events, "CHECKPOINT_SECONDS", 0.3)
    log.append(text_delta("a", message_id="t"))
    log.append(text_delta("b", message_id="t"))
    assert logged(run_of(log)) == []
    wait_for_events(run_of(log), 1)
    assert said(run_of(log)) == "ab"
    assert batches == [1]


def test_no_more_numbers_are_given_ahead_of_the_log_than_the_next_attempt_skips(
    log: Log, published: Frames, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(events, "AHEAD", 3)
    with locked_database():
        for word in "abcde":
            log.append(text_delta(word, message_id="t"))
        assert numbers(published) == [1, 2, 3]
    wait_until(lambda: numbers(published) == [1, 2, 3, 4, 5])


def test_the_end_of_a_message_is_stored_with_the_next_event(
    log: Log, settings: Settings, published: Frames, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings.EVENT_FRAME_MILLISECONDS = 60_000
    batches = count_batches(monkeypatch)
    log.append(text_delta("a", message_id="t"))
    log.append(message_end(message_id="t", message_type="text"))
    assert numbers(published) == [1]
    log.append(message_start(message_id="u", message_type="text"))
    wait_until(lambda: numbers(published) == [1, 2, 3])
    assert batches == [1]


def count_batches(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Return a list to which each later commit adds its number of runs."""
    batches: list[int] = []
    write = events.write_batch

    def counted(batch: events.Batch) -> None:
        batches.append(len(batch))
        write(batch)

    monkeypatch.setattr(events, "write_batch", counted)
    return batches


def test_texts_of_all_runs_are_committed_in_one_batch(
    say: Say, log: Log, published: Frames, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(events, "CHECKPOINT_SECONDS", 0.2)
    other = events.Log(2**40, "x", "s", 1, 1, 0)
    batches = count_batches(monkeypatch)
    for number in range(20):
        log.append(text_delta(str(number), message_id="t"))
        other.append(text_delta(str(number), message_id="t"))
    wait_for_events(run_of(log), 1)
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
    whole = joined(to_dict(first), to_dict(second))
    assert (whole is not None) is joins
    if whole is not None:
        assert whole["props"]["content"] == "ab"


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
    say: Say, log: Log, account: Any, user: Any
) -> None:
    other_session = inbox.open_session(user=user, account=account, chat="43")
    other = events.log_of(run=claimed(say("2", into=other_session)), seq=0)
    broken = to_dict(progress("x"))
    broken["props"] = {"message": object()}
    with locked_database():  # so that both are in one batch
        other.append(progress("begin"))
        threading.Event().wait(0.1)
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

    def away(batch: events.Batch) -> None:
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

    def sometimes(batch: events.Batch) -> None:
        if failures:
            raise failures.pop()
        write(batch)

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


def test_a_broker_that_is_away_costs_no_event_and_is_found_again(
    log: Log, tmp_path: Path, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(live_events, "RETRY_SECONDS", 0.05)
    server = Valkey(folder=tmp_path / "broker")
    server.start()
    settings.REDIS_URL = server.url
    live_events.close_sender()
    live_events.reader.cache_clear()

    def is_sent() -> bool:
        log.append(text_delta("a", message_id="t"))
        return bool(live_events.after(run=log.public_id, seq=log.seq - 1))

    assert is_sent()
    server.process.send(signal.SIGKILL)
    server.process.wait()
    assert not is_sent()
    assert not is_sent()
    server.start()
    wait_until(is_sent)
    end(log, run_of(log))
    assert said(run_of(log)) == "a" * (log.seq - 1)
    live_events.close_sender()
    live_events.reader.cache_clear()
    server.stop()


def test_a_broker_that_hangs_delays_no_event(
    log: Log, tmp_path: Path, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    server = Valkey(folder=tmp_path / "broker")
    server.start()
    settings.REDIS_URL = server.url
    live_events.close_sender()
    log.append(text_delta("a", message_id="t"))
    server.process.send(signal.SIGSTOP)
    started = time.monotonic()
    for _ in range(200):  # more than the kernel holds for it
        log.append(text_delta("b" * 100_000, message_id="t"))
    assert time.monotonic() - started < 10, "200 times the wait would be 20 seconds"
    server.process.send(signal.SIGCONT)
    live_events.close_sender()
    server.stop()


def test_a_writer_that_stops_writes_its_pending_events(log: Log) -> None:
    log.append(text_delta("a", message_id="t"))
    events.close_writer()
    assert said(run_of(log)) == "a"
    assert [seq for seq, _ in live_events.after(run=log.public_id, seq=0)] == [1]
    events.close_writer()


def test_the_log_of_a_run_without_a_worker_can_be_ended(log: Log, published: Frames) -> None:
    run = run_of(log)
    with transactions.atomic_write():
        assert events.append_unheld(run=run, seq=0, messages=[progress("a"), progress("b")]) == 2
        assert published == []
    assert [seq for seq, _ in logged(run)] == [1, 2]
    assert [frame["first"] for frame in published] == [1]


# Events that a reader lacks ----------------------------------------------------------------------


def text_of(found: list[events.Numbered]) -> str:
    """Return what ``found`` adds up to, message by message."""
    texts = [each for each in fold(event for _, event in found) if each["type"] in events.GROWING]
    return "|".join(str(each["props"]["content"]) for each in texts)


def speak_at_random(log: Log, random: Random) -> None:
    """Append two texts with a tool between them, and checkpoints at random."""
    for name in ("t", "u"):
        log.append(message_start(message_id=name, message_type="text"))
        for number in range(random.randint(1, 12)):
            log.append(text_delta(f"{name}{number} ", message_id=name))
            if random.random() < 0.2:
                store(log)
        log.append(message_end(message_id=name, message_type="text"))
        log.append(progress("a tool"))
        store(log)


def store(log: Log) -> None:
    """Commit what is pending now."""
    writer = events.writer()
    with writer._changed:
        writer._mark(log, seconds=0)
    wait_until(lambda: log.stored == log.seq)


@pytest.mark.parametrize("is_lost", [False, True])
@pytest.mark.parametrize("seed", range(4))
def test_d3_after_a_cut_at_any_event_the_text_is_whole_with_and_without_the_live_stream(
    log: Log, published: Frames, monkeypatch: pytest.MonkeyPatch, seed: int, is_lost: bool
) -> None:
    """The reader has every event up to the cut; the log has rows with other bounds."""
    speak_at_random(log, Random(seed))
    heard = [
        (frame["first"] + at, event)
        for frame in published
        for at, event in enumerate(frame["events"])
    ]
    if not is_lost:
        for frame in published:
            pubsub.sender().execute(live_events.commands_of(frame, log.user_id))
    whole = text_of(heard)
    for cut in range(log.seq + 1):
        rest = events.missing(run_id=log.run_id, public_id=log.public_id, seq=cut)
        assert text_of([*heard[:cut], *rest]) == whole
        assert all(seq > cut for seq, _ in rest)
    assert text_of(logged(run_of(log))) == whole


def test_d3_an_event_that_is_shown_and_not_stored_is_in_the_live_stream(log: Log) -> None:
    log.append(text_delta("a", message_id="t"))
    store(log)
    log.append(text_delta("b", message_id="t"))
    log.append(text_delta("c", message_id="t"))
    wait_until(lambda: len(live_events.after(run=log.public_id, seq=0)) == 3)
    for cut in range(4):
        rest = events.missing(run_id=log.run_id, public_id=log.public_id, seq=cut)
        assert "".join(str(event["props"]["content"]) for _, event in rest) == "abc"[cut:]


def test_d3_a_reader_gets_the_parts_that_it_lacks_and_not_the_text_again(log: Log) -> None:
    """From the log where a row of it ends at the reader's number, else from the live stream."""
    for words in ("a", "bc"):
        for word in words:
            log.append(text_delta(word, message_id="t"))
        store(log)
    assert [seq for seq, _ in logged(run_of(log))] == [1, 3]
    wait_until(lambda: len(live_events.after(run=log.public_id, seq=0)) == 3)
    for cut, lacks in [(1, [(3, "bc")]), (2, [(3, "c")])]:
        rest = events.missing(run_id=log.run_id, public_id=log.public_id, seq=cut)
        assert [(seq, event["props"]["content"]) for seq, event in rest] == lacks


def test_d3_a_live_stream_with_a_hole_is_not_read_over_it(log: Log) -> None:
    for word in "abc":
        log.append(text_delta(word, message_id="t"))
    wait_until(lambda: len(live_events.after(run=log.public_id, seq=0)) == 3)
    name = pubsub.channel_of(live_events.key_of(log.public_id))
    live_events.reader().xdel(name, "2-0")
    assert [seq for seq, _ in live_events.after(run=log.public_id, seq=0)] == [1]
    assert live_events.after(run=log.public_id, seq=1) == []
    assert [seq for seq, _ in live_events.after(run=log.public_id, seq=2)] == [3]


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
    assert [seq for seq, _ in heard] == sorted({seq for seq, _ in heard})
    stored = await transactions.in_thread(events.whole_log, log.run_id)
    for found in (heard, await second, await collect(log)):
        assert text_of(found) == text_of(stored)
        assert found[-1] == stored[-1]
    for cut in range(len(heard) - 1):
        rest = await collect(log, seq=heard[cut][0])
        assert text_of([*heard[: cut + 1], *rest]) == text_of(stored)


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
    assert text_of(heard) == text_of(await transactions.in_thread(events.whole_log, log.run_id))
    pubsub.sender.cache_clear()


async def test_a_reader_waits_for_a_database_that_is_away(
    log: Log, listening: Callable[[int], Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(transactions, "AWAY_SECONDS", 0.01)
    missing, failures = events.missing, [OperationalError("away"), InterfaceError("away")]

    def sometimes(**given: Any) -> list[Item]:
        if failures:
            raise failures.pop()
        return missing(**given)

    monkeypatch.setattr(events, "missing", sometimes)
    await speak(log, 5)
    await finish(log)
    heard = await collect(log)
    assert text_of(heard) == text_of(await transactions.in_thread(events.whole_log, log.run_id))


async def test_lost_frames_are_read_from_the_log(
    log: Log, monkeypatch: pytest.MonkeyPatch, listening: Callable[[int], Any]
) -> None:
    send, number = live_events.Sender.put, iter(range(10_000))

    def put(self: live_events.Sender, frame: EventFrame, *, user_id: int) -> None:
        if next(number) % 3:
            send(self, frame, user_id=user_id)

    monkeypatch.setattr(live_events.Sender, "put", put)
    monkeypatch.setattr(events, "POLL_CONNECTED_SECONDS", 0.2)
    monkeypatch.setattr(events, "CHECKPOINT_SECONDS", 0.1)
    task = asyncio.create_task(collect(log))
    await listening(1)
    await speak(log, 400)
    await finish(log)
    stored = await transactions.in_thread(events.whole_log, log.run_id)
    assert text_of(await task) == text_of(stored)


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
    stored = await transactions.in_thread(events.whole_log, log.run_id)
    assert [item[0] for item in heard if item] == [seq for seq, _ in stored]


async def test_a_log_longer_than_a_page_is_followed_to_its_end(
    log: Log, listening: Callable[[int], Any]
) -> None:
    rows = [RunEvent(run_id=log.run_id, seq=seq, data='{"type":"x","props":{}}') for seq in
            range(1, 2 * events.PAGE + 2)]  # fmt: skip
    await RunEvent.objects.abulk_create(rows)
    log.seq = log.stored = log.published = len(rows)
    await finish(log)
    assert len(await collect(log)) == len(rows) + 1


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


async def test_d2_a_deleted_run_ends_for_its_followers(
    log: Log, monkeypatch: pytest.MonkeyPatch, listening: Callable[[int], Any]
) -> None:
    """[D2] As cancelled, at the next poll: its session was deleted, and no end is stored."""
    monkeypatch.setattr(events, "POLL_CONNECTED_SECONDS", 0.05)
    follower = events.follow(run_id=log.run_id, public_id=log.public_id, seq=0)
    async with aclosing(follower), asyncio.timeout(60):
        log.append(progress("a"))
        assert await anext(follower) is not None
        await ChatSession.objects.filter(runs__id=log.run_id).adelete()
        [last] = [item async for item in follower]
        assert last is not None
        assert events.ends(last[1])
        assert last[1]["props"]["data"] == {"status": "cancelled"}


def test_frames_with_a_gap_are_no_answer() -> None:
    def frame(first: int, number: int) -> pubsub.Frame:
        found = [to_dict(progress(str(first + each))) for each in range(number)]
        return {"kind": "events", "first": first, "events": found}

    def after(frames: list[pubsub.Frame], seq: int) -> list[int] | None:
        found = events.next_events(frames, seq=seq)
        return None if found is None else [number for number, _ in found]

    assert after([frame(1, 2), frame(3, 1)], 0) == [1, 2, 3]
    assert after([frame(1, 3), frame(2, 3)], 1) == [2, 3, 4]
    assert after([frame(1, 2), frame(4, 1)], 0) is None
    assert after([frame(2, 1)], 0) is None


def test_a_slow_reader_gets_one_event_for_several() -> None:
    words = [to_dict(text_delta(word, message_id="t")) for word in "abc"]
    frames = [{"first": at, "events": [event]} for at, event in enumerate(words, 1)]
    assert events.next_events(frames, seq=1) == [(3, joined(words[1], words[2]))]


def test_the_last_words_of_a_run_are_committed_with_its_end(
    log: Log, published: Frames, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings.EVENT_FRAME_MILLISECONDS = 20
    batches = count_batches(monkeypatch)
    log.append(text_delta("b", message_id="t"))
    log.append(message_end(message_id="t", message_type="text"))
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

    def watched(here: Any, sql: str, given: Any, **how: Any) -> Any:
        if 'FROM "core_run"' in sql:
            fenced.append(connection.in_atomic_block or "INSERT" in sql)
        return fetched(here, sql, given, **how)

    monkeypatch.setattr(driver, "fetch", watched)
    events.write_batch([(log, [(1, to_dict(progress("a")))], None)])
    assert fenced == [True]
