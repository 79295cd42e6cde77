"""Rows of small tables that are not needed after a time, whatever the owner's rules say."""

from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any

from django.contrib.sessions.models import Session
from django.db.models import QuerySet

from core.conversations import budgets
from core.database.transactions import atomic_write
from core.models import Backup, BudgetPeriod

AT_ONCE = 200
MOST_BATCHES = 20  # of each table a call
KEPT = timedelta(days=400)  # so that a month is there beside that of a year ago
OVER = (Backup.State.FAILED, Backup.State.REMOVED)

# Each with the column by which the oldest come first.
EXPIRED: tuple[tuple[str, Callable[[datetime], QuerySet[Any]]], ...] = (
    ("expire_date", lambda now: Session.objects.filter(expire_date__lt=now)),
    ("start", lambda now: BudgetPeriod.objects.filter(start__lt=budgets.day_of(now - KEPT))),
    ("pk", lambda now: Backup.objects.filter(state__in=OVER, asked_at__lt=now - KEPT)),
)


def purge(*, now: datetime) -> int:
    """Remove what has expired in short transactions; return how many rows. A chore."""
    return sum(remove(rows(now).order_by(oldest)) for oldest, rows in EXPIRED)


def remove(rows: QuerySet[Any]) -> int:
    removed = 0
    for _ in range(MOST_BATCHES):
        ids = list(rows.values_list("pk", flat=True)[:AT_ONCE])
        if ids:
            with atomic_write():  # a session may be used again meanwhile
                removed += rows.order_by().filter(pk__in=ids).delete()[0]
        if len(ids) < AT_ONCE:
            break
    return removed
