"""The places of one ``runs`` worker: how many runs it has at once.

    free ── take ──► taken ── give_back ──► free
    behind its input (``is_slow``): no place is free, until it has caught up

A place costs memory, not a thread: nearly all of a run is waiting for the model. A worker whose
event loop is late has as many runs as its processor can serve; further ones wait in the database,
where another worker finds them, and where places are shared by person.
"""

import asyncio
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

LOOK_SECONDS = 0.25
# The loop is so late, twice, when it wakes from LOOK_SECONDS of sleep.
SLOW_SECONDS, CAUGHT_UP_SECONDS = 0.3, 0.1
# The weight of one more run in the mean of their durations.
WEIGHT = 0.05


class Places:
    """Counts the places of an event loop. ``on_free`` is called when some become free.

    ``others_wait``: runs may wait in the database that no wake-up will name again; ``on_free``
    looks for them. ``seconds``: how long a run has kept its place lately, 0 without any.
    """

    def __init__(self, limit: int, *, on_free: Callable[[], None]) -> None:
        self.limit, self.taken = limit, 0
        self.is_slow = self.others_wait = False
        self.seconds = self._late = 0.0
        self._on_free = on_free
        self._changed = asyncio.Event()

    @property
    def free(self) -> int:
        """Return how many more runs may begin now. A worker without any may always begin one."""
        if self.is_slow:
            return 0 if self.taken else 1
        return max(self.limit - self.taken, 0)

    @property
    def usable(self) -> int:
        """Return how many runs this worker has at once, as fast as it is now."""
        return max(self.taken, 1) if self.is_slow else self.limit

    def take(self, number: int = 1) -> None:
        """Take places; the caller has looked that they are free."""
        self.taken += number
        self._changed.set()

    def give_back(self, number: int = 1) -> None:
        self.taken -= number
        self.announce()

    @contextmanager
    def reserved(self) -> Iterator[int]:
        """Hold all free places while the block claims runs for them; return how many."""
        number = self.free
        self.taken += number
        try:
            yield number
        finally:
            self.taken -= number

    def note(self, seconds: float) -> None:
        """Count the duration of a run."""
        self.seconds += (seconds - self.seconds) * (WEIGHT if self.seconds else 1.0)

    def announce(self) -> None:
        """Say that places may be free."""
        self._changed.set()
        if self.free:
            self._on_free()

    async def wait(self, *, taken: bool) -> None:
        """Wait until a place is taken; or until one is free and no run waits in the database."""
        while not (self.taken if taken else self.free and not self.others_wait):
            self._changed.clear()
            await self._changed.wait()

    async def measure(self) -> float:
        """Look once how late the event loop is, while runs are held; return 0 s, for a chore."""
        await self.wait(taken=True)
        began = time.monotonic()
        await asyncio.sleep(LOOK_SECONDS)
        self.judge(time.monotonic() - began - LOOK_SECONDS)
        return 0.0

    def judge(self, late: float) -> None:
        """Take note that the event loop was ``late`` by so many seconds; once is no overload."""
        was_slow, before, self._late = self.is_slow, self._late, late
        self.is_slow = late > CAUGHT_UP_SECONDS if was_slow else min(before, late) > SLOW_SECONDS
        if was_slow and not self.is_slow:
            self.announce()
