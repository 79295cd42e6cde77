"""The owner's rules, and which rows each of them is about (decision 205)."""

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TypeAlias

from django.db.models import Q

from core.models import RetentionRule
from core.models.retention import LEAST_DAYS

# Clients repeat a request, and platforms an update, for less than this.
LEAST_AGE = timedelta(days=LEAST_DAYS)
MOST_DAYS = 36_500  # nothing is so old, and that day is in the calendar of each time zone
TARGETS = RetentionRule.TARGETS
Key: TypeAlias = tuple[int, str, int | None, int | None, int | None, int | None, int | None]


@dataclass(frozen=True, slots=True)
class Columns:
    """Where a table names the person, the account and the assistant of a row; "" for nowhere."""

    user: str
    account: str
    assistant: str


def read(kind: str = "") -> list[RetentionRule]:
    """Return the rules, of one ``kind`` or all, in the order of their ids."""
    rows = RetentionRule.objects.select_related(*TARGETS).order_by("id")
    return list(rows.filter(kind=kind) if kind else rows)


def state() -> list[Key]:
    """Return what the rules say, to notice a change."""
    names = ("id", "kind", "user_id", "account_id", "assistant_id", "days", "newest")
    return list(RetentionRule.objects.order_by("id").values_list(*names))


def target(rule: RetentionRule) -> str:
    """Return which of TARGETS a rule names; "" for everyone."""
    named = [name for name in TARGETS if getattr(rule, f"{name}_id") is not None]
    return named[0] if named else ""


def scope(rule: RetentionRule, columns: Columns) -> Q:
    """Return the condition of the rows for which ``rule`` is the one of its kind that counts."""
    own = target(rule)
    if own and not getattr(columns, own):
        return Q(pk__in=[])
    mine = Q(**{getattr(columns, own): getattr(rule, f"{own}_id")}) if own else Q()
    return mine & without_own(rule, columns)


def without_own(rule: RetentionRule, columns: Columns) -> Q:
    """Return the condition of the rows that have no rule of a more specific target of their own."""
    own, among, found = target(rule), read(rule.kind), Q()
    for name in TARGETS[: TARGETS.index(own)] if own else TARGETS:
        column = getattr(columns, name)
        named = [getattr(each, f"{name}_id") for each in among if target(each) == name]
        if column and named:
            found &= Q(**{f"{column}__isnull": True}) | ~Q(**{f"{column}__in": named})
    return found


def cutoff(rule: RetentionRule, now: datetime) -> datetime:
    """Return before when rows are due by a rule of days: LEAST_AGE ago at the latest; long ago for
    very many days, and without days.
    """
    days = MOST_DAYS if rule.days is None else min(rule.days, MOST_DAYS)
    return now - max(timedelta(days=days), LEAST_AGE)
