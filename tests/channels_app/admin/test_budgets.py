"""Budgets in the admin: a limit in its unit, one target, and how much of it is used."""

from typing import Any

import pytest
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from allowlist import keys
from allowlist.models import AuditEntry
from core.conversations import budgets
from core.lib import money
from core.models import Assistant, Budget, BudgetPeriod, ChannelAccount, User
from core.providers import catalogue
from tests.channels_app.admin.conftest import errors_of, opened, page, shown_fields

pytestmark = pytest.mark.django_db


@pytest.fixture
def ann(db: None) -> User:
    """Return a person."""
    return User.objects.create(username="ann", display_name="Ann")


def add(browser: Client, **changed: Any) -> Any:
    """Post a new budget."""
    fields = {"amount": "5", "unit": "money", "period": "month", "enabled": "on"}
    return browser.post(page(Budget), {**fields, **changed})


@pytest.mark.parametrize(
    ("fields", "field", "words"),
    [
        ({"amount": ""}, "amount", "required"),
        ({"amount": "0"}, "amount", "more than zero"),
        ({"amount": "-1"}, "amount", "more than zero"),
        ({"amount": "NaN"}, "amount", "number"),
        ({"amount": "five"}, "amount", "number"),
        ({"amount": "0.0000000001"}, "amount", "nine digits"),
        ({"amount": "9999999999"}, "amount", "more than can be counted"),
        ({"amount": "1.5", "unit": "tokens"}, "amount", "whole number of tokens"),
        ({"amount": "0.5", "unit": "messages"}, "amount", "whole number of messages"),
        ({"amount": "1e19", "unit": "tokens"}, "amount", "more than can be counted"),
        ({"unit": "euros"}, "unit", "valid choice"),
        ({"period": "week"}, "period", "valid choice"),
        ({"user": "A", "key_id": "K"}, "key_id", "one target at most"),
        ({"user": "A", "account": "T"}, "account", "one target at most"),
        ({"key_id": "K", "assistant": "D"}, "assistant", "one target at most"),
        ({"user": "A", "each_person": "on"}, "each_person", "already"),
        ({"key_id": "999"}, "key_id", "valid choice"),
    ],
)
def test_bad_input_has_its_error_beside_its_field(
    browser: Client,
    ann: User,
    telegram: ChannelAccount,
    default: Assistant,
    fields: dict[str, str],
    field: str,
    words: str,
) -> None:
    key = keys.create(name="laptop", user=ann, scopes=["chat"])[0]
    known = {"A": ann.pk, "K": key.pk, "T": telegram.pk, "D": default.pk}
    errors = errors_of(add(browser, **{name: known.get(v, v) for name, v in fields.items()}))
    assert list(errors) == [field], errors
    assert words in errors[field]
    assert not Budget.objects.exists()


@pytest.mark.parametrize(
    ("amount", "unit", "limit"),
    [
        ("12.30", "money", 12_300_000_000),
        ("0.000000001", "money", 1),
        ("100000", "tokens", 100_000),
        ("1e3", "messages", 1_000),
    ],
)
def test_a_limit_is_stored_in_its_unit_and_shown_as_it_was_entered(
    browser: Client, amount: str, unit: str, limit: int
) -> None:
    answer = add(browser, amount=amount, unit=unit, period="day")
    assert answer.status_code == 302, errors_of(answer)
    row = Budget.objects.get()
    assert row.limit == limit
    assert catalogue.current().budgets[0].limit == limit
    address = page(Budget, row.pk)
    fields = shown_fields(browser.get(address))
    assert float(fields["amount"]) == float(amount)
    assert browser.post(address, fields).status_code == 302
    row.refresh_from_db()
    assert row.limit == limit
    entry = AuditEntry.objects.get(action="budget.limit_set")
    assert entry.data == {"limit": [None, limit]}


def test_a_new_limit_may_come_with_the_address_of_the_page(browser: Client) -> None:
    """The page shows it first, and it was not stored."""
    address = f"{page(Budget)}?amount=5&unit=tokens"
    fields = {"amount": "5", "initial-amount": "5", "unit": "tokens", "initial-unit": "tokens"}
    assert browser.post(address, {**fields, "period": "day"}).status_code == 302
    assert Budget.objects.get().limit == 5


def test_targets_of_every_kind(
    browser: Client, ann: User, telegram: ChannelAccount, default: Assistant
) -> None:
    key = keys.create(name="laptop", user=ann, scopes=["chat"])[0]
    for target in (
        {},
        {"user": ann.pk},
        {"key_id": key.pk},
        {"account": telegram.pk},
        {"assistant": default.pk},
        {"each_person": "on"},
        {"each_person": "on", "account": telegram.pk},
    ):
        assert add(browser, **target).status_code == 302
    listed = browser.get(reverse("admin:core_budget_changelist")).content.decode()
    for words in ("everyone, one limit", "Ann", "laptop (Ann)", "telegram/main", "each person on"):
        assert words in listed
    assert key.digest not in listed


