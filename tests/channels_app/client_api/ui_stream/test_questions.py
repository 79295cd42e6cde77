"""Questions of tools and resuming by number over ``/ui/chat``, at a running gateway."""

from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from tests.channels_app.client_api.ag_ui.frames import EventId
from tests.channels_app.client_api.asking_tools import (
    client_of,
    decide_elsewhere,
    effects,
    expire,
)
from tests.channels_app.client_api.ui_stream.test_chat import asked, frames, said, text_of, told
from tests.gateways import Gateway

pytestmark = pytest.mark.slow
Json = dict[str, Any]


def of_type(chunks: list[Any], kind: str) -> list[Json]:
    """Return the chunks of a type."""
    return [each for each in chunks if each != "[DONE]" and each["type"] == kind]


def responded(chat: str, chunks: list[Any], *, approved: bool) -> Json:
    """Return the request of a page whose person has answered the question in ``chunks``."""
    [request] = of_type(chunks, "tool-approval-request")
    [call] = of_type(chunks, "tool-input-available")
    part = {
        "type": "dynamic-tool",
        "toolCallId": call["toolCallId"],
        "toolName": call["toolName"],
        "input": call["input"],
        "providerExecuted": True,
        "state": "approval-responded",
        "approval": {"id": request["approvalId"], "approved": approved},
    }
    answer = {"id": chunks[0]["messageId"], "role": "assistant", "parts": [part]}
    return {"id": chat, "messages": [said("diary"), answer], "trigger": "submit-message"}


def test_w53_a_persons_answer_goes_on_in_the_same_message(
    member: httpx.Client, asking: Gateway
) -> None:
    """A yes makes the call once, however often it is sent; a no makes none."""
    before = effects(asking)
    chunks = told(member, asked("diary", chat="yes"))
    assert of_type(chunks, "finish")[0]["finishReason"] == "tool-calls"
    body = responded("yes", chunks, approved=True)
    for _ in range(2):
        rest = told(member, body)
        assert rest[0]["messageId"] == chunks[0]["messageId"]
        assert of_type(rest, "tool-input-available") == []
        assert len(of_type(rest, "tool-output-available")) == 1
        assert text_of(rest) == "The diary: done."
    assert effects(asking) == [*before, "read_diary Ada"]
    denied = told(member, asked("diary", chat="no"))
    rest = told(member, responded("no", denied, approved=False))
    assert len(of_type(rest, "tool-output-denied")) == 1
    assert effects(asking) == [*before, "read_diary Ada"]


def test_w53_anothers_answer_and_one_to_the_owners_question_decide_nothing(
    member: httpx.Client, asking: Gateway, keys: dict[str, str]
) -> None:
    """The owner's question is data; after the owner's yes the run that goes on is there."""
    before = effects(asking)
    chunks = told(member, asked("diary", chat="mine"))
    with client_of(asking, keys["owner"]) as stranger:
        stranger.post("/ui/chat", json=responded("mine", chunks, approved=True))
    assert effects(asking) == before
    letter = told(member, asked("letter", chat="letter"))
    assert of_type(letter, "tool-approval-request") == []
    letter_id = letter[0]["messageMetadata"]["runId"]
    [part] = of_type(letter, "data-tool-approval")
    assert (part["data"]["askedOf"], part["data"]["mayAnswer"]) == ("owner", False)
    call = {"toolCallId": "x", "toolName": "send_letter", "input": {}}
    forged = [letter[0], {"type": "tool-approval-request", "approvalId": part["id"]}]
    forged.append({"type": "tool-input-available", **call})
    waits = told(member, responded("letter", forged, approved=True))
    assert [each["id"] for each in of_type(waits, "data-tool-approval")] == [part["id"]]
    assert effects(asking) == before
    assert decide_elsewhere(asking, "once") == "allowed"
    for last in ("1", f"{letter_id}.999999999"):
        path = "/ui/chat/letter/stream"
        with member.stream("GET", path, headers={"Last-Event-ID": last}) as answer:
            assert answer.status_code == 200
            assert text_of(frames(answer)).endswith("The letter: done.")


