"""Notices of used budgets, once to each person in their own language: without a worker."""

from collections.abc import Callable
from datetime import UTC, date, datetime
from typing import Any

import pytest
from django.utils import timezone

from allowlist.models import ApiKey
from channels_app.owner import budget_notices
from core.conversations import budgets
from core.models import Budget, BudgetPeriod, ChannelAccount, Delivery, User
from core.signals import pubsub
from tests.channels_app.running import memory_account

pytestmark = pytest.mark.django_db(transaction=True)
NOW = datetime(2026, 11, 15, 12, tzinfo=UTC)
TODAY, FIRST = date(2026, 11, 15), date(2026, 11, 1)


@pytest.fixture(autouse=True)
def account() -> ChannelAccount:
    """Return a channel that pushes; days are those of Greenwich."""
    budgets.zones.clear()
    return memory_account()


@pytest.fixture
def person(account: ChannelAccount) -> Callable[..., User]:
    """Return ``person("ann", is_owner=True)``, with a chat of that name."""

    def make(name: str, **fields: Any) -> User:
        place = {"last_account": account, "last_target": {"chat": name, "thread": ""}}
        return User.objects.create(username=name, display_name=name.title(), **place, **fields)

    return make


@pytest.fixture
def cards(monkeypatch: pytest.MonkeyPatch) -> list[tuple[list[str], str]]:
    """Return the cards in open web chats: (keys, text)."""
    found: list[tuple[list[str], str]] = []

    def publish(frames: list[pubsub.Frame]) -> int:
        found.extend((each["keys"], each["notice"]["text"]) for each in frames if "notice" in each)
        return 1

    monkeypatch.setattr(pubsub, "publish", publish)
    return found


def used(spent: int, *, limit: int = 100, person: int = 0, **fields: Any) -> BudgetPeriod:
    """Return the current period of a new budget of tokens a day."""
    made = Budget.objects.create(**{"unit": "tokens", "period": "day", "limit": limit, **fields})
    start = TODAY if made.period == "day" else FIRST
    measure = budgets.measure_of(made)
    return BudgetPeriod.objects.create(
        budget=made, person=person, measure=measure, start=start, spent=spent
    )


def told() -> list[tuple[str, str]]:
    """Return (chat, text) of the notices so far, by chat, and forget them."""
    found = sorted(Delivery.objects.values_list("target__chat", "payload__text"))
    Delivery.objects.all().delete()
    return found


def test_a_budget_is_told_at_80_and_at_100_percent_once(
    person: Callable[..., User], cards: list[tuple[list[str], str]]
) -> None:
    owner = person("olga", is_owner=True)
    row = used(79)
    budget_notices.look(now=NOW)
    assert told() == []
    BudgetPeriod.objects.update(spent=80)
    for _ in range(2):
        budget_notices.look(now=NOW)
    text = "80 % of the budget are used: 80 of 100 tokens a day."
    [key] = Delivery.objects.values_list("dedupe_key", flat=True)
    assert key.startswith(f"notice:budget:{row.pk}:80:{owner.pk}:")
    assert told() == [("olga", text)]
    assert cards == [([f"user:{owner.pk}"], text)]
    row.refresh_from_db()
    assert row.told_80_at is not None
    assert row.told_100_at is None
    BudgetPeriod.objects.update(spent=100)
    for _ in range(2):
        budget_notices.look(now=NOW)
    text = (
        "The budget is used up: 100 of 100 tokens a day. It begins again at 2026-11-16 00:00 (UTC)."
    )
    [key] = Delivery.objects.values_list("dedupe_key", flat=True)
    assert key.startswith(f"notice:budget:{row.pk}:100:{owner.pk}:")
    assert told() == [("olga", text)]
    row.refresh_from_db()
    assert row.told_100_at is not None


