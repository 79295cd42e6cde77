"""Write transactions, database threads for asyncio code, and the database's clock.

SQLite has one writer at a time. A lock per process queues our writers fairly (measured: 94 % of
read-then-write transactions failed without it), and a lock file queues the processes: SQLite itself
polls its lock every 1, 2, 5 … 100 ms, however soon the other writer is done (measured: ten
concurrent answers waited 0.4 s). The file only shortens the wait; SQLite's own lock is what counts.
"""

import asyncio
import fcntl
import logging
import os
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from datetime import datetime, timedelta
from functools import cache, partial
from pathlib import Path
from typing import Any, ParamSpec, TypeVar

from django.conf import settings
from django.db import (
    DEFAULT_DB_ALIAS,
    InterfaceError,
    OperationalError,
    connection,
    connections,
    transaction,
)
from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.models import DurationField, Model, Q, QuerySet
from django.db.models.functions import Now
from django.utils import timezone

from core.database import driver, sqlite_options
from core.database.queries import HasRows, Param
from core.database.threads import LifoThreadPool
from core.lib.log_ids import IDS, under

logger = logging.getLogger(__name__)

# The database is away, or another transaction holds its lock: the same statement may work soon.
AWAY = (OperationalError, InterfaceError)
P = ParamSpec("P")
T = TypeVar("T")
Row = TypeVar("Row", bound=Model)

_write_lock = threading.RLock()
_lock_files: dict[str, int] = {}  # path -> descriptor
# SQLite's own timeout: a frozen process must not stop the others for ever.
LOCK_FILE_SECONDS = 20.0
POLL_SECONDS = 0.0005
AWAY_SECONDS = 0.2  # until a database that is away is tried again
# In a web process: how long a write waits for the locks of our writers, and then for SQLite.
WEB_LOCK_SECONDS, WEB_SQLITE_SECONDS = 2.0, 2
_lock_seconds: float | None = None  # None: without a limit
# The server ends a session whose transaction runs no statement for so long: its process froze, or
# its machine went to sleep, and the rows that it locked would wait for it. Ours take milliseconds.
IDLE_TRANSACTION_SECONDS = 30
LIMIT_IDLE = "SELECT set_config('idle_in_transaction_session_timeout', %s, %s)"


def shorten_lock_waits() -> None:
    """Make a web process's writes fail that cannot begin soon, so that the client is asked to
    retry.

    Call before the first connection is made.
    """
    global _lock_seconds  # noqa: PLW0603 - one for the process, set once
    _lock_seconds = WEB_LOCK_SECONDS
    if connection.vendor == "sqlite":
        connections.settings["default"]["OPTIONS"]["timeout"] = WEB_SQLITE_SECONDS


def limit_idle_transactions(*, connection: BaseDatabaseWrapper, **_: object) -> None:
    """Handle ``connection_created``: limit how long a transaction of the new session may idle."""
    if connection.vendor == "postgresql":
        direct: Any = connection.connection  # tests that count statements do not count this one
        direct.execute(LIMIT_IDLE, [f"{IDLE_TRANSACTION_SECONDS}s", False])


def allow_idle_transaction() -> None:
    """Lift the limit for the current transaction."""
    if connection.vendor == "postgresql":
        driver.execute(connection, LIMIT_IDLE, ["0", True])


@contextmanager
def atomic_write(*, joins: bool = False) -> Iterator[None]:
    """Run the block in a write transaction: IMMEDIATE on SQLite, one at a time in this process.

    Inside another transaction it is a savepoint, or, with ``joins``, a part of it: an error then
    rolls both back.
    """
    if joins and connection.in_atomic_block:
        try:
            yield
        except BaseException:
            connection.needs_rollback = True
            raise
    elif connection.vendor == "sqlite":
        with writer_lock(), transaction.atomic(savepoint=not joins):
            yield
    else:
        with transaction.atomic(savepoint=not joins):
            yield


@contextmanager
def unsynced_write() -> Iterator[None]:
    """Run the block in :func:`atomic_write`, whose commit does not wait for SQLite's disk.

    A loss of power may take it back, with all that follows until the next commit that waits; the
    end of a process does not. So it is for what only processes of this machine go by. On PostgreSQL
    it waits: a crash of the server could take it back while our processes go on (decision 224).
    """
    here = connections[DEFAULT_DB_ALIAS]
    if here.vendor != "sqlite" or here.in_atomic_block:
        with atomic_write():
            yield
        return
    try:
        driver.execute(here, "PRAGMA synchronous=NORMAL", ())
        with atomic_write():
            yield
    finally:
        try:
            driver.execute(here, "PRAGMA synchronous=FULL", ())
        except BaseException:
            here.close()  # the next connection begins with FULL
            raise


