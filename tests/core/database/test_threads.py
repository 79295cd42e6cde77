"""A pool of threads in which the most recently used one takes the next task."""

import threading
from concurrent.futures import CancelledError

import pytest

from core.database.threads import LifoThreadPool

SECONDS = 30


def here() -> str:
    """Return the current thread."""
    return threading.current_thread().name


def test_the_last_used_thread_works_next_and_no_other_is_started() -> None:
    threads = LifoThreadPool(4, name="warm", at_end=lambda: None)
    gate = threading.Event()
    busy = threads.submit(lambda: (gate.wait(SECONDS), here())[1])
    beside = {threads.submit(here).result(SECONDS) for _ in range(20)}
    gate.set()
    assert busy.result(SECONDS) == "warm_0"
    assert beside == {"warm_1"}
    threads.shutdown()


def test_more_than_there_are_threads_wait_for_one_in_order() -> None:
    threads = LifoThreadPool(2, name="warm", at_end=lambda: None)
    gate, done = threading.Event(), list[int]()
    for _ in range(2):
        threads.submit(gate.wait, SECONDS)
    waiting = [threads.submit(done.append, number) for number in range(50)]
    assert not any(each.done() for each in waiting)
    gate.set()
    for each in waiting:
        each.result(SECONDS)
    assert sorted(done) == list(range(50))
    threads.shutdown()


def test_an_error_is_raised_where_somebody_waits_and_the_thread_lives() -> None:
    threads = LifoThreadPool(1, name="warm", at_end=lambda: None)

    def fail() -> None:
        raise ValueError("x")

    with pytest.raises(ValueError, match="x"):
        threads.submit(fail).result(SECONDS)
    assert threads.submit(here).result(SECONDS) == "warm_0"
    threads.shutdown()


def test_at_the_end_submitted_tasks_are_done_and_each_thread_cleans_up() -> None:
    ended: list[str] = []
    threads = LifoThreadPool(3, name="warm", at_end=lambda: ended.append(here()))
    gate, done = threading.Event(), list[int]()
    for _ in range(3):
        threads.submit(gate.wait, SECONDS)
    for number in range(10):
        threads.submit(done.append, number)
    threading.Timer(0.05, gate.set).start()
    threads.shutdown()
    assert sorted(done) == list(range(10))
    assert sorted(ended) == ["warm_0", "warm_1", "warm_2"]
    with pytest.raises(RuntimeError):
        threads.submit(here)


def test_a_thread_that_the_system_refuses_is_started_for_a_later_task(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """At the limit of processes; else the pool would take it for one that works, for ever."""
    threads = LifoThreadPool(1, name="warm", at_end=lambda: None)

    def refuse(_: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    with monkeypatch.context() as full:
        full.setattr(threading.Thread, "start", refuse)
        with pytest.raises(RuntimeError, match="new thread"):
            threads.submit(here)
    assert threads.submit(here).result(1) == "warm_0"
    threads.shutdown()


def test_a_cancelled_task_is_never_begun() -> None:
    threads = LifoThreadPool(1, name="warm", at_end=lambda: None)
    gate, done = threading.Event(), list[int]()
    threads.submit(gate.wait, SECONDS)
    one, other = threads.submit(done.append, 1), threads.submit(done.append, 2)
    assert one.cancel()
    gate.set()
    other.result(SECONDS)
    gate.clear()
    threads.submit(gate.wait, SECONDS)
    last = threads.submit(done.append, 3)
    threads.shutdown(wait=False, cancel_futures=True)
    gate.set()
    with pytest.raises(CancelledError):
        last.result(SECONDS)
    assert done == [2]
