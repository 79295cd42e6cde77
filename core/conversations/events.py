"""The event log of a run: append, read after a number, follow live (docs/decisions/189).

Events are protocol messages (``core.messages``) as dicts, numbered by the worker that appends them.

    live event (a text grows) ─► published ─► joined with its neighbours ─► committed within 1.5 s
    any other                 ─► committed at once ─► published; later events wait for it

A row has the number of the last event that it holds. One writer thread per process commits the
events of all its runs. The fence: nothing is written for a run whose ``attempt`` is not the one in
the database.

While the database is away the writer keeps pending events and retries for the length of a lease. A
log whose events were given up stays ``lost``, so that no gap is ever written.
"""

import asyncio
import logging
import math
import threading
import time
from collections.abc import AsyncGenerator, Callable, Iterator
from concurrent.futures import Future, InvalidStateError
from contextlib import nullcontext, suppress
from dataclasses import dataclass, field
from functools import cache, partial

import orjson
from django.conf import settings
from django.db import connection, transaction

from core.conversations import budgets
from core.conversations.event_codec import appends, encode, join_last, storable
from core.database import transactions
from core.database.queries import Among, Param, Values
from core.database.transactions import AWAY
from core.database.writes import FencedInsert, insert_rows
from core.messages import Message, MessageDict, fold, stream_end, to_dict
from core.models import Run, RunEvent
from core.signals import live_events, pubsub

logger = logging.getLogger(__name__)

POLL_CONNECTED_SECONDS = 5.0
POLL_AWAY_SECONDS = 0.5
# A gap that neither the log nor the broker fills is filled by the next checkpoint.
GAP_SECONDS = 0.2
CHECKPOINT_SECONDS = 1.5
RETRY_SECONDS = 0.2
STOP_SECONDS = 5.0
PAGE = 2000
# So many numbers are given ahead of the log: the next attempt begins above them.
AHEAD = 10_000
# Executed for every commit; the ORM took 0.9 ms of CPU to build them each time.
ADD = FencedInsert(
    RunEvent,
    "run_id",
    lambda: (
        Run.objects.filter(Among("id", "ids"), state=Run.State.RUNNING)
        .order_by("id")
        .values_list("id", "attempt")
    ),
)
AFTER = Values(
    lambda: (
        RunEvent.objects.filter(run_id=Param("run"), seq__gt=Param("seq"))
        .order_by("seq")
        .values_list("seq", "data")[:PAGE]
    )
)
GROWING = ("text", "thinking")

# Ends a run inside the writer's transaction; gets the number of the run's last event.
Finish = Callable[[int], None]
Numbered = tuple[int, MessageDict]


class LostLeaseError(Exception):
    """Another worker owns the run now; further events of this one are refused."""


@dataclass(eq=False, slots=True)
class Log:
    """The write end of one run's log, held by the worker that claimed ``attempt``.

    ``seq``: the number of the last event. ``stored``, ``published``: of the last one that is.
    """

    run_id: int
    public_id: str
    session: str
    user_id: int
    attempt: int
    seq: int
    stored: int = field(init=False)
    published: int = field(init=False)
    rows: list[Numbered] = field(default_factory=list)
    unpublished: list[Numbered] = field(default_factory=list)
    finish: Finish | None = None
    done: "Future[None]" = field(default_factory=Future)
    lost: bool = False
    closed: bool = False

    def __post_init__(self) -> None:
        """Continue a log that is stored and published."""
        self.stored = self.published = self.seq

    def append(self, message: Message) -> MessageDict:
        """Number ``message``; publish it, or commit it first; return the event as it is stored.

        Raises LostLeaseError when another worker owns the run or the log was closed.
        """
        if self.lost or self.closed:
            raise LostLeaseError
        event = storable(to_dict(message))
        writer().add(self, event)
        return event

    def hold(self) -> None:
        """Keep pending events until :meth:`close`, which follows soon: one commit for both."""
        writer().hold(self)

    def close(self, finish: Finish, last: list[Message]) -> "Future[None]":
        """Commit ``last`` and run ``finish`` in one transaction, after all earlier events.

        The future raises LostLeaseError when another worker took the run over, or the database's
        error.
        """
        self.done.set_running_or_notify_cancel()  # from now on it cannot be cancelled
        writer().close(self, finish, [storable(to_dict(message)) for message in last])
        return self.done

    def number(self, event: MessageDict) -> None:
        """Give ``event`` the next number."""
        self.seq += 1
        join_last(self.rows, (self.seq, event))
        self.unpublished.append((self.seq, event))

    def publish(self) -> None:
        """Publish what may be: stored events, and live ones that follow them."""
        most = self.stored + AHEAD
        count = 0
        for number, event in self.unpublished:
            if number > self.stored and not (is_live(event) and number <= most):
                break
            count += 1
        ready, self.unpublished = self.unpublished[:count], self.unpublished[count:]
        if ready:
            publish(self, [event for _, event in ready])


