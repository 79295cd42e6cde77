"""Group commit: database work that is submitted while other work runs becomes one batch.

    submitted ─┬─ nothing runs ──► a batch of one, at once
               └─ a batch runs ──► after it: all calls of one function in one thread; lookups first,
                                   then what writes, in one transaction

A transaction costs a sync to disk however much it writes, and on SQLite a wait for other writers.
There is no pause: a single item runs at once (docs/decisions/117, 180, 185).
"""

import asyncio
import logging
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple, TypeVar

from django.db import DEFAULT_DB_ALIAS, OperationalError, connections

from core.database import driver
from core.database.threads import LifoThreadPool
from core.database.transactions import AWAY, atomic_write, in_thread_of, pool
from core.lib.log_ids import IDS, under
from core.lib.per_loop import per_loop

logger = logging.getLogger(__name__)

Item = TypeVar("Item")
Result = TypeVar("Result")
Work = Callable[[], Result]
# Returns one result for each item, in their order; an Exception is raised where it was submitted.
RunBatch = Callable[[list[Item]], Sequence[Result | Exception]]
Pending = tuple[Any, "asyncio.Future[Any]"]
MAX_BATCH = 16  # SQLite has one writer at a time: other processes want to write as well
# A batch may wait for a lock, or for a server far away: a second one starts after this. Not at
# once: of two that share a core both end when the later one does (docs/decisions/152).
CONCURRENT_BATCHES = 2
SLOW_BATCH_SECONDS = 0.03
# Two transactions with rows of several people may deadlock; PostgreSQL detects that only after 1 s.
LIMIT_LOCK_WAIT = "SELECT set_config('lock_timeout', '50ms', true)"
# PostgreSQL's codes of a deadlock and of a lock that was not free in that time.
LOCKED = frozenset({"40P01", "55P03"})


class Kind(NamedTuple):
    """Calls that may be one batch: those of one function, at most ``most`` at a time."""

    run_batch: RunBatch[Any, Any]
    most: int


class Batcher:
    """Collects calls of an event loop, and runs them in the thread for batches.

    ``concurrent``: how many batches may run at once; all but the first start only when another one
    has taken SLOW_BATCH_SECONDS.
    """

    def __init__(self, *, concurrent: int = 1) -> None:
        self._concurrent = concurrent
        self._pending: dict[Kind, list[Pending]] = {}
        self._running: set[asyncio.Task[Any] | None] = set()
        self._timer: asyncio.TimerHandle | None = None
        self._writing, self._was_deferred = 0, False

    async def submit(
        self, run_batch: RunBatch[Item, Result], item: Item, *, most: int = MAX_BATCH
    ) -> Result:
        """Return the result of ``run_batch`` for ``item``. Raises its error.

        The item is processed even if the caller is cancelled.
        """
        loop = asyncio.get_running_loop()
        future: asyncio.Future[Result] = loop.create_future()
        self._pending.setdefault(Kind(run_batch, most), []).append((item, future))
        if not self._running:
            self._start()
        elif len(self._running) < self._concurrent and self._timer is None:
            self._timer = loop.call_later(SLOW_BATCH_SECONDS, self._start)
        return await future

    def _start(self) -> None:
        self._timer = None
        if self._pending and len(self._running) < self._concurrent:
            self._running.add(asyncio.get_running_loop().create_task(self._run()))

    async def _run(self) -> None:
        IDS.set(None)  # the batches are of many requests
        own = asyncio.current_task()
        try:
            while self._pending and (kind := self._next_kind()) is not None:
                calls = self._pending.pop(kind)
                if len(calls) > kind.most:
                    self._pending[kind] = calls[kind.most :]
                await self._run_one(kind, calls[: kind.most])
                await asyncio.sleep(0)  # calls that its results cause are in the next batch
        finally:
            # Not in a callback of the task: the next submitter must find it ended.
            self._running.discard(own)

    def _next_kind(self) -> Kind | None:
        """Return the kind of the next batch, or None.

        Lookups come first, so that simultaneous requests are all authenticated when the transaction
        that stores them begins; a transaction waits for one batch of lookups at most. SQLite has
        one writer: no second transaction is begun beside another one, so the order of messages
        stays.
        """
        lookups = [each for each in self._pending if each.run_batch is not run_in_transaction]
        writes = [each for each in self._pending if each.run_batch is run_in_transaction]
        if self._writing and connections[DEFAULT_DB_ALIAS].vendor == "sqlite":
            writes = []
        self._was_deferred = bool(lookups and writes) and not self._was_deferred
        return next(iter(lookups if self._was_deferred or not writes else writes), None)

    async def _run_one(self, kind: Kind, calls: list[Pending]) -> None:
        writes = kind.run_batch is run_in_transaction
        self._writing += writes
        outcomes: Sequence[Any]
        try:
            items = [item for item, _ in calls]
            outcomes = await in_thread_of(threads_of_batches(), kind.run_batch, items)
        except Exception as error:  # noqa: BLE001 - raised where the items were submitted
            outcomes = [error] * len(calls)
        finally:
            self._writing -= writes
        if all(isinstance(outcome, OperationalError) for outcome in outcomes):
            # The database is away: pending calls must not wait for the same error again.
            calls += [each for waiting in self._pending.values() for each in waiting]
            self._pending.clear()
            outcomes = [outcomes[0]] * len(calls)
        for (_, future), outcome in zip(calls, outcomes, strict=True):
            if future.done():
                continue  # its caller was cancelled
            if isinstance(outcome, Exception):
                future.set_exception(outcome)
            else:
                future.set_result(outcome)


