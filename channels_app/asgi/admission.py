"""Admission: a message beyond capacity is refused early, by person first.

    authenticated ─► check(person) ─► stored ─► answered
                          └ the wait for a place would be too long, or this process is late
                                ▼
                          BusyError: the place in the queue, and when to try again

The wait is the place in the queue that the message would have (``core.conversations.shares``), by
the runs a second that the workers' heartbeats allow. The database is asked for both in the
background, at most every LOOK_SECONDS, and only while there is something to tell; messages that
this process has accepted since then count as waiting. A message of a platform is never refused: the
platform would repeat it; it is stored, and answered when its turn comes.
"""

import asyncio
import logging
import math
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager

from django.conf import settings
from django.db import Error as DatabaseFailure
from django.utils.text import format_lazy
from django.utils.translation import gettext_lazy

from channels_app.asgi.http import RefusedError
from channels_app.asgi.principal import Principal
from core.conversations import runs
from core.conversations.shares import rank_of
from core.database.batching import in_shared_call, in_shared_transaction
from core.database.transactions import in_thread
from core.lib.log_ids import IDS

logger = logging.getLogger(__name__)

LOOK_SECONDS = 0.5
# An older look says nothing about people who wait. Its places are known for longer.
VALID_SECONDS, KNOWN_SECONDS = 3.0, 30.0
# Accepted since the last look, while nothing waited: fewer, or fewer than a quarter of the places
# that were free, are not worth a look.
FEW = 8
# So many may wait however slow the model is.
ALWAYS_WAITING = 10
PROBE_SECONDS = 0.1
# A message after so long alone makes no process late.
SINGLE_SECONDS = 1.0
# A process that is so late: each person may have one message in PAUSE times that; none is accepted.
LATE_SECONDS, TOO_LATE_SECONDS, PAUSE = 1.0, 2.5, 4.0
# A measurement may take so long before its end is not awaited.
GRACE_SECONDS = 1.0
MOST_REMEMBERED = 10_000
# Their keys are looked up in one thread: about half a second's work.
MOST_UNKNOWN = 256
MOST_RETRY_SECONDS = 60


class BusyError(RefusedError):
    """The gateway has more work than it can do soon. ``place``: in the queue, from 1."""

    def __init__(self, *, place: int, seconds: float) -> None:
        """Take the place, and the seconds after which to try again."""
        wait = max(math.ceil(min(seconds, MOST_RETRY_SECONDS)), 1)
        said = gettext_lazy(
            "Busy: this would be number {place} in the queue. Try again in {seconds} s."
        )
        text = format_lazy(said, place=place, seconds=wait)
        super().__init__(503, text, headers={"Retry-After": str(wait)})
        self.details = {"code": "busy", "place": place, "retry_after": wait}


class Lateness:
    """How late this process is, in seconds: how long work waits for its event loop and its database
    threads.

    Measured only while messages come. Of the last two measurements the better one counts: one long
    task is no overload.
    """

    def __init__(self) -> None:
        self._last = self._previous = 0.0
        self._began = self._noted_at = float("-inf")
        self._probing: asyncio.Task[None] | None = None

    @property
    def seconds(self) -> float:
        """Return how late the process is, also by a running measurement; old ones do not count."""
        known = min(self._last, self._previous)
        if self._is_probing:
            return max(known, time.monotonic() - self._began - PROBE_SECONDS - GRACE_SECONDS)
        return 0.0 if self._is_old else known

    @property
    def _is_old(self) -> bool:
        return time.monotonic() - self._noted_at > VALID_SECONDS

    @property
    def _is_probing(self) -> bool:
        return self._probing is not None and not self._probing.done()

    def probe(self) -> None:
        """Begin a measurement unless one runs. On the event loop."""
        if self._is_probing:
            return
        if self._is_old:
            self._last = self._previous = 0.0
        self._began = time.monotonic()
        self._probing = asyncio.ensure_future(self._measure())

    async def _measure(self) -> None:
        IDS.set(None)  # it serves all requests
        await asyncio.sleep(PROBE_SECONDS)
        # Behind all that waits: to be authenticated or stored, and what endpoints do besides.
        # A database that fails made them wait, too.
        await asyncio.gather(
            in_shared_call(nothing_found, None),
            in_shared_transaction(nothing),
            in_thread(nothing),
            return_exceptions=True,
        )
        self.note(time.monotonic() - self._began - PROBE_SECONDS)

    def note(self, late: float) -> None:
        """Count a measurement."""
        self._last, self._previous = late, self._last
        self._noted_at = time.monotonic()


def nothing() -> None:
    """Do nothing: the way there is measured."""


def nothing_found(items: list[None]) -> list[None]:
    """Look nothing up, as :func:`nothing`."""
    return items