Entry = tuple[Log, list[Numbered], Finish | None]
Batch = list[Entry]


class Writer:
    """The one thread of this process that writes event logs."""

    def __init__(self) -> None:
        # When the pending events of a log are due, on the monotonic clock.
        self._due: dict[Log, float] = {}
        self._changed = threading.Condition()
        self._stopping = False
        self._thread = threading.Thread(target=self._work, name="event-writer", daemon=True)
        self._thread.start()

    def add(self, log: Log, event: MessageDict) -> None:
        """Number ``event`` of ``log``; publish it if it is live and nothing before it waits."""
        with self._changed:
            if log.closed:
                raise LostLeaseError
            waits = bool(log.unpublished)
            log.number(event)
            if not waits:
                log.publish()
            if not log.unpublished:
                self._mark(log, seconds=CHECKPOINT_SECONDS)
            elif waits or not closes(event):
                self._mark(log, seconds=0)
            else:  # the next event comes soon: one commit for both
                self._mark(log, seconds=settings.EVENT_FRAME_MILLISECONDS / 1000)

    def hold(self, log: Log) -> None:
        """Leave ``log`` alone until it is closed."""
        with self._changed:
            self._due.pop(log, None)

    def close(self, log: Log, finish: Finish, last: list[MessageDict]) -> None:
        """Queue the last events of ``log`` and what ends its run."""
        with self._changed:
            log.closed = True
            for event in last:
                log.number(event)
            log.finish = finish
            self._mark(log, seconds=0)

    def stop(self) -> None:
        """Write pending events and end the thread, within STOP_SECONDS."""
        with self._changed:
            self._stopping = True
            self._changed.notify()
        self._thread.join(STOP_SECONDS)

    def _mark(self, log: Log, *, seconds: float) -> None:
        due = time.monotonic() + seconds
        if due < self._due.get(log, due + 1):
            self._due[log] = due
            # The thread sleeps until the first log is due: waking it for each token costs more.
            if seconds < CHECKPOINT_SECONDS or len(self._due) == 1:
                self._changed.notify()

    def _work(self) -> None:
        while (batch := self._take()) is not None:
            try:
                self._commit(batch)
            except Exception:
                logger.exception("the event writer failed")
        connection.close()

    def _take(self) -> Batch | None:
        """Return the events that are due, and those that soon will be; None at the end."""
        with self._changed:
            while not self._stopping:
                seconds = min(self._due.values(), default=math.inf) - time.monotonic()
                if seconds <= 0:
                    break
                self._changed.wait(min(seconds, threading.TIMEOUT_MAX))
            if not self._due:
                return None
            soon = math.inf if self._stopping else time.monotonic() + CHECKPOINT_SECONDS / 2
            batch = []
            for log in [each for each, due in self._due.items() if due <= soon]:
                del self._due[log]
                batch.append((log, log.rows, log.finish))
                log.rows, log.finish = [], None
            return batch

    def _commit(self, batch: Batch) -> None:
        """Write ``batch``, and publish what waited for it."""
        try:
            write_patiently(batch, give_up=lambda: self._stopping)
        except AWAY as error:
            logger.exception("the database stays away; these runs are left to the next attempt")
            for entry in batch:
                abandon(entry, error)
            return
        except Exception as error:
            logger.exception("events could not be committed")
            if len(batch) > 1:  # a run that cannot be stored must not cost the others their events
                for entry in batch:
                    self._commit([entry])
            else:
                abandon(batch[0], error)
            return
        for log, rows, finish in batch:
            if rows and not log.lost:
                self._stored(log, rows[-1][0])
            if finish:
                resolve(log, LostLeaseError() if log.lost else None)

    def _stored(self, log: Log, last: int) -> None:
        """Publish what waited for event ``last`` to be committed."""
        with self._changed:
            log.stored = last
            log.publish()
            if log in self._due and not (log.unpublished or log.closed):
                self._due[log] = time.monotonic() + CHECKPOINT_SECONDS


