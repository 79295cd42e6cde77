"""Callers at the same moment, each with a database connection of its own."""

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from queue import Queue
from typing import Generic, TypeVar

from django.db import connection, connections

from tests.servers import wait_until

Result = TypeVar("Result")
SECONDS = 30
WAITS = "SELECT count(*) FROM pg_locks WHERE pid = %s AND NOT granted"


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


class Beside(Generic[Result]):
    """A call beside an open transaction of the test, on PostgreSQL."""

    def __init__(self, call: Callable[[], Result]) -> None:
        """Begin it."""
        sessions: Queue[int] = Queue()

        def work() -> Result:
            try:
                connection.ensure_connection()
                sessions.put(connection.connection.info.backend_pid)
                return call()
            finally:
                connections.close_all()

        with_it = ThreadPoolExecutor(1)
        self._future = with_it.submit(work)
        with_it.shutdown(wait=False)
        self._session = sessions.get(timeout=SECONDS)

    def wait_for_lock(self) -> None:
        """Return once it waits for a lock that the test's transaction has, or has ended."""
        wait_until(lambda: self._future.done() or self._waits(), what="a lock or the end")

    def _waits(self) -> bool:
        with connection.cursor() as cursor:
            cursor.execute(WAITS, [self._session])
            (number,) = cursor.fetchone()
        return bool(number)

    def result(self) -> Result:
        """Return its result, or raise its error, after the transaction of the test."""
        return self._future.result(SECONDS)
