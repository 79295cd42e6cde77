"""The run and the session that the code works for now: each log line has their public ids.

``IDS`` is a context variable: tasks copy it, and :func:`core.database.transactions.in_thread_of`
hands it on. The ids are in an object, so that a request which learns them in another thread has
them, too. Tasks that serve all requests set it to None: one request may have started them.
"""

from collections.abc import Callable
from contextvars import ContextVar
from dataclasses import dataclass
from typing import TypeVar

from core.lib import tracing

T = TypeVar("T")


@dataclass(slots=True)
class Ids:
    """Public ids, or empty. For the trace: ``began``, and ``caller``, the client's span."""

    run: str = ""
    session: str = ""
    began: int = 0
    caller: tracing.SpanIds | None = None


IDS: ContextVar[Ids | None] = ContextVar("log_ids", default=None)


def begin(*, run: str = "", session: str = "", caller: tracing.SpanIds | None = None) -> None:
    """Let this task, and those that it starts, work for a run; for one to be noted, without ids."""
    IDS.set(Ids(run, session, tracing.now() if tracing.is_on() else 0, caller))


def note(*, run: str, session: str) -> None:
    """Note for which run and session the work that has begun is."""
    ids = IDS.get()
    if ids is None:
        begin(run=run, session=session)
    else:
        ids.run, ids.session = run, session


def under(ids: Ids | None, call: Callable[[], T]) -> T:
    """Return the result of ``call``, which works for ``ids``."""
    before = IDS.set(ids)
    try:
        return call()
    finally:
        IDS.reset(before)
