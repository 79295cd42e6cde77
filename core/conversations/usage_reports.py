"""Sums of usage: by person, assistant, model, channel and day; for pages, CSV, chats and metrics.

Days that are over are summed once (:func:`roll_up`); the calls of later days are read themselves.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields
from datetime import date, datetime, timedelta
from functools import partial
from typing import Any, NamedTuple

from django.db.models import Count, DateField, F, Q, QuerySet, Sum, Value
from django.db.models.functions import Coalesce
from django.utils.translation import gettext

from core.conversations import budget_words, budgets
from core.database import transactions
from core.database.queries import HasRows, Param, Values
from core.database.transactions import atomic_write
from core.lib.ttl_cache import TtlCache
from core.models import (
    Assistant,
    BudgetPeriod,
    ChannelAccount,
    ModelCall,
    UsageDay,
    User,
)
from core.providers import catalogue
from core.providers.catalogue import BudgetInfo

GROUPS = {
    "person": "user_id",
    "assistant": "assistant_id",
    "model": "model_name",
    "channel": "account_id",
    "day": "day",
}
SUMMED = ("prompt_tokens", "cached_tokens", "completion_tokens", "reasoning_tokens", "cost")
# Columns that the calls of a sum have in common.
COMMON = (
    "day",
    "user_id",
    "account_id",
    "key_id",
    "assistant_id",
    "model_id",
    "model_name",
    "purpose",
    "failure",
)
CSV_FIELDS = ("day", "user_id", "assistant_id", "model_name", "account_id", "purpose")
CSV_HEADER = (
    "day",
    "person",
    "assistant",
    "model",
    "channel",
    "purpose",
    *("calls", "failed", "estimated", "prompt_tokens", "cached_tokens", "completion_tokens"),
    *("reasoning_tokens", "dollars"),
)
# A run may end on the next day, and the owner's time zone may change.
OPEN_DAYS = 3
DAYS_AT_ONCE = 31
ROLL_UP_LOCK = 0x75736167  # of PostgreSQL, among workers that sum up
TOTALS_SECONDS = 10.0
# Spreadsheets take a text that begins so for a formula.
FORMULA = ("=", "+", "-", "@", "\t", "\r")


@dataclass(slots=True)
class Used:
    """A sum of calls; ``cost`` in billionths of a dollar. Failed and estimated ones are among
    ``calls``; cached tokens among those of prompts, reasoning ones among those of completions.
    """

    calls: int = 0
    failed: int = 0
    estimated: int = 0
    prompt_tokens: int = 0
    cached_tokens: int = 0
    completion_tokens: int = 0
    reasoning_tokens: int = 0
    cost: int = 0

    def add(self, other: "Used") -> None:
        for each in fields(self):
            setattr(self, each.name, getattr(self, each.name) + getattr(other, each.name))

    @property
    def tokens(self) -> int:
        return self.prompt_tokens + self.completion_tokens


class Row(NamedTuple):
    """One group: its key (an id, a name or a day), the label to show, and its sum."""

    key: Any
    label: str
    used: Used


Key = tuple[Any, ...]


def by(group: str, *, since: date, until: date, **only: Any) -> list[Row]:
    """Return the sums of a group of GROUPS from ``since`` to ``until``, both included: days in
    their order, others by cost, then by tokens.

    ``only``: columns that calls must have: ``user_id``, ``account_id``, ``assistant_id``,
    ``model_name``.
    """
    return rows_of(group, sums((GROUPS[group],), since=since, until=until, **only))


def rows_of(group: str, found: dict[Key, Used]) -> list[Row]:
    """Return the rows of the sums of a group, in their order."""
    names = labels(GROUPS[group], [key[0] for key in found])
    rows = [Row(key[0], names[key[0]], used) for key, used in found.items()]
    if group == "day":
        return sorted(rows)
    return sorted(rows, key=lambda each: (-each.used.cost, -each.used.tokens, each.label))


@dataclass(frozen=True, slots=True)
class Report:
    """The sums of some days by each of GROUPS, and by model and day, in a few queries."""

    groups: dict[str, dict[Key, Used]]
    by_model_and_day: dict[Key, Used]

    @property
    def total(self) -> Used:
        return regrouped(self.by_model_and_day).get((), Used())

    def rows(self, group: str) -> list[Row]:
        """Return what :func:`by` does."""
        return rows_of(group, self.groups[group])


def report(*, since: date, until: date) -> Report:
    """Read the sums from ``since`` to ``until``, both included."""
    read = partial(sums_after, last_day(), since=since, until=until)
    models, places = read(("model_name", "day")), read(("assistant_id", "account_id"))
    groups = {
        "person": read(("user_id",)),
        "assistant": regrouped(places, 0),
        "channel": regrouped(places, 1),
        "model": regrouped(models, 0),
        "day": regrouped(models, 1),
    }
    return Report(groups, models)


def regrouped(found: dict[Key, Used], *columns: int) -> dict[Key, Used]:
    """Return the sums of sums that have these columns of their keys in common."""
    together: dict[Key, Used] = {}
    for key, used in found.items():
        together.setdefault(tuple(key[each] for each in columns), Used()).add(used)
    return together


def csv_rows(*, since: date, until: date, **only: Any) -> Iterator[tuple[str, ...]]:
    """Yield the rows of a CSV file, the first of which is its header."""
    yield CSV_HEADER
    found = sums(CSV_FIELDS, since=since, until=until, **only)
    names = {
        at: labels(field, {key[at] for key in found})
        for at, field in enumerate(CSV_FIELDS)
        if field != "day"
    }
    for key in sorted(found):
        used = found[key]
        numbers = [getattr(used, each.name) for each in fields(used)]
        *counts, cost = numbers
        texts = [harmless(names[at][value]) for at, value in enumerate(key) if at in names]
        yield (key[0].isoformat(), *texts, *map(str, counts), f"{cost / 1_000_000_000:.9f}")


def harmless(text: str) -> str:
    """Return a cell that a spreadsheet takes for a text."""
    return f"'{text}" if text.startswith(FORMULA) else text


def labels(field: str, keys: Sequence[Any] | set[Any]) -> dict[Any, str]:
    """Return the names of these keys for people; a deleted row has its number."""
    known: dict[Any, str] = {}
    rows: dict[str, Any] = {
        "user_id": User.objects,
        "assistant_id": Assistant.objects,
        "account_id": ChannelAccount.objects,
    }
    if field in rows:
        known = {row.pk: str(row) for row in rows[field].filter(pk__in=[*keys])}
    return {
        key: known.get(key) or (f"#{key}" if field in rows and key else str(key or "–"))
        for key in keys
    }


def sums(common: Sequence[str], *, since: date, until: date, **only: Any) -> dict[Key, Used]:
    """Return the sums by columns of COMMON."""
    return sums_after(last_day(), common, since=since, until=until, **only)


def sums_after(
    last: date | None, common: Sequence[str], *, since: date, until: date, **only: Any
) -> dict[Key, Used]:
    """Return the sums; ``last``: the last day that is summed up."""
    open_since = since if last is None else max(since, last + timedelta(days=1))
    found = of_calls(settled().filter(day__gte=open_since, day__lte=until, **only), common)
    if last is not None:
        past = UsageDay.objects.filter(day__gte=since, day__lte=min(until, last), **only)
        add_all(found, of_days(past, common))
    return found


def add_all(found: dict[Key, Used], more: dict[Key, Used]) -> None:
    for key, used in more.items():
        found.setdefault(key, Used()).add(used)


def settled() -> QuerySet[ModelCall]:
    return ModelCall.objects.filter(state=ModelCall.State.SETTLED)


def of_calls(rows: QuerySet[ModelCall], common: Sequence[str]) -> dict[Key, Used]:
    """Return the sums of calls by columns."""
    estimated = Count("id", filter=Q(estimated=True))
    return grouped(rows, common, calls=Count("id"), estimated=estimated)


def of_days(rows: QuerySet[UsageDay], common: Sequence[str]) -> dict[Key, Used]:
    """Return the sums of days that are summed up, by columns."""
    return grouped(rows, common, calls=Sum("calls"), estimated=Sum("estimated"))


def grouped(rows: QuerySet[Any], common: Sequence[str], **counts: Any) -> dict[Key, Used]:
    """Return the sums of rows by columns; None counts as 0."""
    named = dict.fromkeys((*common, "failure"))
    whose = {"whose": Coalesce(F("user_id"), Value(0))} if "user_id" in named else {}
    columns = ["whose" if each == "user_id" else each for each in named]
    summed = {f"sum_{name}": Sum(name) for name in SUMMED}
    counted = {f"sum_{name}": value for name, value in counts.items()}
    found: dict[Key, Used] = {}
    for row in rows.annotate(**whose).values(*columns).annotate(**counted, **summed).order_by():
        used = Used(
            calls=row["sum_calls"],
            failed=row["sum_calls"] if row["failure"] else 0,
            estimated=row["sum_estimated"],
            **{name: row[f"sum_{name}"] for name in SUMMED},
        )
        key = tuple(row["whose" if each == "user_id" else each] for each in common)
        found.setdefault(key, Used()).add(used)
    return found


LAST_DAY = Values(lambda: UsageDay.objects.order_by("-day").values_list("day")[:1])


def last_day() -> date | None:
    return LAST_DAY.first()


def unsummed(last: Any, before: Any) -> QuerySet[ModelCall]:
    """Return the settled calls after the ``last`` summed day and ``before`` a day."""
    return settled().filter(day__gt=last, day__lt=before)


ARE_UNSUMMED = HasRows(lambda: unsummed(Param("last", DateField()), Param("before", DateField())))


def roll_up(*, now: datetime) -> int:
    """Sum up the calls of days that are over; return how many sums were made. A chore."""
    before = budgets.day_of(now) - timedelta(days=OPEN_DAYS - 1)
    last = last_day() or date.min
    if last < before and not ARE_UNSUMMED(last=last, before=before):
        return 0
    with atomic_write():
        transactions.lock_until_commit(ROLL_UP_LOCK)
        UsageDay.objects.filter(day__gt=last_incomplete(before)).delete()
        days = (
            unsummed(last_day() or date.min, before).order_by("day").values_list("day", flat=True)
        )
        rows = [row for day in days.distinct()[:DAYS_AT_ONCE] for row in summed_up(day)]
        UsageDay.objects.bulk_create(rows)
    return len(rows)


def last_incomplete(before: date) -> date:
    """Return the last day whose sums must stay: one before ``before``, or one of which calls are
    gone. Later days were summed up by a clock that was ahead, and more calls may come.
    """
    rows = UsageDay.objects.filter(day__gte=before).values_list("day").annotate(Sum("calls"))
    own = settled().filter(day__gte=before).values_list("day").annotate(Count("id"))
    there = dict(own.order_by())
    gone = [day for day, number in rows.order_by() if there.get(day, 0) < number]
    return max(gone, default=before - timedelta(days=1))


def summed_up(day: date) -> list[UsageDay]:
    """Return the sums of a day, not stored."""
    found = of_calls(settled().filter(day=day), COMMON)
    return [
        UsageDay(
            **dict(zip(COMMON, key, strict=True)),
            calls=used.calls,
            estimated=used.estimated,
            **{name: getattr(used, name) for name in SUMMED},
        )
        for key, used in found.items()
    ]


past_totals: TtlCache[date, dict[Key, Used]] = TtlCache(86_400.0)
all_totals: TtlCache[str, dict[Key, Used]] = TtlCache(TOTALS_SECONDS)


def totals() -> dict[Key, Used]:
    """Return (model name, failure) -> the sum of all calls ever, some seconds old.

    Past days are read once a day, not with each call.
    """
    known = all_totals.get("all")
    if known is not None:
        return known
    common = ("model_name", "failure")
    last = last_day()
    found: dict[Key, Used] = {}
    if last is not None:
        past = past_totals.get(last)
        if past is None:
            past_totals.clear()
            past = past_totals.put(last, of_days(UsageDay.objects.filter(day__lte=last), common))
        add_all(found, past)
    today = settled() if last is None else settled().filter(day__gt=last)
    add_all(found, of_calls(today, common))
    return all_totals.put("all", found)


@dataclass(slots=True)
class OfModel:
    """All calls of a model: their sum, and how many ended how: "answered", or a failure's code."""

    whole: Used
    outcomes: dict[str, int]