@pytest.mark.parametrize("is_refused", [True, False])
def test_a_budget_that_is_used_up_at_once_is_told_once(
    person: Callable[..., User], *, is_refused: bool
) -> None:
    """Or nearly: the next call did not fit."""
    person("olga", is_owner=True)
    row = used(85 if is_refused else 120, period="month")
    BudgetPeriod.objects.update(refused_at=NOW if is_refused else None)
    for _ in range(2):
        budget_notices.look(now=NOW)
    [(_, text)] = told()
    assert text.startswith("The budget is used up")
    assert text.endswith("2026-12-01 00:00 (UTC).")
    row.refresh_from_db()
    assert row.told_80_at is not None
    assert row.told_100_at is not None


def test_only_the_current_period_of_an_enabled_budget_as_it_is_counts(
    person: Callable[..., User],
) -> None:
    person("olga", is_owner=True)
    row = used(100)
    for change in (
        {"start": FIRST},
        {"start": date(2026, 11, 14)},
        {"start": TODAY, "measure": "money/day"},
        {"measure": "tokens/month"},
        {"measure": "tokens/day", "told_100_at": NOW},
    ):
        BudgetPeriod.objects.update(**change)
        budget_notices.look(now=NOW)
    BudgetPeriod.objects.update(told_100_at=None)
    Budget.objects.update(enabled=False)
    budget_notices.look(now=NOW)
    used(1)
    budget_notices.look(now=NOW)
    assert told() == []
    row.budget.enabled = True
    row.budget.save()
    budget_notices.look(now=NOW)
    assert len(told()) == 1


def test_owners_and_the_person_are_told_each_once_in_their_language(
    person: Callable[..., User],
) -> None:
    person("olga", is_owner=True)
    person("otto", is_owner=True, language="de")
    guest = person("gus", language="de")
    owner = User.objects.get(username="olga")
    key = ApiKey.objects.create(name="k", prefix="p", digest="d", user=guest)
    hers = "80 % of the budget of Gus are used: 80 of 100 tokens a day."
    his = "80 % des Budgets von Gus sind verbraucht: 80 von 100 Tokens am Tag."
    own = "80 % des Budgets sind verbraucht: 80 von 100 Tokens am Tag."
    for whose in ({"each_person": True, "person": guest.pk}, {"user": guest}, {"key_id": key.pk}):
        used(80, **whose)
        budget_notices.look(now=NOW)
        assert told() == [("gus", own), ("olga", hers), ("otto", his)]
    used(80, user=owner)
    budget_notices.look(now=NOW)
    assert [(chat, "Olga" in text) for chat, text in told()] == [("olga", False), ("otto", True)]
    for whose in ({"key_id": 999}, {"each_person": True, "person": 999}, {}):
        used(80, **whose)
        budget_notices.look(now=NOW)
        assert [chat for chat, _ in told()] == ["olga", "otto"]


def test_a_hundred_budgets_are_told_at_once_and_the_others_next(
    person: Callable[..., User], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert budget_notices.AT_ONCE == 100
    monkeypatch.setattr(budget_notices, "AT_ONCE", 1)
    person("olga", is_owner=True)
    for spent in (100, 101, 80, 81):
        used(spent)
    for number in (2, 2, 0):
        budget_notices.look(now=NOW)
        assert len(told()) == number


def test_a_process_that_is_faster_tells_alone(
    person: Callable[..., User],
) -> None:
    person("olga", is_owner=True)
    row = used(80)
    end = timezone.now()
    for percent, change in (
        (80, {"told_80_at": NOW}),
        (80, {"told_80_at": None, "told_100_at": NOW}),
        (100, {"told_100_at": NOW}),
    ):
        BudgetPeriod.objects.update(**change)
        budget_notices.tell(row, percent=percent, end=end)
        assert told() == []
    BudgetPeriod.objects.update(told_80_at=NOW, told_100_at=None)
    other = used(80)
    budget_notices.tell(row, percent=100, end=end)
    assert len(told()) == 1
    other.refresh_from_db()
    assert other.told_80_at is None


def test_without_a_budget_only_the_version_of_the_catalogue_is_read(
    django_assert_num_queries: Any,
) -> None:
    budget_notices.look(now=NOW)
    with django_assert_num_queries(1):
        budget_notices.look(now=NOW)
