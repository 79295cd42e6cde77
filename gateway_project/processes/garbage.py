"""Exclude loaded code from garbage collection.

A full collection takes 60 to 90 ms, in which no request is answered, and nearly all of its objects
were loaded at the start (docs/decisions/147).
"""

import gc
from collections.abc import Iterator
from contextlib import contextmanager

NEW_OBJECTS = 5_000  # allocations between two collections of the youngest generation


@contextmanager
def held() -> Iterator[None]:
    """Collect nothing while code is loaded: a tenth of a start went into it."""
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


def settle() -> None:
    """Freeze the objects that exist after loading."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(NEW_OBJECTS)
