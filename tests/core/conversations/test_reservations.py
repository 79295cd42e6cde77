"""Reservations in budgets: how much a call gets, why one is refused, and what is written."""

from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any

import pytest
from django.db import DatabaseError, IntegrityError, connection
from django.utils import timezone

from core.conversations import budgets, reservations
from core.conversations.budgets import Change, Closing, Entry, Limit
from core.conversations.reservations import Refusal, Reservation, ReservationRequest
from core.models import Budget, BudgetPeriod, ChatSession, ModelCall, Run, RunPause, User
from core.providers import catalogue
from core.providers.catalogue import ModelInfo
from tests.core.conversations.metered import DOLLAR, PRICED, budget
from tests.core.providers.chains import MODEL
from tests.plans import listening
from tests.statements import before_each

pytestmark = pytest.mark.django_db
Outcome = Reservation | Refusal | Exception
NOON = datetime(2026, 3, 17, 12, tzinfo=UTC)
TODAY, MONTH = date(2026, 3, 17), date(2026, 3, 1)
# Of the prompt of a call.
PROMPT = 40
CENT = DOLLAR // 100


@pytest.fixture(autouse=True)
def at(monkeypatch: pytest.MonkeyPatch) -> Callable[[datetime], None]:
    """Stop the clock; return ``at(moment)``, which sets it."""

    def to(moment: datetime) -> None:
        monkeypatch.setattr(timezone, "now", lambda: moment)

    to(NOON)
    return to


@pytest.fixture
def runs(session: ChatSession) -> list[Run]:
    """Return three runs."""
    return [Run.objects.create(session=session, user=session.user) for _ in range(3)]


def limit(of: Budget, person: int = 0) -> Limit:
    """Return a budget as it applies to a call."""
    return Limit(catalogue.budget_info(of), person)


def wish(
    *of: Budget | Limit, answer: int = 1024, run: Run | None = None, **more: Any
) -> ReservationRequest:
    """Return a call of 40 tokens and an answer within budgets."""
    limits = [each if isinstance(each, Limit) else limit(each) for each in of]
    call = ModelCall(run=run, day=date(2000, 1, 1), prompt_tokens=30, completion_tokens=3)
    values = {"model": MODEL, "prompt_tokens": PROMPT, "is_last": True, **more}
    return ReservationRequest(call=call, limits=limits, output_tokens=answer, **values)


def asked(wanted: ReservationRequest) -> Outcome:
    """Return what became of one wish."""
    (found,) = reservations.reserve_all([wanted])
    return found


def granted(wanted: ReservationRequest) -> Reservation:
    """Return the reservation of a wish."""
    found = asked(wanted)
    assert isinstance(found, Reservation)
    return found


def refused(wanted: ReservationRequest) -> Refusal:
    """Return why a wish was refused."""
    found = asked(wanted)
    assert isinstance(found, Refusal)
    return found


def put(of: Budget, start: date = TODAY, **columns: int) -> BudgetPeriod:
    """Store a period of a budget."""
    measure = budgets.measure_of(of)
    return BudgetPeriod.objects.create(budget=of, measure=measure, start=start, **columns)


def amounts(of: Budget) -> list[tuple[int, int]]:
    """Return what is spent and reserved in each period of a budget, the oldest first."""
    rows = BudgetPeriod.objects.filter(budget=of).order_by("start", "person")
    return list(rows.values_list("spent", "reserved"))


