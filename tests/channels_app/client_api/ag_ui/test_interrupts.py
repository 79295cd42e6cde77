"""Runs that wait for a yes, over AG-UI: interrupt, answer, and the run that goes on."""

import httpx
import pytest

from tests.channels_app.client_api.ag_ui.frames import (
    Json,
    connected,
    interrupts_of,
    kinds,
    outcome_of,
    resume,
    said,
    text_of,
    told,
)
from tests.channels_app.client_api.asking_tools import (
    client_of,
    decide_elsewhere,
    effects,
    expire,
)
from tests.gateways import Gateway

pytestmark = pytest.mark.slow
YES: Json = {"approved": True}


def asked(client: httpx.Client, text: str, thread: str) -> list[Json]:
    """Return the interrupts of a run that waits; its calls are shown and have no result."""
    events = told(client, said(text, thread=thread))
    found = interrupts_of(events)
    shown = [each["toolCallId"] for each in events if each["type"] == "TOOL_CALL_START"]
    assert [each["toolCallId"] for each in found] == shown
    assert "TOOL_CALL_RESULT" not in kinds(events)
    return found


def yes(interrupt: Json, **payload: object) -> Json:
    """Return an answer."""
    given = {**YES, **payload}
    return {"interruptId": interrupt["id"], "status": "resolved", "payload": given}


def test_w48_a_persons_own_yes_lets_the_run_go_on(member: httpx.Client, asking: Gateway) -> None:
    """The result is that of the call that was shown; repeating the answer makes no second call."""
    [question] = asked(member, "diary", "w48")
    assert question["reason"] == "tool_call"
    assert question["metadata"]["latchkey"] | {"askedOf": "person", "tool": "read_diary"}
    assert question["responseSchema"]["required"] == ["approved"]
    assert "Ada" in question["message"]
    assert question["expiresAt"]
    body = resume("w48", yes(question), run="goes-on")
    for _ in range(2):
        events = told(member, body)
        assert events[0]["runId"] == "goes-on"
        assert "TOOL_CALL_START" not in kinds(events)
        [result] = [each for each in events if each["type"] == "TOOL_CALL_RESULT"]
        assert (result["toolCallId"], result["content"]) == (question["toolCallId"], "ok")
        assert text_of(events) == "The diary: done."
        assert outcome_of(events) == {"type": "success"}
        assert text_of(connected(member, "w48", "?runId=goes-on")) == "The diary: done."
    assert effects(asking).count("read_diary Ada") == 1


def test_w48_a_no_and_an_abandoned_question_make_no_call(
    member: httpx.Client, asking: Gateway
) -> None:
    before = effects(asking)
    for number, answer in enumerate((yes({"id": ""}, approved=False), {"status": "cancelled"})):
        thread = f"no-{number}"
        [question] = asked(member, "diary", thread)
        events = told(member, resume(thread, {**answer, "interruptId": question["id"]}))
        [result] = [each for each in events if each["type"] == "TOOL_CALL_RESULT"]
        assert result["content"] == "denied"
        assert "did not allow" in text_of(events)
    assert effects(asking) == before


def test_w49_answers_follow_the_rules_of_the_protocol(
    member: httpx.Client, asking: Gateway, keys: dict[str, str]
) -> None:
    """Nothing is decided by an answer that is wrong, incomplete, or another person's."""
    before = effects(asking)
    questions = asked(member, "both", "w49")
    own = next(each for each in questions if each["reason"] == "tool_call")
    other = next(each for each in questions if each is not own)
    rest = {"interruptId": other["id"], "status": "resolved"}
    wrong: list[tuple[Json, str]] = [
        (said("hello?", thread="w49"), "interrupt_open"),
        (resume("w49", yes(own)), "interrupt_open"),
        (resume("w49", yes(own, approved="yes"), rest), "interrupt_payload"),
        (resume("w49", yes(own, scope="hour"), rest), "interrupt_payload"),
        (resume("w49", yes(own, editedArgs={}), rest), "interrupt_payload"),
        (resume("w49", yes({"id": "x"})), "interrupt_unknown"),
        (resume("other", yes(own), rest), "interrupt_unknown"),
        (resume("w49", yes({"id": f"{own['id'][:-16]}{'0' * 16}"}), rest), "interrupt_changed"),
    ]
    for body, code in wrong:
        events = told(member, body)
        assert (kinds(events), events[0]["code"]) == (["RUN_ERROR"], code), body
    with client_of(asking, keys["owner"]) as stranger:
        for body in (resume("w49", yes(own), rest),):
            assert told(stranger, body)[0]["code"] == "interrupt_unknown"
    assert effects(asking) == before
    waiting = connected(member, "w49")
    assert {each["id"] for each in interrupts_of(waiting)} == {own["id"], other["id"]}


