"""Which trace a message, a run, a delivery or a long task belongs to, and the spans of its steps.

    receive (root) ─► queue ─► claim ─► turn ─┬─ chat …, execute_tool … ─► queue ─► long_task …
                                              └─ deliver

Decision 214. It does nothing while tracing is off; the web process then does not even call it.
"""

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from datetime import datetime
from functools import partial
from typing import Any

from django.db.models.fields.json import KeyTextTransform
from django.utils import timezone

from core.lib import tracing
from core.lib.log_ids import IDS
from core.models import ChatSession, Delivery, InboundMessage, Job, Route, Run

NANOSECONDS = 1_000_000_000


def inherited(run: Run) -> Route:
    """Return the route for the run that goes on with ``run``, in the same trace."""
    return {**run.route, "trace": f"{of_run(run):032x}"} if tracing.is_on() else run.route


def of_batch(session: ChatSession, first_at: datetime) -> int:
    """Return the trace of the messages of a session of which the first came at ``first_at``."""
    return tracing.trace_id(session.public_id, int(first_at.timestamp() * 1_000_000))


def of_run(run: Run) -> int:
    return of(run.public_id, run.route.get("trace", ""))


def of(public_id: str, stored: str) -> int:
    """Return the trace of the run with this public id, and of the one in its route."""
    return int(stored, 16) if stored else tracing.trace_id(public_id)


def of_delivery() -> dict[str, Any]:
    """Return the annotation of a delivery with the trace in the route of its run."""
    return {"run_trace": KeyTextTransform("trace", "run__route")} if tracing.is_on() else {}


def received(message: InboundMessage, session: ChatSession, run: Run | None) -> Callable[[], None]:
    """Return what records, after the commit, that a message was accepted: the root of its trace,
    or the child of the root that the first message of its batch has made.
    """
    waits = run is None and message.state == InboundMessage.State.RECEIVED
    first_at = (session.batch_started_at if waits else None) or message.received_at
    ids = IDS.get()
    return partial(
        tracing.record,
        "receive",
        under=tracing.root_of(of_batch(session, first_at) if run is None else of_run(run)),
        make_root=first_at == message.received_at,
        began=(ids.began if ids is not None else 0) or tracing.now(),
        kind="server",
        attributes={
            "latchkey.channel": message.account.channel,
            "latchkey.session": session.public_id,
            **({"latchkey.run": run.public_id} if run is not None else {}),
        },
        link=ids.caller if ids is not None else None,
    )


def claimed(run: Run, *, seconds: float) -> None:
    """Record that a worker has claimed a run, which took ``seconds``; and, for the first attempt,
    how long it waited. A scheduled run has no message: its trace begins here.
    """
    if not tracing.is_on():
        return
    root, ids = tracing.root_of(of_run(run)), ids_of(run)
    began = tracing.now() - int(seconds * NANOSECONDS)
    if run.attempt == 1:
        queued = nanoseconds(run.created_at)
        if run.options.get("schedule"):
            tracing.record("schedule", under=root, make_root=True, began=queued, attributes=ids)
        tracing.record("queue", under=root, began=queued, attributes=ids)
    attributes = {**ids, "latchkey.attempt": run.attempt}
    tracing.record("claim", under=root, began=began, attributes=attributes)


def turn(run: Run) -> AbstractContextManager[None]:
    """Record the turn of a claimed run while it lasts."""
    return tracing.step(
        "turn",
        under=tracing.root_of(of_run(run)) if tracing.is_on() else None,
        key=key_of_turn(run),
        attributes=lambda: {**ids_of(run), "latchkey.attempt": run.attempt},
    )


def tool_call(name: str, call_id: str) -> AbstractContextManager[None]:
    """Record a call of one of our tools while it lasts. Its id, which a model made, is hashed."""
    return tracing.step(
        f"execute_tool {name}",
        key=call_id,
        attributes=lambda: {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": name},
    )


def long_task(job: Job) -> AbstractContextManager[None]:
    """Trace a claimed long task while it lasts; and, once, how long it waited."""
    if not tracing.is_on():
        return nullcontext()
    turn_of_it = tracing.child(tracing.root_of(of_run(job.run)), key_of_turn(job.run))
    call = tracing.child(turn_of_it, job.tool_call_id)
    if job.attempt == 1:
        began = nanoseconds(job.created_at)
        tracing.record("queue", under=call, began=began, attributes=ids_of(job.run))
    return tracing.step(
        f"long_task {job.tool}",
        under=call,
        attributes=lambda: {**ids_of(job.run), "latchkey.attempt": job.attempt},
    )


def delivery(row: Delivery) -> AbstractContextManager[None]:
    """Record the sending of a claimed delivery while it lasts, if it belongs to a run."""
    run = getattr(row, "run_public_id", None)
    if not run or not tracing.is_on():
        return nullcontext()
    return tracing.step(
        "deliver",
        under=tracing.root_of(of(run, getattr(row, "run_trace", None) or "")),
        kind="client",
        attributes=lambda: {
            "latchkey.run": run,
            "latchkey.channel": row.account.channel,
            "latchkey.attempt": row.attempt,
            "latchkey.block": row.block_index,
        },
    )


def ended(state: str, *, code: str = "") -> None:
    """Note how the step ended that the code works in; ``code``: of its failure."""
    tracing.note("latchkey.state", state)
    if code:
        tracing.fail(code)


def key_of_turn(run: Run) -> str:
    return f"{run.public_id} {run.attempt}"


def ids_of(run: Run) -> dict[str, str | int]:
    return {"latchkey.run": run.public_id, "latchkey.session": run.session.public_id}


def nanoseconds(at: datetime) -> int:
    """Return a time as spans have it, not later than now: clocks of machines differ."""
    return int(min(at, timezone.now()).timestamp() * NANOSECONDS)
