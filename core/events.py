"""The event log of a run: append, read after a ``seq``, follow live.

Events are protocol messages (``core.messages``) as dicts. One writer thread a process commits what
all its runs brought together, at most once a frame (``EVENT_FRAME_MILLISECONDS``, the first at
once), and then publishes it in one hub message. Neighbouring appends to the same text become one
event. The fence: nothing is written for a run whose ``attempt`` is not the one in the database.
"""

import logging
import threading
import time
from collections.abc import AsyncIterator, Callable
from concurrent.futures import Future
from dataclasses import dataclass, field
from functools import cache

import orjson
from django.conf import settings
from django.db import DatabaseError, connection

from core import db, hub
from core.messages import Message, MessageDict, to_dict
from core.models import Run, RunEvent
from core.text import clean

logger = logging.getLogger(__name__)

POLL_CONNECTED_SECONDS = 5.0
POLL_AWAY_SECONDS = 0.5
COMMIT_TRIES = 5
MERGED_CHARACTERS = 16_000


# Ends a run inside the writer's transaction; gets the number of the run's last event.
Finish = Callable[[int], None]


class LostLeaseError(Exception):
    """Another worker owns the run now: what this one still wants to write is refused."""


@dataclass(eq=False, slots=True)
class Log:
    """The writing end of one run's log, held by the worker that claimed ``attempt``."""

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
    fresh: bool = True

    def append(self, message: Message) -> None:
        """Add ``message``; committed within a frame. Raises LostLeaseError when no longer ours."""
        if self.lost:
            raise LostLeaseError
        writer().add(self, storable(to_dict(message)))

    def close(self, finish: Finish, last: list[Message]) -> "Future[None]":
        """Commit ``last`` and run ``finish`` in the same transaction, once everything is written.

        The future raises LostLeaseError when another worker took the run over, or the database's
        error.
        """
        self.done.set_running_or_notify_cancel()  # from now on nobody can cancel it
        writer().close(self, finish, [storable(to_dict(message)) for message in last])
        return self.done


def storable(event: MessageDict) -> MessageDict:
    """``event`` with texts that every database can hold."""
    props = event["props"]
    if any(isinstance(value, str) and not value.isascii() for value in props.values()):
        event["props"] = {
            key: clean(value) if isinstance(value, str) else value for key, value in props.items()
        }
    return event


def joined(previous: MessageDict, event: MessageDict) -> bool:
    """Add ``event`` to ``previous`` when both append to the same text; whether it was so."""
    if (
        event.get("delta_action") != "append"
        or event.get("type_change")
        or previous.get("delta_action") != "append"
        or event.get("message_id") != previous.get("message_id")
        or event.get("delta_path") != previous.get("delta_path")
        or event["type"] != previous["type"]
    ):
        return False
    before, more = previous["props"].get("content"), event["props"].get("content")
    if not (isinstance(before, str) and isinstance(more, str)) or len(before) > MERGED_CHARACTERS:
        return False
    previous["props"] = {"content": before + more}
    return True


Batch = list[tuple[Log, list[MessageDict], Finish | None]]


class Writer:
    """The one thread of this process that writes event logs."""

    def __init__(self) -> None:
        """Start the thread."""
        self._dirty: dict[Log, None] = {}
        self._changed = threading.Condition()
        self._urgent = False
        self._last_commit = 0.0
        threading.Thread(target=self._work, name="event-writer", daemon=True).start()

    def add(self, log: Log, event: MessageDict) -> None:
        """Queue ``event`` of ``log``; the first of a run is committed at once."""
        with self._changed:
            if not (log.waiting and joined(log.waiting[-1], event)):
                log.waiting.append(event)
            self._mark(log, urgent=log.fresh)

    def close(self, log: Log, finish: Finish, last: list[MessageDict]) -> None:
        """Queue the last events of ``log`` and what ends its run."""
        with self._changed:
            log.waiting.extend(last)
            log.finish = finish
            self._mark(log, urgent=True)

    def hurry(self, log: Log) -> None:
        """Commit what waits for ``log`` without waiting for the frame."""
        with self._changed:
            self._mark(log, urgent=True)

    def _mark(self, log: Log, *, urgent: bool) -> None:
        self._dirty[log] = None
        self._urgent = self._urgent or urgent
        self._changed.notify()

    def _work(self) -> None:
        while True:
            batch = self._take()
            try:
                self._commit(batch)
            except Exception as error:
                logger.exception("events could not be committed")
                for log, _, finish in batch:
                    log.lost = True
                    if finish:
                        log.done.set_exception(error)
            self._last_commit = time.monotonic()

    def _take(self) -> Batch:
        frame = settings.EVENT_FRAME_MILLISECONDS / 1000
        with self._changed:
            while not self._dirty:
                self._changed.wait()
            due = self._last_commit + frame
            while not self._urgent and (left := due - time.monotonic()) > 0:
                self._changed.wait(left)
            batch = []
            for log in self._dirty:
                batch.append((log, log.waiting, log.finish))
                log.waiting, log.finish, log.fresh = [], None, False
            self._dirty, self._urgent = {}, False
            return batch

    def _commit(self, batch: Batch) -> None:
        for tries in range(1, COMMIT_TRIES + 1):
            try:
                frames = write_batch(batch)
                break
            except DatabaseError:
                connection.close_if_unusable_or_obsolete()
                if tries == COMMIT_TRIES:
                    raise
                time.sleep(0.1 * 2**tries)
        hub.publish(frames)
        for log, events, finish in batch:
            log.seq += 0 if log.lost else len(events)
            if finish and log.lost:
                log.done.set_exception(LostLeaseError())
            elif finish:
                log.done.set_result(None)