def threads_of_batches() -> LifoThreadPool:
    """Return the thread that is kept for batches, or the others while it works.

    Its connection has the statements of batches prepared, and slow work is never before them.
    """
    kept = pool("batches", most=1)
    return pool() if kept.is_busy else kept


@per_loop
def shared() -> Batcher:
    """Return the batcher of the running event loop."""
    return Batcher(concurrent=CONCURRENT_BATCHES)


async def in_shared_transaction(work: Work[Result], *, most: int = MAX_BATCH) -> Result:
    """Run ``work`` in a database thread and return its result after the commit.

    Simultaneous works share the transaction, at most ``most`` of them: fewer where others wait for
    the rows that they lock. ``work`` writes in a transaction of its own
    (``atomic_write(joins=True)``). It is run a second time, after a rollback, if other work of its
    batch fails or if two such transactions wait for each other (docs/decisions/149).
    """
    own = partial(under, IDS.get(), work)
    return await shared().submit(run_in_transaction, own, most=most)


async def in_shared_call(run_batch: RunBatch[Item, Result], item: Item) -> Result:
    """Return the result of ``run_batch``, a function of a module, for ``item``.

    It is called in a database thread, with all items that are submitted at the same time.
    """
    return await shared().submit(run_batch, item)


def run_in_transaction(works: Sequence[Work[Result]]) -> list[Result | Exception]:
    """Return the result or the error of each of ``works``, which share a transaction.

    If one of them fails, each gets its own. While the database is away all have its error.
    """
    if len(works) > 1:
        try:
            with atomic_write():
                here = connections[DEFAULT_DB_ALIAS]
                if here.vendor != "sqlite":
                    driver.fetch(here, LIMIT_LOCK_WAIT, ())
                return [work() for work in works]
        except AWAY as error:
            if getattr(error.__cause__, "sqlstate", None) not in LOCKED:
                return [error for _ in works]
            logger.info("%d requests are run one by one: their rows are locked", len(works))
        except Exception as error:  # noqa: BLE001 - raised again where the work was submitted
            logger.info("%d requests are run one by one: %r", len(works), error)
    return [attempt(work) for work in works]


def attempt(work: Work[Result]) -> Result | Exception:
    """Return the result of ``work``, or its error, for :class:`Batcher` to raise."""
    try:
        return work()
    except Exception as error:  # noqa: BLE001 - raised again where the work was submitted
        return error
