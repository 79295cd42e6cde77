"""One tick for all streams of an event loop, while many speak at once.

A process that wakes for each token of each stream spends most of its time waking. A lone stream is
read at once. When more than READS_AT_ONCE were read in a frame, each waits for the next tick, and
the kernel buffers its input meanwhile (docs/decisions/189):

    read ─► pause ─► tick ─► resume ─► read …
"""

import asyncio

from django.conf import settings

from core.lib.per_loop import per_loop

READS_AT_ONCE = 2
SHORTEST_SECONDS = 0.001  # timers of event loops are no finer


class FrameClock:
    """A tick every EVENT_FRAME_MILLISECONDS while a task waits for it. One event loop."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._waiting: list[asyncio.Future[None]] = []
        self._frame = 0
        self._reads = 0
        self._reads_before = 0

    def is_busy(self) -> bool:
        """Count one read of a stream; return whether the next one should wait for a tick."""
        frame = int(self._loop.time() / frame_seconds())
        if frame != self._frame:
            self._reads_before = self._reads if frame == self._frame + 1 else 0
            self._frame, self._reads = frame, 0
        self._reads += 1
        return max(self._reads, self._reads_before) > READS_AT_ONCE

    async def tick(self) -> None:
        """Wait for the next tick: at most one frame."""
        if not self._waiting:
            frame = frame_seconds()
            at = ((self._loop.time() + SHORTEST_SECONDS) // frame + 1) * frame
            self._loop.call_at(at, self._tick)
        future: asyncio.Future[None] = self._loop.create_future()
        self._waiting.append(future)
        await future

    def _tick(self) -> None:
        waiting, self._waiting = self._waiting, []
        for future in waiting:
            if not future.done():  # else it was cancelled
                future.set_result(None)


def frame_seconds() -> float:
    return settings.EVENT_FRAME_MILLISECONDS / 1000


@per_loop
def local() -> FrameClock:
    """Return the clock of the running event loop."""
    return FrameClock()
