"""A run that pauses for a yes, with the real runner: questions, decisions, continuation."""

import json
import threading
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from django.db import connection
from django.utils import timezone
from pytest_django import Settings

from allowlist.models import ApiKey, AuditEntry
from channels_app.asgi.builtin_accounts import builtin_account
from channels_app.intake import inbound, slash_commands
from channels_app.tool_requests import asking, deciding
from channels_app.worker.runner import Runner
from core.agent import prompt
from core.conversations import inbox, tool_calls
from core.models import Delivery, Message, Run, RunPause, ToolCall, ToolGrant, ToolRule, User
from core.tools import registry
from core.tools.base import Tool, ToolContext, ToolResult
from tests.channels_app.running import runner
from tests.servers import wait_until

__all__ = ["runner"]
pytestmark = pytest.mark.django_db(transaction=True)
SCRIPT: list[dict[str, Any]] = [
    {"match": "", "after_tool": True, "steps": [{"text": "It is done."}]},
    {
        "match": "^both",
        "steps": [
            {"tool": "send", "arguments": {"to": "bob"}},
            {"tool": "look", "arguments": {}},
        ],
    },
    {"match": "^send", "steps": [{"text": "Wait. "}, {"tool": "send", "arguments": {"to": "bob"}}]},
]


class Send(Tool):
    """An effect that must not happen twice."""

    name = "send"
    description = "Sends."
    parameters: dict[str, Any] = {"type": "object", "properties": {"to": {"type": "string"}}}
    ask = "always"
    idempotent = False

    def __init__(self) -> None:
        self.sent: list[dict[str, Any]] = []

    async def run(self, context: ToolContext, arguments: dict[str, Any]) -> ToolResult:
        self.sent.append(arguments)
        return ToolResult(f"sent to {arguments['to']}")


class Look(Tool):
    """A tool that does not ask."""

    name = "look"
    description = "Looks."
    parameters: dict[str, Any] = {"type": "object", "properties": {}}

    async def run(self, context: ToolContext, arguments: dict[str, Any]) -> ToolResult:
        return ToolResult("seen")


@pytest.fixture
def send(
    tmp_path: Path, settings: Settings, monkeypatch: pytest.MonkeyPatch, runner: Runner
) -> Send:
    """Start the runner with the tools of this file."""
    path = tmp_path / "script.json"
    path.write_text(json.dumps(SCRIPT))
    settings.LLM_SCRIPT = str(path)
    settings.SWEEP_SECONDS = 1
    tool = Send()
    monkeypatch.setattr(registry, "every", lambda: [tool, Look()])
    return tool


@pytest.fixture
def owner(db: None) -> User:
    return User.objects.create(username="owner", is_owner=True, is_staff=True)


@pytest.fixture
def ada(db: None) -> User:
    return User.objects.create(username="ada")


def says(person: User, text: str, session: str = "") -> Run:
    """Return the ended run of a message over HTTP."""
    receipt = inbound.receive_personal(
        user=person,
        draft=inbox.Draft(account=builtin_account("http"), text=text),
        session_id=session,
        now=timezone.now(),
        command=slash_commands.answered_at_once(text),
    )
    assert receipt.run
    return ended(receipt.run)


def ended(run: Run) -> Run:
    def is_final() -> bool:
        run.refresh_from_db()
        return run.state in Run.FINAL

    wait_until(is_final, seconds=20, what="the end of the run")
    return run


def asked(run: Run) -> ToolCall:
    [call] = ToolCall.objects.filter(run=run)
    assert call.state == "waiting"
    return call


def decide(call: ToolCall, by: User, choice: deciding.Choice = "once", **more: Any) -> str:
    more = {"digest": call.digest, "now": timezone.now(), **more}
    return deciding.decide(call_id=call.public_id, by=by, choice=choice, via="test", **more).outcome


def continued(run: Run) -> Run:
    """Return the ended run that goes on with a paused one."""
    pause = RunPause.objects.get(run=run)
    assert pause.continued_by is not None
    return ended(pause.continued_by)


