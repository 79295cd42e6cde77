"""An object per event loop."""

import asyncio
from itertools import count

from core.lib.per_loop import PerLoop, per_loop


def numbers() -> PerLoop[int]:
    """Return a per-loop object that counts how often it is made."""
    made = count(1)
    return per_loop(lambda: next(made))


async def both(made: PerLoop[int]) -> tuple[int, int]:
    """Return the object of this loop, requested twice."""
    return made(), made()


def test_each_loop_has_one_object_and_closed_loops_keep_none() -> None:
    made = numbers()
    assert asyncio.run(both(made)) == (1, 1)
    assert asyncio.run(both(made)) == (2, 2)
    assert len(made._made) == 1


async def test_a_removed_object_is_made_again() -> None:
    made = numbers()
    assert made.pop() is None
    assert made() == 1
    assert made.pop() == 1
    assert made() == 2


async def test_nothing_is_kept_when_making_it_fails() -> None:
    attempts = count()

    @per_loop
    def fails_once() -> int:
        """Divide, and fail the first time."""
        return 6 // next(attempts)

    try:
        fails_once()
    except ZeroDivisionError:
        assert fails_once() == 6
    assert fails_once() == 6
