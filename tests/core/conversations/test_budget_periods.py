"""Budgets: which apply, their periods, and how a settled call changes them."""

import threading
from collections.abc import Iterator
from datetime import UTC, date, datetime, timedelta
from typing import Any

import pytest
from django.utils import timezone

from core.conversations import budgets
from core.conversations.budgets import Change, Closing, Entry, Key, Limit
from core.models import Budget, BudgetPeriod, ModelCall, User
from core.providers.base import Usage
from tests.core.conversations.metered import info

DAY = date(2026, 3, 17)


@pytest.fixture(autouse=True)
def no_zone() -> Iterator[None]:
    """Forget the owner's time zone."""
    budgets.zones.clear()
    yield
    budgets.zones.clear()


def period(**fields: Any) -> BudgetPeriod:
    """Return a period of a new budget."""
    budget = Budget.objects.create(unit="tokens", period="day", limit=100)
    return BudgetPeriod.objects.create(**{"budget": budget, "start": DAY, **fields})


def state(row: BudgetPeriod) -> tuple[int, int]:
    """Return what is spent and reserved in a period."""
    row.refresh_from_db()
    return row.spent, row.reserved


def owner(name: str, **fields: Any) -> User:
    return User.objects.create(username=name, **{"is_owner": True, **fields})


@pytest.mark.parametrize("target", ["user_id", "key_id", "account_id", "assistant_id"])
def test_a_budget_of_one_target_limits_its_calls_alone(target: str) -> None:
    call = {"user_id": 1, "key_id": 2, "account_id": 3, "assistant_id": 4}
    whole, each, own = info(), info(id=2, each_person=True), info(id=3, **{target: call[target]})
    found = budgets.applying([whole, each, own], **call)
    assert found == (Limit(whole, 0), Limit(each, 1), Limit(own, 0))
    for other in (9, 0):
        found = budgets.applying([whole, own], **{**call, target: other})
        assert found == (Limit(whole, 0),)


@pytest.mark.django_db
def test_days_begin_in_the_time_zone_of_the_first_active_owner(settings: Any) -> None:
    settings.TIME_ZONE = "Asia/Tokyo"
    User.objects.create(username="guest", time_zone="Europe/Berlin")
    owner("gone", is_active=False, time_zone="Europe/Paris")
    assert str(budgets.owner_zone()) == "Asia/Tokyo"
    first = owner("first", time_zone="Pacific/Auckland")
    owner("second", time_zone="America/Lima")
    assert str(budgets.owner_zone()) == "Asia/Tokyo", "it is asked for once a minute"
    budgets.zones.clear()
    assert str(budgets.owner_zone()) == "Pacific/Auckland"
    User.objects.filter(pk=first.pk).update(time_zone="")
    budgets.zones.clear()
    assert str(budgets.owner_zone()) == "Asia/Tokyo"


@pytest.mark.django_db
@pytest.mark.parametrize("name", ["Nowhere/At all", "../etc/passwd", "Europe"])
def test_a_time_zone_that_is_none_is_that_of_greenwich(
    name: str, django_assert_num_queries: Any
) -> None:
    owner("ann", time_zone=name)
    assert str(budgets.owner_zone()) == "UTC"
    with django_assert_num_queries(0):
        assert str(budgets.owner_zone()) == "UTC"


@pytest.mark.django_db
def test_a_period_begins_and_ends_at_midnight_of_the_owner() -> None:
    owner("ann", time_zone="Pacific/Auckland")
    assert budgets.day_of(datetime(2026, 2, 28, 20, tzinfo=UTC)) == date(2026, 3, 1)
    assert budgets.start_of("day", DAY) == DAY
    assert budgets.start_of("month", DAY) == date(2026, 3, 1)
    ends = {
        ("day", DAY): "2026-03-18T00:00:00+13:00",
        ("day", date(2026, 12, 31)): "2027-01-01T00:00:00+13:00",
        ("month", DAY): "2026-04-01T00:00:00+13:00",
        ("month", date(2026, 12, 1)): "2027-01-01T00:00:00+13:00",
        ("month", date(2027, 1, 31)): "2027-02-01T00:00:00+13:00",
        ("month", date(2027, 2, 28)): "2027-03-01T00:00:00+13:00",
        ("month", date(2026, 6, 30)): "2026-07-01T00:00:00+12:00",
    }
    for (kind, day), end in ends.items():
        assert budgets.end_of(kind, day).isoformat() == end


def test_a_period_is_of_a_budget_a_person_a_measure_and_a_day() -> None:
    limit = Limit(info(id=7, unit="money", period="month"), 5)
    assert budgets.key_of(limit, DAY) == Key(7, 5, "money/month", date(2026, 3, 1))
    assert budgets.key_of(Limit(info(), 0), DAY) == Key(1, 0, "tokens/day", DAY)


