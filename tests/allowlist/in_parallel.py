"""Run calls in threads that start at the same moment."""

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from django.db import connection

T = TypeVar("T")


def run_in_parallel(call: Callable[[int], T], *, times: int, threads: int = 20) -> list[T]:
    """Return ``call(0)`` … ``call(times - 1)``, run by ``threads`` threads released
    simultaneously.
    """
    start = threading.Barrier(threads)

    def work(first: int) -> list[T]:
        start.wait(timeout=30)
        try:
            return [call(number) for number in range(first, times, threads)]
        finally:
            connection.close()

    with ThreadPoolExecutor(threads) as pool:
        groups = list(pool.map(work, range(threads)))
    return [result for group in groups for result in group]
