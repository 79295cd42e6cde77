"""Times further ahead than they can be set: the clock was set back."""

from datetime import UTC, datetime, timedelta

import pytest
from django.db.models.functions import Now

from core.database import transactions
from core.models import ChannelAccount

pytestmark = pytest.mark.django_db(transaction=True)
NOW = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)
MOST, SECOND = timedelta(minutes=1), timedelta(seconds=1)
UNTIL = "poller_until"
TIMES = transactions.FarTimes(lambda: ChannelAccount.objects.filter(enabled=True), UNTIL)


def put(until: object, *, name: str = "main", enabled: bool = True) -> ChannelAccount:
    """Return an account whose lease ends then."""
    row = ChannelAccount.objects.create(channel="memory", name=name, enabled=enabled)
    ChannelAccount.objects.filter(id=row.id).update(poller_until=until)
    return row


@pytest.mark.parametrize(
    ("after", "is_ahead", "has_passed"),
    [
        (-SECOND, False, True),
        (timedelta(0), False, True),
        (SECOND, False, False),
        (MOST, False, False),
        (MOST + SECOND, True, True),
    ],
)
def test_a_time_is_passed_also_where_it_is_further_ahead_than_it_can_be(
    after: timedelta, is_ahead: bool, has_passed: bool
) -> None:
    put(NOW + after)
    rows = ChannelAccount.objects.all()
    assert rows.filter(transactions.ahead(UNTIL, most=MOST, now=NOW)).exists() == is_ahead
    assert rows.filter(transactions.passed(UNTIL, most=MOST, now=NOW)).exists() == has_passed


@pytest.mark.parametrize(
    ("after", "is_ahead", "has_passed"),
    [(-MOST, False, True), (MOST / 2, False, False), (MOST * 2, True, True)],
)
def test_without_a_time_of_its_own_the_databases_counts(
    after: timedelta, is_ahead: bool, has_passed: bool
) -> None:
    put(Now() + after)
    rows = ChannelAccount.objects.all()
    assert rows.filter(transactions.ahead(UNTIL, most=MOST)).exists() == is_ahead
    assert rows.filter(transactions.passed(UNTIL, most=MOST)).exists() == has_passed


def test_an_empty_time_is_neither() -> None:
    put(None)
    rows = ChannelAccount.objects.all()
    assert not rows.filter(transactions.passed(UNTIL, most=MOST)).exists()
    assert not TIMES.are_there(most=MOST)


def test_a_time_too_far_ahead_is_brought_near_and_others_stay() -> None:
    far, near = put(Now() + MOST * 10), put(Now() + MOST / 2, name="near")
    other = put(Now() + MOST * 10, name="other", enabled=False)
    before = {row.id: row.poller_until for row in ChannelAccount.objects.all()}
    assert TIMES.are_there(most=MOST)
    assert not TIMES.are_there(most=MOST * 20)
    assert [row.id for row in TIMES.ahead(MOST)] == [far.id]
    assert TIMES.bring_near(most=MOST) == 1
    after = {row.id: row.poller_until for row in ChannelAccount.objects.all()}
    assert (after[near.id], after[other.id]) == (before[near.id], before[other.id])
    rows = ChannelAccount.objects.filter(id=far.id)
    assert rows.filter(poller_until__lte=Now() + MOST, poller_until__gt=Now()).exists()
    assert rows.filter(poller_until__gt=Now() + MOST / 2).exists()
    assert TIMES.bring_near(most=MOST) == 0


def test_nothing_to_shorten_takes_no_lock(monkeypatch: pytest.MonkeyPatch) -> None:
    put(Now() + MOST / 2)
    locks: list[None] = []
    monkeypatch.setattr(transactions, "atomic_write", lambda: locks.append(None))
    assert TIMES.bring_near(most=MOST) == 0
    assert locks == []
