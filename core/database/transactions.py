"""How the database is reached: write transactions, and threads for asyncio code.

SQLite takes one writer at a time. A lock per process queues our writers fairly (measured: 94 % of
read-then-write transactions failed without it), and a lock file queues the processes: whoever finds
SQLite itself locked sleeps 1, 2, 5 … 100 ms, however soon the other one is done (measured: ten
answers at once waited 0.4 s for it). The file is a courtesy; the truth is SQLite's own lock.
"""

import asyncio
import fcntl
import os
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta
from functools import cache
from pathlib import Path
from typing import Any, ParamSpec, TypeVar

from django.conf import settings
from django.db import OperationalError, connection, connections, transaction
from django.db.models import Q, QuerySet
from django.db.models.functions import Now
from django.utils import timezone

from core.database import driver
from core.database.threads import LifoThreadPool

P = ParamSpec("P")
T = TypeVar("T")

_write_lock = threading.RLock()
_lock_files: dict[str, int] = {}  # path -> descriptor
# As long as SQLite's own patience: a process that stands still must not stop the others for ever.
COURTESY_SECONDS = 20.0
PAUSE_SECONDS = 0.0005
# Of a process that answers requests: so long a request waits for its turn, and then for SQLite.
BRIEF_TURN_SECONDS, BRIEF_LOCK_SECONDS = 2.0, 2
_turn_seconds: float | None = None  # None: as long as it takes


def be_brief() -> None:
    """In a process that answers requests: a write that cannot begin soon (another program holds the
    database) fails, and the client is told to come again. Before the first connection is made."""
    global _turn_seconds  # noqa: PLW0603 - one for the process, set once
    _turn_seconds = BRIEF_TURN_SECONDS
    if connection.vendor == "sqlite":
        connections.settings["default"]["OPTIONS"]["timeout"] = BRIEF_LOCK_SECONDS


@contextmanager
def first_of_process(deadline: float | None) -> Iterator[None]:
    """The lock of this process's writers. Raises OperationalError when it is not ours in time."""
    left = -1 if deadline is None else max(deadline - time.monotonic(), 0)
    if not _write_lock.acquire(timeout=left):
        raise OperationalError("database is locked")
    try:
        yield
    finally:
        _write_lock.release()


def stand_alone() -> None:
    """In a child that was just forked: locks of its own. Its parent's may be held by a thread that
    is not here, and a lock file that both have open would be given back for both."""
    global _write_lock  # noqa: PLW0603 - what a fork must not share
    _write_lock = threading.RLock()
    while _lock_files:
        os.close(_lock_files.popitem()[1])


os.register_at_fork(after_in_child=stand_alone)


@contextmanager
def atomic_write(*, joins: bool = False) -> Iterator[None]:
    """A transaction that writes: IMMEDIATE on SQLite, one at a time in this process.

    Inside another one it is a savepoint, or, when it ``joins``, a part of that one: an error then
    ends both.
    """
    if joins and connection.in_atomic_block:
        try:
            yield
        except BaseException:
            connection.needs_rollback = True
            raise
    elif connection.vendor == "sqlite":
        deadline = None if _turn_seconds is None else time.monotonic() + _turn_seconds
        with (
            first_of_process(deadline),
            turn(deadline),
            transaction.atomic(savepoint=not joins),
        ):
            yield
    else:
        with transaction.atomic(savepoint=not joins):
            yield


@contextmanager
def atomic_write_statement() -> Iterator[None]:
    """:func:`write` for one statement, which joins another transaction.

    PostgreSQL makes a transaction of each statement by itself: BEGIN and COMMIT would be two more
    ways there and back. What is to happen on commit is asked for afterwards.
    """
    if connection.vendor == "sqlite" or connection.in_atomic_block:
        with atomic_write(joins=True):
            yield
    else:
        yield


@contextmanager
def turn(deadline: float | None = None) -> Iterator[None]:
    """This process's turn to write; the next one begins within a millisecond of its end. At the
    ``deadline`` (by the monotonic clock) it is begun without.

    Whoever waits for it stands at the gate, where only one process can: one that has just had its
    turn, and many threads that want another, cannot overtake the others for ever.
    """
    name = str(connection.settings_dict["NAME"])
    if connection.in_atomic_block or not Path(name).is_absolute():
        yield  # it is ours already, or nobody else sees this database
        return
    gate, mine = lock_file(f"{name}.gate"), lock_file(f"{name}.turn")
    deadline = deadline or time.monotonic() + COURTESY_SECONDS
    try:
        try:
            wait_for(gate, deadline)
            wait_for(mine, deadline)
        finally:
            fcntl.flock(gate, fcntl.LOCK_UN)
        yield
    finally:
        fcntl.flock(mine, fcntl.LOCK_UN)


def lock_file(path: str) -> int:
    """The open lock file of this process; asked for by who holds the lock of our writers."""
    if path not in _lock_files:
        _lock_files[path] = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    return _lock_files[path]