def totals_by_model(*, most: int) -> dict[str, OfModel]:
    """Return model name -> its calls, by name; models beside the ``most`` used ones are "other"."""
    found = totals()
    often = sorted(found, key=lambda key: -found[key].calls)
    named = {*[*dict.fromkeys(key[0] for key in often)][:most]}
    sums_of: dict[str, OfModel] = {}
    for (name, failure), used in found.items():
        each = sums_of.setdefault(name if name in named else "other", OfModel(Used(), {}))
        each.whole.add(used)
        outcome = failure or "answered"
        each.outcomes[outcome] = each.outcomes.get(outcome, 0) + used.calls
    return dict(sorted(sums_of.items()))


class Left(NamedTuple):
    """A budget that limits a person, what is spent of it, and when it begins again."""

    budget: BudgetInfo
    spent: int
    free_at: datetime


class Figures(NamedTuple):
    """A person's usage today and in this month, and the budgets that limit it."""

    today: Used
    month: Used
    budgets: list[Left]


def figures(user: User, now: datetime, *, account_id: int = 0) -> Figures:
    """Return a person's usage. ``account_id``: whose budgets count; 0: of the last-used channel."""
    today = budgets.day_of(now)
    found = sums(("day",), since=today.replace(day=1), until=today, user_id=user.pk)
    whole = Used()
    for used in found.values():
        whole.add(used)
    limits = budgets.applying(
        catalogue.current().budgets,
        user_id=user.pk,
        key_id=0,
        account_id=account_id or user.last_account_id or 0,
        assistant_id=0,
    )
    spent = budgets.spent([budgets.key_of(limit, today) for limit in limits])
    left = [
        Left(limit.budget, amount, budgets.end_of(limit.budget.period, today))
        for limit, amount in zip(limits, spent, strict=True)
    ]
    return Figures(found.get((today,), Used()), whole, left)


def summary(user: User, now: datetime) -> str:
    """Return a person's usage for a chat: today, this month, and what is left of budgets."""
    found = figures(user, now)
    lines = [
        budget_words.used_line(gettext("Today"), found.today),
        budget_words.used_line(gettext("This month"), found.month),
        *(budget_words.left_line(*each) for each in found.budgets),
    ]
    return "\n".join(lines)


def used_ratios(*, now: datetime, most: int) -> dict[int, float]:
    """Return budget id -> what is used of it in its current period, of 1; of a budget for each
    person that of the person who used most. Of the first ``most`` budgets.
    """
    day = budgets.day_of(now)
    found: dict[int, float] = {}
    for each in catalogue.current().budgets[:most]:
        rows = BudgetPeriod.objects.filter(
            budget_id=each.id,
            measure=budgets.measure_of(each),
            start=budgets.start_of(each.period, day),
        )
        spent = rows.order_by("-spent").values_list("spent", flat=True).first() or 0
        found[each.id] = spent / each.limit if each.limit else 1.0
    return found
