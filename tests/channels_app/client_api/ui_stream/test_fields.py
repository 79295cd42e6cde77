"""The messages that ``useChat`` sends, without a gateway."""

from typing import Any

import pytest

from channels_app.client_api.ui_stream import fields

Json = dict[str, Any]
STEP = {"type": "step-start"}


def text(words: str) -> Json:
    """Return a part of text."""
    return {"type": "text", "text": words}


def called(number: int, **more: Any) -> Json:
    """Return a call of a tool of the page that has its result."""
    done = {"state": "output-available", "input": {"n": number}, "output": f"result {number}"}
    return {"type": "tool-look", "toolCallId": f"c{number}", **done, **more}


def read(*parts: Json) -> list[Json]:
    """Return the messages for the model of an assistant's message, before the person's next one."""
    answer = {"id": "m2", "role": "assistant", "parts": list(parts)}
    asked = {"id": "m1", "role": "user", "parts": [text("Look")]}
    return fields.read({"id": "c", "messages": [asked, answer, asked]}).messages[1:-1]


def test_steps_of_an_answer_keep_their_order() -> None:
    """[M3] What the model said after a result stands after it, as does a call that followed."""
    found = read(STEP, text("I look."), called(1), STEP, called(2), STEP, text("It is red."))
    calls = [[call["id"] for call in each.get("tool_calls", [])] for each in found]
    assert [(each["role"], each["content"]) for each in found] == [
        ("assistant", "I look."),
        ("tool", "result 1"),
        ("assistant", ""),
        ("tool", "result 2"),
        ("assistant", "It is red."),
    ]
    assert calls == [["c1"], [], ["c2"], [], []]


def test_steps_without_a_result_are_one_message() -> None:
    """[M3] Models expect no two messages of the assistant in a row."""
    assert read(STEP, text("One."), STEP, text("Two.")) == [
        {"role": "assistant", "content": "One.\nTwo."}
    ]
    assert read(STEP) == []


@pytest.mark.parametrize(
    ("more", "arguments"),
    [
        ({"input": None, "rawInput": '{"n":'}, '{"n":'),
        ({"input": None, "rawInput": {"n": "x"}}, '{"n": "x"}'),
        ({"input": None}, "{}"),
        ({"input": {}}, "{}"),
        ({"input": {"n": 1}, "rawInput": "x"}, '{"n": 1}'),
    ],
)
def test_a_call_with_wrong_arguments_comes_back_as_the_model_wrote_it(
    more: Json, arguments: str
) -> None:
    """[M3] The page's check refused them: ``input`` is missing, ``rawInput`` has them."""
    [said, _] = read(called(1, state="output-error", errorText="wrong", output=None, **more))
    assert said["tool_calls"][0]["function"]["arguments"] == arguments
