"""Many callers at the same moment, each with a database connection of its own."""

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from django.db import connections

Result = TypeVar("Result")


def at_once(count: int, call: Callable[[], Result]) -> list[Result]:
    """Call it in ``count`` threads that start simultaneously; return the results."""
    together = threading.Barrier(count)

    def one(_: int) -> Result:
        together.wait(timeout=30)
        try:
            return call()
        finally:
            connections.close_all()

    with ThreadPoolExecutor(count) as pool:
        return list(pool.map(one, range(count)))
