"""What is asked for at once is done at once: one visit to the database instead of one each.

:class:`Batcher` gathers what comes while the visit before is on its way; there is no pause, so
what comes alone is done alone, at once. The worker begins its runs with it, and :func:`committed`
the doors' messages: one transaction, one sync to disk (docs/decisions/117, 135).
"""

import asyncio
import logging
from collections.abc import Callable, Sequence
from functools import partial
from itertools import takewhile
from typing import Any, Generic, TypeVar
from weakref import WeakKeyDictionary

from django.db import InterfaceError, OperationalError, connection
from psycopg.errors import DeadlockDetected, LockNotAvailable

from core.database import driver
from core.database.transactions import atomic_write, in_thread_of, pool

logger = logging.getLogger(__name__)

A = TypeVar("A")
R = TypeVar("R")
Work = Callable[[], R]
Q = TypeVar("Q")
F = TypeVar("F")
AT_ONCE = 16  # SQLite has one writer at a time: other processes want to write as well
# Where somebody else's lock, or a server far away, may keep a visit: another one is begun beside it
# after this. Not at once: two that take turns on one core are both done when the later one is.
CONCURRENT_BATCHES = 2
PATIENCE_SECONDS = 0.03
# How long others are waited for who are on their way to ask the same.
WAIT_FOR_OTHERS_SECONDS = 0.005
# Two transactions with several people each may wait for one another; PostgreSQL notices after 1 s.
GIVE_WAY = "SELECT set_config('lock_timeout', '50ms', true)"


class Batcher(Generic[A, R]):
    """What one event loop asks of ``work``, at most ``most`` at a time, in the order it came.

    ``work`` runs in a database thread that is kept for this ``name``. It gets what was asked for,
    and gives what became of each, in the same order; an Exception is raised where that was asked
    for. What it raises itself all of them get.
    """

    def __init__(
        self,
        work: Callable[[list[A]], Sequence[R | Exception]],
        *,
        name: str,
        most: int = AT_ONCE,
        lanes: int = 1,
    ) -> None:
        """Nothing waits. ``lanes``: how many visits may be on their way at once; all but the first
        are begun only for what has waited PATIENCE_SECONDS."""
        self._work, self._most = work, most
        self._name, self._lanes = name, lanes
        self._waiting: list[tuple[A, asyncio.Future[R]]] = []
        self._busy = 0
        self._impatient: asyncio.TimerHandle | None = None
        self._expecting: asyncio.TimerHandle | None = None
        self._once_told: list[Callable[[], None]] = []
        self._tasks: set[asyncio.Task[None]] = set()

    async def do(self, asked: A, *, after: "Batcher[Any, Any] | None" = None) -> R:
        """What becomes of ``asked``. It is done even when nobody waits for it any more.

        ``after``: where those come from who ask the same. Who is there now is waited for,
        COMPANY_SECONDS at most: a visit for the first alone costs all the others more.
        """
        loop = asyncio.get_running_loop()
        future: asyncio.Future[R] = loop.create_future()
        self._waiting.append((asked, future))
        if not self._busy and after is not None and after.is_busy:
            self._expect(after)
        elif not self._busy:
            self._begin()
        elif self._busy < self._lanes and self._impatient is None:
            self._impatient = loop.call_later(PATIENCE_SECONDS, self._lose_patience)
        return await future

    @property
    def is_busy(self) -> bool:
        """Whether a visit is on its way."""
        return self._busy > 0

    def once_told(self, then: Callable[[], None]) -> None:
        """Call ``then`` once those have gone on whom the next visit that ends has told."""
        self._once_told.append(then)

    def _expect(self, others: "Batcher[Any, Any]") -> None:
        if self._expecting is None:
            loop = asyncio.get_running_loop()
            self._expecting = loop.call_later(WAIT_FOR_OTHERS_SECONDS, self._expect_nobody)
            others.once_told(self._expect_nobody)

    def _expect_nobody(self) -> None:
        if self._expecting is not None:
            self._expecting.cancel()
            self._expecting = None
        if self._waiting and not self._busy:
            self._begin()

    def _lose_patience(self) -> None:
        self._impatient = None
        if self._waiting and self._busy < self._lanes:
            self._begin()

    def _begin(self) -> None:
        self._busy += 1
        task = asyncio.get_running_loop().create_task(self._do_all())
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _do_all(self) -> None:
        try:
            await self._visit()
        finally:
            self._busy -= 1

    async def _visit(self) -> None:
        while self._waiting:
            taken, self._waiting = self._waiting[: self._most], self._waiting[self._most :]
            outcomes: Sequence[R | Exception]
            try:
                asked = [each for each, _ in taken]
                threads = pool(self._name, most=self._lanes)
                outcomes = await in_thread_of(threads, self._work, asked)
            except Exception as error:  # noqa: BLE001 - whoever waits raises it
                outcomes = [error] * len(taken)
            for (_, future), outcome in zip(taken, outcomes, strict=True):
                tell(future, outcome)
            self._give_up(outcomes)
            called, self._once_told = self._once_told, []
            for then in called:
                asyncio.get_running_loop().call_soon(then)

    def _give_up(self, outcomes: Sequence[R | Exception]) -> None:
        """While the database takes nothing, those who wait do not wait for the same error again."""
        first = outcomes[0]
        if not all(isinstance(each, OperationalError) for each in outcomes):
            return
        waiting, self._waiting = self._waiting, []
        for _, future in waiting:
            tell(future, first)


