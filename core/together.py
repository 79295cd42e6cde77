"""What concurrent requests bring at once is committed at once: one transaction, one sync to disk.

SQLite has one writer, so ten requests that each wait for it and then for the disk are ten times as
slow as the ten together (docs/decisions/117). PostgreSQL takes its writers side by side, and there
two transactions with several people each could wait for one another: each stays for itself.
"""

import asyncio
import logging
from collections.abc import Callable
from typing import Generic, TypeVar
from weakref import WeakKeyDictionary

from django.db import InterfaceError, OperationalError, connection

from core.db import in_thread, write

logger = logging.getLogger(__name__)

T = TypeVar("T")
Work = Callable[[], T]
AT_ONCE = 16  # other processes want to write as well


class Together(Generic[T]):
    """The work that waits in one event loop; it is done in the order in which it came."""

    def __init__(self) -> None:
        """Nothing waits."""
        self._waiting: list[tuple[Work[T], asyncio.Future[T]]] = []
        self._task: asyncio.Task[None] | None = None

    async def do(self, work: Work[T]) -> T:
        """Do ``work`` in a database thread; what it returned, once that is committed.

        It may be done twice: what it did the first time is rolled back then.
        """
        if connection.vendor != "sqlite":
            return await in_thread(work)
        loop = asyncio.get_running_loop()
        future: asyncio.Future[T] = loop.create_future()
        self._waiting.append((work, future))
        if self._task is None or self._task.done():
            self._task = loop.create_task(self._work())
        return await future

    async def _work(self) -> None:
        while self._waiting:
            taken, self._waiting = self._waiting[:AT_ONCE], self._waiting[AT_ONCE:]
            done = await in_thread(all_of, [work for work, _ in taken])
            for (_, future), outcome in zip(taken, done, strict=True):
                if future.done():
                    continue  # whoever asked has gone; it is committed all the same
                if isinstance(outcome, Exception):
                    future.set_exception(outcome)
                else:
                    future.set_result(outcome)


def all_of(works: list[Work[T]]) -> list[T | Exception]:
    """What each of ``works`` returned, or its error: in one transaction, or, when one of them
    fails, each for itself. While the database is away all have its error."""
    if len(works) > 1:
        try:
            with write():
                return [work() for work in works]
        except (OperationalError, InterfaceError) as error:
            return [error for _ in works]
        except Exception:
            logger.exception("work of several requests failed; each is done for itself")
    return [outcome(work) for work in works]


def outcome(work: Work[T]) -> T | Exception:
    """What ``work`` returned, or its error, for whoever asked for it."""
    try:
        return work()
    except Exception as error:  # noqa: BLE001 - raised again where the work was asked for
        return error


_loops: "WeakKeyDictionary[asyncio.AbstractEventLoop, Together[str]]" = WeakKeyDictionary()


def local() -> Together[str]:
    """What waits in the running event loop."""
    return _loops.setdefault(asyncio.get_running_loop(), Together())
