"""One tick for all streams of an event loop: input that arrived meanwhile is read at once.

A process that wakes for each token of each stream spends most of its time waking. Between two ticks
the kernel buffers the input (docs/decisions/146):

    read ─► pause ─► tick ─► resume ─► read …      input is committed right after the tick
"""

import asyncio
from collections.abc import Callable

from django.conf import settings

from core.lib.per_loop import per_loop

# Iterations of the loop that a reader needs after a tick: its task runs, its socket is polled,
# the input is handed over, its task runs again.
ROUNDS = 4
SHORTEST_SECONDS = 0.001  # timers of event loops are no finer


class FrameClock:
    """A tick every EVENT_FRAME_MILLISECONDS while a task waits for it. One event loop."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._waiting: list[asyncio.Future[None]] = []
        self._around: list[tuple[Callable[[], None], Callable[[], None]]] = []

    def call_around(self, begin: Callable[[], None], end: Callable[[], None]) -> None:
        """Call ``begin`` at each tick, and ``end`` when the tasks that waited for it have read."""
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


@per_loop
def local() -> FrameClock:
    """Return the clock of the running event loop."""
    return FrameClock()
