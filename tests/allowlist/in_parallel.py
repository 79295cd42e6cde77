"""Many threads that do one thing at the same instant."""

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from django.db import connection

T = TypeVar("T")


def run_in_parallel(call: Callable[[int], T], *, times: int, threads: int = 20) -> list[T]:
    """``call(0)`` … ``call(times - 1)``, ``threads`` of them released together; the results."""
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
