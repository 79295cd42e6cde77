"""The event log of a run: append, read after a ``seq``, follow live.

Events are protocol messages (``core.messages``) as dicts. One writer thread per process commits the
events of all its runs at most once a frame (``EVENT_FRAME_MILLISECONDS``; the first event at once)
and then publishes them in one pub/sub message. Neighbouring appends to the same text become one
event. The fence: nothing is written for a run whose ``attempt`` is not the one in the database.

While the database is away the writer keeps pending events and retries for the length of a lease. A
log whose events were given up stays ``lost``, so that no gap is ever written.
"""

import logging
import threading
import time
from collections.abc import AsyncGenerator, Callable, Iterator
from concurrent.futures import Future, InvalidStateError
from contextlib import AbstractContextManager, nullcontext, suppress
from dataclasses import dataclass, field
from functools import cache, partial

import orjson
from django.conf import settings
from django.db import InterfaceError, OperationalError, connection, transaction

from core.conversations.event_codec import encode, joined, storable
from core.database import transactions
from core.database.queries import Among, Param, Values
from core.database.writes import FencedInsert, insert_rows
from core.messages import Message, MessageDict, to_dict
from core.models import Run, RunEvent
from core.signals import pubsub

logger = logging.getLogger(__name__)

POLL_CONNECTED_SECONDS = 5.0
POLL_AWAY_SECONDS = 0.5
RETRY_SECONDS = 0.2
STOP_SECONDS = 5.0
PAGE = 2000
MOST_EVENTS = 2**31 - 1  # of one run: `seq` is a positive integer
# Executed for every frame; the ORM took 0.9 ms of CPU to build them each time.
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
        RunEvent.objects.filter(run_id=Param("run"), seq__gt=Param("seq"), seq__lte=Param("last"))
        .order_by("seq")
        .values_list("seq", "data")
    )
)
OPENINGS = frozenset({"stream_start", "message_start"})
# The database is away, or another transaction holds its lock: the same statement may work soon.
AWAY = (OperationalError, InterfaceError)


# Ends a run inside the writer's transaction; gets the number of the run's last event.
Finish = Callable[[int], None]


class LostLeaseError(Exception):
    """Another worker owns the run now; further events of this one are refused."""