def test_w50_the_owners_question_is_only_shown(member: httpx.Client, asking: Gateway) -> None:
    """A person's yes to it decides nothing; after the owner's, the run that goes on is there."""
    before = effects(asking)
    [question] = asked(member, "letter", "w50")
    assert question["reason"] == "latchkey:waiting_for_owner"
    assert "responseSchema" not in question
    body = resume("w50", yes(question))
    assert interrupts_of(told(member, body)) == [question]
    assert effects(asking) == before
    assert decide_elsewhere(asking, "once") == "allowed"
    events = connected(member, "w50")
    assert kinds(events)[:2] == ["RUN_STARTED", "MESSAGES_SNAPSHOT"]
    events = told(member, resume("w50", yes(question)))
    assert text_of(events) == "The letter: done."
    assert effects(asking) == [*before, "send_letter Bob"]


def test_w50_a_decision_elsewhere_comes_first(member: httpx.Client, asking: Gateway) -> None:
    """The client's answer comes too late, and it follows the run that goes on."""
    before = effects(asking)
    [question] = asked(member, "diary", "elsewhere")
    assert decide_elsewhere(asking, "deny") == "denied"
    events = told(member, resume("elsewhere", yes(question)))
    assert "did not allow" in text_of(events)
    assert effects(asking) == before


def test_w50_an_owner_decides_with_a_key_for_it(
    owner: httpx.Client, asking: Gateway, keys: dict[str, str]
) -> None:
    """With the scope ``admin:requests``: also for longer, and with edited arguments."""
    [question] = asked(owner, "letter", "owner")
    assert question["responseSchema"]["properties"]["scope"]["enum"] == ["once", "hour", "always"]
    with client_of(asking, keys["owner"]) as chat_only:
        waiting = interrupts_of(told(chat_only, resume("owner", yes(question))))
        assert waiting[0]["reason"] == "latchkey:waiting_for_owner"
    events = told(owner, resume("owner", yes(question, editedArgs={"to": "Eve"})))
    assert text_of(events) == "The letter: done."
    assert effects(asking)[-1] == "send_letter Eve"


def test_w51_an_expired_question_is_an_error_and_is_passed_by_a_cancel(
    member: httpx.Client, asking: Gateway
) -> None:
    before = effects(asking)
    [question] = asked(member, "diary", "w51")
    expire(asking)
    assert told(member, resume("w51", yes(question)))[-1]["code"] == "interrupt_expired"
    cancelled = {"interruptId": question["id"], "status": "cancelled"}
    events = told(member, resume("w51", cancelled))
    assert "no answer in time" in text_of(events)
    assert effects(asking) == before


def test_w51_an_abandoned_question_of_the_owner_is_taken_back(
    member: httpx.Client, asking: Gateway
) -> None:
    """With a new message the conversation goes on."""
    [question] = asked(member, "letter", "back")
    cancelled = {"interruptId": question["id"], "status": "cancelled"}
    assert outcome_of(told(member, resume("back", cancelled))) == {"type": "cancelled"}
    [question] = asked(member, "letter", "back")
    cancelled = {"interruptId": question["id"], "status": "cancelled"}
    message = {"id": "next", "role": "user", "content": "never mind"}
    events = told(member, resume("back", cancelled, messages=[message]))
    assert "never mind" in text_of(events)


def test_w51_a_person_goes_on_talking_while_the_owner_thinks(
    member: httpx.Client, asking: Gateway
) -> None:
    [question] = asked(member, "letter", "talk")
    waits = {"interruptId": question["id"], "status": "resolved"}
    message = {"id": "next", "role": "user", "content": "by the way"}
    events = told(member, resume("talk", waits, messages=[message]))
    assert "by the way" in text_of(events)
    assert interrupts_of(connected(member, "talk")) == [question]
    assert decide_elsewhere(asking, "deny") == "denied"