def test_v1_a_call_waits_for_a_yes_and_the_run_goes_on(send: Send, ada: User, owner: User) -> None:
    run = says(ada, "send it")
    call = asked(run)
    assert run.state == "succeeded"
    assert "I have asked the owner" in run.result["text"]
    assert (call.asked_of, send.sent) == (owner, [])
    assert decide(call, owner) == "allowed"
    answer = continued(run)
    assert send.sent == [{"to": "bob"}]
    assert "It is done." in answer.result["text"]
    call.refresh_from_db()
    assert (call.state, call.carried_out_in) == ("done", answer)
    said = Message.objects.filter(session=run.session).order_by("id")
    assert [each.role for each in said] == ["user", "assistant", "assistant"]


def test_v1_a_denied_call_is_not_made_and_the_person_is_told(
    send: Send, ada: User, owner: User
) -> None:
    run = says(ada, "send it")
    assert decide(asked(run), owner, "deny") == "denied"
    answer = continued(run)
    assert "The owner did not allow “send”." in answer.result["text"]
    assert send.sent == []


def test_v2_the_first_decision_counts(send: Send, ada: User, owner: User) -> None:
    other = User.objects.create(username="other", is_owner=True)
    call = asked(run := says(ada, "send it"))
    assert decide(call, other, "deny") == "denied"
    assert decide(call, owner) == "already"
    continued(run)
    assert RunPause.objects.count() == 1
    assert send.sent == []


def test_v2_a_guest_cannot_decide(send: Send, ada: User, owner: User) -> None:
    call = asked(says(ada, "send it"))
    assert decide(call, ada) == "not_yours"
    assert decide(call, owner, digest="0" * 64) == "changed"
    assert decide(call, owner, digest="") == "changed"
    assert asked(call.run).state == "waiting"


def test_v3_edited_arguments_are_the_ones_that_are_sent(send: Send, ada: User, owner: User) -> None:
    call = asked(run := says(ada, "send it"))
    assert decide(call, owner, arguments='["no object"]') == "invalid"
    assert decide(call, owner, arguments='{"to": "carol"}') == "allowed"
    continued(run)
    assert send.sent == [{"to": "carol"}]
    call.refresh_from_db()
    assert call.edited
    assert call.digest == tool_calls.digest_of("send", '{"to":"carol"}')


def test_v4_an_expired_question_is_said(send: Send, ada: User, owner: User) -> None:
    call = asked(run := says(ada, "send it"))
    past = timezone.now() - timedelta(seconds=1)
    ToolCall.objects.filter(pk=call.pk).update(expires_at=past)
    assert decide(call, owner) == "expired"
    wait_until(lambda: ToolCall.objects.get(pk=call.pk).state == "expired", seconds=20)
    assert "There was no answer in time" in continued(run).result["text"]
    assert send.sent == []


def test_v5_a_yes_for_longer_holds_for_its_person_and_place(
    send: Send, ada: User, owner: User
) -> None:
    run = says(ada, "send it")
    decide(asked(run), owner, "hour")
    continued(run)
    assert "It is done." in says(ada, "send it", run.session.public_id).result["text"]
    elsewhere = says(ada, "send it")
    decide(asked(elsewhere), owner, "always")
    continued(elsewhere)
    assert "It is done." in says(ada, "send it").result["text"]
    other = User.objects.create(username="eve")
    assert asked(says(other, "send it"))
    ToolGrant.objects.all().delete()
    assert asked(says(ada, "send it"))


def test_v6_a_revoked_person_gets_nothing_done(send: Send, ada: User, owner: User) -> None:
    call = asked(says(ada, "send it"))
    User.objects.filter(pk=ada.pk).update(is_active=False)
    assert decide(call, owner) == "gone"
    call.refresh_from_db()
    assert call.state == "withdrawn"
    assert RunPause.objects.get().continued_by is None
    assert send.sent == []


def test_v7_other_calls_of_the_same_answer_are_carried_out(
    send: Send, ada: User, owner: User
) -> None:
    run = says(ada, "both")
    messages = RunPause.objects.get(run=run).messages
    assert [each["content"] for each in messages if each["role"] == "tool"] == ["seen"]
    decide(asked(run), owner)
    assert "It is done." in continued(run).result["text"]


