"""Notices of a failing model: one at the failure, and one at the recovery."""

import json
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from django.test import Client
from django.utils import timezone
from pytest_django import Settings

from channels_app.memory.channel import PLATFORM, say
from channels_app.owner import notices
from channels_app.worker.runner import Runner
from core.models import (
    ChannelAccount,
    Delivery,
    LanguageModel,
    ModelProvider,
    ModelTrouble,
    Run,
    RunFailure,
    User,
)
from core.providers import catalogue, health
from core.signals import pubsub
from tests.channels_app.running import memory_account, until

pytestmark = pytest.mark.django_db(transaction=True)
SCRIPT: list[dict[str, Any]] = [
    {"match": "^quota", "steps": [{"error": "quota", "reason": "No credit on [account]"}]},
    {"match": "^cut", "steps": [{"text": "Half"}, {"error": "cut"}]},
    {"match": "^long", "steps": [{"error": "context_length"}]},
]


@pytest.fixture
def account(
    runner: Runner, owner: User, guest: User, settings: Settings, tmp_path: Path
) -> ChannelAccount:
    """Return a channel used by the owner, who gets notices there, and by a guest."""
    path = tmp_path / "script.json"
    path.write_text(json.dumps(SCRIPT))
    settings.LLM_SCRIPT = str(path)
    made = memory_account()
    owner.last_account, owner.last_target = made, {"chat": "own", "thread": ""}
    owner.save()
    return made


def write(account: ChannelAccount, text: str, number: int) -> None:
    """Send a message of the guest."""
    place: dict[str, Any] = {"account": account, "sender": "556", "chat": "c"}
    say(text=text, message_id=str(number), now=timezone.now(), **place)
    until(lambda: Run.objects.filter(text=text, state__in=Run.FINAL).exists())


def told() -> list[str]:
    """Return the notices to the owner."""
    return PLATFORM.texts("own")


def test_the_owner_gets_one_notice_of_failure_and_one_of_recovery(account: ChannelAccount) -> None:
    """However many users' runs fail meanwhile."""
    write(account, "quota 1", 1)
    write(account, "quota 2", 2)
    until(told)
    [first] = told()
    assert first.startswith("The model fails (quota).")
    assert "No credit on" in first
    assert "quota is used up" in PLATFORM.texts("c")[0]
    write(account, "hello", 3)
    until(lambda: len(told()) == 2)
    assert told()[1] == "The model answers again; it had failed (quota)."
    assert health.troubles() == []
    assert health.counts() == {"quota": 2}


def test_where_there_are_several_models_the_notice_names_those_that_failed(
    account: ChannelAccount,
) -> None:
    """Another assistant's may work: the owner could not tell which key to look at."""
    catalogue.current()
    provider = ModelProvider.objects.create(name="Attic", base_url="http://127.0.0.1:9/v1")
    LanguageModel.objects.create(provider=provider, name="big")
    catalogue.changed()
    write(account, "quota 1", 1)
    until(told)
    assert told()[0].startswith(f"The model fails (quota, {catalogue.ENVIRONMENT}: ")


def test_a_request_that_the_model_cannot_take_is_no_trouble_of_the_model(
    account: ChannelAccount,
) -> None:
    """It is stored and counted; the owner gets no notice."""
    write(account, "long", 1)
    assert health.counts() == {"context_length": 1}
    assert health.troubles() == []
    notices.model_health(now=timezone.now())
    assert not Delivery.objects.filter(dedupe_key__startswith="notice:model").exists()
    until(lambda: PLATFORM.texts("c"))
    assert "too long for the model" in PLATFORM.texts("c")[0]


def test_an_alternating_model_is_reported_once_an_hour(
    account: ChannelAccount,
) -> None:
    """Not with every other message."""
    for number in range(4):
        write(account, f"cut {number}", 2 * number)
        notices.model_health(now=timezone.now())
        write(account, f"hello {number}", 2 * number + 1)
        notices.model_health(now=timezone.now())
    hours = Delivery.objects.filter(dedupe_key__startswith="notice:model").count()
    assert hours <= 4  # two, or four where the hour ended meanwhile


def test_a_model_failing_again_within_the_hour_is_reported_in_the_next(
    account: ChannelAccount,
) -> None:
    """The last notice gives the current state."""
    for number, text in enumerate(("cut 1", "hello", "cut 2")):
        write(account, text, number)
        notices.model_health(now=timezone.now())
    notices.model_health(now=timezone.now() + timedelta(hours=1))
    rows = Delivery.objects.filter(dedupe_key__startswith="notice:model").order_by("id")
    words = [row.payload["text"].partition("(")[0] for row in rows]
    assert words == [
        "The model fails ",
        "The model answers again; it had failed ",
        "The model fails ",
    ]
    notices.model_health(now=timezone.now() + timedelta(hours=2))
    assert rows.count() == 3


def test_an_owner_with_web_chat_only_sees_the_models_failure(
    account: ChannelAccount, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Once, as on a channel."""
    User.objects.update(last_account=None, last_target={})
    chief = User.objects.get(is_owner=True)
    shown: list[pubsub.Frame] = []
    monkeypatch.setattr(pubsub, "publish", shown.extend)
    ModelTrouble.objects.create(code="quota", count=1, since=timezone.now())
    for _ in range(2):
        notices.model_health(now=timezone.now())
    found = [each for each in shown if each["kind"] == "notice"]
    assert [each["keys"] for each in found] == [[f"user:{chief.pk}"]]
    assert found[0]["notice"]["text"].startswith("The model fails (quota).")


def test_the_servers_reason_is_on_the_runs_page_only(account: ChannelAccount) -> None:
    """[D8] For users who may view runs in the admin; the chat shows a text of the gateway."""
    write(account, "quota", 1)
    run = Run.objects.get()
    failure = RunFailure.objects.get(run=run)
    assert (failure.code, failure.reason) == ("quota", "No credit on [account]")
    assert "No credit" not in json.dumps(run.result) + run.error
    assert "No credit" not in " ".join(run.events.values_list("data", flat=True))
    chief = User.objects.get(is_owner=True)
    chief.is_staff = chief.is_superuser = True
    chief.save()
    browser = Client()
    browser.force_login(chief)
    page = browser.get(f"/admin/core/run/{run.pk}/change/").content.decode()
    assert "No credit on [account]" in page
    assert "The model fails (quota)" in browser.get("/admin/").content.decode()


def test_another_processs_trouble_ends_with_an_answer_here(account: ChannelAccount) -> None:
    """The next sweep notices it."""
    health.known.is_troubled = False
    ModelTrouble.objects.create(code="server", count=1, since=timezone.now())
    health.look()
    write(account, "hello", 1)
    until(lambda: not health.troubles())
