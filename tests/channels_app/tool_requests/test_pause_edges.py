"""Pauses at their edges: kills, races, retries, foreign characters, and rules that change."""

import asyncio
import json
from datetime import timedelta
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from django.contrib import admin
from django.db import transaction
from django.test import RequestFactory
from django.utils import timezone
from pytest_django import Settings

from allowlist import audit, revocation
from allowlist.models import AuditEntry
from channels_app.intake import slash_commands
from channels_app.intake.slash_commands import Asked, Command
from channels_app.tool_requests import asking, deciding
from channels_app.worker import finish_run, run_turn
from channels_app.worker.chores import bring_near
from channels_app.worker.runner import Runner
from core.agent.approvals import Approvals
from core.agent.loop import MOST_QUESTIONS
from core.conversations import runs, tool_calls
from core.conversations.tool_calls import Stored
from core.database.transactions import atomic_write
from core.models import (
    ChannelIdentity,
    InboundMessage,
    Message,
    Run,
    RunPause,
    ToolCall,
    ToolGrant,
    ToolRule,
    User,
)
from core.tools import registry
from core.tools.base import Tool, ToolContext, ToolResult
from tests.channels_app.running import runner
from tests.channels_app.tool_requests.test_pause import (
    Look,
    Send,
    ada,
    asked,
    continued,
    decide,
    ended,
    owner,
    says,
    send,
)

__all__ = ["ada", "owner", "runner", "send"]
pytestmark = pytest.mark.django_db(transaction=True)


def left_behind(person: User, send: Send) -> tuple[Run, ToolCall]:
    """Return a run whose worker died after it had made a call that was allowed for an hour, and the
    call's row, which is ``started``.
    """
    ToolRule.objects.create(tool="send", ask="never")
    before = says(person, "send it")
    ToolCall.objects.filter(run=before).delete()
    send.sent.clear()
    run = tool_calls.following(before)
    run.options = {}
    run.state, run.attempt = Run.State.RUNNING, 1
    run.lease_until = timezone.now() + timedelta(minutes=5)
    run.save()
    row = tool_calls.start(
        run=run, call_id="c1", tool="send", arguments='{"to":"bob"}', idempotent=False
    )
    return run, row


def die(run: Run) -> Run:
    """Let the lease of a run end; return the run when another attempt has ended it."""
    Run.objects.filter(pk=run.pk).update(lease_until=timezone.now() - timedelta(seconds=1))
    return ended(run)


def test_v10_a_call_that_was_made_is_not_asked_about_after_a_kill(
    send: Send, ada: User, owner: User
) -> None:
    """The yes for an hour has ended meanwhile, or the owner's rule has changed."""
    run, row = left_behind(ada, send)
    tool_calls.finish(call=row, result=Stored("sent to bob"))
    ToolRule.objects.all().delete()
    ToolRule.objects.create(tool="send", ask="always")
    answer = die(run)
    assert (answer.state, send.sent) == ("succeeded", [])
    assert "It is done." in answer.result["text"]
    assert not ToolCall.objects.filter(state="waiting").exists()


def test_v10_a_text_that_a_call_showed_is_shown_after_a_kill(send: Send, ada: User) -> None:
    run, row = left_behind(ada, send)
    tool_calls.finish(call=row, result=Stored("sent to bob", shown="Here is the receipt: 17"))
    assert "Here is the receipt: 17" in die(run).result["text"]


def test_v10_a_final_result_stays_the_answer_after_a_kill(send: Send, ada: User) -> None:
    run, row = left_behind(ada, send)
    tool_calls.finish(call=row, result=Stored("The parcel is sent.", final=True))
    assert die(run).result["text"] == "The parcel is sent."


