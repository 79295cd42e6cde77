"""Group commit: database work that is submitted while other work runs becomes one batch.

    submitted ─┬─ nothing runs ──► a batch of one, at once
               └─ a batch runs ──► after it: first all reads in one thread, then all writes in one
                                   transaction

A transaction costs a sync to disk however much it writes, and on SQLite a wait for other writers.
There is no pause: a single item runs at once (docs/decisions/117, 180).
"""

import asyncio
import logging
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Generic, TypeVar

from django.db import InterfaceError, OperationalError, connection
from psycopg.errors import DeadlockDetected, LockNotAvailable

from core.database import driver
from core.database.threads import LifoThreadPool
from core.database.transactions import atomic_write, in_thread_of, pool
from core.lib.per_loop import per_loop

logger = logging.getLogger(__name__)

Item = TypeVar("Item")
Result = TypeVar("Result")
Work = Callable[[], Result]
Pending = tuple[Item, asyncio.Future[Result]]
RunBatch = Callable[[list[Item]], Sequence[Result | Exception]]
MAX_BATCH = 16  # SQLite has one writer at a time: other processes want to write as well
# A batch may wait for a lock, or for a server far away: a second one starts after this. Not at
# once: of two that share a core both end when the later one does (docs/decisions/152).
CONCURRENT_BATCHES = 2
SLOW_BATCH_SECONDS = 0.03
# Two transactions with rows of several people may deadlock; PostgreSQL detects that only after 1 s.
LIMIT_LOCK_WAIT = "SELECT set_config('lock_timeout', '50ms', true)"


class Batcher(Generic[Item, Result]):
    """Calls ``run_batch`` with the items that one event loop submits, at most ``most`` at a time.

    ``run_batch`` is called in a database thread (:func:`threads_of_batches`). It returns one result
    for each item, in their order; an Exception is raised where that item was submitted. If it
    raises, that is the outcome of all its items. ``concurrent``: how many batches may run at once;
    all but the first start only when another one has taken SLOW_BATCH_SECONDS.
    """

    def __init__(
        self,
        run_batch: RunBatch[Item, Result],
        *,
        most: int = MAX_BATCH,
        concurrent: int = 1,
    ) -> None:
        self._run_batch, self._most, self._concurrent = run_batch, most, concurrent
        self._pending: list[Pending[Item, Result]] = []
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
            while batch := self._take():
                await self._run_one(batch)
                await asyncio.sleep(0)  # items that its results cause are in the next batch
        finally:
            # Not in a callback of the task: the next submitter must find it ended.
            self._running.discard(asyncio.current_task())

    async def _run_one(self, batch: list[Pending[Item, Result]]) -> None:
        items = [item for item, _ in batch]
        outcomes: Sequence[Result | Exception]
        try:
            outcomes = await in_thread_of(threads_of_batches(), self._run_batch, items)
        except Exception as error:  # noqa: BLE001 - raised where the items were submitted
            outcomes = [error] * len(batch)
        if all(isinstance(outcome, OperationalError) for outcome in outcomes):
            # The database is away: pending items must not wait for the same error again.
            batch, self._pending = batch + self._pending, []
            outcomes = [outcomes[0]] * len(batch)
        for (_, future), outcome in zip(batch, outcomes, strict=True):
            settle(future, outcome)

    def _take(self) -> list[Pending[Item, Result]]:
        batch, self._pending = self._pending[: self._most], self._pending[self._most :]
        return batch


def threads_of_batches() -> LifoThreadPool:
    """Return the thread that is kept for batches, or the others while it works.

    Its connection has the statements of batches prepared, and slow work is never before them.
    """
    kept = pool("batches", most=1)
    return pool() if kept.is_busy else kept


def settle(future: "asyncio.Future[Result]", outcome: Result | Exception) -> None:
    """Set the result or the exception of ``future``, unless it was cancelled."""
    if future.done():
        return
    if isinstance(outcome, Exception):
        future.set_exception(outcome)
    else:
        future.set_result(outcome)


@dataclass(frozen=True, slots=True)
class Task(Generic[Result]):
    """Work that shares a transaction with other work, or only a thread."""

    work: Work[Result]
    in_transaction: bool