def write_patiently(batch: Batch, *, give_up: Callable[[], bool]) -> None:
    """Call :func:`write_batch`, and retry while the database is away, for the length of a lease."""
    deadline = time.monotonic() + settings.RUN_LEASE_SECONDS
    while True:
        try:
            write_batch(batch)
            return
        except AWAY:
            connection.close_if_unusable_or_obsolete()
            if time.monotonic() > deadline or give_up():
                raise
            logger.warning("events wait for the database")
            time.sleep(RETRY_SECONDS)


def abandon(entry: Entry, error: Exception) -> None:
    """Give up a run whose events could not be written; its lease expires and it is retried."""
    log, _, finish = entry
    log.lost = True
    if finish:
        resolve(log, error)


def resolve(log: Log, error: Exception | None) -> None:
    """Resolve the future of ``log``'s end, unless its owner cancelled it."""
    with suppress(InvalidStateError):
        if error is None:
            log.done.set_result(None)
        else:
            log.done.set_exception(error)


def write_batch(batch: Batch) -> None:
    """Insert the events of ``batch`` and end the runs that ask for it, in one transaction.

    Logs that lost their lease are marked ``lost`` and left out.
    """
    in_one_statement = connection.vendor != "sqlite" and not any(entry[2] for entry in batch)
    with nullcontext() if in_one_statement else transactions.atomic_write():
        owned = ADD([log.run_id for log, _, _ in batch], list(rows_in(batch)))
        for log, _, _ in batch:
            log.lost = log.lost or owned.get(log.run_id) != log.attempt
        with budgets.settling():
            for log, rows, finish in batch:
                if finish and not log.lost:
                    finish(rows[-1][0] if rows else log.stored)


def rows_in(batch: Batch) -> Iterator[tuple[int, tuple[int, int, str]]]:
    """Return the rows of ``batch``, each with the attempt that its run must have."""
    for log, rows, _ in batch:
        if not log.lost:
            for number, event in rows:
                yield log.attempt, (log.run_id, number, encode(event))


def append_unheld(*, run: Run, seq: int, messages: list[Message]) -> int:
    """Add ``messages`` to the log of a run that no worker writes to; return its last ``seq``.

    Call it inside the transaction that claims or ends the run, after the run's row was changed:
    that lock keeps other writers out.
    """
    append_all_unheld([(run, seq, messages)])
    return seq + len(messages)


def append_all_unheld(entries: list[tuple[Run, int, list[Message]]]) -> None:
    """Add messages to the logs of several runs (each: its last ``seq``, its new messages)."""
    rows: list[tuple[int, int, str]] = []
    for run, seq, messages in entries:
        events = [storable(to_dict(message)) for message in messages]
        rows += [(run.id, number, encode(event)) for number, event in enumerate(events, seq + 1)]
        transaction.on_commit(partial(publish, log_of(run=run, seq=seq), events))
    insert_rows(RunEvent, rows)


def log_of(*, run: Run, seq: int) -> Log:
    """Return the write end of the log of ``run``, which continues after ``seq``."""
    return Log(
        run_id=run.id,
        public_id=run.public_id,
        session=run.session.public_id,
        user_id=run.user_id,
        attempt=run.attempt,
        seq=seq,
    )


def publish(log: Log, events: list[MessageDict]) -> None:
    """Send the next ``events`` of ``log`` to their readers."""
    frame: live_events.EventFrame = {
        "kind": "events",
        "run": log.public_id,
        "session": log.session,
        "first": log.published + 1,
        "events": events,
        "ends": ends(events[-1]),
    }
    log.published += len(events)
    live_events.sender().put(frame, user_id=log.user_id)


@cache
def writer() -> Writer:
    """Return the writer of this process, made on first use."""
    return Writer()


def close_writer() -> None:
    """Write and publish pending events: at the stop of a process, and between tests."""
    if writer.cache_info().currsize:
        writer().stop()
        writer.cache_clear()
    live_events.close_sender()


def is_live(event: MessageDict) -> bool:
    """Return whether ``event`` may be shown before it is stored: a text begins or grows."""
    if event["type"] in GROWING:
        return appends(event)
    return event["type"] == "event" and event["props"].get("event") == "message_start"


def closes(event: MessageDict) -> bool:
    """Return whether ``event`` ends a message."""
    return event["type"] == "event" and event["props"].get("event") == "message_end"


def ends(event: MessageDict) -> bool:
    """Return whether ``event`` ends its run: ``stream_end``, exactly once a run ([M2])."""
    return event["type"] == "event" and event["props"].get("event") == "stream_end"