def test_an_old_page_takes_back_nothing_that_it_does_not_change(browser: Client) -> None:
    """Saved in a second tab, it set the limit of then. A limit and its unit are changed at once."""
    row = Budget.objects.create(limit=5_000_000_000)
    sent = opened(browser, row)
    Budget.objects.filter(pk=row.pk).update(limit=9_000, unit="tokens", enabled=False)
    browser.post(page(Budget, row.pk), {**sent, "period": "day"})
    row.refresh_from_db()
    assert (row.period, row.limit, row.unit, row.enabled) == ("day", 9_000, "tokens", False)
    browser.post(page(Budget, row.pk), {**sent, "amount": "7"})
    row.refresh_from_db()
    assert (row.period, row.limit, row.unit) == ("day", 7_000_000_000, "money")


def test_the_target_stays_and_the_unit_may_change(browser: Client, ann: User) -> None:
    row = Budget.objects.create(limit=5_000_000_000)
    address = page(Budget, row.pk)
    fields = {**shown_fields(browser.get(address)), "amount": "70", "unit": "messages"}
    answer = browser.post(address, {**fields, "user": ann.pk, "each_person": "on"})
    assert answer.status_code == 302, errors_of(answer)
    row.refresh_from_db()
    assert (row.limit, row.unit, row.user, row.each_person) == (70, "messages", None, False)


def test_the_used_part_is_shown_with_a_bar(browser: Client, ann: User) -> None:
    """Of the current period only; reserved is a part of it; of a budget a person each."""
    day = budgets.day_of(timezone.now())
    row = Budget.objects.create(limit=2_000_000_000)
    start = budgets.start_of("month", day)
    common = {"budget": row, "start": start, "measure": budgets.measure_of(row)}
    BudgetPeriod.objects.create(**common, spent=1_500_000_000, reserved=200_000_000)
    BudgetPeriod.objects.create(**{**common, "measure": "tokens/day"}, spent=7_000_000_000)
    each = Budget.objects.create(limit=10, unit="messages", period="day", each_person=True)
    for person, spent in ((ann.pk, 12), (987_654, 3)):
        BudgetPeriod.objects.create(
            budget=each, start=day, measure=budgets.measure_of(each), person=person, spent=spent
        )
    shown = browser.get(page(Budget, row.pk)).content.decode()
    assert "$1.50 of $2.00 · 85 % · $0.20 reserved" in shown
    assert 'style="width: 75%"' in shown
    assert 'style="width: 10%"' in shown
    assert "dashboard-bar-warning" in shown
    shown = browser.get(page(Budget, each.pk)).content.decode()
    assert "12 of 10 · 120 %" in shown
    assert "Ann" in shown
    assert "deleted person" in shown
    assert "dashboard-bar-danger" in shown
    listed = browser.get(reverse("admin:core_budget_changelist")).content.decode()
    assert "$2.00 a month" in listed
    assert "12 of 10" in listed
    unused = Budget.objects.create(limit=5, unit="tokens", enabled=False)
    assert "0 of 5 · 0 %" in browser.get(page(Budget, unused.pk)).content.decode()


@pytest.mark.parametrize(
    ("amount", "text", "plain"),
    [
        (0, "$0.00", "0"),
        (1, "$0", "0.000000001"),
        (4_200_000, "$0.0042", "0.0042"),
        (10_000_000, "$0.01", "0.01"),
        (12_345_678_901, "$12.35", "12.345678901"),
        (1_000_000_000_000, "$1,000.00", "1000"),
    ],
)
def test_money_for_people_and_for_files(amount: int, text: str, plain: str) -> None:
    assert money.shown(amount) == text
    assert money.plain(amount) == plain


def below_the_filters(browser: Client, name: str, **given: str) -> str:
    """Return the list of a page that has no rows."""
    shown = browser.get(reverse(f"admin:core_{name}_changelist"), given).content.decode()
    return shown.partition("dashboard-empty")[2]


def test_an_empty_list_offers_only_possible_actions(browser: Client, db: None) -> None:
    """No filter is reset where none is set, and nothing is offered that cannot be added."""
    shown = below_the_filters(browser, "budget")
    assert "Nothing here yet" in shown
    assert "Add budget" in shown
    assert "Show all" not in shown
    sought = below_the_filters(browser, "budget", q="ann")
    assert "Nothing matches" in sought
    assert "Show all" in sought
    assert "Add budget" not in sought
    jobs = below_the_filters(browser, "job")
    assert "Nothing here yet" in jobs
    assert "Add job" not in jobs
