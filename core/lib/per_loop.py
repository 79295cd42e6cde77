"""An object per event loop: connections, tasks and futures belong to the loop that made them."""

import asyncio
from collections.abc import Callable
from functools import update_wrapper
from typing import Generic, TypeVar

T = TypeVar("T")


class PerLoop(Generic[T]):
    """A function whose result is kept for each event loop; see :func:`per_loop`."""

    def __init__(self, factory: Callable[[], T]) -> None:
        self._factory = factory
        self._made: dict[asyncio.AbstractEventLoop, T] = {}
        update_wrapper(self, factory)

    def __call__(self) -> T:
        """Return the object of the running event loop. Raises what the factory raises."""
        loop = asyncio.get_running_loop()
        if loop not in self._made:
            # Most of these objects know their loop, so a weak reference to it would not end.
            for old in [each for each in self._made if each.is_closed()]:
                self._made.pop(old, None)
            self._made[loop] = self._factory()
        return self._made[loop]

    def pop(self) -> T | None:
        """Take the object away from the running event loop, to close it; None without one."""
        return self._made.pop(asyncio.get_running_loop(), None)


def per_loop(factory: Callable[[], T]) -> PerLoop[T]:
    """Decorate a function without arguments: it is called once for each running event loop."""
    return PerLoop(factory)
