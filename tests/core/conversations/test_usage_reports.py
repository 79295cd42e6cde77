"""Sums of usage: the same before and after past days are summed up."""

from datetime import UTC, date, datetime, timedelta
from typing import Any

import pytest

from core.conversations import usage_reports
from core.conversations.usage_reports import Used
from core.models import ChannelAccount, ModelCall, UsageDay, User
from core.providers import catalogue

NOW = datetime(2026, 3, 20, 12, tzinfo=UTC)
FIRST, LAST = date(2026, 3, 1), date(2026, 3, 20)


@pytest.fixture
def calls(account: ChannelAccount, user: User) -> list[ModelCall]:
    """Return calls of four days by two people with two models; one failed, one is open."""
    bob = User.objects.create(username="bob", display_name="=1+1")
    common: dict[str, Any] = {"account_id": account.pk, "state": "settled", "purpose": "turn"}
    made = [
        ModelCall(user=user, model_name="a: one", prompt_tokens=10, completion_tokens=1, cost=5),
        ModelCall(user=user, model_name="a: two", prompt_tokens=20, completion_tokens=2, cost=7),
        ModelCall(user=bob, model_name="a: one", prompt_tokens=30, estimated=True, failure="cut"),
        ModelCall(user=None, model_name="a: one", prompt_tokens=40, cached_tokens=4),
    ]
    for each, day in zip(made, (1, 1, 10, 20), strict=True):
        each.day = date(2026, 3, day)
        for name, value in common.items():
            setattr(each, name, value)
    ModelCall.objects.bulk_create(made)
    ModelCall.objects.create(model_name="open", state="open", prompt_tokens=99, day=LAST)
    return made


def everything() -> dict[str, Any]:
    """Return every sum."""
    rows = {
        group: usage_reports.by(group, since=FIRST, until=LAST) for group in usage_reports.GROUPS
    }
    usage_reports.all_totals.clear()
    table = list(usage_reports.csv_rows(since=FIRST, until=LAST))
    return {**rows, "totals": usage_reports.totals(), "table": table}


def test_sums_are_the_same_after_days_are_summed_up(calls: list[ModelCall], user: User) -> None:
    before = everything()
    people = before["person"]
    assert [(row.label, row.used.calls, row.used.tokens) for row in people] == [
        ("ada", 2, 33),
        ("–", 1, 40),
        ("=1+1", 1, 30),
    ]
    assert people[2].used == Used(calls=1, failed=1, estimated=1, prompt_tokens=30)
    assert [row.key.day for row in before["day"]] == [1, 10, 20]
    assert [row.label for row in before["model"]] == ["a: two", "a: one"]
    assert before["channel"][0].label == "platform/main"
    assert len(before["table"]) == 5
    assert "'=1+1" in before["table"][3]
    assert before["totals"]["a: one", "cut"].prompt_tokens == 30
    assert usage_reports.roll_up(now=NOW) == 3
    assert usage_reports.roll_up(now=NOW) == 0
    assert UsageDay.objects.count() == 3
    ModelCall.objects.filter(day__lt=date(2026, 3, 18)).delete()
    assert everything() == before
    only = usage_reports.by("day", since=FIRST, until=LAST, user_id=user.pk)
    assert [row.used.calls for row in only] == [2]


def test_days_that_are_hardly_over_are_not_summed_up(calls: list[ModelCall]) -> None:
    """Runs of yesterday may end today."""
    assert usage_reports.roll_up(now=datetime(2026, 3, 12, tzinfo=UTC)) == 2
    assert usage_reports.last_day() == date(2026, 3, 1)


def test_days_that_a_clock_ahead_has_summed_up_are_open_again(calls: list[ModelCall]) -> None:
    """Later calls of such a day were in no sum."""
    usage_reports.roll_up(now=NOW + timedelta(days=9))
    ModelCall.objects.create(model_name="a: one", state="settled", day=date(2026, 3, 20))
    back = datetime(2026, 3, 20, tzinfo=UTC)
    assert usage_reports.roll_up(now=back) == 0
    assert usage_reports.last_day() == date(2026, 3, 10)
    found = usage_reports.by("day", since=FIRST, until=LAST)
    assert [row.used.calls for row in found] == [2, 1, 2]
    usage_reports.roll_up(now=NOW + timedelta(days=9))
    assert [row.used.calls for row in usage_reports.by("day", since=FIRST, until=LAST)] == [2, 1, 2]


def test_a_clock_behind_takes_no_sum_away_whose_calls_are_gone(calls: list[ModelCall]) -> None:
    """As on a small board that starts without a network, after the retention of calls."""
    usage_reports.roll_up(now=NOW + timedelta(days=9))
    ModelCall.objects.filter(day=date(2026, 3, 10)).delete()
    usage_reports.roll_up(now=NOW - timedelta(days=400))
    assert usage_reports.last_day() == date(2026, 3, 10)
    usage_reports.roll_up(now=NOW + timedelta(days=9))
    found = usage_reports.by("day", since=FIRST, until=LAST)
    assert [row.used.calls for row in found] == [2, 1, 1]


def test_models_beside_the_most_used_are_one(calls: list[ModelCall]) -> None:
    found = usage_reports.totals_by_model(most=1)
    assert list(found) == ["a: one", "other"]
    assert found["a: one"].outcomes == {"answered": 2, "cut": 1}
    assert found["other"].whole.cost == 7


def test_a_person_without_calls_and_budgets_has_a_summary(user: User) -> None:
    catalogue.current()
    assert usage_reports.summary(user, NOW).splitlines() == [
        "Today: 0 tokens in 0 calls.",
        "This month: 0 tokens in 0 calls.",
    ]


def test_sums_of_a_day_are_those_of_its_calls(calls: list[ModelCall]) -> None:
    usage_reports.roll_up(now=NOW + timedelta(days=9))
    assert sum(row.prompt_tokens for row in UsageDay.objects.all()) == 100
    assert UsageDay.objects.get(failure="cut").estimated == 1