class TaskBatcher(Batcher[Task[Result], Result]):
    """Runs works without a transaction first, so that simultaneous requests are all authenticated
    when the transaction that stores them begins.

    Work in a transaction waits for one batch of the other kind at most. SQLite has one writer: no
    second transaction is begun beside another one, so the order of messages stays.
    """

    _was_deferred = False
    _writing = 0

    def _take(self) -> list[Pending[Task[Result], Result]]:
        writes = [each for each in self._pending if each[0].in_transaction]
        reads = [each for each in self._pending if not each[0].in_transaction]
        may_write = bool(writes) and not (self._writing and connection.vendor == "sqlite")
        if reads and not (may_write and self._was_deferred):
            self._was_deferred = may_write
            batch, self._pending = reads[: self._most], reads[self._most :] + writes
        elif may_write:
            self._was_deferred = False
            batch, self._pending = writes[: self._most], writes[self._most :] + reads
        else:
            batch = []
        return batch

    async def _run_one(self, batch: list[Pending[Task[Result], Result]]) -> None:
        writes = batch[0][0].in_transaction
        self._writing += writes
        try:
            await super()._run_one(batch)
        finally:
            self._writing -= writes


async def in_shared_transaction(work: Work[Result], *, most: int = MAX_BATCH) -> Result:
    """Run ``work`` in a database thread and return its result after the commit.

    Simultaneous works share the transaction, at most ``most`` of them: fewer where others wait for
    the rows that they lock. ``work`` writes in a transaction of its own
    (``atomic_write(joins=True)``). It is run a second time, after a rollback, if other work of its
    batch fails or if two such transactions wait for each other (docs/decisions/149).
    """
    batcher: TaskBatcher[Result] = task_batcher(most)
    return await batcher.submit(Task(work, in_transaction=True))


async def in_shared_thread(work: Work[Result]) -> Result:
    """Run ``work``, a short read, in a database thread and return its result.

    Simultaneous works run there one after the other: a switch to a thread and back takes longer
    than a SELECT by an index.
    """
    batcher: TaskBatcher[Result] = task_batcher(MAX_BATCH)
    return await batcher.submit(Task(work, in_transaction=False))


def task_batcher(most: int) -> TaskBatcher[Any]:
    """Return the running event loop's batcher of transactions with at most ``most`` works each."""
    make = partial(TaskBatcher, run_tasks, most=most, concurrent=CONCURRENT_BATCHES)
    batcher: TaskBatcher[Any] = of_this_loop(most, make)
    return batcher


def run_tasks(tasks: Sequence[Task[Result]]) -> list[Result | Exception]:
    """Return the result or the error of each of ``tasks``, which are of one kind."""
    works = [task.work for task in tasks]
    return run_in_transaction(works) if tasks[0].in_transaction else run_each(works)


def run_in_transaction(works: Sequence[Work[Result]]) -> list[Result | Exception]:
    """Return the result or the error of each of ``works``, which share a transaction.

    If one of them fails, each gets its own. While the database is away all have its error.
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
    """Make this transaction fail when it waits for a locked row (PostgreSQL only)."""
    here = driver.this_connection()
    if here.vendor != "sqlite":
        driver.fetch(here, LIMIT_LOCK_WAIT, ())


def attempt(work: Work[Result]) -> Result | Exception:
    """Return the result of ``work``, or its error, for :class:`Batcher` to raise."""
    try:
        return work()
    except Exception as error:  # noqa: BLE001 - raised again where the work was submitted
        return error


async def in_shared_call(run_batch: RunBatch[Item, Result], item: Item) -> Result:
    """Return the result of ``run_batch``, a function of a module, for ``item``.

    It is called in a database thread, with all items that are submitted at the same time.
    """
    make = partial(Batcher, run_batch, concurrent=CONCURRENT_BATCHES)
    batcher: Batcher[Item, Result] = of_this_loop(run_batch, make)
    return await batcher.submit(item)


@per_loop
def batchers() -> dict[Hashable, Any]:
    """Return the batchers of the running event loop, by key."""
    return {}


def of_this_loop(key: Hashable, make: Callable[[], Any]) -> Any:
    """Return the running event loop's batcher for ``key``, made on first use."""
    known = batchers()
    if key not in known:
        known[key] = make()
    return known[key]
