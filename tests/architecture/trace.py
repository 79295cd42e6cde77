"""The functions of ours that a request calls, in all threads and tasks that work for it.

A context variable marks the work of a request: tasks and ``call_soon`` copy it by themselves, pools
of threads are made to. Work without a request (sweeps, chores) has none.
"""

import threading
import time
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from contextvars import ContextVar, copy_context
from dataclasses import dataclass, field
from functools import partial
from itertools import pairwise
from types import FrameType
from typing import Any, TypeVar

import pytest

from core.database.threads import LifoThreadPool
from tests import ROOT
from tests.architecture.sources import PACKAGES
from tests.loops import Loop

T = TypeVar("T")
QUIET_SECONDS = 0.25

# The part of the walk for which this context works; "" outside a traced request.
PART: ContextVar[str] = ContextVar("PART", default="")
# The trace that it belongs to: a task that an earlier request started is no part of this one.
OF: ContextVar["Trace | None"] = ContextVar("OF", default=None)
ROOTS = tuple(f"{ROOT / name}/" for name in PACKAGES)
# Threads of a worker. The writer of events has no chores: all it does is for a run.
WORKER = ("runner", "event-writer")


@dataclass
class Trace:
    """The calls of a traced request, by part (``web``, ``worker``)."""

    calls: dict[str, list[str]] = field(default_factory=dict)
    # Frames are kept, so that no id is used again: a coroutine that goes on is no new call.
    seen: dict[int, FrameType] = field(default_factory=dict)
    last: float = 0.0

    def modules(self, part: str) -> list[str]:
        """Return the modules entered, in the order of their first entry."""
        return list(dict.fromkeys(self.calls.get(part, [])))

    def changes(self, part: str) -> int:
        """Return how often a call is in another module than the call before it."""
        calls = self.calls.get(part, [])
        return sum(one != other for one, other in pairwise(calls))


_current: Trace | None = None


def module_of(path: str) -> str:
    """Return the module of a file of ours, or ""."""
    if not path.startswith(ROOTS):
        return ""
    name = path[len(str(ROOT)) + 1 :].removesuffix(".py").removesuffix("/__init__")
    return name.replace("/", ".")


def profile(frame: FrameType, event: str, _: object) -> None:
    """Record a call; installed with ``sys.setprofile``."""
    trace = _current
    if trace is None or event != "call":
        return
    thread = threading.current_thread().name
    part = PART.get() if OF.get() is trace else ""
    part = part or ("worker" if thread == "event-writer" else "")
    if not part or id(frame) in trace.seen:
        return
    code = frame.f_code
    # Comprehensions are calls in some versions of Python only.
    if code.co_name in ("<listcomp>", "<setcomp>", "<dictcomp>", "<genexpr>", "<module>"):
        return
    module = module_of(code.co_filename)
    if not module:
        return
    if thread in WORKER:
        part = "worker"
        PART.set(part)
        OF.set(trace)
    trace.seen[id(frame)] = frame
    trace.calls.setdefault(part, []).append(module)
    trace.last = time.monotonic()


@contextmanager
def profiled(patch: pytest.MonkeyPatch) -> Iterator[None]:
    """Let every thread that is started meanwhile be traced."""
    submit = LifoThreadPool.submit

    def with_context(self: LifoThreadPool, call: Callable[..., Any], /, *args: Any) -> Any:
        return submit(self, partial(copy_context().run, call, *args))

    patch.setattr(LifoThreadPool, "submit", with_context)
    threading.setprofile(profile)
    try:
        yield
    finally:
        threading.setprofile(None)


def traced(loop: Loop, work: Coroutine[Any, Any, T], until: Callable[[], bool]) -> tuple[T, Trace]:
    """Return the result of ``work``, and its trace.

    The trace ends when ``until`` holds and no more of its work goes on.
    """
    global _current  # noqa: PLW0603 - one trace at a time
    trace = _current = Trace(last=time.monotonic())

    async def marked() -> T:
        PART.set("web")
        OF.set(trace)
        return await work

    try:
        result = loop.run(marked())
        deadline = time.monotonic() + 30
        while not until() or time.monotonic() - trace.last < QUIET_SECONDS:
            assert time.monotonic() < deadline, "what was traced did not end"
            time.sleep(0.05)
    finally:
        _current = None
        trace.seen.clear()
    return result, trace


__all__ = ["Trace", "profiled", "traced"]
