"""How often one address, person or key may ask: a sliding minute, counted in this process."""

import math
import threading
import time
from collections import OrderedDict, deque

from channels_app.http import RefusedError

WINDOW_SECONDS = 60.0
MAX_COUNTED = 50_000


class Rate:
    """At most ``limit`` events a minute for each subject; 0 means no limit.

    The least recently seen subjects are forgotten beyond MAX_COUNTED.
    """

    def __init__(self) -> None:
        """Nobody has asked yet."""
        self._seen: OrderedDict[str, deque[float]] = OrderedDict()
        self._lock = threading.Lock()  # asked from the loop and from database threads

    def check(self, *, subject: str, limit: int, now: float | None = None) -> None:
        """Count one event of ``subject``. Raises RefusedError 429 with ``Retry-After``."""
        if not limit:
            return
        with self._lock:
            self._count(subject, limit, time.monotonic() if now is None else now)

    def _count(self, subject: str, limit: int, moment: float) -> None:
        times = self._seen.setdefault(subject, deque())
        self._seen.move_to_end(subject)
        if len(self._seen) > MAX_COUNTED:
            self._seen.popitem(last=False)
        while times and times[0] <= moment - WINDOW_SECONDS:
            times.popleft()
        if len(times) >= limit:
            seconds = math.ceil(times[0] + WINDOW_SECONDS - moment)
            raise RefusedError(
                429,
                f"Too many requests. Try again in {seconds} s.",
                headers={"Retry-After": str(seconds)},
            )
        times.append(moment)


addresses = Rate()
people = Rate()
failures = Rate()


class Streams:
    """How many streams or sockets each person has open in this process."""

    def __init__(self) -> None:
        """None is open."""
        self._open: dict[int | str, int] = {}

    def enter(self, *, user_id: int | str, limit: int) -> None:
        """Count one more. Raises RefusedError 429 when ``limit`` are open."""
        if self._open.get(user_id, 0) >= limit:
            raise RefusedError(429, "Too many open streams.", headers={"Retry-After": "5"})
        self._open[user_id] = self._open.get(user_id, 0) + 1

    def leave(self, *, user_id: int | str) -> None:
        """Count one less."""
        left = self._open[user_id] - 1
        if left:
            self._open[user_id] = left
        else:
            del self._open[user_id]


streams = Streams()
sockets = Streams()
desks = Streams()