def test_v10_a_call_without_a_result_in_time_is_unsure(
    send: Send, ada: User, owner: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It may have happened: neither the model nor the record calls it a failure."""
    send.seconds = 0.01

    async def hang(context: ToolContext, arguments: dict[str, Any]) -> ToolResult:

        await asyncio.Event().wait()
        raise AssertionError

    monkeypatch.setattr(send, "run", hang)
    run = says(ada, "send it")
    call = asked(run)
    decide(call, owner)
    assert "unsure whether “send” was carried out" in continued(run).result["text"]
    call.refresh_from_db()
    assert call.state == "unsure"


@pytest.mark.parametrize("is_declared", [True, False])
def test_v5_the_first_yes_is_enough_where_a_tool_asks_the_first_time(
    send: Send, ada: User, owner: User, monkeypatch: pytest.MonkeyPatch, is_declared: bool
) -> None:
    if is_declared:
        monkeypatch.setattr(send, "ask", "first")
        monkeypatch.setattr(registry, "get", {"send": send}.get)
    else:
        ToolRule.objects.create(tool="send", ask="first")
    run = says(ada, "send it")
    decide(asked(run), owner, "once")
    continued(run)
    assert "It is done." in says(ada, "send it").result["text"]
    assert len(send.sent) == 2
    other = User.objects.create(username="eve")
    assert asked(says(other, "send it"))


def test_v5_a_first_yes_for_an_hour_or_to_other_arguments_is_not_one_for_ever(
    send: Send, ada: User, owner: User
) -> None:
    ToolRule.objects.create(tool="send", ask="first")
    run = says(ada, "send it")
    decide(asked(run), owner, arguments='{"to": "carol"}')
    continued(run)
    again = says(ada, "send it")
    decide(asked(again), owner, "hour")
    continued(again)
    assert asked(says(ada, "send it"))


def test_v5_no_yes_holds_for_those_whom_an_open_list_lets_in(
    send: Send, ada: User, owner: User
) -> None:
    """They all speak as one person: neither a yes to one of them, nor one to the person."""
    User.objects.filter(pk=ada.pk).update(only_listed=False)
    ToolRule.objects.create(tool="send", ask="first")
    own = says(ada, "send it")
    decide(asked(own), owner)
    continued(own)
    run = says(ada, "hello")
    # As a message of a stranger: no one is listed, and the list of ``ada`` is open.
    InboundMessage.objects.filter(run=run).update(kind="im", sender="stranger")
    approvals = Approvals(run, lambda _: "first", partial(run_turn.is_listed, run))
    arguments = '{"to": "carol"}'
    question = asyncio.run(approvals.question(send, "c1", arguments, ""))
    assert question is not None
    function = {"name": "send", "arguments": arguments}
    said: Any = {
        "role": "assistant",
        "content": "",
        "tool_calls": [{"id": "c1", "type": "function", "function": function}],
    }
    with atomic_write():
        asking.ask(run=run, messages=[said], questions=[question])
    call = asked(run)
    assert asking.choices_of(call) == asking.OF_STRANGER
    ToolGrant.objects.all().delete()
    assert decide(call, owner, "always") == "allowed"
    continued(run)
    assert send.sent[-1] == {"to": "carol"}
    call.refresh_from_db()
    assert call.scope == "once"
    assert not ToolGrant.objects.exists()
    assert asking.choices_of(asked(says(ada, "send it"))) == asking.OF_OWNER


def test_v5_a_yes_for_an_hour_does_not_outlive_a_clock_that_was_set_back(
    send: Send, ada: User, owner: User
) -> None:
    run = says(ada, "send it")
    decide(asked(run), owner, "hour")
    continued(run)
    ToolGrant.objects.update(until=timezone.now() + timedelta(days=30))
    bring_near()
    until = ToolGrant.objects.get().until
    assert until is not None
    assert until <= timezone.now() + timedelta(hours=1, seconds=5)


def stop(run: Run) -> str:
    """Say ``/stop`` in the conversation of a run."""
    message = run.inbound.get()
    return slash_commands.stop(
        Asked(
            command=Command("stop", ""),
            message=message,
            session=run.session,
            user=run.user,
            now=timezone.now(),
            decide=lambda request, choice: "",
            listed=True,
            may_decide=False,
        )
    )


def test_v6_stop_ends_the_run_of_a_decision_in_the_same_moment(
    send: Send, ada: User, owner: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    """``/stop`` waits for the lock of a decision that has not been committed yet."""
    run = says(ada, "send it")
    call, real = asked(run), deciding.withdraw

    def late(*, session_id: int) -> int:
        Run.objects.filter(pk=run.pk).update(state="running")  # it holds its conversation
        decide(call, owner)
        return real(session_id=session_id)

    monkeypatch.setattr(deciding, "withdraw", late)
    assert stop(run) == "Stopping…"
    following = RunPause.objects.get(run=run).continued_by
    assert following is not None
    assert following.cancel_requested_at is not None
    Run.objects.filter(pk=run.pk).update(state="succeeded")
    assert ended(following).state == "cancelled"
    assert send.sent == []


def test_v6_a_run_that_was_stopped_while_it_ended_asks_no_one(
    send: Send, ada: User, owner: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = finish_run.priced_outcome

    def stopped(run: Run, *more: Any) -> runs.Outcome:
        outcome = real(run, *more)
        runs.request_cancel(run=run)
        return outcome

    monkeypatch.setattr("channels_app.worker.run_turn.priced_outcome", stopped)
    run = says(ada, "send it")
    assert ToolCall.objects.get(run=run).state == "withdrawn"
    assert decide(ToolCall.objects.get(run=run), owner) == "withdrawn"


def test_v6_a_person_taken_off_the_list_gets_no_run_that_goes_on(
    send: Send, ada: User, owner: User
) -> None:
    """The run that goes on has no message of its own."""

    ada.only_listed = True
    ada.save()
    listed = ChannelIdentity.objects.create(user=ada, kind="im", value="ada")
    run = says(ada, "send it")
    InboundMessage.objects.filter(run=run).update(kind="im", sender="ada")
    following = tool_calls.following(run)
    following.state, following.attempt = Run.State.RUNNING, 1
    following.lease_until = timezone.now() + timedelta(minutes=5)
    following.save()
    RunPause.objects.filter(run=run).update(continued_by=following)
    listed.delete()
    revocation.end_identity(user_id=ada.pk, kind="im", value="ada")
    following.refresh_from_db()
    assert following.cancel_requested_at is not None


def test_v1_the_lines_of_a_schedule_are_said_once(send: Send, ada: User, owner: User) -> None:
    run = says(ada, "send it")
    Run.objects.filter(pk=run.pk).update(
        options={"schedule": {"id": "", "lines": ["Two were missed."]}}
    )
    decide(asked(run), owner)
    assert "Two were missed." not in continued(run).result["text"]


def test_v1_a_refused_file_is_said_once_and_the_request_stays(
    send: Send, ada: User, owner: User
) -> None:
    """A file in a data URL that was refused looks as if it still waited."""
    run = says(ada, "send it")
    url = "data:text/plain;base64,aGVsbG8="
    item = {"kind": "file", "url": url, "refused": "Your files are full."}
    Run.objects.filter(pk=run.pk).update(route={**run.route, "media": [item]})
    decide(asked(run), owner)
    answer = continued(run)
    assert "Your files are full." not in answer.result["text"]
    assert "It is done." in answer.result["text"]
    assert answer.text == "send it"


def test_v1_a_run_that_goes_on_calls_no_tools_of_a_client_that_has_left(
    send: Send, ada: User, owner: User
) -> None:
    """A call of one would leave no answer."""
    run = says(ada, "send it")
    theirs = {"type": "function", "function": {"name": "theirs", "parameters": {}}}
    given = {"tools": [theirs], "model_options": {"tool_choice": "auto", "temperature": 0.5}}
    Run.objects.filter(pk=run.pk).update(options=given)
    decide(asked(run), owner)
    answer = continued(run)
    assert answer.options == {"model_options": {"temperature": 0.5}, "continues": run.pk}
    assert "It is done." in answer.result["text"]


class Nul(Tool):
    """A tool whose results, shown lines and costs have characters that no database stores."""

    name = "nul"
    description = "Says NUL."
    parameters: dict[str, Any] = {"type": "object", "properties": {}}
    idempotent = False

    async def run(self, context: ToolContext, arguments: dict[str, Any]) -> ToolResult:
        return ToolResult("a\0b\ud800c", shown="d\0e\udfff")


def test_v1_nothing_that_a_model_or_a_tool_says_keeps_a_pause_from_being_stored(
    send: Send, ada: User, owner: User, monkeypatch: pytest.MonkeyPatch, settings: Settings
) -> None:
    """PostgreSQL takes no NUL, in texts and in JSON, and no lone surrogate."""
    script = [
        {"match": "", "after_tool": True, "steps": [{"text": "It is done."}]},
        {
            "match": "^nul",
            "steps": [
                {"tool": "nul", "arguments": {}},
                {"tool": "send", "arguments": {"to": "b\0ob"}},
            ],
        },
    ]
    Path(settings.LLM_SCRIPT).write_text(json.dumps(script))
    monkeypatch.setattr(send, "cost", lambda arguments: f"1 € to {arguments['to']}")
    monkeypatch.setattr(registry, "every", lambda: [send, Look(), Nul()])
    run = says(ada, "nul and send")
    assert (run.state, run.attempt) == ("succeeded", 1)
    call = ToolCall.objects.get(run=run, tool="send")
    assert call.cost == "1 € to bob"
    assert ToolCall.objects.get(run=run, tool="nul").state == "done"
    assert decide(call, owner) == "allowed"
    answer = continued(run)
    assert (answer.state, answer.attempt) == ("succeeded", 1)
    assert Message.objects.filter(run=answer).exists()


def test_v4_the_question_shows_that_it_expired_with_the_expiry(
    send: Send, ada: User, owner: User, runner: Runner, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A kill between the two would leave the buttons there for good."""
    call = asked(says(ada, "send it"))

    def killed(row: ToolCall, text: str) -> None:
        raise RuntimeError("killed")

    monkeypatch.setattr(asking, "settle", killed)
    later = timezone.now() + timedelta(days=2)
    with pytest.raises(RuntimeError):
        deciding.look(now=later)
    call.refresh_from_db()
    assert call.state == "waiting"


def test_v7_a_file_that_was_made_beside_a_question_is_linked(
    send: Send, ada: User, owner: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    look = Look()
    made = ToolResult("seen", files=[{"id": "f", "name": "a.txt", "url": "https://x.test/files/f"}])

    async def make(context: ToolContext, arguments: dict[str, Any]) -> ToolResult:
        return made

    monkeypatch.setattr(look, "run", make)
    monkeypatch.setattr(registry, "every", lambda: [send, look])
    assert "https://x.test/files/f" in says(ada, "both").result["text"]


def test_v10_an_unsure_call_is_not_made_again_after_another_pause(
    send: Send, ada: User, owner: User
) -> None:
    """Three runs: the second one was interrupted in the call, the third one has a yes for all."""
    first = says(ada, "send it")
    call = asked(first)
    second = tool_calls.following(first)
    second.state, second.attempt = Run.State.RUNNING, 1
    second.save()
    ToolCall.objects.filter(pk=call.pk).update(state="unsure", carried_out_in=second)
    third = tool_calls.following(second)
    third.state, third.attempt = Run.State.RUNNING, 1
    Run.objects.filter(pk=second.pk).update(state="succeeded")
    third.save()
    row = tool_calls.start(
        run=third, call_id="new", tool="send", arguments=call.arguments, idempotent=False
    )
    assert (row.pk, row.state) == (call.pk, "unsure")


def test_v6_questions_are_locked_before_the_audit(
    send: Send,
    ada: User,
    owner: User,
    monkeypatch: pytest.MonkeyPatch,
    rf: RequestFactory,
) -> None:
    """As decisions lock them: the other way round, PostgreSQL ends one of two with an error."""
    call, real, states = asked(says(ada, "send it")), audit.record, []

    def record(**values: Any) -> AuditEntry:
        states.append(ToolCall.objects.get(pk=call.pk).state)
        return real(**values)

    monkeypatch.setattr(audit, "record", record)
    request = rf.post("/")
    request.user = owner
    ada.is_active = False
    form = SimpleNamespace(changed_data=["is_active"], cleaned_data={})
    with transaction.atomic():
        admin.site.get_model_admin(User).save_model(request, ada, form, change=True)
    assert states == ["withdrawn"]


def test_v1_one_answer_asks_a_bounded_number_of_questions(
    send: Send, ada: User, owner: User, settings: Settings
) -> None:
    """Each is a message to the owner; a guest may let the model make hundreds of calls."""
    steps = [{"tool": "send", "arguments": {"to": str(each)}} for each in range(25)]
    script = [
        {"match": "", "after_tool": True, "steps": [{"text": "It is done."}]},
        {"match": "^flood", "steps": steps},
    ]
    Path(settings.LLM_SCRIPT).write_text(json.dumps(script))
    run = says(ada, "flood")
    calls = list(ToolCall.objects.filter(run=run).order_by("id"))
    assert len(calls) == MOST_QUESTIONS
    for call in calls:
        assert decide(call, owner) == "allowed"
    assert "It is done." in continued(run).result["text"]
    assert sorted(int(each["to"]) for each in send.sent) == [*range(MOST_QUESTIONS)]


@pytest.mark.parametrize("error", [KeyError("to"), TimeoutError()])
def test_v3_a_tool_that_breaks_on_edited_arguments_does_not_break_the_answer(
    send: Send, ada: User, owner: User, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    """Whether it had its effect before is not known."""

    async def fail(context: ToolContext, arguments: dict[str, Any]) -> ToolResult:
        raise error

    monkeypatch.setattr(send, "run", fail)
    run = says(ada, "send it")
    call = asked(run)
    decide(call, owner, arguments='{"whom": "carol"}')
    answer = continued(run)
    assert answer.state == "succeeded"
    assert "unsure whether “send” was carried out" in answer.result["text"]
    assert "It is done." in answer.result["text"]
    call.refresh_from_db()
    assert call.state == "unsure"


def test_v7_a_tool_that_breaks_does_not_break_the_other_calls_of_its_answer(
    send: Send, ada: User, owner: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    look = Look()

    async def fail(context: ToolContext, arguments: dict[str, Any]) -> ToolResult:
        raise RuntimeError("a bug")

    monkeypatch.setattr(look, "run", fail)
    monkeypatch.setattr(registry, "every", lambda: [send, look])
    ToolRule.objects.create(tool="send", ask="never")
    assert says(ada, "both").result["text"] == "It is done."
    assert send.sent == [{"to": "bob"}]
