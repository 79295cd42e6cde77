"""Budgets over a channel: messages and tokens that count, refusals, and notices."""

from datetime import UTC, datetime
from typing import Any

import pytest
from django.utils import timezone

from channels_app.admin.language_models.budgets import MOST
from channels_app.memory.channel import PLATFORM, say
from channels_app.ops.health import metrics_text
from channels_app.owner import budget_notices
from channels_app.worker.runner import Runner
from core.conversations import usage_reports
from core.models import Budget, BudgetPeriod, ChannelAccount, Delivery, ModelCall, Run, User
from tests.channels_app.running import memory_account, until

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def account(runner: Runner, owner: User, guest: User) -> ChannelAccount:
    """Return a channel used by the owner, who gets notices there, and by a guest."""
    made = memory_account()
    owner.last_account, owner.last_target = made, {"chat": "own", "thread": ""}
    owner.save()
    return made


def write(account: ChannelAccount, text: str, number: int) -> Run:
    """Send a message of the guest; return its run when it has ended."""
    place: dict[str, Any] = {"account": account, "sender": "556", "chat": "c"}
    say(text=text, message_id=str(number), now=timezone.now(), **place)
    until(lambda: Run.objects.filter(text=text, state__in=Run.FINAL).exists())
    return Run.objects.get(text=text)


def test_a_guest_without_messages_left_is_told_so_and_the_owner_too(
    account: ChannelAccount, guest: User
) -> None:
    limit = Budget.objects.create(unit="messages", period="month", limit=2, user=guest)
    for number in (1, 2):
        assert write(account, f"hello {number}", number).state == Run.State.SUCCEEDED
    refused = write(account, "Bitte mach mir eine Liste für den Urlaub", 3)
    assert refused.state == Run.State.FAILED
    assert refused.failure.code == "budget"
    until(lambda: len(PLATFORM.texts("c")) == 4)
    answers = [each for each in PLATFORM.texts("c") if "Nachrichten" in each]
    assert answers[0].startswith("⚠️ Die Nachrichten für diesen Monat sind aufgebraucht: 2. Ab ")
    until(lambda: PLATFORM.texts("own"))
    [told] = PLATFORM.texts("own")
    assert told.startswith("The budget of guest is used up: 2 of 2 messages a month. It begins")
    notices = [each for each in PLATFORM.texts("c") if each.startswith("The budget is used up: 2")]
    assert len(notices) == 1
    budget_notices.look(now=timezone.now())
    assert Delivery.objects.filter(dedupe_key__startswith="notice:budget").count() == 2
    period = BudgetPeriod.objects.get(budget=limit)
    assert (period.spent, period.reserved) == (2, 0)
    assert period.told_80_at is not None
    assert period.told_100_at is not None


def test_tokens_of_a_turn_are_those_that_the_provider_reports(
    account: ChannelAccount, guest: User
) -> None:
    """In the budget, in the rows, in the run, in a chat and in metrics."""
    limit = Budget.objects.create(unit="tokens", period="day", limit=1_000_000)
    run = write(account, "hello", 1)
    call = ModelCall.objects.get(run=run)
    assert (call.state, call.estimated, call.user, call.account_id) == (
        *("settled", False, guest),
        account.pk,
    )
    assert call.prompt_tokens == run.usage["prompt_tokens"] > 0
    assert call.completion_tokens == run.usage["completion_tokens"] > 0
    tokens = call.prompt_tokens + call.completion_tokens
    period = BudgetPeriod.objects.get(budget=limit)
    assert (period.spent, period.reserved) == (tokens, 0)
    said = usage_reports.summary(guest, timezone.now()).splitlines()
    assert said[0] == f"Today: {tokens:,} tokens in 1 calls."
    assert said[2].startswith(f"Budget of 1,000,000 tokens a day: {1_000_000 - tokens:,} left")
    usage_reports.all_totals.clear()
    metrics = metrics_text().decode()
    name = f'model="{call.model_name}"'
    assert f'latchkey_model_tokens_total{{kind="prompt",{name}}} {call.prompt_tokens}.0' in metrics
    assert f'latchkey_model_calls_total{{{name},outcome="answered"}} 1.0' in metrics
    assert f"latchkey_model_cost_dollars_total{{{name}}} 0.0" in metrics
    ratio = tokens / 1_000_000
    assert f'latchkey_budget_used_ratio{{budget="{limit.pk}"}} {ratio!r}' in metrics


