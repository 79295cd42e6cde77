"""Values that a page shows several times, kept on its request or on a row of it."""

from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")


def read_once(owner: object, name: str, read: Callable[[], T]) -> T:
    """Return what ``read`` returned when it was first called for this ``name`` of ``owner``."""
    kept = vars(owner)
    if name not in kept:
        kept[name] = read()
    found: T = kept[name]
    return found
