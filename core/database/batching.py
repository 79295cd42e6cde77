"""Group commit: database work that is submitted while other work runs shares a transaction.

    submitted ─┬─ nothing runs ──► a batch of one, at once
               └─ a batch runs ──► waits for its end, then all that waits is the next batch

A transaction costs a sync to disk, however much it writes, and on SQLite a wait for the other
writers. There is no pause: work that comes alone is done at once (docs/decisions/117, 180).
"""

import asyncio
import logging
from collections.abc import Callable, Sequence
from typing import Any, Generic, TypeVar

from django.db import InterfaceError, OperationalError, connection
from psycopg.errors import DeadlockDetected, LockNotAvailable

from core.database import driver
from core.database.transactions import atomic_write, in_thread_of, pool
from core.lib.per_loop import per_loop

logger = logging.getLogger(__name__)

Item = TypeVar("Item")
Result = TypeVar("Result")
Work = Callable[[], Result]
RunBatch = Callable[[list[Item]], Sequence[Result | Exception]]
MAX_BATCH = 16  # SQLite has one writer at a time: other processes want to write as well
# On PostgreSQL a batch may wait for a row lock, or for a server far away: a second one starts after
# this. Not at once: of two that share a core both end when the later one does (decision 152).
CONCURRENT_BATCHES = 2
SLOW_BATCH_SECONDS = 0.03
# Two transactions with rows of several people may deadlock; PostgreSQL detects that only after 1 s.
LIMIT_LOCK_WAIT = "SELECT set_config('lock_timeout', '50ms', true)"


class Batcher(Generic[Item, Result]):
    """Calls ``run_batch`` with the items that one event loop submits, in their order.

    ``run_batch`` gets at most ``most`` items, in a database thread that is kept for ``name``. It
    returns one result for each, in the same order; an Exception is raised where that item was
    submitted. If ``run_batch`` itself raises, that is the outcome of all its items. ``concurrent``:
    how many batches may run at once; all but the first start after SLOW_BATCH_SECONDS.
    """

    def __init__(
        self,
        run_batch: RunBatch[Item, Result],
        *,
        name: str,
        most: int = MAX_BATCH,
        concurrent: int = 1,
    ) -> None:
        self._run_batch, self._most = run_batch, most
        self._name, self._concurrent = name, concurrent
        self._pending: list[tuple[Item, asyncio.Future[Result]]] = []
        self._running: set[asyncio.Task[Any] | None] = set()
        self._timer: asyncio.TimerHandle | None = None

    async def submit(self, item: Item) -> Result:
        """Return the result for ``item``. It is processed even if the caller is cancelled."""
        loop = asyncio.get_running_loop()
        future: asyncio.Future[Result] = loop.create_future()
        self._pending.append((item, future))
        if not self._running:
            self._start()
        elif len(self._running) < self._concurrent and self._timer is None:
            self._timer = loop.call_later(SLOW_BATCH_SECONDS, self._start_another)
        return await future

    def _start_another(self) -> None:
        self._timer = None
        if self._pending and len(self._running) < self._concurrent:
            self._start()

    def _start(self) -> None:
        self._running.add(asyncio.get_running_loop().create_task(self._run()))

    async def _run(self) -> None:
        try:
            await self._run_batches()
        finally:
            # Here, not in a callback of the task: what submits next must find it ended.
            self._running.discard(asyncio.current_task())

    async def _run_batches(self) -> None:
        while self._pending:
            batch, self._pending = self._pending[: self._most], self._pending[self._most :]
            outcomes: Sequence[Result | Exception]
            try:
                threads = pool(self._name, most=self._concurrent)
                outcomes = await in_thread_of(threads, self._run_batch, [item for item, _ in batch])
            except Exception as error:  # noqa: BLE001 - raised where the items were submitted
                outcomes = [error] * len(batch)
            if all(isinstance(outcome, OperationalError) for outcome in outcomes):
                # The database is away: the items that wait must not wait for the same error again.
                batch, self._pending = batch + self._pending, []
                outcomes = [outcomes[0]] * len(batch)
            for (_, future), outcome in zip(batch, outcomes, strict=True):
                settle(future, outcome)


