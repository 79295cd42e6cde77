"""Threads of which the one that worked last works next.

``ThreadPoolExecutor`` takes the one that has been idle longest. Its database connection has the
coldest page cache, its statements lie in the coldest memory, and after a while all of them are as
large as the busiest would be alone (docs/decisions/147).
"""

import threading
from collections import deque
from collections.abc import Callable
from concurrent.futures import Executor, Future
from functools import partial
from queue import SimpleQueue
from typing import Any, ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")
END_SECONDS = 30.0

Work = tuple["Future[Any]", Callable[[], Any]]
Inbox = SimpleQueue[Work | None]


class LifoThreadPool(Executor):
    """At most ``most`` threads, each begun when all that there are work. ``at_end`` is called by
    each before it ends."""

    def __init__(self, most: int, *, name: str, at_end: Callable[[], object]) -> None:
        """No thread is begun before there is work."""
        self._most, self._name, self._at_end = most, name, at_end
        self._lock = threading.Lock()
        self._threads: list[threading.Thread] = []
        self._idle: list[Inbox] = []
        self._waiting: deque[Work] = deque()
        self._ended = False

    def submit(self, call: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> "Future[T]":
        """Call it in a thread; what becomes of it. Raises RuntimeError after :meth:`shutdown`."""
        future: Future[T] = Future()
        work: Work = (future, partial(call, *args, **kwargs))
        with self._lock:
            if self._ended:
                raise RuntimeError("these threads have been ended")
            if self._idle:
                self._idle.pop().put(work)
            elif len(self._threads) < self._most:
                self._begin(work)
            else:
                self._waiting.append(work)
        return future

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:  # noqa: FBT001, FBT002 - as Executor has it
        """Take no more work; the threads end when all that was submitted is done."""
        with self._lock:
            self._ended = True
            left = list(self._waiting) if cancel_futures else []
            if cancel_futures:
                self._waiting.clear()
            for inbox in self._idle:
                inbox.put(None)
            self._idle.clear()
        for future, _ in left:
            future.cancel()
        for thread in self._threads if wait else ():
            thread.join(END_SECONDS)

    def _begin(self, work: Work) -> None:
        inbox: Inbox = SimpleQueue()
        inbox.put(work)
        name = f"{self._name}_{len(self._threads)}"
        thread = threading.Thread(target=self._live, args=(inbox,), name=name, daemon=True)
        self._threads.append(thread)
        thread.start()

    def _live(self, inbox: Inbox) -> None:
        try:
            while (work := inbox.get()) is not None:
                tell = done(work)
                self._ask_for_more(inbox)  # first: who is told may submit more at once
                tell()
                del work, tell  # what they hold is free while this thread waits
        finally:
            self._at_end()

    def _ask_for_more(self, inbox: Inbox) -> None:
        """Give this thread what waits; else it is idle, or, when all is over, ends."""
        with self._lock:
            if self._waiting:
                inbox.put(self._waiting.popleft())
            elif self._ended:
                inbox.put(None)
            else:
                self._idle.append(inbox)


def done(work: Work) -> Callable[[], None]:
    """Do it; what tells who waits."""
    future, call = work
    if not future.set_running_or_notify_cancel():
        return lambda: None
    try:
        found = call()
    except BaseException as error:  # noqa: BLE001 - raised where somebody waits for it
        return partial(future.set_exception, error)
    return partial(future.set_result, found)