def wait_for(descriptor: int, deadline: float) -> None:
    """Take the lock file, or go on without it when somebody keeps it for too long."""
    while time.monotonic() < deadline:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            time.sleep(PAUSE_SECONDS)
        else:
            return


def checkpoint() -> None:
    """Move what SQLite's log holds into the database file.

    Whoever's commit finds the log long would do it otherwise, and everybody who wants to write
    waits meanwhile: 100 ms of a stream's answers, now and then.
    """
    if connection.vendor == "sqlite":
        with connection.cursor() as cursor:
            cursor.execute("PRAGMA wal_checkpoint(PASSIVE)")


def ping() -> None:
    """Raises DatabaseError or InterfaceError when the database does not answer."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT 1")


def lock_until_commit(number: int) -> None:
    """Take the advisory lock ``number`` of PostgreSQL until the end of the transaction.

    SQLite needs none: it has one write transaction at a time.
    """
    if connection.vendor != "sqlite":
        driver.fetch(driver.this_connection(), "SELECT pg_advisory_xact_lock(%s)", [number])


def now() -> datetime:
    """The database's clock: leases must not depend on the clocks of several machines."""
    if connection.vendor == "sqlite":
        return timezone.now()  # one machine, one clock
    with connection.cursor() as cursor:
        cursor.execute("SELECT clock_timestamp()")
        row = cursor.fetchone()
    assert isinstance(row[0], datetime)  # noqa: S101 - the driver's contract, for the type checker
    return row[0]


def ahead(field: str, *, most: timedelta, now: Any = None) -> Q:
    """Rows whose ``field`` lies further ahead than ``most``: further than it was ever set.

    The clock was set back since. ``now``: the moment to count from, the database's when left out.
    """
    return Q(**{f"{field}__gt": (Now() if now is None else now) + most})


def passed(field: str, *, most: timedelta, now: Any = None) -> Q:
    """Rows whose ``field`` has passed, or lies further ahead than it can by design."""
    return Q(**{f"{field}__lte": Now() if now is None else now}) | ahead(field, most=most, now=now)


def bring_near(rows: QuerySet[Any], field: str, *, most: timedelta) -> int:
    """Shorten to ``most`` what is :func:`ahead`, as if it had been set now; how many rows.

    For leases: whoever holds one renews it, and without a holder it ends in time. Nearly always
    there is nothing to do, and then no lock is taken.
    """
    far = rows.filter(ahead(field, most=most))
    if not far.exists():
        return 0
    with atomic_write():
        if connection.features.has_select_for_update_skip_locked:
            # A worker that froze inside a transaction must not stop every sweeper with it.
            free = far.select_for_update(skip_locked=True, no_key=True)
            far = rows.filter(pk__in=list(free.values_list("pk", flat=True)))
        return far.update(**{field: Now() + most})


class Pools:
    """Threads by name."""

    def __init__(self) -> None:
        """No thread is begun before there is work."""
        self._lock = threading.Lock()
        self._named: dict[str, LifoThreadPool] = {}

    def get(self, name: str, *, most: int) -> LifoThreadPool:
        """The threads called ``name``: at most ``most``, as who asked first said."""
        with self._lock:
            if name not in self._named:
                self._named[name] = LifoThreadPool(most, name=name, at_end=connections.close_all)
            return self._named[name]

    def shutdown(self) -> None:
        """End all threads and their connections."""
        with self._lock:
            ended = list(self._named.values())
        for threads in ended:
            threads.shutdown()


@cache
def pools() -> Pools:
    """The threads of this process that talk to the database."""
    return Pools()


def pool(name: str = "database", *, most: int | None = None) -> LifoThreadPool:
    """The threads for what is asked for now and then.

    What is done again and again, one after the other, has threads of its own by another ``name``,
    ``most`` at once: their connections know its statements (docs/decisions/151).
    """
    wanted = settings.GATEWAY_DATABASE_THREADS if most is None else most
    return pools().get(name, most=wanted)


async def in_thread(call: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> T:
    """Run ``call`` in a database thread; a connection that broke is dropped afterwards."""
    return await in_thread_of(pool(), call, *args, **kwargs)


async def in_thread_of(
    threads: LifoThreadPool, call: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs
) -> T:
    """:func:`in_thread` in one of ``threads``."""

    def work() -> T:
        driver.trust(driver.this_connection())
        try:
            return call(*args, **kwargs)
        finally:
            connection.close_if_unusable_or_obsolete()

    return await asyncio.get_running_loop().run_in_executor(threads, work)


def close_pool() -> None:
    """End the threads and their connections: at the stop of a process, and between tests."""
    if pools.cache_info().currsize:
        ended = pools()
        pools.cache_clear()
        ended.shutdown()


__all__ = [
    "Now",
    "ahead",
    "atomic_write",
    "atomic_write_statement",
    "be_brief",
    "bring_near",
    "checkpoint",
    "close_pool",
    "in_thread",
    "in_thread_of",
    "lock_until_commit",
    "now",
    "passed",
    "ping",
    "pool",
    "pools",
]
