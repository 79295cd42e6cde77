"""Values cached for some seconds, in this process."""

import time
from collections.abc import Hashable
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


class TtlCache(Generic[K, V]):
    """Values by key, each valid for ``seconds``. Usable from any thread.

    Expired values stay until they are replaced: use few keys, never a client's input.
    """

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._kept: dict[K, tuple[V, float]] = {}

    def get(self, key: K, *, expired: bool = False) -> V | None:
        """Return the value of ``key``, or None; ``expired``: also one that has expired."""
        kept = self._kept.get(key)
        if kept is None or not (expired or time.monotonic() < kept[1]):
            return None
        return kept[0]

    def put(self, key: K, value: V) -> V:
        """Store ``value`` for ``seconds`` from now, and return it."""
        self._kept[key] = value, time.monotonic() + self._seconds
        return value

    def clear(self) -> None:
        self._kept.clear()