def atomic_write_statement() -> AbstractContextManager[None]:
    """Return :func:`atomic_write` for a single statement; it joins an open transaction.

    PostgreSQL commits a single statement by itself: BEGIN and COMMIT would be two more round trips.
    Call ``on_commit`` after the block.
    """
    alone = connection.vendor != "sqlite" and not connection.in_atomic_block
    return nullcontext() if alone else atomic_write(joins=True)


def after_commit(call: Callable[P, object], *arguments: P.args, **named: P.kwargs) -> None:
    """Call after the commit of the open transaction, if any; an error there is only logged.

    With a function of its own: for a partial that fails, Django's ``robust`` raises another error.
    """

    def called() -> None:
        call(*arguments, **named)

    transaction.on_commit(called, robust=True)


@contextmanager
def writer_lock() -> Iterator[None]:
    """Hold the lock of this process's writers on SQLite, and the lock file of the writing process.

    Raises OperationalError at the deadline of the first; goes on without the second at its own. A
    second file queues the waiting processes: a process that has just written, with many threads
    that want to write, cannot starve the others. Inside a transaction, which has SQLite's own lock,
    neither is waited for: a thread that has them may be waiting for that one.
    """
    if connection.in_atomic_block:
        yield
        return
    began, limit = time.monotonic(), _lock_seconds
    if not _write_lock.acquire(timeout=-1 if limit is None else limit):
        raise OperationalError("database is locked")
    try:
        files = lock_files(str(connection.settings_dict["NAME"]))
        if not files:
            yield
            return
        gate, mine = files
        deadline = time.monotonic() + LOCK_FILE_SECONDS if limit is None else began + limit
        try:
            try:
                wait_for(gate, deadline)
                wait_for(mine, deadline)
            finally:
                fcntl.flock(gate, fcntl.LOCK_UN)
            yield
        finally:
            fcntl.flock(mine, fcntl.LOCK_UN)
    finally:
        _write_lock.release()


def lock_files(name: str) -> list[int]:
    """Return the descriptors of this process's lock files of a database: the queue, and the turn;
    none of one in memory, and where they cannot be opened: a command of root may have made them.

    Requires the lock of its writers.
    """
    if not Path(name).is_absolute():
        return []
    paths = [f"{name}.gate", f"{name}.turn"]
    for path in paths:
        if path not in _lock_files:
            try:
                _lock_files[path] = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
            except OSError:
                return []
    return [_lock_files[path] for path in paths]


def wait_for(descriptor: int, deadline: float) -> None:
    """Lock the file, or return without the lock at the ``deadline``."""
    while time.monotonic() < deadline:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            time.sleep(POLL_SECONDS)
        else:
            return


def checkpoint() -> None:
    """Move the content of SQLite's log into the database file.

    Otherwise the commit that finds the log long does it, and all writers wait: now and then 100 ms
    of a stream's answers. It syncs two files.
    """
    if connection.vendor == "sqlite":
        driver.execute(connections[DEFAULT_DB_ALIAS], "PRAGMA wal_checkpoint(PASSIVE)", ())


def is_log_long() -> bool:
    """Return whether SQLite's log is longer than ``sqlite_options.LOG_BYTES``."""
    database = Path(connection.settings_dict["NAME"]).resolve()
    try:
        return Path(f"{database}-wal").stat().st_size > sqlite_options.LOG_BYTES
    except OSError:  # there is none yet
        return False


def ping() -> None:
    """Check that the database answers. Raises DatabaseError or InterfaceError."""
    driver.fetch(connections[DEFAULT_DB_ALIAS], "SELECT 1", ())


def lock_until_commit(number: int) -> None:
    """Take the advisory lock ``number`` of PostgreSQL until the end of the transaction.

    SQLite needs none: it has one write transaction at a time.
    """
    if connection.vendor != "sqlite":
        driver.fetch(connections[DEFAULT_DB_ALIAS], "SELECT pg_advisory_xact_lock(%s)", [number])


def now() -> datetime:
    """Return the database's time: leases must not depend on the clocks of several machines."""
    if connection.vendor == "sqlite":
        return timezone.now()  # one machine, one clock
    [(found,)] = driver.fetch(connections[DEFAULT_DB_ALIAS], "SELECT clock_timestamp()", ())
    assert isinstance(found, datetime)  # noqa: S101 - the driver's contract, for the type checker
    return found


