"""Rules of retention are counted by one worker each, and again when it is asked for (X9)."""

from datetime import timedelta
from datetime import timezone as zones
from types import SimpleNamespace

import pytest
from django.utils import timezone

from core.conversations.retention import counts
from core.models import RetentionRule

pytestmark = pytest.mark.django_db
FOUND = {"messages": 3}


@pytest.fixture
def rule() -> RetentionRule:
    return RetentionRule.objects.create(kind="messages", days=30)


def test_x9_a_rule_is_taken_once_and_its_counts_are_stored(rule: RetentionRule) -> None:
    now = timezone.now()
    assert counts.take(now=now) == rule
    assert counts.take(now=now + timedelta(seconds=1)) is None
    counts.store(FOUND, rule=rule, taken_at=now)
    rule.refresh_from_db()
    assert (rule.counts, rule.counted_at) == (FOUND, now)
    assert counts.take(now=now + timedelta(days=1)) is None


def test_x9_a_rule_that_keeps_for_ever_is_not_counted() -> None:
    RetentionRule.objects.create(kind="messages")
    assert counts.take(now=timezone.now()) is None


def test_x9_a_rule_whose_worker_has_ended_is_taken_again(rule: RetentionRule) -> None:
    """After the lease, and when the clock was set back."""
    now = timezone.now()
    assert counts.take(now=now) == rule
    later = now + counts.LEASE + timedelta(seconds=1)
    assert counts.take(now=later) == rule
    counts.store({"messages": 1}, rule=rule, taken_at=now)  # the first one lives after all
    rule.refresh_from_db()
    assert rule.counts is None
    assert counts.take(now=now) == rule


def test_x9_counts_of_before_a_change_are_not_stored(rule: RetentionRule) -> None:
    now = timezone.now()
    assert counts.take(now=now) == rule
    counts.ask()
    counts.store(FOUND, rule=rule, taken_at=now)
    rule.refresh_from_db()
    assert (rule.counts, rule.counted_at) == (None, None)
    assert counts.take(now=now) == rule


def test_x9_each_of_several_rules_is_taken_and_counted_by_itself(rule: RetentionRule) -> None:
    """Also at the same moment. One that was counted long ago keeps none from its turn."""
    now = timezone.now()
    other = RetentionRule.objects.create(kind="events", days=30)
    assert [counts.take(now=now) for _ in range(3)] == [rule, other, None]
    counts.store(FOUND, rule=rule, taken_at=now)
    assert RetentionRule.objects.get(pk=other.pk).counts is None
    assert counts.take(now=now + 2 * counts.LEASE) == other


def test_x9_a_rule_belongs_to_its_worker_for_ten_minutes(rule: RetentionRule) -> None:
    """In whatever time zone they are told the time."""
    now = timezone.now()
    assert counts.take(now=now) == rule
    for later in (timedelta(0), timedelta(minutes=10)):
        for hours in (-5, 5):
            zone = zones(timedelta(hours=hours))
            assert counts.take(now=(now + later).astimezone(zone)) is None
    assert counts.take(now=now + timedelta(minutes=10, milliseconds=1)) == rule


@pytest.mark.parametrize("was_counted", [False, True])
def test_x9_of_two_workers_that_look_at_the_same_time_one_takes_a_rule(
    rule: RetentionRule, was_counted: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Or none, when the one whose lease had ended has counted it after all."""
    now = timezone.now()
    assert counts.take(now=now) == rule
    later = now + 2 * counts.LEASE
    seen = counts.TO_COUNT.first(oldest=later - counts.LEASE, now=later)
    assert seen == rule
    monkeypatch.setattr(counts, "TO_COUNT", SimpleNamespace(first=lambda **_: seen))
    if was_counted:
        counts.store(FOUND, rule=rule, taken_at=now)
    else:
        assert counts.take(now=later) == rule
    assert counts.take(now=later) is None


def test_x9_all_rules_are_counted_again_when_it_is_asked_for(rule: RetentionRule) -> None:
    """What was counted is not shown meanwhile."""
    now = timezone.now()
    assert counts.take(now=now) == rule
    counts.store(FOUND, rule=rule, taken_at=now)
    counts.ask()
    rule.refresh_from_db()
    assert (rule.counts, rule.counted_at) == (None, None)