@pytest.mark.parametrize(
    ("left", "answer", "more", "tokens"),
    [
        pytest.param(1064, 1024, {}, 1024, id="whole"),
        pytest.param(9999, 1024, {}, 1024, id="no more than is wanted"),
        pytest.param(1063, 1024, {}, 1023, id="the rest"),
        pytest.param(296, 1024, {}, 256, id="enough"),
        pytest.param(295, 1024, {}, None, id="not enough"),
        pytest.param(60, 20, {}, 20, id="a short one"),
        pytest.param(59, 20, {}, None, id="too little for a short one"),
        pytest.param(1064, 1024, {"is_whole": True}, 1024, id="one that is whole"),
        pytest.param(1063, 1024, {"is_whole": True}, None, id="too little for one that is whole"),
        pytest.param(40, 0, {}, 0, id="without an answer"),
        pytest.param(39, 0, {}, None, id="a prompt that is too large"),
        pytest.param(296, 1024, {"is_last": False}, 256, id="that could wait, for nothing"),
    ],
)
def test_an_answer_gets_the_rest_where_that_is_enough(
    left: int, answer: int, more: dict[str, Any], tokens: int | None
) -> None:
    of = budget(5000 + left)
    row = put(of, spent=5000)
    found = asked(wish(of, answer=answer, **more))
    if tokens is None:
        assert isinstance(found, Refusal)
        assert amounts(of) == [(5000, 0)]
        assert not ModelCall.objects.exists()
        return
    assert isinstance(found, Reservation)
    assert found.output_tokens == tokens
    assert found.entries == (Entry(row.pk, PROMPT + tokens, "tokens"),)
    why = Refusal(limit(of).budget, 5000 + left, 5000, NOON.replace(hour=0, day=18), is_soon=False)
    assert found.shortage == (why if tokens < answer else None)
    assert amounts(of) == [(5000, PROMPT + tokens)]


@pytest.mark.parametrize(
    ("left", "answer", "is_last", "tokens"),
    [
        pytest.param(1064, 2000, False, 1024, id="plenty"),
        pytest.param(1063, 2000, False, None, id="less than plenty"),
        pytest.param(1063, 2000, True, 1023, id="less, at last"),
        pytest.param(540, 500, False, 500, id="all that is wanted"),
        pytest.param(539, 500, False, None, id="less than is wanted"),
        pytest.param(539, 500, True, 499, id="less than is wanted, at last"),
        pytest.param(0, 500, True, None, id="nothing, at last"),
    ],
)
def test_a_call_waits_for_reservations_of_others_unless_it_gets_plenty(
    left: int, answer: int, is_last: bool, tokens: int | None
) -> None:
    of = budget(9000)
    put(of, spent=1000, reserved=8000 - left)
    found = asked(wish(of, answer=answer, is_last=is_last))
    if tokens is not None:
        assert isinstance(found, Reservation)
        assert found.output_tokens == tokens
        assert (found.shortage is not None and found.shortage.is_soon) == (tokens < answer)
        return
    assert isinstance(found, Refusal)
    assert (found.is_soon, found.spent, found.limit) == (True, 1000, 9000)
    assert BudgetPeriod.objects.get().refused_at is None


@pytest.mark.parametrize(("spent", "is_soon"), [(8704, True), (8705, False)])
@pytest.mark.parametrize("is_last", [True, False])
def test_others_are_in_the_way_where_enough_would_be_left_without_them(
    spent: int, is_soon: bool, is_last: bool
) -> None:
    of = budget(9000)
    put(of, spent=spent, reserved=100)
    assert refused(wish(of, is_last=is_last)).is_soon is is_soon


@pytest.mark.parametrize(
    ("spent", "is_used_up"), [(799, False), (800, True), (1000, True), (1200, True)]
)
def test_a_budget_of_which_four_fifths_are_spent_is_used_up(spent: int, is_used_up: bool) -> None:
    """Its first refusal is kept: people are told of that."""
    of = budget(1000)
    put(of, spent=spent)
    found = refused(wish(of))
    assert (found.is_used_up, found.is_soon) == (is_used_up, False)
    assert found.budget.id == of.pk
    first = BudgetPeriod.objects.get().refused_at
    assert (first is not None) == is_used_up
    BudgetPeriod.objects.filter(refused_at__isnull=False).update(refused_at=NOON)
    refused(wish(of))
    assert BudgetPeriod.objects.get().refused_at == (NOON if is_used_up else None)


def test_a_refusal_of_a_batch_is_kept_beside_reservations_of_others() -> None:
    of = budget(1000)
    put(of, spent=900)
    wanted = [wish(of, answer=10), wish(of), wish(of, answer=20)]
    found = reservations.reserve_all(wanted)
    assert [isinstance(each, Reservation) for each in found] == [True, False, False]
    row = BudgetPeriod.objects.get()
    assert row.refused_at is not None
    assert (row.spent, row.reserved) == (900, 50)


