"""Pings of sockets that were opened at different times are aligned."""

from types import SimpleNamespace
from typing import Any

from gateway_project.processes.keepalive import ALIGN_SECONDS, AlignedPings


class Timers:
    """A clock that only notes what is due."""

    def __init__(self) -> None:
        self.now = 1000.0
        self.due: list[float] = []

    def time(self) -> float:
        """Return the time of the fake event loop, in seconds."""
        return self.now

    def call_at(self, when: float, callback: Any) -> None:
        """Record a call at a time of the fake event loop."""
        del callback
        self.due.append(when)


def test_pings_are_aligned_never_early_and_half_a_second_late_at_most() -> None:
    loop = Timers()
    socket: Any = SimpleNamespace(loop=loop, ping_interval=50.0, send_keepalive_ping=None)
    opened = [1000.0 + number * 0.013 for number in range(100)]
    for moment in opened:
        loop.now = moment
        AlignedPings.schedule_ping(socket)
    assert len(set(loop.due)) <= 5, "a hundred sockets, opened within 1.3 s"
    late = [due - moment - 50.0 for due, moment in zip(loop.due, opened, strict=True)]
    assert 0 <= min(late) <= max(late) <= ALIGN_SECONDS + 1e-6
