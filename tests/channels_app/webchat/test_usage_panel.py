"""The usage panel: one's own tokens and cost, and what budgets leave."""

from datetime import timedelta
from typing import Any

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from channels_app.asgi.builtin_accounts import builtin_account
from core.conversations import budgets
from core.models import Budget, BudgetPeriod, ChannelAccount, ModelCall, User
from core.providers import catalogue
from tests.channels_app.webchat.conftest import HOST

pytestmark = pytest.mark.django_db(transaction=True)


def called(user: User, *, days_ago: int = 0, **columns: Any) -> None:
    """Store a call of a model."""
    today = budgets.day_of(timezone.now())
    columns = {"prompt_tokens": 1000, "completion_tokens": 200, "cost": 20_000_000, **columns}
    ModelCall.objects.create(user=user, day=today - timedelta(days=days_ago), **columns)


def spend(budget: Budget, spent: int, *, person: int = 0) -> None:
    """Set what is spent of a budget in its current period."""
    day = budgets.day_of(timezone.now())
    BudgetPeriod.objects.create(
        budget=budget,
        person=person,
        measure=budgets.measure_of(budget),
        start=budgets.start_of(budget.period, day),
        spent=spent,
    )


def panel(user: User) -> dict[str, Any]:
    client = Client(HTTP_HOST=HOST)
    client.force_login(user)
    found: dict[str, Any] = client.get("/chat/usage").json()
    return found


def test_the_spent_amounts_of_all_budgets_are_read_at_once(ada: User) -> None:
    for number in range(5):
        spend(Budget.objects.create(unit="tokens", period="day", limit=900), number)
    with CaptureQueriesContext(connection) as asked:
        left = [each["left"] for each in panel(ada)["budgets"]]
    assert left == ["900", "899", "898", "897", "896"]
    assert len([each for each in asked if "core_budgetperiod" in each["sql"]]) == 1


def test_the_panel_has_ones_own_figures_only(ada: User, bob: User) -> None:
    called(ada)
    called(ada, cost=0)
    called(bob, prompt_tokens=70_000)
    today, month = panel(ada)["periods"]
    assert today == {
        "name": "Today",
        "tokens": 2400,
        "calls": 2,
        "cost": "$0.02",
        "is_estimated": False,
    }
    assert month == {**today, "name": "This month"}
    called(ada, days_ago=400)
    called(ada, estimated=True)
    today, month = panel(ada)["periods"]
    assert (today["tokens"], month["tokens"], month["is_estimated"]) == (3600, 3600, True)


def test_the_panel_has_the_numbers_of_the_persons_language(ada: User) -> None:
    User.objects.filter(pk=ada.pk).update(language="de")
    called(ada)
    Budget.objects.create(unit="money", period="month", limit=5_000_000_000)
    found = panel(ada)
    assert (found["periods"][0]["cost"], found["budgets"][0]["left"]) == ("$0,02", "$5,00")


def test_without_calls_and_budgets_all_is_zero(ada: User) -> None:
    assert panel(ada) == {
        "periods": [
            {"name": name, "tokens": 0, "calls": 0, "cost": "", "is_estimated": False}
            for name in ("Today", "This month")
        ],
        "budgets": [],
    }


def test_budgets_of_the_person_and_of_the_web_chat_are_shown(ada: User, bob: User) -> None:
    catalogue.current()
    other = ChannelAccount.objects.create(channel="bridge", name="b")
    User.objects.filter(pk=ada.pk).update(last_account=other)
    own = Budget.objects.create(unit="money", period="month", limit=5_000_000_000, each_person=True)
    web = Budget.objects.create(
        unit="tokens", period="day", limit=1000, account=builtin_account("web")
    )
    Budget.objects.create(unit="tokens", period="day", limit=1, user=bob)
    Budget.objects.create(unit="tokens", period="day", limit=2, account=other)
    spend(own, 4_500_000_000, person=ada.pk)
    spend(own, 1, person=bob.pk)
    spend(web, 1200)
    first, second = panel(ada)["budgets"]
    assert (first["name"], first["left"], first["used"]) == ("$5.00 a month", "$0.50", 0.9)
    assert (second["name"], second["left"], second["used"]) == ("1,000 tokens a day", "0", 1.0)
    today = budgets.day_of(timezone.now())
    assert second["free_at"] == budgets.end_of("day", today).isoformat()


def test_signed_out_there_is_no_usage(db: None) -> None:
    assert Client(HTTP_HOST=HOST).get("/chat/usage").status_code == 401
