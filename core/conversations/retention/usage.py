"""Calls of models and sums of usage that are due. The totals of all time stay (decision 217)."""

from collections.abc import Sequence
from datetime import date, datetime

from django.db.models import F, QuerySet, Sum

from core.conversations import budgets, usage_reports
from core.conversations.retention import rules
from core.conversations.retention.open_runs import open_run
from core.conversations.retention.passes import Selections, among, of_table
from core.conversations.retention.rules import Columns
from core.models import RetentionRule, UsageDay

CALLS_AT_ONCE, SUMS_AT_ONCE = 200, 100
CALLS, SUMS = "calls of models", "sums of usage"
COLUMNS = Columns("user_id", "account_id", "assistant_id")
# The day of the sums of what was removed, one for each model and outcome.
LONG_AGO = date(1970, 1, 1)
NUMBERS = ("calls", "estimated", *usage_reports.SUMMED)


def calls(rule: RetentionRule, now: datetime) -> Selections:
    """Yield the calls that are due by a rule: only of days that are summed up."""
    before, last = rules.cutoff(rule, now), usage_reports.last_day()
    if last is None:
        return
    rows = usage_reports.settled().filter(day__lt=budgets.day_of(before), day__lte=last)
    rows = rows.filter(rules.scope(rule, COLUMNS))
    rows = rows.exclude(open_run(now)).order_by("day", "id")
    yield of_table(CALLS, rows, most=CALLS_AT_ONCE)


def sums(rule: RetentionRule, now: datetime) -> Selections:
    """Yield the sums that are due by a rule, but not those of the last day."""
    before, last = rules.cutoff(rule, now), usage_reports.last_day()
    if last is None:
        return
    rows = UsageDay.objects.filter(day__gt=LONG_AGO, day__lt=min(budgets.day_of(before), last))
    rows = rows.filter(rules.scope(rule, COLUMNS)).order_by("day", "id")
    yield of_table(SUMS, rows, most=SUMS_AT_ONCE, remove=remove_sums)


def remove_sums(rows: QuerySet[UsageDay], ids: list[int]) -> int:
    """Remove those of these sums that are still due; add them to those of LONG_AGO."""
    mine = UsageDay.objects.filter(pk__in=[each.pk for each in among(rows, ids)])
    add_to_long_ago(mine)
    return mine.delete()[0]


def add_to_long_ago(rows: QuerySet[UsageDay]) -> None:
    """Add sums to the rows of LONG_AGO. In a transaction under the lock of retention."""
    common: Sequence[str] = ("model_name", "failure")
    found = (
        rows.order_by().values(*common).annotate(**{f"sum_{each}": Sum(each) for each in NUMBERS})
    )
    for row in found:
        whose = {name: row[name] for name in common}
        numbers = {name: row[f"sum_{name}"] for name in NUMBERS}
        whole = UsageDay.objects.filter(day=LONG_AGO, **whose)
        if not whole.update(**{name: F(name) + number for name, number in numbers.items()}):
            UsageDay.objects.create(day=LONG_AGO, **whose, **numbers)
