"""A clock shared by all streams of an event loop, so that they are read at the same moment.

A process that wakes for each token of each stream spends most of its time waking. Between two ticks
the kernel buffers what arrives (docs/decisions/146):

    read ─► pause ─► tick ─► resume ─► read …      what was read is committed right after the tick
"""

import asyncio
from collections.abc import Callable
from weakref import WeakKeyDictionary

from django.conf import settings

# Iterations of the loop from a tick until its waiters have read: the task runs, its socket is
# polled, the data is passed on, the task runs again.
ROUNDS = 4
SHORTEST_SECONDS = 0.001  # timers of event loops are no finer


class FrameClock:
    """Ticks every EVENT_FRAME_MILLISECONDS while there are waiters. One event loop."""

    def __init__(self) -> None:
        """No waiters and no callbacks yet."""
        self._loop = asyncio.get_running_loop()
        self._waiting: list[asyncio.Future[None]] = []
        self._around: list[tuple[Callable[[], None], Callable[[], None]]] = []

    def call_around(self, begin: Callable[[], None], end: Callable[[], None]) -> None:
        """Call ``begin`` at each tick, and ``end`` when its waiters have read."""
        self._around.append((begin, end))

    async def tick(self) -> None:
        """Wait for the next tick: at most one frame."""
        if not self._waiting:
            self._loop.call_at(self._next(), self._tick)
        future: asyncio.Future[None] = self._loop.create_future()
        self._waiting.append(future)
        await future

    def _next(self) -> float:
        frame = settings.EVENT_FRAME_MILLISECONDS / 1000
        return ((self._loop.time() + SHORTEST_SECONDS) // frame + 1) * frame

    def _tick(self) -> None:
        for begin, _ in self._around:
            begin()
        waiting, self._waiting = self._waiting, []
        for future in waiting:
            if not future.done():  # else it was cancelled
                future.set_result(None)
        self._loop.call_soon(self._come_round, ROUNDS)

    def _come_round(self, left: int) -> None:
        if left:
            self._loop.call_soon(self._come_round, left - 1)
            return
        for _, end in self._around:
            end()


_loops: "WeakKeyDictionary[asyncio.AbstractEventLoop, FrameClock]" = WeakKeyDictionary()


def local() -> FrameClock:
    """Return the clock of the running event loop."""
    loop = asyncio.get_running_loop()
    if loop not in _loops:
        _loops[loop] = FrameClock()
    return _loops[loop]