def test_the_budget_is_named_of_which_the_least_is_left() -> None:
    """For an answer: 39 tokens are less than 30 messages."""
    wide, narrow, other = budget(5000), budget(100, period="month"), budget(500)
    put(other, spent=400, reserved=100)
    found = refused(wish(wide, narrow, other, budget(30, unit="messages")))
    assert found.budget.id == narrow.pk
    assert (found.limit, found.spent) == (100, 0)
    assert found.free_at == datetime(2026, 4, 1, tzinfo=UTC)
    assert not found.is_soon
    assert [amounts(each) for each in (wide, narrow, other)] == [[(0, 0)], [(0, 0)], [(400, 100)]]
    rest = budget(400)
    shortage = granted(wish(wide, rest)).shortage
    assert shortage is not None
    assert (shortage.budget.id, shortage.limit) == (rest.pk, 400)


def test_the_budget_is_named_in_which_others_reserved_the_most() -> None:
    tight, busy = budget(1100), budget(9000)
    put(busy, reserved=9000)
    found = refused(wish(tight, busy))
    assert found.is_soon
    assert (found.budget.id, found.free_at) == (busy.pk, datetime(2026, 3, 18, tzinfo=UTC))


@pytest.mark.parametrize(
    ("cents", "answer", "tokens"),
    [
        pytest.param(4 + 48, 24, 24, id="whole"),
        pytest.param(4 + 47, 24, None, id="a cent less"),
        pytest.param(4 + 2 * 256, 1024, 256, id="enough"),
        pytest.param(4 + 2 * 256 - 1, 1024, None, id="not enough"),
        pytest.param(4 + 2 * 700, 1024, 700, id="more"),
        pytest.param(4 + 2 * 700 + 1, 1024, 700, id="more and a half"),
        pytest.param(4 + 2 * 1023, 1024, 1023, id="all but one"),
        pytest.param(4 + 1, 1, None, id="half a token"),
        pytest.param(4, 0, 0, id="the prompt alone"),
        pytest.param(3, 0, None, id="less than the prompt"),
    ],
)
def test_an_answer_is_as_long_as_the_money_that_is_left(
    cents: int, answer: int, tokens: int | None
) -> None:
    """A prompt costs four cents, a token of an answer two."""
    of = budget(CENT * (100 + cents), unit="money", period="month")
    row = put(of, MONTH, spent=CENT * 100)
    dear = replace(PRICED, input_price=Decimal(1000), output_price=Decimal(20_000))
    found = asked(wish(of, answer=answer, model=dear))
    if tokens is None:
        assert isinstance(found, Refusal)
    else:
        assert isinstance(found, Reservation)
        assert found.output_tokens == tokens
        cost = CENT * (4 + 2 * tokens)
        assert found.entries == (Entry(row.pk, cost, "money"),)
        assert amounts(of) == [(CENT * 100, cost)]


@pytest.mark.parametrize("spent", [DOLLAR - 1, DOLLAR, DOLLAR + 1, 5 * DOLLAR])
@pytest.mark.parametrize("is_priced", [True, False])
def test_a_model_that_costs_nothing_answers_when_the_money_is_used_up(
    spent: int, is_priced: bool
) -> None:
    """Also when more was spent than planned, or the owner has lowered the budget."""
    free = replace(MODEL, input_price=Decimal(0), output_price=Decimal(0)) if is_priced else MODEL
    of = budget(DOLLAR, unit="money")
    put(of, spent=spent)
    refused(wish(of, model=PRICED))
    found = granted(wish(of, model=free))
    assert (found.output_tokens, found.entries) == (1024, ())
    assert amounts(of) == [(spent, 0)]


def test_a_billionth_of_a_dollar_is_more_than_nothing() -> None:
    cheap = replace(MODEL, input_price=Decimal("0.001"), output_price=Decimal("0.001"))
    of = budget(DOLLAR, unit="money")
    row = put(of, spent=DOLLAR)
    refused(wish(of, model=cheap, prompt_tokens=1, answer=0))
    BudgetPeriod.objects.filter(pk=row.pk).update(spent=DOLLAR - 1)
    found = granted(wish(of, model=cheap, prompt_tokens=1, answer=0))
    assert found.entries == (Entry(row.pk, 1, "money"),)


