"""A model that does not answer: the next one does, the person is told once, and so is the owner."""

import json
from pathlib import Path
from typing import Any

import pytest
from django.utils import timezone
from pytest_django import Settings

from channels_app.memory.channel import PLATFORM, say
from channels_app.ops import health
from channels_app.ops.doctor import work
from channels_app.owner import circuit_notices
from channels_app.worker.runner import Runner
from core.models import (
    Assistant,
    AssistantModel,
    ChannelAccount,
    Delivery,
    LanguageModel,
    Message,
    ModelCircuit,
    ModelProvider,
    Run,
    User,
)
from core.providers import catalogue, circuits
from gateway_project.processes import listener
from tests.channels_app.running import memory_account, until

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def account(
    runner: Runner, owner: User, guest: User, settings: Settings, tmp_path: Path
) -> ChannelAccount:
    """Return a channel of a guest, and of the owner for notices. At the address of the first model
    nothing answers; the second one is the environment's.
    """
    path = tmp_path / "script.json"
    path.write_text(json.dumps([{"match": "", "steps": [{"text": "From the second."}]}]))
    settings.LLM_SCRIPT = str(path)
    made = memory_account()
    owner.last_account, owner.last_target = made, {"chat": "own", "thread": ""}
    owner.save()
    catalogue.current()
    away = f"http://127.0.0.1:{listener.free_port()}/v1"
    provider = ModelProvider.objects.create(name="Attic", base_url=away, allow_private=True)
    first = LanguageModel.objects.create(provider=provider, name="big", label="Big one")
    assistant = Assistant.objects.get(is_default=True)
    AssistantModel.objects.filter(assistant=assistant).update(position=2)
    AssistantModel.objects.create(assistant=assistant, model=first, position=1)
    return made


def write(account: ChannelAccount, number: int) -> str:
    """Send a message of the guest; return the answer as it was delivered."""
    place: dict[str, Any] = {"account": account, "sender": "556", "chat": "c"}
    say(text=f"{number}?", message_id=str(number), now=timezone.now(), **place)
    ended = Run.objects.filter(text=f"{number}?", state__in=Run.FINAL)
    until(ended.exists)
    run = ended.get()
    assert run.state == "succeeded", run.error
    until(lambda: not Delivery.objects.filter(state__in=("pending", "sending")).exists())
    return PLATFORM.texts("c")[-1]


def test_the_next_model_answers_and_it_is_told_once(account: ChannelAccount) -> None:
    label = LanguageModel.objects.get(provider__from_environment=True).name
    answers = [write(account, number) for number in (1, 2, 3)]
    note = f"({label} answered, because the usual model is not available.)"
    assert [note in each for each in answers] == [True, False, False]
    assert all(each.startswith("From the second.") for each in answers)
    data = Message.objects.filter(role="assistant").values_list("data", flat=True)
    assert {each["answered_by"] for each in data} == {label}


def test_the_owner_is_told_when_a_circuit_opens_and_when_it_closes(account: ChannelAccount) -> None:
    for number in (1, 2, 3):
        write(account, number)
    row = ModelCircuit.objects.get()
    assert (row.openings, row.code) == (1, "unreachable")
    for _ in range(2):
        circuit_notices.look()
    until(lambda: PLATFORM.texts("own"))
    [told] = PLATFORM.texts("own")
    assert told.startswith("The model Big one fails (unreachable) and is not asked for a while")
    assert any("Big one is not asked" in each for each in health.model_problems())
    assert [each.id for each in work.model()] == ["model"]
    circuits.close(model_id=row.pk)
    circuit_notices.look()
    until(lambda: len(PLATFORM.texts("own")) == 2)
    assert PLATFORM.texts("own")[-1] == "The model Big one answers again."
    assert health.model_problems() == []
