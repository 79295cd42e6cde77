"""The work of Python: calls of functions, which depend neither on the machine nor on its load."""

from collections.abc import Iterator
from contextlib import contextmanager
from cProfile import Profile


@contextmanager
def counted_calls() -> Iterator[list[int]]:
    """Count the calls of functions in the block; its number is there at the end."""
    found: list[int] = []
    with Profile() as profile:
        yield found
    found.append(sum(each.callcount for each in profile.getstats()))