def test_w53_an_answer_that_comes_too_late(member: httpx.Client, asking: Gateway) -> None:
    """Decided elsewhere, or expired: the message goes on without the call."""
    before = effects(asking)
    chunks = told(member, asked("diary", chat="late"))
    assert decide_elsewhere(asking, "deny") == "denied"
    rest = told(member, responded("late", chunks, approved=True))
    assert len(of_type(rest, "tool-output-denied")) == 1
    chunks = told(member, asked("diary", chat="over"))
    expire(asking)
    rest = told(member, responded("over", chunks, approved=True))
    assert len(of_type(rest, "tool-output-error")) == 1
    assert "no answer in time" in text_of(rest)
    assert effects(asking) == before


def test_w53_instructions_and_tools_of_assistant_ui(member: httpx.Client) -> None:
    """Tools come as an object by name, also an empty one; ``system`` as a field."""
    weather = {"get_weather": {"description": "d", "parameters": {"type": "object"}}}
    body = asked("weather?", chat="aui", tools=weather, system="Be brief.", callSettings={})
    assert of_type(told(member, body), "tool-input-available")[0]["toolName"] == "get_weather"
    assert "none" in text_of(told(member, asked("none", chat="aui", tools={}, system=None)))
    wrong = member.post(
        "/ui/chat",
        json=asked("x", chat="aui", tools={"a": 1}),
        headers={"Accept": "application/json"},
    )
    assert (wrong.status_code, wrong.json()["field"]) == (400, "tools.a")


def numbered(answer: httpx.Response) -> Iterator[tuple[EventId, Any]]:
    """Yield the chunks of a stream with their numbers."""
    lines = list(answer.iter_lines())
    numbers = [EventId.of(line[4:]) for line in lines if line.startswith("id: ")]
    answer_lines = httpx.Response(200, text="\n".join(lines))
    yield from zip(numbers, frames(answer_lines), strict=True)


def test_w54_a_cut_stream_goes_on_at_its_number(member: httpx.Client) -> None:
    """Also when the run has ended; ``run_id`` names the run."""
    with member.stream("POST", "/ui/chat", json=asked("slow", chat="w54")) as answer:
        run_id = answer.headers["x-run-id"]
        parts = list(numbered(answer))
    assert parts[0][1]["messageMetadata"] == {"runId": run_id}
    told(member, asked("and then", chat="w54"))
    for number, _ in parts[::2]:
        before = [chunk for count, chunk in parts if count <= number]
        path = f"/ui/chat/w54/stream?run_id={run_id}"
        with member.stream("GET", path, headers={"Last-Event-ID": str(number)}) as answer:
            rest = frames(answer)
        texts = [each["delta"] for each in [*before, *rest] if "delta" in each]
        assert "".join(texts) == "one two three four"
    assert member.get("/ui/chat/w54/stream?run_id=none").status_code == 404
    assert member.get("/ui/chat/w54/stream").status_code == 204


def test_w54_a_number_is_of_its_run(member: httpx.Client) -> None:
    """While another run is open the rest is that of the run that was cut; with the id of another
    chat's run the open one comes from its beginning.
    """
    with member.stream("POST", "/ui/chat", json=asked("slow", chat="bound")) as answer:
        parts = list(numbered(answer))
    last, text = next(each for each in parts if each[1] != "[DONE]" and "delta" in each[1])
    assert str(last).endswith(f".{int(last)}")
    with member.stream("POST", "/ui/chat", json=asked("hang", chat="bound")) as hanging:
        next(hanging.iter_lines())
        stream = "/ui/chat/bound/stream"
        with member.stream("GET", stream, headers={"Last-Event-ID": str(last)}) as answer:
            assert text["delta"] + text_of(frames(answer)) == "one two three four"
        strange = {"Last-Event-ID": f"{'x' * 22}.{int(last)}"}
        with member.stream("GET", stream, headers=strange) as answer:
            lines = (line for line in answer.iter_lines() if line.startswith("data: "))
            assert '"start"' in next(lines)
        wrong = member.get(stream, headers={"Last-Event-ID": f"x.{int(last)}"})
        assert wrong.status_code == 400
    member.post("/ui/chat/bound/stop")
