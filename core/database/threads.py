"""A thread pool for threads with a database connection each.

``ThreadPoolExecutor`` gives a task to the thread that has been idle longest: its connection's page
cache is cold, and in time every thread uses as much memory as the busiest one (docs/decisions/147).
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
    """The most recently used thread takes the next task; its connection's caches are warm.

    At most ``most`` threads; one is started when all others work. Each calls ``at_end`` before it
    ends.
    """

    def __init__(self, most: int, *, name: str, at_end: Callable[[], object]) -> None:
        self._most, self._name, self._at_end = most, name, at_end
        self._lock = threading.Lock()
        self._threads: list[threading.Thread] = []
        self._idle: list[Inbox] = []
        self._waiting: deque[Work] = deque()
        self._ended = False

    def submit(self, call: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> "Future[T]":
        """Call it in a thread. Raises RuntimeError after :meth:`shutdown`, or without a thread."""
        future: Future[T] = Future()
        work: Work = (future, partial(call, *args, **kwargs))
        with self._lock:
            if self._ended:
                raise RuntimeError("this pool was shut down")
            if self._idle:
                self._idle.pop().put(work)
            elif len(self._threads) < self._most:
                self._start_thread(work)
            else:
                self._waiting.append(work)
        return future

    @property
    def is_busy(self) -> bool:
        """Return whether a task submitted now would wait."""
        return not self._idle and len(self._threads) >= self._most

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:  # noqa: FBT001, FBT002 - as Executor has it
        """Accept no more tasks; the threads end when all submitted ones are done."""
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

    def _start_thread(self, work: Work) -> None:
        inbox: Inbox = SimpleQueue()
        inbox.put(work)
        name = f"{self._name}_{len(self._threads)}"
        thread = threading.Thread(target=self._run, args=(inbox,), name=name, daemon=True)
        thread.start()  # raises RuntimeError where the system has no more threads
        self._threads.append(thread)

    def _run(self, inbox: Inbox) -> None:
        try:
            while (work := inbox.get()) is not None:
                set_result = execute(work)
                self._take_next(inbox)  # before the result: its reader may submit more at once
                set_result()
                del work, set_result  # free their memory while this thread waits
        finally:
            self._at_end()

    def _take_next(self, inbox: Inbox) -> None:
        """Put the next waiting task into ``inbox``; else mark the thread idle, or end it."""
        with self._lock:
            if self._waiting:
                inbox.put(self._waiting.popleft())
            elif self._ended:
                inbox.put(None)
            else:
                self._idle.append(inbox)


def execute(work: Work) -> Callable[[], None]:
    """Execute a task; return the call that sets the result of its future."""
    future, call = work
    if not future.set_running_or_notify_cancel():
        return lambda: None
    try:
        found = call()
    except BaseException as error:  # noqa: BLE001 - raised by the future
        return partial(future.set_exception, error)
    return partial(future.set_result, found)