def test_an_open_call_is_stored_with_its_day_and_the_most_that_it_may_use() -> None:
    tokens, money = budget(10_000), budget(DOLLAR, unit="money", period="month")
    (uncounted,) = budgets.applying([limit(budget(9, unit="messages")).budget], **WHOSE)
    wanted = wish(tokens, money, uncounted, answer=300, model=PRICED)
    wanted.call.pk = 77
    found = granted(wanted)
    row = ModelCall.objects.get()
    assert (row.pk, found.call_id) == (found.call_id, row.pk)
    assert row.pk != 77
    assert (row.state, row.day) == ("open", TODAY)
    assert (row.prompt_tokens, row.completion_tokens) == (30, 300)
    assert row.reserved == [list(each) for each in found.entries]
    assert [(each.amount, each.unit) for each in found.entries] == [
        (340, "tokens"),
        (64 * CENT, "money"),
        (1, "messages"),
    ]
    starts = BudgetPeriod.objects.in_bulk([each.period_id for each in found.entries])
    of = {row.budget_id: (row.start, row.measure) for row in starts.values()}
    assert of[tokens.pk] == (TODAY, "tokens/day")
    assert of[money.pk] == (MONTH, "money/month")


WHOSE = {"user_id": 1, "key_id": 0, "account_id": 0, "assistant_id": 0}


def test_of_a_batch_each_has_its_own_call_and_sees_those_before_it() -> None:
    of = budget(2 * 1064 + 300)
    models: list[ModelInfo] = [replace(MODEL, id=each) for each in (1, 2, 3, 4)]
    wanted = [wish(of, model=each) for each in models]
    for each in wanted:
        each.call.model_id = each.model.id
    with listening() as sent:
        found = reservations.reserve_all(wanted)
    tokens = [each.output_tokens if isinstance(each, Reservation) else None for each in found]
    assert tokens == [1024, 1024, 260, None]
    calls = {each.pk: each for each in ModelCall.objects.all()}
    assert len(calls) == 3
    made = [each.call_id for each in found if isinstance(each, Reservation)]
    assert [calls[each].model_id for each in made] == [1, 2, 3]
    assert amounts(of) == [(0, 2 * 1064 + 300)]
    assert len([each for each in sent if each.sql.startswith("UPDATE")]) == 1
    assert not [each for each in sent if each.sql.endswith('"core_budget"."id" = %s LIMIT 21')]


def test_a_batch_of_different_people_keeps_their_periods_apart(user: User) -> None:
    of = budget(1100, each_person=True)
    found = reservations.reserve_all([wish(limit(of, 1)), wish(limit(of, 2)), wish(limit(of, 1))])
    assert [isinstance(each, Reservation) for each in found] == [True, True, False]
    assert amounts(of) == [(0, 1064), (0, 1064)]
    put(of, date(2026, 3, 16), person=1, reserved=5)
    assert isinstance(asked(wish(limit(of, 3))), Reservation)
    assert amounts(of) == [(0, 5), (0, 1064), (0, 1064), (0, 1064)]


def test_a_call_that_cannot_be_stored_takes_no_other_of_its_batch_with_it() -> None:
    of = budget(10_000)
    broken = wish(of)
    broken.call.model_name = None  # type: ignore[assignment]
    first, error, last = reservations.reserve_all([wish(of), broken, wish(of)])
    assert isinstance(first, Reservation)
    assert isinstance(error, IntegrityError)
    assert isinstance(last, Reservation)
    assert [first.call_id, last.call_id] == [each.pk for each in ModelCall.objects.order_by("pk")]
    assert amounts(of) == [(0, 2 * 1064)]
    assert isinstance(asked(broken), IntegrityError)
    assert amounts(of) == [(0, 2 * 1064)]


def test_another_error_of_the_database_is_not_asked_for_again() -> None:
    of = budget(10_000)

    def fail() -> None:
        raise DatabaseError("the disk is full")

    with before_each('INTO "core_modelcall"', fail) as tried:
        assert str(asked(wish(of))) == "the disk is full"
    assert len(tried) == 1


