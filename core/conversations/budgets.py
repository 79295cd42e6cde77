"""Budgets: which apply, their periods, and how a settled call changes them (decision 191).

Only this module and ``reservations`` change a ``BudgetPeriod``. Its rows are locked last in a
transaction, in the order of their ids; one that settles several runs does so in :func:`settling`.
"""

import threading
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from typing import Any, NamedTuple
from zoneinfo import ZoneInfo

from django.conf import settings
from django.db.models import F, Q
from django.db.models.functions import Greatest

from core.conversations.schedules.zones import stored_zone
from core.lib.ttl_cache import TtlCache
from core.models import Budget, BudgetPeriod, ModelCall, User
from core.providers.base import Usage
from core.providers.catalogue import BudgetInfo

ZONE_SECONDS = 60.0
TOKENS, MONEY, MESSAGES = Budget.Unit.TOKENS, Budget.Unit.MONEY, Budget.Unit.MESSAGES

zones: TtlCache[str, ZoneInfo] = TtlCache(ZONE_SECONDS)


class Limit(NamedTuple):
    """A budget that applies to a call; ``person``: whose, where it is for each person, else 0."""

    budget: BudgetInfo
    person: int


class Entry(NamedTuple):
    """The amount that a call has reserved in a period, as ``ModelCall.reserved`` has it."""

    period_id: int
    amount: int
    unit: str


class Change(NamedTuple):
    """A settled call in a period: the amount that is free again, and the amount that it spent."""

    period_id: int
    released: int
    spent: int


@dataclass(frozen=True, slots=True)
class Closing:
    """The end of an open call: its columns, and the changes of periods when it was open still."""

    call_id: int
    columns: dict[str, Any]
    changes: tuple[Change, ...]


class Key(NamedTuple):
    """The identity of a period."""

    budget_id: int
    person: int
    measure: str
    start: date


def applying(
    budgets: Iterable[BudgetInfo], *, user_id: int, key_id: int, account_id: int, assistant_id: int
) -> tuple[Limit, ...]:
    """Return the budgets that limit a call; 0 for none of its kind."""
    asked = (user_id, key_id, account_id, assistant_id)
    return tuple(
        Limit(each, user_id if each.each_person else 0)
        for each in budgets
        if all(
            wanted in (0, given)
            for wanted, given in zip(
                (each.user_id, each.key_id, each.account_id, each.assistant_id), asked, strict=True
            )
        )
    )


def owner_zone() -> ZoneInfo:
    """Return the time zone in which days begin: the first owner's, else that of the settings."""
    known = zones.get("owner")
    if known is not None:
        return known
    owners = User.objects.filter(is_owner=True, is_active=True).order_by("pk")
    name = owners.values_list("time_zone", flat=True).first() or settings.TIME_ZONE
    return zones.put("owner", stored_zone(name))


def day_of(moment: datetime) -> date:
    """Return the day of a moment in the owner's time zone."""
    return moment.astimezone(owner_zone()).date()


def start_of(period: str, day: date) -> date:
    """Return the first day of the budget's period that ``day`` is in."""
    return day if period == Budget.Period.DAY else day.replace(day=1)


def end_of(period: str, day: date) -> datetime:
    """Return when the budget's period that ``day`` is in ends."""
    last = day if period == Budget.Period.DAY else day.replace(day=28) + timedelta(days=4)
    after = last + timedelta(days=1) if period == Budget.Period.DAY else last.replace(day=1)
    return datetime(after.year, after.month, after.day, tzinfo=owner_zone())


def measure_of(budget: Budget | BudgetInfo) -> str:
    """Return ``BudgetPeriod.measure`` of a budget."""
    return f"{budget.unit}/{budget.period}"


def key_of(limit: Limit, day: date) -> Key:
    """Return the period of a budget on a day."""
    budget = limit.budget
    return Key(budget.id, limit.person, measure_of(budget), start_of(budget.period, day))


def of_keys(keys: Collection[Key]) -> Q:
    """Return a condition of the rows of these periods; some others may meet it, too."""
    return Q(
        budget_id__in={each.budget_id for each in keys},
        person__in={each.person for each in keys},
        start__in={each.start for each in keys},
    )


def spent(keys: Sequence[Key]) -> list[int]:
    """Return what is spent in each of these periods, read at once."""
    rows = BudgetPeriod.objects.filter(of_keys(keys)).values_list(*Key._fields, "spent")
    found = {Key(*row[:-1]): row[-1] for row in rows}
    return [found.get(key, 0) for key in keys]


def entry(stored: Sequence[Any]) -> Entry:
    """Return an element of ``ModelCall.reserved``."""
    return Entry(int(stored[0]), int(stored[1]), str(stored[2]))


def close(closing: Closing) -> tuple[Change, ...]:
    """Settle an open call; return its changes of periods: none when it was settled before.

    In a transaction, before its periods are changed.
    """
    rows = ModelCall.objects.filter(pk=closing.call_id, state=ModelCall.State.OPEN)
    settled = rows.update(state=ModelCall.State.SETTLED, **closing.columns)
    return closing.changes if settled else ()


def changes_of(entries: Iterable[Entry], used: Usage, cost: int) -> tuple[Change, ...]:
    """Return what a call that used this changes in the periods of its reservation."""
    spent: dict[str, int] = {TOKENS: used.prompt_tokens + used.completion_tokens, MONEY: cost}
    return tuple(
        Change(each.period_id, each.amount, spent.get(each.unit, each.amount)) for each in entries
    )


class Settling(threading.local):
    """The changes that this thread makes at the end of :func:`settling`; None outside of it."""

    pending: list[Change] | None = None


_settling = Settling()


@contextmanager
def settling() -> Iterator[None]:
    """Make the changes of the block at its end, in the order of the rows.

    Inside a transaction that settles several runs: two such transactions do not block each other.
    """
    _settling.pending = []
    try:
        yield
        pending, _settling.pending = _settling.pending, None
        apply(pending)
    finally:
        _settling.pending = None


def change(changes: Iterable[Change]) -> None:
    """Make changes of settled calls, now or at the end of :func:`settling`. In a transaction."""
    if _settling.pending is None:
        apply(changes)
    else:
        _settling.pending.extend(changes)


def merged(changes: Iterable[Change]) -> dict[int, tuple[int, int]]:
    """Return period id -> (released, spent), in the order of the ids."""
    sums: dict[int, tuple[int, int]] = {}
    for each in changes:
        released, spent = sums.get(each.period_id, (0, 0))
        sums[each.period_id] = released + each.released, spent + each.spent
    return dict(sorted(sums.items()))


def apply(changes: Iterable[Change]) -> None:
    """Make changes of settled calls; those of deleted budgets are void."""
    for period_id, (released, spent) in merged(changes).items():
        BudgetPeriod.objects.filter(id=period_id).update(
            reserved=Greatest(F("reserved") - released, 0), spent=F("spent") + spent
        )