@pytest.mark.django_db
def test_spent_amounts_are_read_at_once_in_the_order_asked_for(
    django_assert_num_queries: Any,
) -> None:
    rows = [period(measure="tokens/day", spent=5), period(measure="tokens/day", spent=6, person=3)]
    others = {"budget": rows[0].budget, "spent": 100}
    period(**others, measure="money/day")
    period(**others, measure="tokens/day", start=DAY - timedelta(days=1))
    period(**others, measure="tokens/day", person=4)
    keys = [Key(row.budget_id, row.person, row.measure, row.start) for row in rows]
    with django_assert_num_queries(1):
        assert budgets.spent([keys[1], keys[0]._replace(person=9), keys[0]]) == [6, 0, 5]


@pytest.mark.django_db
def test_periods_of_other_budgets_people_and_days_are_not_locked() -> None:
    row = period(measure="tokens/day")
    period(measure="tokens/day")
    period(budget=row.budget, person=4)
    period(budget=row.budget, start=DAY - timedelta(days=1))
    asked = budgets.of_keys([Key(row.budget_id, 0, "tokens/day", DAY)])
    assert list(BudgetPeriod.objects.filter(asked)) == [row]


def test_an_entry_is_read_from_json() -> None:
    assert budgets.entry([1, 2, "tokens"]) == Entry(1, 2, "tokens")
    assert budgets.entry(["1", "2", "money"]) == Entry(1, 2, "money")


def test_a_call_spends_its_tokens_its_price_and_its_message() -> None:
    entries = [Entry(1, 50, "tokens"), Entry(2, 60, "money"), Entry(3, 1, "messages")]
    found = budgets.changes_of(entries, Usage(7, 8, cached_tokens=3, reasoning_tokens=2), 9)
    assert found == (Change(1, 50, 15), Change(2, 60, 9), Change(3, 1, 1))


@pytest.mark.django_db
def test_a_call_is_settled_once() -> None:
    call, other = (
        ModelCall.objects.create(state=ModelCall.State.OPEN, day=timezone.now().date())
        for _ in range(2)
    )
    changes = (Change(1, 50, 15),)
    closing = Closing(call.pk, {"prompt_tokens": 7, "failure": "cut"}, changes)
    assert budgets.close(closing) == changes
    call.refresh_from_db()
    assert (call.state, call.prompt_tokens, call.failure) == ("settled", 7, "cut")
    assert budgets.close(Closing(call.pk, {"prompt_tokens": 8}, changes)) == ()
    call.refresh_from_db()
    other.refresh_from_db()
    assert (call.prompt_tokens, other.state) == (7, "open")


@pytest.mark.django_db
def test_changes_of_a_period_are_added_up_and_release_no_more_than_is_reserved() -> None:
    row, other, far = period(spent=1, reserved=10), period(spent=2, reserved=20), period(reserved=5)
    changes = [Change(other.pk, 3, 4), Change(row.pk, 6, 5), Change(row.pk, 6, 7), Change(0, 1, 1)]
    assert list(budgets.merged(changes).items()) == [
        (0, (1, 1)),
        (row.pk, (12, 12)),
        (other.pk, (3, 4)),
    ]
    budgets.change(changes)
    assert [state(each) for each in (row, other, far)] == [(13, 0), (6, 17), (0, 5)]


@pytest.mark.django_db
def test_several_ends_change_the_periods_at_the_end_of_their_transaction() -> None:
    row = period(reserved=10)
    with budgets.settling():
        budgets.change([Change(row.pk, 4, 1)])
        budgets.change(iter([Change(row.pk, 4, 2)]))
        assert state(row) == (0, 10)
    assert state(row) == (3, 2)
    budgets.change([Change(row.pk, 1, 1)])
    assert state(row) == (4, 1)


@pytest.mark.django_db
def test_a_transaction_that_fails_changes_no_period_and_leaves_nothing_to_the_next() -> None:
    row = period(reserved=10)
    with pytest.raises(ValueError, match="lost"), budgets.settling():
        budgets.change([Change(row.pk, 4, 1)])
        raise ValueError("lost")
    assert state(row) == (0, 10)
    budgets.change([Change(row.pk, 1, 2)])
    assert state(row) == (2, 9)
    with budgets.settling():
        budgets.change([Change(row.pk, 1, 2)])
    assert state(row) == (4, 8)


def test_changes_wait_in_their_own_thread_alone() -> None:
    found: list[object] = []
    with budgets.settling():
        thread = threading.Thread(target=lambda: found.append(budgets._settling.pending))
        thread.start()
        thread.join(60)
        assert budgets._settling.pending == []
    assert found == [None]