@pytest.mark.parametrize(("spent", "number"), [(79, 0), (80, 1), (99, 1)])
def test_the_owners_are_told_at_80_percent_once(
    account: ChannelAccount, spent: int, number: int
) -> None:
    limit = Budget.objects.create(unit="tokens", period="day", limit=100)
    period = BudgetPeriod.objects.create(
        budget=limit, measure="tokens/day", start=timezone.now().date(), spent=spent
    )
    for _ in range(2):
        budget_notices.look(now=timezone.now())
    until(lambda: len(PLATFORM.texts("own")) == number)
    rows = Delivery.objects.filter(dedupe_key__startswith="notice:budget")
    assert rows.count() == number
    if number:
        said = f"80 % of the budget are used: {spent} of 100 tokens a day."
        assert PLATFORM.texts("own") == [said]
        BudgetPeriod.objects.filter(pk=period.pk).update(spent=100)
        budget_notices.look(now=timezone.now())
        until(lambda: len(PLATFORM.texts("own")) == 2)


@pytest.mark.parametrize("is_of_each", [True, False])
def test_a_person_is_told_at_80_percent_too_once(
    account: ChannelAccount, guest: User, *, is_of_each: bool
) -> None:
    """The owner reads whose budget it is."""
    assert write(account, "hello", 1).state == Run.State.SUCCEEDED  # the guest has a channel
    whose = {"each_person": True} if is_of_each else {"user": guest}
    limit = Budget.objects.create(unit="tokens", period="day", limit=1000, **whose)
    person = guest.pk if is_of_each else 0
    BudgetPeriod.objects.create(
        budget=limit, person=person, measure="tokens/day", start=timezone.now().date(), spent=800
    )
    for _ in range(2):
        budget_notices.look(now=timezone.now())
    until(lambda: PLATFORM.texts("own"))
    said = "80 % of the budget{} are used: 800 of 1,000 tokens a day."
    assert PLATFORM.texts("own") == [said.format(" of guest")]
    until(lambda: len(PLATFORM.texts("c")) == 2)
    assert PLATFORM.texts("c")[1] == said.format("")


def test_80_percent_of_a_small_limit_are_rounded_up(account: ChannelAccount) -> None:
    """One message of two is not 80 %."""
    limit = Budget.objects.create(unit="messages", period="day", limit=2)
    today = timezone.now().date()
    BudgetPeriod.objects.create(budget=limit, measure="messages/day", start=today, spent=1)
    budget_notices.look(now=timezone.now())
    assert not Delivery.objects.exists()


def test_periods_from_before_an_edit_and_past_ones_cause_no_notice(
    account: ChannelAccount,
) -> None:
    limit = Budget.objects.create(unit="money", period="day", limit=100)
    today = timezone.now().date()
    old = today.replace(year=today.year - 1)
    for measure, start in (("tokens/day", today), ("money/day", old)):
        BudgetPeriod.objects.create(budget=limit, measure=measure, start=start, spent=100)
    budget_notices.look(now=timezone.now())
    assert not Delivery.objects.exists()


def test_a_lower_limit_of_a_day_tells_nothing_of_the_first_of_the_month(
    account: ChannelAccount,
) -> None:
    """The first of the month is when the month's budgets begin, too."""
    limit = Budget.objects.create(unit="tokens", period="day", limit=100)
    first, day = datetime(2026, 11, 1, 12, tzinfo=UTC), datetime(2026, 11, 15, 12, tzinfo=UTC)
    BudgetPeriod.objects.create(budget=limit, measure="tokens/day", start=first.date(), spent=70)
    budget_notices.look(now=first)
    Budget.objects.update(limit=60)
    budget_notices.look(now=day)
    assert not Delivery.objects.exists()
    monthly = Budget.objects.create(unit="tokens", period="month", limit=100)
    BudgetPeriod.objects.create(
        budget=monthly, measure="tokens/month", start=first.date(), spent=100
    )
    budget_notices.look(now=day)
    until(lambda: PLATFORM.texts("own"))
    assert [text.partition(".")[0] for text in PLATFORM.texts("own")] == [
        "The budget is used up: 100 of 100 tokens a month"
    ]


def test_periods_from_before_an_edit_do_not_hide_the_others(
    account: ChannelAccount, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With a limit for each person there may be any number of them."""
    monkeypatch.setattr(budget_notices, "AT_ONCE", 1)
    limit = Budget.objects.create(unit="money", period="day", limit=100)
    today = timezone.now().date()
    for measure in ("tokens/day", "money/day"):
        BudgetPeriod.objects.create(budget=limit, measure=measure, start=today, spent=100)
    budget_notices.look(now=timezone.now())
    assert Delivery.objects.exists()


def test_a_limit_as_high_as_can_be_typed_stops_no_notice(account: ChannelAccount) -> None:
    today = timezone.now().date()
    for limit, spent in ((MOST, 5), (100, 85), (9, 7), (7, 6)):
        made = Budget.objects.create(unit="tokens", period="day", limit=limit)
        BudgetPeriod.objects.create(budget=made, measure="tokens/day", start=today, spent=spent)
    budget_notices.look(now=timezone.now())
    until(lambda: len(PLATFORM.texts("own")) == 2)
    assert {text.partition(": ")[2] for text in PLATFORM.texts("own")} == {
        "85 of 100 tokens a day.",
        "6 of 7 tokens a day.",
    }
