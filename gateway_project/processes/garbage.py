"""Exclude loaded code from garbage collection.

A full collection takes 60 to 90 ms, in which no request is answered, and nearly all of its objects
were loaded at the start (docs/decisions/147).
"""

import gc

NEW_OBJECTS = 5_000  # allocations between two collections of the youngest generation


def settle() -> None:
    """Freeze the objects that exist after loading."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(NEW_OBJECTS)