def test_v8_rules_of_the_owner_count_before_the_tools_own(
    send: Send, ada: User, owner: User
) -> None:
    ToolRule.objects.create(tool="send", ask="never")
    assert "It is done." in says(ada, "send it").result["text"]
    ToolRule.objects.create(tool="send", ask="always", user=ada)
    assert asked(says(ada, "send it"))
    ToolRule.objects.filter(user=ada).update(ask="off")
    ToolRule.objects.get(user=ada).save()
    assert (
        "It is done." in says(ada, "send it").result["text"]
    )  # the model was told that it is gone
    assert len(send.sent) == 1


def test_v9_the_question_is_asked_in_one_place(send: Send, ada: User, owner: User) -> None:
    call = asked(says(ada, "send it"))
    asked_at = Delivery.objects.filter(dedupe_key__startswith=f"{asking.PREFIX}:{call.public_id}")
    assert asked_at.count() == 0  # this owner has no chat that can be written to


def test_v10_a_started_call_is_not_made_again(send: Send, ada: User, owner: User) -> None:
    """As a kill leaves it: the start is stored, the end is not, and the lease runs out."""
    run = says(ada, "send it")
    call = asked(run)
    ToolCall.objects.filter(pk=call.pk).update(state="allowed")
    again = tool_calls.following(run)
    again.state, again.attempt = Run.State.RUNNING, 1
    again.save()
    RunPause.objects.filter(run=run).update(continued_by=again)
    row = tool_calls.start(
        run=again, call_id=call.call_id, tool="send", arguments=call.arguments, idempotent=False
    )
    assert row.state == "started"
    Run.objects.filter(pk=again.pk).update(lease_until=timezone.now() - timedelta(seconds=1))
    answer = ended(again)
    assert send.sent == []
    assert "unsure whether “send” was carried out" in answer.result["text"]
    call.refresh_from_db()
    assert call.state == "unsure"


def test_v2_of_two_owners_at_once_one_decides(send: Send, ada: User, owner: User) -> None:
    other = User.objects.create(username="other", is_owner=True)
    call = asked(run := says(ada, "send it"))
    start = threading.Barrier(2)

    def press(by: User, choice: deciding.Choice) -> str:
        start.wait(10)
        try:
            return decide(call, by, choice)
        finally:
            connection.close()

    with ThreadPoolExecutor(2) as pool:
        futures = [pool.submit(press, owner, "once"), pool.submit(press, other, "deny")]
        outcomes = sorted(each.result(20) for each in futures)
    assert outcomes in (["allowed", "already"], ["already", "denied"])
    continued(run)
    assert len(send.sent) == ("allowed" in outcomes)
    assert AuditEntry.objects.filter(action__startswith="tool.").count() == 1


def test_v6_stop_takes_the_questions_of_its_conversation_back(
    send: Send, ada: User, owner: User
) -> None:
    run, elsewhere = says(ada, "send it"), says(ada, "send it")
    assert deciding.withdraw(session_id=run.session_id) == 1
    assert ToolCall.objects.get(run=run).state == "withdrawn"
    assert decide(ToolCall.objects.get(run=run), owner) == "withdrawn"
    assert asked(elsewhere)


def test_v1_an_answer_that_goes_on_after_new_is_none_of_the_new_conversation(
    send: Send, ada: User, owner: User
) -> None:
    """The person sees it; the model is not told of it between the messages of another one."""
    run = says(ada, "send it")
    name = run.session.public_id
    says(ada, "/new", name)
    says(ada, "hello", name)
    assert decide(asked(run), owner) == "allowed"
    done = continued(run)
    last = says(ada, "and now?", name)
    told = prompt.prepare(Run.objects.get(pk=last.pk)).history(5000, with_calls=True)
    assert [each["content"] for each in told if each["role"] == "user"] == ["hello"]
    assert "It is done." not in str(told)
    assert Message.objects.get(run=done).data["said"] == "It is done."


def test_v6_a_key_that_is_revoked_in_between_gets_nothing_done(
    send: Send, ada: User, owner: User
) -> None:
    run = says(ada, "send it")
    key = ApiKey.objects.create(user=ada, name="k", prefix="p", digest="d", scopes=["chat"])
    Run.objects.filter(pk=run.pk).update(via_key=key.pk)
    ApiKey.objects.filter(pk=key.pk).update(revoked_at=timezone.now())
    assert decide(asked(run), owner) == "gone"
    assert send.sent == []