def after(*, run_id: int, seq: int) -> list[Numbered]:
    """Return the stored events of a run with a higher number, in order; the first PAGE of them.

    The first may hold events up to ``seq``, too: see :func:`missing`.
    """
    return [(row[0], orjson.loads(row[1])) for row in AFTER(run=run_id, seq=seq)]


def whole_log(run_id: int) -> list[Numbered]:
    """Return all stored events of a run."""
    found: list[Numbered] = []
    while more := after(run_id=run_id, seq=found[-1][0] if found else 0):
        found += more
        if len(more) < PAGE:
            break
    return found


def missing(*, run_id: int, public_id: str, seq: int) -> list[Numbered]:
    """Return what a reader that has the events up to ``seq`` lacks, as far as it is known.

    From the log, then from the live stream. Where the reader has part of a joined event and the
    live stream is gone, the message's text so far replaces what it has. Empty while more is to
    come.
    """
    found = after(run_id=run_id, seq=seq)
    if found and appends(found[0][1]) and not is_stored(run_id, seq):
        if rest := live_events.after(run=public_id, seq=seq):
            return rest
        found[0] = replacement(run_id, found[0])
    if len(found) < PAGE and not (found and ends(found[-1][1])):
        found += live_events.after(run=public_id, seq=found[-1][0] if found else seq)
    return found


def is_stored(run_id: int, seq: int) -> bool:
    """Return whether a row of the log ends with this number."""
    return seq == 0 or RunEvent.objects.filter(run_id=run_id, seq=seq).exists()


def replacement(run_id: int, pair: Numbered) -> Numbered:
    """Return an event that sets the text that ``pair`` appends to, as it is after it."""
    number, event = pair
    log = [each for at, each in whole_log(run_id) if at <= number]
    text = next(each for each in fold(log) if each.get("message_id") == event.get("message_id"))
    content = text["props"].get("content", "")
    return number, {
        **event,
        "props": {"content": content},
        "delta_path": "content",
        "delta_action": "set",
    }


async def follow(
    *,
    run_id: int,
    public_id: str,
    seq: int,
    idle_seconds: float | None = None,
) -> AsyncGenerator[Numbered | None, None]:
    """Yield the events of a run after ``seq``, live, until its ``stream_end``; in order, each once.

    Events come as frames over the broker. The log is read at the start, after a gap between frames,
    after frames that were lost (``take_lag``), and when none has come for a while: so it works
    without Redis, too. Neighbouring appends may be joined. Yields None when no event came for
    ``idle_seconds``. A run that was deleted with its conversation ends as cancelled.
    """
    with pubsub.local().listen([live_events.key_of(public_id)]) as listener:
        await pubsub.local().confirmed(listener)
        frames: list[pubsub.Frame] | None = None  # of the last wait; [] when none came in time
        events: list[Numbered] | None = None  # to yield next; None: they are in the log
        quiet_since = time.monotonic()
        while True:
            is_read = listener.take_lag() or events is None
            if is_read:
                events = await transactions.patiently(
                    partial(missing, run_id=run_id, public_id=public_id, seq=seq)
                )
            events = events or []
            is_stuck = is_read and not events  # the log has no more than the frames
            if is_stuck and frames == [] and await transactions.patiently(partial(is_gone, run_id)):
                yield seq + 1, to_dict(stream_end(status="cancelled"))
                return
            for number, event in events:
                yield number, event
                seq, quiet_since = number, time.monotonic()
                if ends(event):
                    return
            if is_read and len(events) >= PAGE:  # there may be more
                events = None
                continue
            if idle_seconds is not None and time.monotonic() - quiet_since >= idle_seconds:
                yield None
                quiet_since = time.monotonic()
            poll = POLL_CONNECTED_SECONDS if pubsub.local().connected else POLL_AWAY_SECONDS
            frames = await listener.wait(seconds=min(poll, idle_seconds or poll))
            events = next_events(frames, seq=seq) if frames else None
            if is_stuck and frames and events is None:  # a gap that the log does not fill yet
                await asyncio.sleep(GAP_SECONDS)


def is_gone(run_id: int) -> bool:
    """Return whether a run was deleted. May block on the database."""
    return not Run.objects.filter(pk=run_id).exists()


def next_events(frames: list[pubsub.Frame], *, seq: int) -> list[Numbered] | None:
    """Return the events after ``seq``, appends joined; None when some are missing."""
    found: list[Numbered] = []
    for frame in frames:
        if frame["first"] > seq + 1:
            return None
        for number, event in enumerate(frame["events"], frame["first"]):
            if number > seq:
                join_last(found, (number, event))
                seq = number
    return found
