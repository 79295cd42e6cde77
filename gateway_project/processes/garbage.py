"""What a process has loaded stays: the garbage collector looks at it once, not again and again.

A full collection takes 60 to 90 ms, in which nobody is answered, and nearly all that it looks at
was loaded at the start (docs/decisions/147).
"""

import gc

NEW_OBJECTS = 5_000  # between two looks at the youngest


def settle() -> None:
    """The process has loaded: what is there now is never looked at again."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(NEW_OBJECTS)