def tell(future: "asyncio.Future[R]", outcome: R | Exception) -> None:
    """Give ``outcome`` to who waits for it, if they still do."""
    if future.done():
        return
    if isinstance(outcome, Exception):
        future.set_exception(outcome)
    else:
        future.set_result(outcome)


async def in_shared_transaction(
    work: Work[R], *, most: int = AT_ONCE, after: Batcher[Any, Any] | None = None
) -> R:
    """What ``work`` returned, once what it wrote is committed: in a database thread, and in one
    transaction with the work of others who ask at the same time.

    ``most``: how many share a transaction, where what they lock is waited for by others. ``after``:
    as :meth:`Batcher.do` has it.

    ``work`` writes in a transaction of its own, of which nothing stays when it raises. It may be
    done twice, when another's fails: what it did the first time is rolled back then. So it is when
    two such transactions on PostgreSQL wait for one another (docs/decisions/149).
    """
    lanes = 1 if connection.vendor == "sqlite" else CONCURRENT_BATCHES
    accepting: Batcher[Work[R], R] = local("accepting", all_of, most=most, lanes=lanes)
    return await accepting.do(work, after=after)


def all_of(works: Sequence[Work[R]]) -> list[R | Exception]:
    """What each of ``works`` returned, or its error: in one transaction, or, when one of them
    fails, each for itself. While the database is away all have its error."""
    if len(works) > 1:
        try:
            with atomic_write():
                give_way()
                told, others = informed(works)
                return [work() for work in (*told, *others)]
        except (OperationalError, InterfaceError) as error:
            if not isinstance(error.__cause__, DeadlockDetected | LockNotAvailable):
                return [error for _ in works]
            logger.info("%d requests are done one by one: others hold their rows", len(works))
        except Exception as error:  # noqa: BLE001 - raised again where the work was asked for
            logger.info("%d requests are done one by one: %r", len(works), error)
    return each_of(works)


class Informed(Generic[Q, F, R]):
    """Work that begins with a question, which is asked for all of a transaction at once.

    ``find`` gets what is ``asked``, in the order in which the works are done, and gives what it
    found; None where the work has to look for itself, as it does alone: what one of them stores may
    change the answer of a later one. Answers are for those that come before any other work.
    """

    def __init__(
        self,
        work: Callable[[F | None], R],
        *,
        asked: Q,
        find: Callable[[Sequence[Q]], Sequence[F | None]],
    ) -> None:
        """Nothing is asked yet."""
        self.work, self.asked, self.find = work, asked, find

    def __call__(self) -> R:
        """Do it alone."""
        return self.work(None)


def informed(works: Sequence[Work[R]]) -> tuple[list[Work[R]], list[Work[R]]]:
    """``works`` with the answers to their questions, those before the first of another kind: what
    that one stores may change them. First those that have to look at nothing that another one of
    them stores. In the transaction in which they are done."""
    first = works[0]
    if not isinstance(first, Informed):
        return [], list(works)
    alike = list(takewhile(lambda each: getattr(each, "find", None) == first.find, works))
    found = first.find([each.asked for each in alike if isinstance(each, Informed)])
    answered: list[Work[R]] = [
        partial(each.work, answer)
        for each, answer in zip(alike, found, strict=True)
        if isinstance(each, Informed)
    ]
    told = len(list(takewhile(lambda answer: answer is not None, found)))
    return answered[:told], [*answered[told:], *works[len(alike) :]]


def give_way() -> None:
    """On PostgreSQL: let this transaction fail when it waits for another one's rows."""
    here = driver.this_connection()
    if here.vendor != "sqlite":
        driver.fetch(here, GIVE_WAY, ())


def attempt(work: Work[R]) -> R | Exception:
    """What ``work`` returned, or its error, for whoever asked for it."""
    try:
        return work()
    except Exception as error:  # noqa: BLE001 - raised again where the work was asked for
        return error


async def asked_at_once(do: Callable[[list[A]], Sequence[R | Exception]], asked: A) -> R:
    """What ``do`` gives for ``asked``, in a database thread and one visit with what others ask of
    it at the same time. ``do`` is a function of a module: what waits for it is found by it."""
    return await local("asking", do, lanes=CONCURRENT_BATCHES).do(asked)


def each_of(works: Sequence[Work[R]]) -> list[R | Exception]:
    """What each of ``works`` returned, or its error."""
    return [attempt(work) for work in works]


# By what is done, and how much of it at once.
Queues = dict[tuple[Callable[..., Any], int], Batcher[Any, Any]]
_loops: "WeakKeyDictionary[asyncio.AbstractEventLoop, Queues]" = WeakKeyDictionary()


def local(
    name: str,
    do: Callable[[list[A]], Sequence[R | Exception]],
    *,
    lanes: int,
    most: int = AT_ONCE,
) -> Batcher[A, R]:
    """What waits for ``do``, a function of a module, in the running event loop, done at most
    ``most`` at once by the threads of this ``name``, which is always the same for it."""
    queues = _loops.setdefault(asyncio.get_running_loop(), {})
    if (do, most) not in queues:
        queues[do, most] = Batcher(do, name=name, most=most, lanes=lanes)
    return queues[do, most]