def write_batch(
    batch: Batch,
) -> list[hub.Frame]:
    """Insert the events of ``batch`` and end the runs that ask for it, in one transaction.

    Logs whose run is no longer theirs are marked ``lost`` and left out. Returns the hub frames.
    """
    frames: list[hub.Frame] = []
    rows: list[RunEvent] = []
    with db.write():
        owned = own(batch)
        for log, events, _ in batch:
            log.lost = owned.get(log.run_id) != log.attempt
            if log.lost:
                continue
            for number, event in enumerate(events, log.seq + 1):
                rows.append(RunEvent(run_id=log.run_id, seq=number, data=encode(event)))
            if events:
                frames.append(frame_of(log, events))
        RunEvent.objects.bulk_create(rows)
        for log, events, finish in batch:
            if finish and not log.lost:
                finish(log.seq + len(events))
    return frames


def own(batch: Batch) -> dict[int, int]:
    """The attempts in the database of the running runs of ``batch``, their rows locked."""
    runs = Run.objects.filter(id__in=[log.run_id for log, _, _ in batch], state=Run.State.RUNNING)
    if connection.features.has_select_for_update:
        runs = runs.order_by("id").select_for_update(no_key=True)
    return dict(runs.values_list("id", "attempt"))


def frame_of(log: Log, events: list[MessageDict]) -> hub.Frame:
    """The hub frame of ``events``, for listeners of the run and of its user."""
    return {
        "keys": [f"run:{log.public_id}", f"user:{log.user_id}"],
        "kind": "events",
        "run": log.public_id,
        "session": log.session,
        "first": log.seq + 1,
        "events": events,
    }


def encode(event: MessageDict) -> str:
    """``event`` as the JSON text of its row."""
    return orjson.dumps(event).decode()


@cache
def writer() -> Writer:
    """The writer of this process."""
    return Writer()


def after(*, run_id: int, seq: int, limit: int = 5000) -> list[tuple[int, MessageDict]]:
    """The events of a run with a higher ``seq``, in order."""
    rows = RunEvent.objects.filter(run_id=run_id, seq__gt=seq).order_by("seq")[:limit]
    return [(row[0], orjson.loads(row[1])) for row in rows.values_list("seq", "data")]


def ends(event: MessageDict) -> bool:
    """Whether ``event`` is the last of its run: ``stream_end``, exactly once a run ([M2])."""
    return event["type"] == "event" and event["props"].get("event") == "stream_end"


async def follow(
    *, run_id: int, public_id: str, seq: int, beat: float | None = None
) -> AsyncIterator[tuple[int, MessageDict] | None]:
    """The events of a run after ``seq``, live, until its ``stream_end``; no gap, nothing twice.

    ``beat``: yield None when nothing came for that many seconds. Works without Redis, by polling.
    """
    with hub.local().listen([f"run:{public_id}"]) as listener:
        frames: list[hub.Frame] = []
        stale, quiet_since = True, time.monotonic()
        while True:
            found: list[tuple[int, MessageDict]] = []
            for frame in frames:
                if frame["kind"] != "events":
                    continue
                numbered = list(enumerate(frame["events"], frame["first"]))
                if frame["first"] > seq + len(found) + 1:
                    stale = True
                    break
                found += [pair for pair in numbered if pair[0] > seq + len(found)]
            if stale or listener.take_lag():
                found = await db.in_thread(after, run_id=run_id, seq=seq)
            for number, event in found:
                yield number, event
                seq, quiet_since = number, time.monotonic()
                if ends(event):
                    return
            if beat is not None and time.monotonic() - quiet_since >= beat:
                yield None
                quiet_since = time.monotonic()
            poll = POLL_CONNECTED_SECONDS if hub.local().connected else POLL_AWAY_SECONDS
            frames = await listener.wait(seconds=min(poll, beat or poll))
            stale = not frames