def test_a_budget_that_is_deleted_meanwhile_is_asked_for_again_three_times_in_all() -> None:
    of = budget(10_000)
    errors = [IntegrityError("gone"), IntegrityError("gone")]

    def fail() -> None:
        if errors:
            raise errors.pop()

    with before_each('INTO "core_modelcall"', fail) as tried:
        assert isinstance(asked(wish(of)), Reservation)
        assert len(tried) == 3
        assert amounts(of) == [(0, 1064)]
        errors += [IntegrityError("gone") for _ in range(9)]
        assert isinstance(asked(wish(of)), IntegrityError)
    assert len(tried) == 6
    assert amounts(of) == [(0, 1064)]


@pytest.mark.parametrize("column", ["spent", "reserved"])
def test_a_period_that_changed_under_its_lock_is_not_overdrawn(column: str) -> None:
    of = budget(1064)
    row = put(of)
    rows = BudgetPeriod.objects.filter(pk=row.pk)
    update = 'UPDATE "core_budgetperiod" SET "reserved"'
    with before_each(update, lambda: rows.update(**{column: 1})) as tried:
        assert isinstance(asked(wish(of)), IntegrityError)
    assert len(tried) == 3
    assert amounts(of) == [(0, 0)]
    with before_each(update, lambda: rows.update(**{column: 0})):
        assert isinstance(asked(wish(of)), Reservation)


def test_a_deleted_budget_limits_nothing_and_gets_no_period() -> None:
    gone, of = budget(5), budget(10_000)
    limits = [limit(gone), limit(of)]
    gone.delete()
    found = granted(wish(*limits))
    assert [each.amount for each in found.entries] == [1064]
    assert isinstance(asked(wish(limits[0])), Reservation)
    assert BudgetPeriod.objects.count() == 1


def test_a_period_that_another_process_makes_at_this_moment_is_the_one() -> None:
    of = budget(2000)
    made: list[BudgetPeriod] = []

    def make() -> None:
        made.append(put(of, spent=900))

    with before_each('INTO "core_budgetperiod"', make):
        found = granted(wish(of, answer=2000))
    assert found.output_tokens == 1060
    assert [each.period_id for each in found.entries] == [made[0].pk]
    assert amounts(of) == [(900, 1100)]


def test_an_edited_limit_counts_at_once_but_one_of_another_unit_with_the_next_run() -> None:
    """The run has the budget as it was when it began."""
    of = budget(1000, unit="tokens")
    known = limit(of)
    Budget.objects.filter(pk=of.pk).update(limit=2000)
    assert granted(wish(known)).output_tokens == 1024
    Budget.objects.filter(pk=of.pk).update(limit=9, unit="messages")
    found = refused(wish(known))
    assert (found.limit, found.spent, found.is_soon) == (1000, 0, True)
    assert found.budget.unit == "tokens"


def closing(of: Reservation, *, spent: int, day: date = TODAY) -> Closing:
    """Return the end of a call that used so much."""
    changes = [Change(each.period_id, each.amount, spent) for each in of.entries]
    return Closing(of.call_id, {"completion_tokens": spent, "day": day}, tuple(changes))


def test_earlier_calls_are_settled_first_also_in_periods_that_are_over(
    at: Callable[[datetime], None],
) -> None:
    """Midnight has passed between two calls of a run, and the clock is set back after that."""
    of, other = budget(1100), budget(5000, period="month")
    first = granted(wish(of, other))
    at(NOON + timedelta(days=1))
    second = granted(wish(of, other, before=[closing(first, spent=50)]))
    assert amounts(of) == [(50, 0), (0, 1064)]
    assert amounts(other) == [(50, 1064)]
    assert ModelCall.objects.get(pk=first.call_id).state == "settled"
    at(NOON)
    third = granted(wish(of, other, before=[closing(second, spent=70), closing(first, spent=9)]))
    assert third.output_tokens == 1010
    assert amounts(of) == [(50, 1050), (70, 0)]
    assert amounts(other) == [(120, 1050)]


