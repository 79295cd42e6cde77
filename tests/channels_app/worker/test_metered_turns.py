"""Turns that are stopped, cut, repeated or made by a long task leave no reservation open."""

import json
from pathlib import Path
from typing import Any

import pytest
from django.db.models import Sum
from django.utils import timezone
from pytest_django import Settings

from channels_app.memory.channel import say
from channels_app.worker.runner import Runner
from core.models import Budget, BudgetPeriod, ChannelAccount, ModelCall, Run, RunEvent, User
from tests.channels_app.running import memory_account, until

pytestmark = pytest.mark.django_db(transaction=True)
SCRIPT: list[dict[str, Any]] = [
    {"match": "", "after_tool": True, "steps": [{"text": "It is what it is."}]},
    {"match": "^long", "steps": [{"text": "before "}, {"hang": True}]},
    {"match": "^cut", "steps": [{"text": "half an answer"}, {"error": "cut"}]},
    {"match": "^refuse", "steps": [{"error": "unauthorised"}]},
    {"match": "^time", "steps": [{"tool": "current_time"}]},
]


@pytest.fixture
def account(
    runner: Runner, owner: User, guest: User, settings: Settings, tmp_path: Path
) -> ChannelAccount:
    """Return a channel with a script, and a budget for all."""
    path = tmp_path / "script.json"
    path.write_text(json.dumps(SCRIPT))
    settings.LLM_SCRIPT = str(path)
    Budget.objects.create(unit="tokens", period="month", limit=10_000_000)
    return memory_account()


def write(account: ChannelAccount, text: str, number: int) -> None:
    """Send a message of the guest."""
    place: dict[str, Any] = {"account": account, "sender": "556", "chat": "c"}
    say(text=text, message_id=str(number), now=timezone.now(), **place)


def ended(text: str) -> Run:
    """Return a run when it has ended."""
    until(lambda: Run.objects.filter(text=text, state__in=Run.FINAL).exists())
    return Run.objects.get(text=text)


def sums() -> tuple[int, int]:
    """Return the spent tokens; check that nothing is open and that the calls add up to it."""
    period = BudgetPeriod.objects.get()
    calls = ModelCall.objects.aggregate(one=Sum("prompt_tokens"), two=Sum("completion_tokens"))
    assert not ModelCall.objects.filter(state="open").exists()
    assert (period.spent, period.reserved) == (calls["one"] + calls["two"], 0)
    return calls["one"], calls["two"]


def test_a_turn_that_is_stopped_is_estimated(account: ChannelAccount) -> None:
    """Also in its own usage, which clients get: the provider has reported none."""
    write(account, "long", 1)
    until(lambda: RunEvent.objects.filter(data__contains="before").exists())
    write(account, "/stop", 2)
    run = ended("long")
    assert run.state == Run.State.CANCELLED
    call = ModelCall.objects.get(run=run)
    assert (call.failure, call.estimated) == ("stopped", True)
    prompt, answer = sums()
    assert prompt > 100
    assert answer == 2
    assert (run.usage["prompt_tokens"], run.usage["completion_tokens"]) == (prompt, answer)


def test_calls_that_are_cut_or_refused_count_their_tokens(
    account: ChannelAccount,
) -> None:
    write(account, "cut", 1)
    run = ended("cut")
    assert run.state == Run.State.FAILED
    prompt, answer = sums()
    assert prompt > 100
    assert answer == 4
    assert run.usage["total_tokens"] == prompt + answer
    write(account, "refuse", 2)
    assert ended("refuse").state == Run.State.FAILED
    assert sums() == (prompt, answer)
    assert {*ModelCall.objects.values_list("failure", flat=True)} == {"cut", "unauthorised"}


def test_each_call_of_a_turn_counts(account: ChannelAccount) -> None:
    write(account, "time", 1)
    run = ended("time")
    assert ModelCall.objects.filter(run=run, estimated=False).count() == 2
    assert sum(sums()) == run.usage["total_tokens"]


def test_a_turn_that_another_worker_takes_over_counts_both_attempts(
    account: ChannelAccount, runner: Runner
) -> None:
    """The first one's worker learns that it has lost the run; its call is not counted twice."""
    write(account, "long", 1)
    until(lambda: RunEvent.objects.filter(data__contains="before").exists())
    Run.objects.filter(text="long").update(lease_until=None, worker="", state=Run.State.QUEUED)
    until(lambda: ModelCall.objects.filter(attempt=2).exists())
    until(lambda: not ModelCall.objects.filter(attempt=1, state="open").exists())
    write(account, "/stop", 2)
    ended("long")
    sums()
    calls = ModelCall.objects.order_by("id").values_list("attempt", "state", "estimated")
    assert list(calls) == [(1, "settled", True), (2, "settled", True)]