class Admission:
    """The load of the gateway as this process knows it, and the decision about one message."""

    def __init__(self) -> None:
        self._lock = threading.Lock()  # around what database threads count, too
        self.clear_cache()

    def clear_cache(self) -> None:
        """Know nothing: accept, and look soon."""
        self.late = Lateness()
        self.load: runs.Load | None = None
        self._looked_at = float("-inf")
        self._looking: asyncio.Task[None] | None = None
        self._recent: Counter[int] = Counter()
        self._accepted: dict[int, float] = {}
        self._watched_at = float("-inf")

    def check(self, person: int) -> None:
        """Count a message of a person. On the event loop. Raises BusyError."""
        self.watch()
        self.decide(person)

    def watch(self) -> None:
        """Look how much work there is, in the background, if that is due. On the event loop."""
        now = time.monotonic()
        if now - self._watched_at < SINGLE_SECONDS:
            self.late.probe()
        self._watched_at = now
        age = now - self._looked_at
        if age > LOOK_SECONDS and self._is_worth_a_look and not self._is_looking:
            self._looking = asyncio.ensure_future(self.look())

    def decide(self, person: int) -> None:
        """Count a message of a person, after :meth:`watch`. In any thread. Raises BusyError."""
        with self._lock:
            self._decide(person)

    def _decide(self, person: int) -> None:
        rank, now = self.rank(person), time.monotonic()
        wait = self._seconds(rank)
        if rank > ALWAYS_WAITING and wait > settings.MAX_QUEUE_SECONDS:
            raise BusyError(place=rank, seconds=wait - settings.MAX_QUEUE_SECONDS)
        self.refuse_if_late(since=now - self._accepted.get(person, float("-inf")))
        self._recent[person] += 1
        self._accepted.pop(person, None)
        self._accepted[person] = now
        if len(self._accepted) > MOST_REMEMBERED:
            del self._accepted[next(iter(self._accepted))]

    def refuse_if_late(self, *, since: float = math.inf) -> None:
        """Raise BusyError if this process is too slow for all, or slow for a person whose last
        message was accepted ``since`` seconds ago.
        """
        late = self.late.seconds
        if late > TOO_LATE_SECONDS or (late > LATE_SECONDS and since < PAUSE * late):
            raise BusyError(place=max(self._recent.total(), 1), seconds=2 * late)

    def rank(self, person: int) -> int:
        """Return the place of ``person``'s next message in the queue; 0 for none or unknown."""
        load = self.load
        if load is None:
            return 0
        is_valid = time.monotonic() - self._looked_at <= VALID_SECONDS
        held = load.held if is_valid else {}
        waiting = self._recent + Counter(load.waiting if is_valid else {})
        return max(rank_of(person, waiting, held) - max(load.places - sum(held.values()), 0), 0)

    def _seconds(self, place: int) -> float:
        """Return how long the message at a place in the queue waits, in seconds.

        Without any live worker it is not known: messages wait until their number is full.
        """
        pace = self.load.pace if self.load is not None else 0.0
        if pace:
            return place / pace
        return math.inf if place >= runs.MOST_WAITING else 0.0

    @property
    def _is_looking(self) -> bool:
        return self._looking is not None and not self._looking.done()

    @property
    def _is_worth_a_look(self) -> bool:
        load = self.load
        is_full = load is not None and (load.waiting or sum(load.held.values()) >= load.places > 0)
        is_old = time.monotonic() - self._looked_at > KNOWN_SECONDS
        free = load.places - sum(load.held.values()) if load is not None else 0
        return bool(is_full) or is_old or self._recent.total() >= max(FEW, free // 4)

    async def look(self) -> None:
        """Ask the database; without an answer the load is unknown."""
        with self._lock:
            before = Counter(self._recent)
        try:
            self.load = await in_thread(runs.load)
        except DatabaseFailure:
            logger.warning("the load could not be read; messages are accepted")
            self.load = None
        with self._lock:
            self._recent -= before  # they are in the database, or were never stored
        self._looked_at = time.monotonic()


admission = Admission()


class Entrance:
    """The requests of this process that wait to be authenticated, at most MOST_UNKNOWN."""

    def __init__(self) -> None:
        self.number = 0

    @contextmanager
    def one(self) -> Iterator[None]:
        """Count one while the block runs. Raises BusyError when there are too many."""
        if self.number >= MOST_UNKNOWN:
            raise BusyError(place=self.number, seconds=LATE_SECONDS)
        self.number += 1
        try:
            yield
        finally:
            self.number -= 1


entrance = Entrance()


def admit_head() -> None:
    """Refuse a request whose person is not known yet, while this process is too late for any.

    On the event loop. While all are refused, their heads are all that can have it measured again.
    """
    try:
        admission.refuse_if_late()
    except BusyError:
        admission.late.probe()
        raise


def admit_message(caller: Principal) -> None:
    """Count a message of a request or a socket. On the event loop. Raises BusyError.

    A bridge's sender is counted when the allowlist has told which person it is.
    """
    if caller.user is not None:
        admission.check(caller.user.pk)
    else:
        admission.watch()