def test_the_end_of_an_earlier_call_counts_for_the_next_one() -> None:
    of = budget(1500)
    first = granted(wish(of))
    soon = refused(wish(of, is_last=False))
    assert soon.is_soon
    late = refused(wish(of, answer=1024, before=[closing(first, spent=1250)]))
    assert (late.is_soon, late.spent, late.is_used_up) == (False, 1250, True)
    assert amounts(of) == [(1250, 0)]


def test_more_than_is_reserved_is_never_given_back() -> None:
    of = budget(2000)
    first = granted(wish(of))
    BudgetPeriod.objects.update(reserved=4)
    assert granted(wish(of, before=[closing(first, spent=0)])).output_tokens == 1024
    assert amounts(of) == [(0, 1064)]


def test_days_and_months_begin_at_midnight_of_the_owner(
    at: Callable[[datetime], None], user: User
) -> None:
    User.objects.filter(pk=user.pk).update(is_owner=True, time_zone="Pacific/Auckland")
    budgets.zones.clear()
    of, monthly = budget(1100), budget(1100, period="month")
    midnight = datetime(2026, 2, 28, 11, tzinfo=UTC)
    at(midnight - timedelta(microseconds=1))
    granted(wish(of, monthly))
    assert refused(wish(of)).free_at == midnight
    assert refused(wish(monthly)).free_at == midnight
    at(midnight)
    granted(wish(of, monthly))
    assert refused(wish(of)).free_at == midnight + timedelta(days=1)
    starts = BudgetPeriod.objects.order_by("start", "budget").values_list("start", flat=True)
    assert list(starts) == [date(2026, 2, 1), date(2026, 2, 28), date(2026, 3, 1), date(2026, 3, 1)]
    assert [each.day for each in ModelCall.objects.order_by("pk")] == [
        date(2026, 2, 28),
        date(2026, 3, 1),
    ]


def test_a_message_is_counted_with_the_first_call_of_its_run(runs: list[Run]) -> None:
    of = budget(2, unit="messages")
    put(of, spent=1)
    first = granted(wish(of, run=runs[0]))
    assert [(each.amount, each.unit) for each in first.entries] == [(1, "messages")]
    found = refused(wish(of, run=runs[1]))
    assert (found.is_soon, found.spent) == (True, 1)
    again = granted(wish(of, run=runs[0]))
    assert (again.output_tokens, again.entries) == (1024, ())
    assert amounts(of) == [(1, 1)]
    ended = closing(first, spent=1)
    assert refused(wish(of, run=runs[2], before=[ended])).is_used_up
    assert granted(wish(of, run=runs[0])).entries == ()
    assert amounts(of) == [(2, 0)]


def test_of_a_batch_a_message_is_counted_once_for_each_run(runs: list[Run]) -> None:
    of, others = budget(3, unit="messages"), budget(1064 + 60, unit="tokens")
    first, second, third = runs
    wanted = [
        wish(of, others, run=first),
        wish(of, others, run=second),  # its tokens do not fit
        wish(of, others, run=first, answer=20),
        wish(of, run=second),
        wish(of, run=third),
        wish(of, run=third),
    ]
    found = reservations.reserve_all(wanted)
    counts = [
        sum(entry.amount for entry in each.entries if entry.unit == "messages")
        if isinstance(each, Reservation)
        else None
        for each in found
    ]
    assert counts == [1, None, 0, 1, 1, 0]
    assert amounts(of) == [(0, 3)]


def test_calls_without_a_run_are_a_message_each(session: ChatSession) -> None:
    first = Run.objects.create(pk=1, session=session, user=session.user)
    of = budget(4, unit="messages")
    found = reservations.reserve_all([wish(of, run=first), wish(of), wish(of)])
    assert [isinstance(each, Reservation) for each in found] == [True, True, True]
    granted(wish(of))
    refused(wish(of))
    refused(wish(of, answer=1))
    refused(wish(of, answer=0))
    assert amounts(of) == [(0, 4)]


