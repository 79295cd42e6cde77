"""Settle open calls of models whose process has died: by estimates (decision 191)."""

from collections.abc import Iterable
from dataclasses import asdict
from datetime import timedelta

from django.db.models import Exists, OuterRef, Q, QuerySet
from django.db.models.functions import Now
from django.utils import timezone

from core.conversations import budgets, events
from core.conversations.budgets import Change, Closing
from core.database.queries import Instances
from core.database.transactions import atomic_write
from core.messages import MessageDict
from core.models import Job, ModelCall, Run
from core.providers import catalogue, prices
from core.providers.base import Usage

LOST = "lost"
# Calls of no run that stay open: their process has died.
ORPHAN = timedelta(hours=1)
AT_ONCE = 100


def take_over(
    *, run_id: int, attempt: int, job_id: int = 0, logged: Iterable[MessageDict] | None = None
) -> None:
    """Settle calls that earlier attempts left open. ``logged``: the log of those of the run."""
    left = ModelCall.objects.filter(
        run_id=run_id, job_id=job_id, attempt__lt=attempt, state=ModelCall.State.OPEN
    )
    if rows := list(left):
        shown = None if logged is None else shown_tokens(logged)
        with atomic_write():
            shut(rows, shown)


def left() -> QuerySet[ModelCall]:
    """Return the open calls whose attempt has ended."""
    run = Run.objects.filter(
        id=OuterRef("run_id"), attempt=OuterRef("attempt"), state=Run.State.RUNNING
    )
    job = Job.objects.filter(
        id=OuterRef("job_id"), attempt=OuterRef("attempt"), state=Run.State.RUNNING
    )
    return ModelCall.objects.filter(state=ModelCall.State.OPEN).filter(
        Q(job_id__gt=0) & ~Exists(job)
        | Q(job_id=0, run__isnull=False) & ~Exists(run)
        | Q(job_id=0, run__isnull=True, created_at__lt=Now() - ORPHAN)
    )


LEFT = Instances(lambda: left().order_by("id")[:AT_ONCE])


def close_left() -> int:
    """Settle open calls whose attempt has ended; return how many. A chore."""
    rows = LEFT.all()
    for row in rows:
        shown = None
        if row.run_id and not row.job_id:
            shown = shown_tokens(event for _, event in events.whole_log(row.run_id))
        with atomic_write():
            shut([row], shown)
    return len(rows)


def shut(rows: Iterable[ModelCall], shown: int | None) -> None:
    """Settle open calls whose process has died: their prompt, and ``shown`` tokens of the answer;
    None: not known, so all that were reserved. In a transaction.
    """
    changes: list[Change] = []
    for row in rows:
        most = row.completion_tokens
        used = Usage(row.prompt_tokens, most if shown is None else min(shown, most))
        model = catalogue.current().models.get(row.model_id)
        cost = prices.cost(model, used) if model else 0
        columns = {**asdict(used), "cost": cost, "estimated": True, "failure": LOST}
        columns["day"] = budgets.day_of(timezone.now())
        entries = [budgets.entry(each) for each in row.reserved]
        closing = Closing(row.pk, columns, budgets.changes_of(entries, used, cost))
        changes += budgets.close(closing)
    budgets.change(changes)


def shown_tokens(logged: Iterable[MessageDict]) -> int:
    """Return the estimated tokens of the texts and thoughts that a log has since the last result
    of a tool or the last reset: those of the call that was under way.
    """
    texts: dict[str, str] = {}
    for event in logged:
        if event["type"] in events.GROWING and "message_id" in event:
            known = texts.get(event["message_id"], "") if event.get("delta_path") else ""
            if event.get("delta_action") == "set":
                known = ""
            texts[event["message_id"]] = known + str(event["props"].get("content", ""))
        elif event["type"] == "event" and event["props"].get("event") == "tool_end":
            texts.clear()
    return sum(-(-len(each) // 4) for each in texts.values())
