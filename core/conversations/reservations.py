"""Reserve calls in budgets, in one transaction before they are made (decision 191).

ReservationRequest ──► Reservation: its periods and an open ``ModelCall`` are written
                  └──► Refusal: nothing is, but that it was refused
"""

from bisect import bisect_right
from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace
from datetime import date, datetime
from functools import partial
from typing import TypeAlias

from django.db import DatabaseError, IntegrityError
from django.db.models import F, Q, Value
from django.db.models.functions import Now
from django.utils import timezone

from core.conversations import budgets
from core.conversations.budgets import MESSAGES, MONEY, TOKENS, Change, Closing, Entry, Key, Limit
from core.database.transactions import atomic_write
from core.models import Budget, BudgetPeriod, ModelCall, RunPause
from core.providers import prices
from core.providers.base import Usage
from core.providers.catalogue import BudgetInfo, ModelInfo

# Of an answer: fewer tokens are no answer; with so many it is not made to wait for more.
ENOUGH_TOKENS, PLENTY_TOKENS = 256, 1024
# A budget may be deleted between two statements of a reservation.
ATTEMPTS = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class ReservationRequest:
    """A call to reserve. ``call``: its row, not stored. ``prompt_tokens``: at most.

    ``before``: earlier calls, which are settled first. ``is_last``: it waits no longer.
    ``is_whole``: its answer cannot be made shorter.
    """

    call: ModelCall
    model: ModelInfo
    limits: Sequence[Limit]
    prompt_tokens: int
    output_tokens: int
    before: Sequence[Closing] = ()
    is_last: bool = False
    is_whole: bool = False

    @property
    def enough_tokens(self) -> int:
        """Return the fewest tokens of an answer that are of use."""
        return self.output_tokens if self.is_whole else min(self.output_tokens, ENOUGH_TOKENS)


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why a call may not be made. ``is_soon``: only reservations of other calls are in its way."""

    budget: BudgetInfo
    limit: int
    spent: int
    free_at: datetime
    is_soon: bool

    @property
    def is_used_up(self) -> bool:
        """Return whether little is left; else this call is too large for what is left."""
        return self.spent * 5 >= self.limit * 4


@dataclass(frozen=True, slots=True)
class Reservation:
    """A reservation: the most tokens of the answer, and the open call (0: not stored yet).
    ``shortage``: why these are fewer than asked for.
    """

    output_tokens: int
    entries: tuple[Entry, ...]
    call_id: int = 0
    shortage: Refusal | None = None


Decision: TypeAlias = Reservation | Refusal


@dataclass(slots=True)
class Period:
    """A locked row of a period, and what this transaction adds to it."""

    id: int
    limit: int
    spent: int
    reserved: int
    is_refused: bool
    added: int = 0
    refuses: bool = False

    @property
    def unspent(self) -> int:
        """Return the rest of the limit when all open calls use nothing."""
        return self.limit - self.spent

    @property
    def left(self) -> int:
        """Return the rest of the limit when open calls use all that they reserved."""
        return self.unspent - self.reserved - self.added


def reserve_all(requests: Sequence[ReservationRequest]) -> list[Decision | Exception]:
    """Return what became of each request, in one transaction; each in its own when that fails."""
    try:
        return [*reserve_with_retries(requests)]
    except DatabaseError as error:
        if len(requests) == 1:
            return [error]
    return [found for each in requests for found in reserve_all([each])]


def reserve_with_retries(
    requests: Sequence[ReservationRequest], *, tries: int = 1
) -> list[Decision]:
    """Reserve ``requests`` in one transaction, tried ATTEMPTS times. Raises IntegrityError after
    the last: budgets are being deleted.
    """
    try:
        with atomic_write():
            return reserve_in(requests)
    except IntegrityError:
        if tries == ATTEMPTS:
            raise
    return reserve_with_retries(requests, tries=tries + 1)


def reserve_in(requests: Sequence[ReservationRequest]) -> list[Decision]:
    """Settle earlier calls, lock the periods, decide, and store open calls. In a transaction."""
    day = budgets.day_of(timezone.now())
    before = [closing for request in requests for closing in request.before]
    changes = [each for closing in before for each in budgets.close(closing)]
    limits = [each for request in requests for each in request.limits]
    wanted = {budgets.key_of(each, day): each.budget for each in limits}
    periods = lock(wanted, changes)
    counted = counted_messages(requests)
    results: list[Decision] = []
    for request in requests:
        known = counted.setdefault(request.call.run_id or 0, set())
        allowances = [
            Allowance(each, periods[key], (each.budget.id, each.person) in known)
            for each in request.limits
            # Else the budget was deleted meanwhile.
            if (key := budgets.key_of(each, day)) in periods
        ]
        results.append(decide(request, allowances, day))
        if isinstance(results[-1], Reservation) and request.call.run_id:
            known |= {(each.limit.budget.id, each.limit.person) for each in allowances}
    for period in sorted(periods.values(), key=lambda each: each.id):
        write(period)
    return store_calls(requests, results, day)


@dataclass(frozen=True, slots=True)
class Allowance:
    """The rest of a period for a call; ``is_counted``: the message was counted before."""

    limit: Limit
    period: Period
    is_counted: bool

    @property
    def unit(self) -> str:
        return self.limit.budget.unit

    def answer(self, request: ReservationRequest, left: int) -> int:
        """Return the tokens that an answer may have within ``left``, at most those asked for; a
        negative number where not even its prompt fits.
        """
        if self.unit == TOKENS:
            return min(request.output_tokens, left - request.prompt_tokens)
        if self.unit == MONEY:
            return affordable(request, left)
        return request.output_tokens if self.is_counted or left >= 1 else -1

    def amount(self, request: ReservationRequest, output_tokens: int) -> int:
        """Return what the call reserves here."""
        if self.unit == TOKENS:
            return request.prompt_tokens + output_tokens
        if self.unit == MONEY:
            return price(request, output_tokens)
        return 0 if self.is_counted else 1


def price(request: ReservationRequest, output_tokens: int) -> int:
    """Return what a call costs at most, in billionths of a dollar."""
    return prices.cost(request.model, Usage(request.prompt_tokens, output_tokens))


def affordable(request: ReservationRequest, left: int) -> int:
    """Return the most tokens of an answer that ``left`` pays for; -1 if the prompt costs more."""
    left = max(left, 0)  # of an overdrawn budget, too: a call that costs nothing fits
    answers = range(request.output_tokens + 1)
    return bisect_right(answers, left, key=partial(price, request)) - 1


def decide(request: ReservationRequest, allowances: Sequence[Allowance], day: date) -> Decision:
    """Return whether the call may be made; take its amounts, or mark the period that refuses it."""
    most = request.output_tokens
    now = min([most, *(each.answer(request, each.period.left) for each in allowances)])
    # When the other open calls have ended, at most.
    later = min([most, *(each.answer(request, each.period.unspent) for each in allowances)])
    waits = later > now and not request.is_last
    if now >= max(request.enough_tokens, min(most, PLENTY_TOKENS) if waits else 0):
        entries = []
        for each in allowances:
            if amount := each.amount(request, now):
                each.period.added += amount
                entries.append(Entry(each.period.id, amount, each.unit))
        shortage = None
        if now < most:
            shortage, _ = narrowest(request, allowances, day, is_soon=later == most)
        return Reservation(now, tuple(entries), shortage=shortage)
    is_soon = later >= request.enough_tokens
    refused, period = narrowest(request, allowances, day, is_soon=is_soon)
    period.refuses = period.refuses or (refused.is_used_up and not is_soon)
    return refused


def narrowest(
    request: ReservationRequest, allowances: Sequence[Allowance], day: date, *, is_soon: bool
) -> tuple[Refusal, Period]:
    """Return the budget of which the least is left for an answer, as a refusal, and its period."""
    found = min(
        allowances,
        key=lambda each: each.answer(request, each.period.left if is_soon else each.period.unspent),
    )
    budget, period = found.limit.budget, found.period
    end = budgets.end_of(budget.period, day)
    return Refusal(budget, period.limit, period.spent, end, is_soon), period


def lock(wanted: Mapping[Key, BudgetInfo], changes: Sequence[Change]) -> dict[Key, Period]:
    """Return these periods, made where they are missing, after ``changes``; none of a budget that
    is gone. All rows stay locked until the end of the transaction.

    The limit is the row's, which may just have been edited.
    """
    pending = budgets.merged(changes)
    found = locked(wanted.keys(), pending.keys())
    if missing := wanted.keys() - found.keys():
        make(missing)
        found = locked(wanted.keys(), pending.keys())
    budgets.apply(changes)
    periods = {}
    for key, row in found.items():
        released, spent = pending.get(row.pk, (0, 0))
        # That from before an edit of the budget's unit or period.
        is_same = budgets.measure_of(row.budget) == row.measure
        periods[key] = Period(
            id=row.pk,
            limit=row.budget.limit if is_same else wanted[key].limit,
            spent=row.spent + spent,
            reserved=max(0, row.reserved - released),
            is_refused=row.refused_at is not None,
        )
    return periods


def locked(keys: AbstractSet[Key], ids: AbstractSet[int]) -> dict[Key, BudgetPeriod]:
    """Return the stored periods of ``keys``; lock them and those with ``ids``."""
    rows = BudgetPeriod.objects.filter(budgets.of_keys(keys) | Q(id__in=ids))
    rows = rows.select_related("budget").select_for_update(of=("self",), no_key=True)
    found = {
        Key(row.budget_id, row.person, row.measure, row.start): row for row in rows.order_by("id")
    }
    return {key: row for key, row in found.items() if key in keys}


def make(keys: AbstractSet[Key]) -> None:
    """Create periods, unless another process does at this moment, of the budgets that exist."""
    there = Budget.objects.in_bulk({each.budget_id for each in keys})
    rows = [BudgetPeriod(**each._asdict()) for each in sorted(keys) if each.budget_id in there]
    BudgetPeriod.objects.bulk_create(rows, ignore_conflicts=True)


def counted_messages(requests: Sequence[ReservationRequest]) -> dict[int, set[tuple[int, int]]]:
    """Return run id -> (budget, person) where the message of the run is counted already: by it, or
    by one that it goes on with after a question.

    After the periods were locked: no other process counts it at the same time.
    """
    asked = {
        request.call.run_id
        for request in requests
        if request.call.run_id and any(each.budget.unit == MESSAGES for each in request.limits)
    }
    if not asked:
        return {}
    runs = of_messages(asked)
    calls = ModelCall.objects.filter(run__in=runs).values_list("run_id", "reserved")
    in_periods: dict[int, set[int]] = {}
    for run_id, entries in calls:
        ids = {each.period_id for each in map(budgets.entry, entries) if each.unit == MESSAGES}
        in_periods.setdefault(runs[run_id], set()).update(ids)
    rows = BudgetPeriod.objects.filter(id__in=set().union(*in_periods.values()))
    whose = {row[0]: (row[1], row[2]) for row in rows.values_list("id", "budget_id", "person")}
    return {
        run_id: {whose[each] for each in ids if each in whose} for run_id, ids in in_periods.items()
    }


def of_messages(run_ids: AbstractSet[int]) -> dict[int | None, int]:
    """Return run id -> id of the run of its message, for these runs and those before a pause."""
    found: dict[int | None, int] = {each: each for each in run_ids}
    later = found
    while later:
        pauses = RunPause.objects.filter(continued_by__in=later)
        later = {
            before: later[after] for before, after in pauses.values_list("run_id", "continued_by")
        }
        found = {**later, **found}
    return found


def write(period: Period) -> None:
    """Write what this transaction adds to a locked period, or that it refuses a call."""
    row = BudgetPeriod.objects.filter(id=period.id)
    if period.refuses and not period.is_refused:
        row.update(refused_at=Now())
    if period.added:
        fitting = row.filter(spent__lte=Value(period.limit - period.added) - F("reserved"))
        if not fitting.update(reserved=F("reserved") + period.added):
            raise IntegrityError("a budget was changed while its row was locked")


def store_calls(
    requests: Sequence[ReservationRequest], results: Sequence[Decision], day: date
) -> list[Decision]:
    """Store the open calls of granted requests; return the results with their ids."""
    rows = []
    for request, result in zip(requests, results, strict=True):
        if isinstance(result, Reservation):
            request.call.pk = None  # an earlier try may have given it an id
            request.call.day = day
            request.call.state = ModelCall.State.OPEN
            request.call.completion_tokens = result.output_tokens
            request.call.reserved = [[*each] for each in result.entries]
            rows.append(request.call)
    ids = iter([each.pk for each in ModelCall.objects.bulk_create(rows)])
    return [
        each if isinstance(each, Refusal) else replace(each, call_id=next(ids)) for each in results
    ]
