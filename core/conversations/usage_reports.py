"""What model calls used and cost in a range of days, summed for the pages of the owner."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from datetime import date, timedelta
from typing import Any

from django.db.models import Count, Q, Sum
from django.utils import timezone

from core.models import Budget, ModelCall

SUMS = ("prompt_tokens", "cached_tokens", "completion_tokens", "reasoning_tokens", "cost")
KEYS = ("day", "user_id", "assistant_id", "model_name", "account_id")
ROWS_AT_ONCE = 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class Total:
    """A sum of calls. ``cost`` in billionths of a dollar."""

    calls: int = 0
    failed: int = 0
    estimated: int = 0
    prompt_tokens: int = 0
    cached_tokens: int = 0
    completion_tokens: int = 0
    reasoning_tokens: int = 0
    cost: int = 0

    @property
    def tokens(self) -> int:
        """Return the tokens that providers count: cached and reasoning ones are among them."""
        return self.prompt_tokens + self.completion_tokens

    def plus(self, other: "Total") -> "Total":
        """Return the sum of both."""
        return replace(
            self, **{name: getattr(self, name) + getattr(other, name) for name in FIELDS}
        )


FIELDS = ("calls", "failed", "estimated", *SUMS)


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """A sum of the calls of one day, person, assistant, model and account."""

    day: date
    user_id: int
    assistant_id: int
    model_name: str
    account_id: int
    total: Total


def parts(*, first: date, last: date) -> list[Part]:
    """Return the settled calls of a range of days, both included, in one query."""
    rows = (
        between(first, last)
        .values(*KEYS)
        .annotate(
            calls=Count("id"),
            failed=Count("id", filter=~Q(failure="")),
            estimated_calls=Count("id", filter=Q(estimated=True)),
            **{f"sum_{name}": Sum(name) for name in SUMS},
        )
        .order_by()
    )
    return [
        Part(
            day=row["day"],
            user_id=row["user_id"] or 0,
            assistant_id=row["assistant_id"],
            model_name=row["model_name"],
            account_id=row["account_id"],
            total=Total(
                calls=row["calls"],
                failed=row["failed"],
                estimated=row["estimated_calls"],
                **{name: int(row[f"sum_{name}"] or 0) for name in SUMS},
            ),
        )
        for row in rows
    ]


def summed(found: list[Part], key: Callable[[Part], Any]) -> dict[Any, Total]:
    """Return the totals by a key of the parts."""
    totals: dict[Any, Total] = {}
    for each in found:
        name = key(each)
        totals[name] = totals.get(name, Total()).plus(each.total)
    return totals


def calls(*, first: date, last: date) -> Iterator[ModelCall]:
    """Yield the settled calls of a range of days, oldest first, without holding them all."""
    rows = between(first, last).select_related("user").order_by("day", "id")
    yield from rows.iterator(chunk_size=ROWS_AT_ONCE)


def between(first: date, last: date) -> Any:
    """Return the settled calls of a range of days."""
    return ModelCall.objects.filter(day__gte=first, day__lte=last, state=ModelCall.State.SETTLED)


def today() -> date:
    """Return the day in the owner's time zone: the settings'."""
    return timezone.localdate()


def period_start(period: str) -> date:
    """Return the first day of the current period of a budget."""
    day = today()
    return day.replace(day=1) if period == Budget.Period.MONTH else day


def period_end(period: str) -> date:
    """Return the day on which the current period's budget is free again."""
    start = period_start(period)
    if period == Budget.Period.MONTH:
        return (start + timedelta(days=32)).replace(day=1)
    return start + timedelta(days=1)
