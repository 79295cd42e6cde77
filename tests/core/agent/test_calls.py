"""Calls of tools with a stored answer: shortened by rule, and given back in the form that vendors
accept."""

from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.agent import calls
from core.agent.calls import as_messages, calls_of, short, short_arguments
from core.providers.agent_library import converted
from core.providers.base import Finish
from tests.core.agent.test_loop import DONE, Events, Model, call, turn

JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 9) | st.text(max_size=3000),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=9), inner),
    max_leaves=9,
)


@pytest.fixture
def events() -> Events:
    """Return an empty log of messages."""
    return Events()


def asked(*wanted: tuple[str, str], text: str = "") -> dict[str, Any]:
    """Return the model's message with calls: (id, arguments)."""
    made = [
        {"id": call_id, "type": "function", "function": {"name": "look", "arguments": arguments}}
        for call_id, arguments in wanted
    ]
    return {"role": "assistant", "content": text, "tool_calls": made}


def result(call_id: str, text: str) -> dict[str, Any]:
    """Return the result of a call."""
    return {"role": "tool", "tool_call_id": call_id, "content": text}


def test_the_calls_of_a_turn_are_kept_with_their_results_and_steps() -> None:
    before = [asked(("old", "{}")), result("old", "not of this turn")]
    turn = [
        asked(("a", '{"x":1}'), ("b", ""), text="let me see"),
        *(result("a", "one"), result("b", "two")),
        *(asked(("c", "{}")), result("c", "three")),
        asked(("d", "{}")),  # stopped meanwhile
    ]
    kept = calls_of([*before, *turn], 2, answer="all of it")
    assert [(each["id"], each["step"], each["result"]) for each in kept] == [
        *(("a", "1", "one"), ("b", "1", "two"), ("c", "2", "three"))
    ]
    assert [each["arguments"] for each in kept] == ['{"x":1}', "{}", "{}"]
    assert {each["name"] for each in kept} == {"look"}


async def test_the_calls_that_the_loop_ran_are_kept(events: Events) -> None:
    model = Model(
        [*call("current_time", '{"time_zone":"Asia/Tokyo"}', id="t1"), Finish("tool_calls")],
        [*call("nope", "no json"), Finish("tool_calls")],
        DONE,
    )
    it = turn(model, events)
    await it.run()
    clock, unknown = calls_of(it.messages, 1, answer="done")
    assert (clock["id"], clock["name"], clock["step"]) == ("t1", "current_time", "1")
    assert clock["arguments"] == '{"time_zone":"Asia/Tokyo"}'
    assert "Tokyo" in clock["result"]
    assert (unknown["result"], unknown["step"]) == ("There is no tool called nope.", "2")
    assert orjson.loads(unknown["arguments"]) == {"arguments": "no json"}


def test_kept_calls_are_given_back_step_by_step_with_ids_of_nine_letters_and_digits() -> None:
    """Others are refused: Mistral wants nine, OpenAI at most 40, Anthropic no repeated ones."""
    turn = [asked(("a", "{}"), ("b", "{}")), result("a", "1"), result("b", "2")]
    kept = calls_of([*turn, asked(("c", "{}")), result("c", "3")], 0)
    made = as_messages(kept, 7)
    assert [each["role"] for each in made] == ["assistant", "tool", "tool", "assistant", "tool"]
    assert made == as_messages(kept, 7)
    names = [call["id"] for each in made for call in each.get("tool_calls", ())]
    assert names == [each["tool_call_id"] for each in made if each["role"] == "tool"]
    other = [call["id"] for each in as_messages(kept, 8) for call in each.get("tool_calls", ())]
    assert len({*names, *other}) == 6
    assert all(len(name) == 9 and name.isalnum() and name.isascii() for name in names)
    assert [each["content"] for each in made if each["role"] == "tool"] == ["1", "2", "3"]


def test_a_result_that_the_answer_repeats_is_not_kept_twice() -> None:
    long = "A summary of ten pages. " * 20
    turn = [asked(("a", "{}")), result("a", long)]
    assert calls_of(turn, 0, answer=f"Here it is:\n\n{long}")[0]["result"] == calls.REPEATED
    assert calls_of(turn, 0, answer="Something else.")[0]["result"] == long
    assert calls_of([asked(("a", "{}")), result("a", "4")], 0, answer="4")[0]["result"] == "4"


def test_long_results_and_arguments_are_kept_within_their_bounds() -> None:
    turn = [asked(("a", orjson.dumps({"text": "x" * 9000, "n": 1}).decode()))]
    turn.append(result("a", f"begin {'y' * 9000} end"))
    [kept] = calls_of(turn, 0)
    assert len(kept["result"]) <= calls.RESULT
    assert kept["result"].startswith("begin y")
    assert kept["result"].endswith("y end")
    assert " characters left out …" in kept["result"]
    arguments = orjson.loads(kept["arguments"])
    assert arguments["n"] == 1
    assert "characters left out" in arguments["text"]
    assert len(kept["arguments"]) <= calls.ARGUMENTS


@pytest.mark.parametrize("number", [1, 3, 5, 20, 32, 100])
def test_all_calls_of_an_answer_have_one_bound(number: int) -> None:
    turn = []
    for each in range(number):
        turn += [asked((f"c{each}", f'{{"text":"{"x" * 5000}"}}')), result(f"c{each}", "y" * 9000)]
    kept = calls_of(turn, 0)
    assert len(kept) == min(number, calls.MOST_CALLS)
    assert kept[-1]["id"] == f"c{number - 1}"
    size = sum(len(each["arguments"]) + len(each["result"]) for each in kept)
    assert size <= calls.IN_ALL


@given(st.text(max_size=400), st.integers(0, 300))
def test_a_shortened_text_is_within_its_bound_and_says_how_much_is_missing(
    text: str, most: int
) -> None:
    made = short(text, most)
    assert len(made) <= most or made == text
    if made != text and "left out" in made:
        assert str(len(text) - (len(made) - len(calls.LEFT_OUT.format(len(text))))) in made


@given(JSON, st.integers(0, 2500))
def test_shortened_arguments_are_a_json_object_within_the_bound(value: Any, most: int) -> None:
    """A library that converts messages parses them."""
    text = orjson.dumps(value).decode()
    for arguments in (text, text[: len(text) // 2], ""):
        made = short_arguments(arguments, most)
        assert isinstance(orjson.loads(made), dict)
        assert len(made) <= max(most, 2)
        if isinstance(value, dict) and len(text) <= most and arguments == text:
            assert made == text


def test_arguments_with_a_number_that_was_refused_are_kept_as_the_model_wrote_them() -> None:
    arguments = f'{{"amount": {2**70}}}'
    assert short_arguments(arguments, calls.ARGUMENTS) == arguments


@pytest.mark.parametrize("depth", [254, 255, 1000, 2000])
def test_arguments_are_kept_however_deeply_they_are_nested(depth: int) -> None:
    arguments = '{"a":' * depth + f'"{"x" * 4000}"' + "}" * depth
    made = short_arguments(arguments, calls.ARGUMENTS)
    assert isinstance(orjson.loads(made), dict)
    assert len(made) <= calls.ARGUMENTS


def test_the_vendors_library_takes_kept_calls() -> None:
    kept = calls_of([asked(("a", "no json")), result("a", "1")], 0)
    made = converted([*as_messages(kept, 3), {"role": "assistant", "content": "done"}])
    assert [each.kind for each in made] == ["response", "request", "response"]
