"""Rules of retention are counted by one worker each, and again when it is asked for (X9)."""

from datetime import timedelta

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