@dataclass(eq=False, slots=True)
class Log:
    """The write end of one run's log, held by the worker that claimed ``attempt``."""

    run_id: int
    public_id: str
    session: str
    user_id: int
    attempt: int
    seq: int
    waiting: list[MessageDict] = field(default_factory=list)
    finish: Finish | None = None
    done: "Future[None]" = field(default_factory=Future)
    lost: bool = False
    closed: bool = False
    fresh: bool = True

    def append(self, message: Message) -> MessageDict:
        """Queue ``message``, to be committed within a frame; return the event as it is stored.

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


Row = tuple[int, int, str]  # run, seq, data
Entry = tuple[Log, list[MessageDict], Finish | None]
Batch = list[Entry]


class Writer:
    """The one thread of this process that writes event logs."""

    def __init__(self) -> None:
        self._dirty: dict[Log, None] = {}
        self._told: list[pubsub.Frame] = []
        self._told_at = 0.0
        self._gathers = False
        self._changed = threading.Condition()
        self._urgent = False
        self._stopping = False
        self._last_commit = 0.0
        self._thread = threading.Thread(target=self._work, name="event-writer", daemon=True)
        self._thread.start()

    def add(self, log: Log, event: MessageDict) -> None:
        """Queue ``event`` of ``log``; the first one with content is committed at once.

        An event that only opens a message waits for the content: a commit of its own would delay
        the first word to the next frame.
        """
        with self._changed:
            if log.closed:
                raise LostLeaseError
            if not (log.waiting and joined(log.waiting[-1], event)):
                log.waiting.append(event)
            says = log.fresh and not opens(event)
            log.fresh = log.fresh and not says
            self._mark(log, urgent=says)

    def hold(self, log: Log) -> None:
        """Leave ``log`` alone until it is closed."""
        with self._changed:
            self._dirty.pop(log, None)

    def close(self, log: Log, finish: Finish, last: list[MessageDict]) -> None:
        """Queue the last events of ``log`` and what ends its run."""
        with self._changed:
            log.closed = True
            log.waiting.extend(last)
            log.finish = finish
            self._mark(log, urgent=True)

    def tell(self, frames: list[pubsub.Frame]) -> None:
        """Publish committed ``frames`` with the next batch, at most a frame later."""
        with self._changed:
            self._told_at = self._told_at if self._told else time.monotonic()
            self._told += frames
            self._changed.notify()

    def gather(self) -> None:
        """Hold the writer back while more events are added, until :meth:`flush`."""
        self._gathers = True

    def flush(self) -> None:
        """Commit pending events now, not at the end of their frame."""
        with self._changed:
            self._gathers = False
            if self._dirty:
                self._urgent = True
                self._changed.notify()

    def stop(self) -> None:
        """Write pending events and end the thread, within STOP_SECONDS."""
        with self._changed:
            self._stopping = self._urgent = True
            self._changed.notify()
        self._thread.join(STOP_SECONDS)

    def _mark(self, log: Log, *, urgent: bool) -> None:
        # The thread sleeps until the frame ends: waking it for every token costs more than writing.
        wake = urgent or not (self._dirty or self._gathers)
        self._dirty[log] = None
        self._urgent = self._urgent or urgent
        if wake:
            self._changed.notify()

    def _work(self) -> None:
        while (taken := self._take()) is not None:
            told, batch = taken
            try:
                pubsub.publish_events(told + self._commit(batch))
            except Exception:
                logger.exception("the event writer failed")
        connection.close()

    def _take(self) -> tuple[list[pubsub.Frame], Batch] | None:
        with self._changed:
            while not (self._dirty or self._told):
                if self._stopping:
                    return None
                self._changed.wait()
            while not self._urgent and (left := self._due() - time.monotonic()) > 0:
                self._changed.wait(left)
            batch = []
            for log in self._dirty:
                batch.append((log, log.waiting, log.finish))
                log.waiting, log.finish = [], None
            told, self._told = self._told, []
            self._dirty, self._urgent = {}, self._stopping
            return told, batch

    def _due(self) -> float:
        """Return when the frame of the pending events ends, on the monotonic clock."""
        begun = self._last_commit if self._dirty else self._told_at
        return begun + settings.EVENT_FRAME_MILLISECONDS / 1000

    def _commit(self, batch: Batch) -> list[pubsub.Frame]:
        """Write ``batch``; return the pub/sub frames of the committed events."""
        if not batch:
            return []
        try:
            frames = write_patiently(batch, give_up=lambda: self._stopping)
        except AWAY as error:
            logger.exception("the database stays away; these runs are left to the next attempt")
            for entry in batch:
                abandon(entry, error)
            return []
        except Exception as error:
            logger.exception("events could not be committed")
            if len(batch) > 1:  # a run that cannot be stored must not cost the others their events
                return [frame for entry in batch for frame in self._commit([entry])]
            abandon(batch[0], error)
            return []
        finally:
            self._last_commit = time.monotonic()
        for log, events, _ in batch:
            log.seq += 0 if log.lost else len(events)
        for log, _, finish in batch:
            if finish:
                resolve(log, LostLeaseError() if log.lost else None)
        return frames


def write_patiently(batch: Batch, *, give_up: Callable[[], bool]) -> list[pubsub.Frame]:
    """Call :func:`write_batch`, and retry while the database is away, for the length of a lease."""
    deadline = time.monotonic() + settings.RUN_LEASE_SECONDS
    while True:
        try:
            return write_batch(batch)
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


def write_batch(batch: Batch) -> list[pubsub.Frame]:
    """Insert the events of ``batch`` and end the runs that ask for it, in one transaction.

    Logs that lost their lease are marked ``lost`` and left out. Returns the pub/sub frames.
    """
    in_one_statement = connection.vendor != "sqlite" and not any(entry[2] for entry in batch)
    with nullcontext() if in_one_statement else transactions.atomic_write():
        owned = ADD([log.run_id for log, _, _ in batch], list(rows_in(batch)))
        for log, _, _ in batch:
            log.lost = log.lost or owned.get(log.run_id) != log.attempt
        for log, events, finish in batch:
            if finish and not log.lost:
                finish(log.seq + len(events))
    return [frame_of(log, events) for log, events, _ in batch if events and not log.lost]


def rows_in(batch: Batch) -> Iterator[tuple[int, Row]]:
    """Return the rows of ``batch``, each with the attempt that its run must have."""
    for log, events, _ in batch:
        if not log.lost:
            for row in rows_of(run_id=log.run_id, seq=log.seq, events=events):
                yield log.attempt, row


def rows_of(*, run_id: int, seq: int, events: list[MessageDict]) -> list[Row]:
    """Return the rows of ``events``, numbered from ``seq`` + 1."""
    return [(run_id, number, encode(event)) for number, event in enumerate(events, seq + 1)]


def append_unheld(*, run: Run, seq: int, messages: list[Message]) -> int:
    """Add ``messages`` to the log of a run that no worker writes to; return its last ``seq``.

    Call it inside the transaction that claims or ends the run, after the run's row was changed:
    that lock keeps other writers out.
    """
    append_all_unheld([(run, seq, messages)])
    return seq + len(messages)


def append_all_unheld(entries: list[tuple[Run, int, list[Message]]]) -> None:
    """Add messages to the logs of several runs (each: its last ``seq``, its new messages).

    They are published in one message, with the next commit and at most a frame later: messages of a
    queued run only announce it.
    """
    rows: list[Row] = []
    frames: list[pubsub.Frame] = []
    for run, seq, messages in entries:
        events = [storable(to_dict(message)) for message in messages]
        rows += rows_of(run_id=run.id, seq=seq, events=events)
        frames.append(frame_of(log_of(run=run, seq=seq), events))
    insert_rows(RunEvent, rows)
    if frames:
        transaction.on_commit(partial(writer().tell, frames))


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


def frame_of(log: Log, events: list[MessageDict]) -> pubsub.Frame:
    """Return the pub/sub frame of ``events``, for listeners of the run and of its user."""
    return {
        "keys": [f"run:{log.public_id}", f"user:{log.user_id}"],
        "kind": "events",
        "run": log.public_id,
        "session": log.session,
        "first": log.seq + 1,
        "events": events,
    }


@cache
def writer() -> Writer:
    """Return the writer of this process, made on first use."""
    return Writer()


def gather() -> None:
    """Hold the writer back while events of several logs are added, until :func:`flush`."""
    writer().gather()


def flush() -> None:
    """Commit pending events now, not at the end of their frame."""
    writer().flush()


def close_writer() -> None:
    """Write pending events and end the writer: at the stop of a process, and between tests."""
    if writer.cache_info().currsize:
        writer().stop()
        writer.cache_clear()


def after(*, run_id: int, seq: int, limit: int | None = None) -> list[tuple[int, MessageDict]]:
    """Return the events of a run with a higher ``seq``, in order; the first ``limit``.

    There are no gaps between the numbers of a run.
    """
    last = MOST_EVENTS if limit is None else seq + limit
    found = AFTER(run=run_id, seq=seq, last=last)
    return [(row[0], orjson.loads(row[1])) for row in found]


def opens(event: MessageDict) -> bool:
    """Return whether ``event`` only announces a message that follows."""
    return event["type"] == "event" and event["props"].get("event") in OPENINGS


def ends(event: MessageDict) -> bool:
    """Return whether ``event`` ends its run: ``stream_end``, exactly once a run ([M2])."""
    return event["type"] == "event" and event["props"].get("event") == "stream_end"


async def follow(
    *,
    run_id: int,
    public_id: str,
    seq: int,
    idle_seconds: float | None = None,
    since_before: pubsub.Listener | None = None,
) -> AsyncGenerator[tuple[int, MessageDict] | None, None]:
    """Yield the events of a run after ``seq``, live, until its ``stream_end``; no gap, no repeat.

    Yields None when no event came for ``idle_seconds``. ``since_before``: a listener that has
    received the run's frames since before the run existed, so that there is nothing to read yet.
    Works without Redis, by polling.
    """
    with since(since_before, public_id) as listener:
        found: list[tuple[int, MessageDict]] | None = None
        if since_before is not None and pubsub.local().connected:
            found = []
        quiet_since = time.monotonic()
        while True:
            more = False
            if listener.take_lag() or found is None:
                found = await transactions.in_thread(after, run_id=run_id, seq=seq, limit=PAGE)
                more = len(found) == PAGE
            for number, event in found:
                yield number, event
                seq, quiet_since = number, time.monotonic()
                if ends(event):
                    return
            found = None
            if more:
                continue
            if idle_seconds is not None and time.monotonic() - quiet_since >= idle_seconds:
                yield None
                quiet_since = time.monotonic()
            poll = POLL_CONNECTED_SECONDS if pubsub.local().connected else POLL_AWAY_SECONDS
            frames = await listener.wait(seconds=min(poll, idle_seconds or poll))
            mine = [frame for frame in frames if frame.get("run") == public_id]
            found = next_events(mine, seq=seq) if frames else None


def since(
    listener: pubsub.Listener | None, public_id: str
) -> AbstractContextManager[pubsub.Listener]:
    """Yield ``listener``, or a new one for the frames of a run."""
    if listener is not None:
        return nullcontext(listener)
    return pubsub.local().listen([f"run:{public_id}"])


def next_events(frames: list[pubsub.Frame], *, seq: int) -> list[tuple[int, MessageDict]] | None:
    """Return the events of ``frames`` after ``seq``; None when some between are missing."""
    found: list[tuple[int, MessageDict]] = []
    for frame in frames:
        if frame["kind"] != "events":
            continue
        if frame["first"] > seq + 1:
            return None
        for number, event in enumerate(frame["events"], frame["first"]):
            if number > seq:
                found.append((number, event))
                seq = number
    return found