def test_a_message_counts_in_each_budget_and_for_each_person_by_itself(runs: list[Run]) -> None:
    """Tokens that a run has reserved are no message."""
    of, other = budget(1, unit="messages", each_person=True), budget(9, unit="messages")
    tokens = budget(10_000, each_person=True)
    granted(wish(limit(tokens, 1), run=runs[0]))
    found = granted(wish(limit(of, 1), run=runs[0]))
    assert [each.unit for each in found.entries] == ["messages"]
    found = granted(wish(limit(of, 1), limit(other), run=runs[0]))
    assert [each.period_id for each in found.entries] == [other.periods.get().pk]
    found = granted(wish(limit(of, 2), run=runs[0]))
    assert [each.amount for each in found.entries] == [1]
    Budget.objects.filter(pk=other.pk).delete()
    assert granted(wish(limit(of, 1), run=runs[0])).entries == ()


def test_a_message_that_was_counted_yesterday_is_not_counted_today(
    at: Callable[[datetime], None], runs: list[Run]
) -> None:
    of = budget(1, unit="messages")
    granted(wish(of, run=runs[0]))
    at(NOON + timedelta(days=1))
    assert granted(wish(of, run=runs[0])).entries == ()
    assert granted(wish(of, run=runs[1])).entries != ()
    assert amounts(of) == [(0, 1), (0, 1)]


def test_a_message_that_had_to_wait_for_a_yes_is_counted_once(runs: list[Run]) -> None:
    """The answer to it is written by one run more for each question."""
    first, second, third = runs
    of = budget(1, unit="messages")
    RunPause.objects.create(run=first, continued_by=second)
    RunPause.objects.create(run=second, continued_by=third)
    granted(wish(of, run=first))
    assert granted(wish(of, run=second)).entries == ()
    assert granted(wish(of, run=third)).entries == ()
    assert amounts(of) == [(0, 1)]
    other = Run.objects.create(session=first.session, user_id=first.user_id)
    assert refused(wish(of, run=other)).is_soon
    RunPause.objects.create(run=third)
    refused(wish(of, run=other))


def test_a_message_that_is_counted_after_its_question_is_not_counted_before(
    runs: list[Run],
) -> None:
    """As of a run of which the first part was made before the budget."""
    first, second, _ = runs
    of = budget(1, unit="messages")
    RunPause.objects.create(run=first, continued_by=second)
    found = reservations.reserve_all([wish(of, run=second), wish(of, run=second)])
    assert [isinstance(each, Reservation) for each in found] == [True, True]
    assert amounts(of) == [(0, 1)]


def test_rows_are_written_in_the_order_in_which_others_lock_them() -> None:
    first, second, third = (budget(10_000) for _ in range(3))
    rows = [put(each) for each in (third, first, second)]
    with listening() as sent:
        granted(wish(first, second, third))
    changed = [each.params for each in sent if each.sql.startswith('UPDATE "core_budgetperiod"')]
    ids = [next(value for value in each if value in {row.pk for row in rows}) for each in changed]
    assert ids == sorted(row.pk for row in rows)
    assert len(ids) == 3


def test_all_rows_are_locked_at_once_those_of_settled_calls_too(
    at: Callable[[datetime], None],
) -> None:
    """In the order of their ids, and without the budgets, of which new periods are made."""
    of = budget(10_000)
    first = granted(wish(of))
    at(NOON + timedelta(days=1))
    with listening() as sent:
        granted(wish(of, before=[closing(first, spent=5)]))
    locks = [each for each in sent if 'FROM "core_budgetperiod"' in each.sql]
    assert len(locks) == 2  # the second one after a row was made
    (old,) = (each.period_id for each in first.entries)
    for each in locks:
        assert old in each.params
        assert 'ORDER BY "core_budgetperiod"."id" ASC' in each.sql
        if connection.features.has_select_for_no_key_update:
            assert each.sql.endswith('FOR NO KEY UPDATE OF "core_budgetperiod"')


def test_nothing_is_asked_about_messages_where_none_are_counted(runs: list[Run]) -> None:
    with listening() as sent:
        granted(wish(budget(10_000), run=runs[0]))
        granted(wish(budget(10, unit="messages")))
    asks = [each.sql for each in sent if each.sql.startswith("SELECT")]
    assert not [each for each in asks if "core_modelcall" in each or "core_runpause" in each]