def settle(future: "asyncio.Future[Result]", outcome: Result | Exception) -> None:
    """Set the result or the exception of ``future``, unless it was cancelled."""
    if future.done():
        return
    if isinstance(outcome, Exception):
        future.set_exception(outcome)
    else:
        future.set_result(outcome)


async def in_shared_transaction(work: Work[Result], *, most: int = MAX_BATCH) -> Result:
    """Run ``work`` in a database thread and return its result after the commit.

    Work that is submitted at the same time shares the transaction, at most ``most`` of it: fewer
    where the rows that it locks are waited for by others. ``work`` writes in a transaction of its
    own (``atomic_write(joins=True)``). It is run a second time, after a rollback, if other work of
    its batch fails or if two such transactions wait for one another (docs/decisions/149).
    """
    concurrent = 1 if connection.vendor == "sqlite" else CONCURRENT_BATCHES
    return await batcher("accepting", run_all, concurrent=concurrent, most=most).submit(work)


async def in_shared_thread(work: Work[Result]) -> Result:
    """Run ``work``, which only reads, in a database thread.

    Work that is submitted at the same time is run there one after the other: the way into a thread
    and back costs more than a SELECT by an index.
    """
    return await batcher("asking", run_each, concurrent=CONCURRENT_BATCHES).submit(work)


async def in_shared_call(run_batch: RunBatch[Item, Result], item: Item) -> Result:
    """Return what ``run_batch``, a function of a module, returns for ``item``.

    It is called in a database thread, with all items that are submitted at the same time.
    """
    return await batcher("asking", run_batch, concurrent=CONCURRENT_BATCHES).submit(item)


def run_all(works: Sequence[Work[Result]]) -> list[Result | Exception]:
    """Return the result or the error of each of ``works``.

    They share a transaction; if one of them fails, each gets its own. While the database is away
    all of them have its error.
    """
    if len(works) > 1:
        try:
            with atomic_write():
                limit_lock_wait()
                return [work() for work in works]
        except (OperationalError, InterfaceError) as error:
            if not isinstance(error.__cause__, DeadlockDetected | LockNotAvailable):
                return [error for _ in works]
            logger.info("%d requests are run one by one: their rows are locked", len(works))
        except Exception as error:  # noqa: BLE001 - raised again where the work was submitted
            logger.info("%d requests are run one by one: %r", len(works), error)
    return run_each(works)


def run_each(works: Sequence[Work[Result]]) -> list[Result | Exception]:
    """Return the result or the error of each of ``works``."""
    return [attempt(work) for work in works]


def limit_lock_wait() -> None:
    """On PostgreSQL, make this transaction fail if it waits for a locked row."""
    here = driver.this_connection()
    if here.vendor != "sqlite":
        driver.fetch(here, LIMIT_LOCK_WAIT, ())


def attempt(work: Work[Result]) -> Result | Exception:
    """Return the result of ``work``, or its error, for :class:`Batcher` to raise."""
    try:
        return work()
    except Exception as error:  # noqa: BLE001 - raised again where the work was submitted
        return error


# By the function that runs a batch, and by how many items it gets.
Batchers = dict[tuple[Callable[..., Any], int], Batcher[Any, Any]]


@per_loop
def batchers() -> Batchers:
    """Return the batchers of the running event loop."""
    return {}


def batcher(
    name: str, run_batch: RunBatch[Item, Result], *, concurrent: int, most: int = MAX_BATCH
) -> Batcher[Item, Result]:
    """Return the running event loop's batcher for ``run_batch``."""
    known = batchers()
    if (run_batch, most) not in known:
        known[run_batch, most] = Batcher(run_batch, name=name, most=most, concurrent=concurrent)
    return known[run_batch, most]
