"""Where messages come from: answers, reminders, unknown requests, and the worker (W60)."""

import json
from pathlib import Path

import pytest
from django.utils import timezone

from allowlist.models import UnknownRequest
from channels_app.asgi.builtin_accounts import builtin_account
from channels_app.intake import inbound
from channels_app.intake.inbound import receive_personal
from channels_app.worker.runner import Runner
from core.conversations import inbox, push_messages, runs
from core.conversations.inbox import Draft
from core.conversations.schedules import changes
from core.conversations.schedules.changes import Grant, Wish
from core.database.transactions import atomic_write
from core.models import Occurrence, PushMessage, Run, User
from tests.channels_app.push.conftest import Enable
from tests.channels_app.push.service import PushService
from tests.channels_app.running import memory_account, runner, until
from tests.channels_app.schedules.making import fire

__all__ = ["runner"]


def ask(user: User, text: str, *, channel: str = "web") -> Run:
    draft = Draft(account=builtin_account(channel), text=text)
    receipt = receive_personal(user=user, draft=draft, session_id="", now=timezone.now())
    assert receipt.run is not None
    return receipt.run


def kinds() -> list[tuple[str, str]]:
    return list(PushMessage.objects.order_by("id").values_list("kind", "ref"))


@pytest.fixture
def script(tmp_path: Path, settings: object) -> None:
    """Let the model hang where it is asked to."""
    file = tmp_path / "script.json"
    file.write_text(json.dumps([{"match": "hang", "steps": [{"text": "Half"}, {"hang": True}]}]))
    settings.LLM_SCRIPT = str(file)  # type: ignore[attr-defined]  # the fixture


def test_w60_an_answer_in_the_web_chat_arrives_in_the_browser(
    service: PushService, ann: User, enable: Enable, runner: Runner
) -> None:
    del runner
    browser, _ = enable(ann)
    run = ask(ann, "Why is the sky blue?")
    until(lambda: service.received)
    said = browser.read(service.received[0])
    assert said["tag"] == f"answer:{run.public_id}"
    assert said["url"] == f"/c/{run.session.public_id}"
    until(lambda: PushMessage.objects.get().state == "sent")


def test_w60_an_answer_on_another_channel_and_a_stopped_one_are_not_announced(
    service: PushService, ann: User, enable: Enable, runner: Runner, script: None
) -> None:
    del runner, script
    enable(ann)
    other = ask(ann, "Hello", channel="http")
    until(lambda: Run.objects.get(pk=other.pk).state == "succeeded")
    stopped = ask(ann, "hang")
    until(lambda: Run.objects.get(pk=stopped.pk).state == "running")
    runs.request_cancel(run=stopped)
    until(lambda: Run.objects.get(pk=stopped.pk).state == "cancelled")
    assert kinds() == []
    assert service.received == []


def test_w60_the_worker_makes_the_keys_at_its_first_start(
    service: PushService, runner: Runner
) -> None:
    del service, runner
    from core.models import Installation

    until(lambda: Installation.objects.exclude(secrets="").exists())


def test_w60_reminders_are_announced_as_text_and_as_answers(
    service: PushService, ann: User, enable: Enable
) -> None:
    del service
    enable(ann)
    with atomic_write():
        session = inbox.open_session(user=ann, account=builtin_account("web"))
    now = timezone.now()
    wish = Wish(text="Take the pills", time_zone="UTC", minutes=1)
    changes.create(user=ann, session=session, wish=wish, grant=Grant(), now=now)
    fire(Occurrence.objects.get().nominal_at)
    ((kind, ref),) = kinds()
    assert kind == "reminder"
    assert "Take the pills" in Run.objects.get(public_id=ref).result["text"]


def test_w60_an_unknown_request_is_announced_to_owners_once(
    service: PushService, ann: User, owner: User, enable: Enable
) -> None:
    del service
    enable(ann, "ann")
    enable(owner, "owner")
    account = memory_account()
    for text in ("Hello?", "Anybody?"):
        draft = Draft(account=account, kind="im", sender="999", chat="999", text=text)
        inbound.receive_sender(draft=draft, now=timezone.now())
    request = UnknownRequest.objects.get()
    assert kinds() == [("request", request.public_id)]
    assert PushMessage.objects.get().subscription.user == owner


def test_w60_nothing_is_stored_for_a_person_without_browsers(ann: User) -> None:
    push_messages.enqueue(user_id=ann.pk, kind="answer", ref="x")
    assert kinds() == []
