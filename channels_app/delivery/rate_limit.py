"""Rate limits of an account: per second, per chat, per minute in a group, and pauses.

Counted in this process. The platform's own ``retry_after`` is obeyed for its chat; for the whole
account only when a second chat got one meanwhile.
"""

import threading
import time
from bisect import bisect_right, insort
from collections import OrderedDict
from dataclasses import replace
from functools import cache
from typing import Literal, TypeAlias

from channels_app.base import Pace

MAX_CHATS = 20_000
GROUP_SECONDS = 60.0


Kind = Literal["message", "search", "draft"]
# An account, a chat, and the kind of calls in it: each kind has times of its own.
Turns: TypeAlias = tuple[int, str, Kind]


class Pacer:
    """Reserves times to send, from any thread. Times are seconds of a monotonic clock."""

    def __init__(self) -> None:
        self._last: OrderedDict[Turns, float] = OrderedDict()
        self._group: dict[tuple[int, str], list[float]] = {}
        self._second: dict[int, list[float]] = {}
        self._held: dict[tuple[int, str], float] = {}
        self._lock = threading.Lock()

    def reserve(
        self,
        *,
        account_id: int,
        chat: str,
        pace: Pace,
        is_group: bool,
        most: float,
        now: float | None = None,
        kind: Kind = "message",
    ) -> float:
        """Return the seconds to wait before sending; reserved when they are at most ``most``.

        A search for a message in doubt comes ``pace.find_seconds`` after the one before. Nothing is
        sent in its chat meanwhile, but messages that wait for it may have reserved the next times
        of the chat before. No message waits for the draft before it, and no draft for a message.
        """
        moment = time.monotonic() if now is None else now
        turns = (account_id, chat, kind)
        if kind == "search":
            pace = replace(pace, chat_seconds=pace.find_seconds)
        with self._lock:
            at = self._at(turns, pace, is_group=is_group, moment=moment)
            if at - moment <= most:
                self._take(turns, at, pace, is_group=is_group, now=moment)
        return at - moment

    def _at(self, turns: Turns, pace: Pace, *, is_group: bool, moment: float) -> float:
        """Return the next free time of ``turns``."""
        account_id, place = turns[0], turns[:2]
        at = max(
            moment,
            self._held.get(place, 0.0),
            self._held.get((account_id, ""), 0.0),
            self._last.get(turns, -pace.chat_seconds) + pace.chat_seconds,
        )
        if is_group and pace.group_per_minute:
            at = next_free(self._group.get(place, []), pace.group_per_minute, GROUP_SECONDS, at)
        if pace.per_second:
            at = next_free(self._second.get(account_id, []), pace.per_second, 1.0, at)
        return at

    def _take(self, turns: Turns, at: float, pace: Pace, *, is_group: bool, now: float) -> None:
        place = turns[:2]
        self._last[turns] = at
        self._last.move_to_end(turns)
        if is_group and pace.group_per_minute:
            add(self._group.setdefault(place, []), at, after=now - GROUP_SECONDS)
        if pace.per_second:
            add(self._second.setdefault(place[0], []), at, after=now - 1.0)
        if len(self._last) > MAX_CHATS:
            oldest, _ = self._last.popitem(last=False)
            self._group.pop(oldest[:2], None)
            self._held.pop(oldest[:2], None)

    def hold(self, *, account_id: int, chat: str, seconds: float, now: float | None = None) -> None:
        """Pause ``chat``, as the platform asked."""
        moment = time.monotonic() if now is None else now
        with self._lock:
            for place in [place for place, until in self._held.items() if until <= moment]:
                del self._held[place]
            others = [p for p in self._held if p[0] == account_id and p[1] not in {"", chat}]
            self._held[account_id, chat] = moment + seconds
            if others:
                self._held[account_id, ""] = moment + seconds


def next_free(times: list[float], most: int, seconds: float, at: float) -> float:
    """Return the first time from ``at`` on with fewer than ``most`` turns in ``seconds`` before it.

    Turns that are reserved for later do not count.
    """
    while True:
        recent = [each for each in times if at - seconds < each <= at]
        if len(recent) < most:
            return at
        at = recent[-most] + seconds


def add(times: list[float], at: float, *, after: float) -> None:
    """Insert ``at`` into the sorted ``times``; drop those before ``after``."""
    insort(times, at)
    del times[: bisect_right(times, after)]


@cache
def pacer() -> Pacer:
    return Pacer()