def ahead(field: str, *, most: Any, now: Any = None) -> Q:
    """Return the condition that ``field`` is further ahead than ``most``: the clock was set back.

    ``now``: default the database's. Both may be expressions.
    """
    return Q(**{f"{field}__gt": (Now() if now is None else now) + most})


def passed(field: str, *, most: timedelta, now: Any = None) -> Q:
    """Return the condition that ``field`` has passed, or is :func:`ahead`."""
    return Q(**{f"{field}__lte": Now() if now is None else now}) | ahead(field, most=most, now=now)


class FarTimes:
    """The times in a ``field`` of ``rows`` that may be :func:`ahead`: looked for in each sweep."""

    def __init__(self, rows: Callable[[], QuerySet[Any]], field: str) -> None:
        self._rows, self._field = rows, field
        self._are_there = HasRows(lambda: self.ahead(Param("most", DurationField())))

    def ahead(self, most: Any) -> QuerySet[Any]:
        """Return the rows whose time is further ahead than ``most``."""
        return self._rows().filter(ahead(self._field, most=most))

    def are_there(self, *, most: timedelta) -> bool:
        """Return whether there are such rows."""
        return self._are_there(most=most)

    def bring_near(self, *, most: timedelta) -> int:
        """Shorten the times to ``most``, as if set now; return how many rows.

        For leases: their holder renews them, and without a holder they end in time. Takes no lock
        when there is nothing to do, as nearly always.
        """
        if not self.are_there(most=most):
            return 0
        far = self.ahead(most)
        with atomic_write():
            return unlocked(far).update(**{self._field: Now() + most})


def unlocked(rows: QuerySet[Row]) -> QuerySet[Row]:
    """Lock the rows that no other transaction has locked, and return these; SQLite locks no rows.

    A worker that froze inside a transaction must not block every sweeper.
    """
    if not connection.features.has_select_for_update_skip_locked:
        return rows
    free = rows.select_for_update(skip_locked=True, no_key=True)
    return rows.filter(pk__in=list(free.values_list("pk", flat=True)))


@cache
def pools() -> dict[str, LifoThreadPool]:
    """Return the thread pools of this process, by name."""
    return {}


def pool(name: str = "database", *, most: int | None = None) -> LifoThreadPool:
    """Return a pool of database threads; the default one is for occasional work.

    Frequent work has a pool with another ``name`` and size ``most``: its connections have the
    statements prepared (docs/decisions/151). The size of the first call counts.
    """
    named = pools()
    if name not in named:
        wanted = settings.GATEWAY_DATABASE_THREADS if most is None else most
        made = LifoThreadPool(wanted, name=name, at_end=connections.close_all)
        named.setdefault(name, made)  # of two threads that make it, one loses
    return named[name]


async def in_thread(call: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> T:
    """Run ``call`` in a database thread; close its connection afterwards if it broke."""
    return await in_thread_of(pool(), call, *args, **kwargs)


async def patiently(call: Callable[[], T], *, seconds: float | None = None) -> T:
    """Return :func:`in_thread`, again while the database is away, for ``seconds``; by default for
    the length of a lease.

    ``call`` may have been committed before its connection broke: it must bear being called again.
    """
    deadline = time.monotonic() + (settings.RUN_LEASE_SECONDS if seconds is None else seconds)
    is_told = False
    while True:
        try:
            return await in_thread(call)
        except AWAY:
            if time.monotonic() > deadline:
                raise
            if not is_told:
                logger.warning("a part of a run waits for the database")
            is_told = True
            await asyncio.sleep(AWAY_SECONDS)


async def in_thread_of(
    threads: LifoThreadPool, call: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs
) -> T:
    """Return :func:`in_thread` for one of ``threads``."""
    work = partial(with_connection, partial(call, *args, **kwargs))
    loop = asyncio.get_running_loop()
    return await loop.run_in_executor(threads, under, IDS.get(), work)


def from_thread(call: Callable[[], T]) -> T:
    """Return :func:`in_thread` for a thread without an event loop, which waits: opening a
    connection of its own for each look would cost fifty times the look.
    """
    return pool().submit(with_connection, call).result()


def with_connection(call: Callable[[], T]) -> T:
    """Run ``call`` in a thread that keeps its connection, unless it broke."""
    driver.trust()
    try:
        return call()
    finally:
        connection.close_if_unusable_or_obsolete()


def close_pool() -> None:
    """End the threads and their connections: at the stop of a process, and between tests."""
    ended = list(pools().values())
    pools.cache_clear()
    for threads in ended:
        threads.shutdown()
