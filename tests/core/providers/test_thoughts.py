"""Thoughts in the content of an answer, as servers without a reasoning parser send them."""

from collections.abc import Sequence
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.providers.base import (
    Delta,
    Finish,
    ModelRequest,
    Restart,
    TextDelta,
    ThinkingDelta,
    ToolCallDelta,
)
from core.providers.openai_compatible import OpenAICompatible
from core.providers.thoughts import TAGS, Thoughts
from tests.core.agent.test_loop import Events, turn
from tests.core.providers.model_server import ModelServer, chunk, hello, sse, streams

WORDS = [*TAGS, "<", "</", "<b>", "`", " ", "\n", "Hm", ".", "4", "”"]
CALL = ToolCallDelta(index=0, name="t", arguments="{}")


def shown(deltas: Sequence[Delta]) -> tuple[str, str]:
    """Return the thoughts and the text that a person has at the end."""
    kept: list[Delta] = []
    for each in deltas:
        kept = [] if isinstance(each, Restart) else [*kept, each]
    return (
        "".join(each.text for each in kept if isinstance(each, ThinkingDelta)),
        "".join(each.text for each in kept if isinstance(each, TextDelta)),
    )


def read(
    content: str, size: int, *more: Delta, reason: str = "stop", begins_open: bool = False
) -> tuple[str, str, bool]:
    """Return what is shown of a content that came in pieces of ``size`` characters, before
    ``more``, and whether the model's next answer begins within the tag.
    """
    thoughts = Thoughts(begins_open=begins_open)
    pieces = [TextDelta(content[at : at + size]) for at in range(0, len(content), size)]
    deltas = [made for each in (*pieces, *more) for made in thoughts.of(each)]
    return *shown([*deltas, *thoughts.end(reason)]), thoughts.begins_open


@pytest.mark.parametrize("size", [1, 3, 1000])
@pytest.mark.parametrize(
    ("content", "thought", "answer", "begins_open"),
    [
        # DeepSeek R1 and Qwen 3, at llama.cpp and vLLM.
        ("<think>\nHm <b>.\n</think>\n\nFour.", "Hm <b>.\n", "Four.", False),
        ("\n<thinking>Hm, </think>?</thinking> Four.", "Hm, </think>?", "Four.", False),
        ("<thought>Hm</thought>`</think>`", "Hm", "`</think>`", False),
        ("<think>\n\n</think>\n\nFour.", "", "Four.", False),
        ("<think></think>Four.", "", "Four.", False),
        ("<think>We use <think> here.</think>Four.", "We use <think> here.", "Four.", False),
        ("4</think>Four.", "4", "Four.", True),
        # The template has opened the tag: Qwen 3.5, and GLM and DeepSeek without a line break.
        ("Hm `</think>`.\n</think>\n\nFour.", "Hm `</think>`.\n", "Four.", True),
        ("I say “4.”</think>4 </think>", "I say “4.”", "4 </think>", True),
        ("\n</think>\n\nFour.", "", "Four.", False),
        # Answers that speak of the tag.
        ("Use <think>x.</think> here.", "", "Use <think>x.</think> here.", False),
        ("End with `x.</think>`.", "", "End with `x.</think>`.", False),
        ("```\nx\n</think>\n```", "", "```\nx\n</think>\n```", False),
        ("The tag </think> or “</think>”, 用</think>", "", None, False),
        ("<think> opens the thoughts.", "", None, False),
        ("<thin", "", None, False),
        (" <b>4</b> <", "", None, False),
    ],
)
def test_thoughts_between_tags_are_no_text(
    content: str, thought: str, answer: str | None, begins_open: bool, size: int
) -> None:
    found = read(content, size)
    assert found == (thought, content if answer is None else answer, begins_open)


@given(
    words=st.lists(st.sampled_from(WORDS), min_size=1, max_size=14),
    cuts=st.sets(st.integers(1, 60), max_size=8),
    begins_open=st.booleans(),
    reason=st.sampled_from(["stop", "length"]),
)
def test_thoughts_are_the_same_however_the_content_is_cut(
    words: list[str], cuts: set[int], begins_open: bool, reason: str
) -> None:
    content = "".join(words)
    at = [0, *sorted(cuts), max(61, len(content))]
    pieces = [TextDelta(content[first:last]) for first, last in pairwise(at)]
    found = []
    for given_pieces in ([TextDelta(content)], pieces):
        thoughts = Thoughts(begins_open=begins_open)
        deltas = [made for each in given_pieces for made in thoughts.of(each)]
        found.append((*shown([*deltas, *thoughts.end(reason)]), thoughts.begins_open))
    assert found[0] == found[1]


@pytest.mark.parametrize("size", [1, 1000])
def test_an_answer_that_is_expected_to_begin_with_thoughts_may_have_none(size: int) -> None:
    assert read("\n Hm.</think>4", size, begins_open=True) == ("Hm.", "4", True)
    assert read("<think>Hm</think>4", size, begins_open=True) == ("Hm", "4", False)
    assert read(" Say `</think>`.", size, begins_open=True) == ("", " Say `</think>`.", False)
    assert read("Hm", size, reason="length", begins_open=True) == ("Hm", "", True)


def test_thoughts_without_an_end_before_a_call_stay_thoughts() -> None:
    assert read("<think>I call t.", 3, CALL) == ("I call t.", "", False)
    assert read("I call t.</think>", 3, CALL) == ("I call t.", "", True)
    thoughts = Thoughts(begins_open=False)
    given: list[Delta] = [TextDelta("I call t."), CALL, TextDelta("x.</think>y")]
    assert [made for each in given for made in thoughts.of(each)] == given


@pytest.mark.parametrize("before", ["", "<think>Hm</think>"])
def test_white_space_without_end_reaches_the_bounds_of_an_answer(before: str) -> None:
    assert len(read(f"{before}{' ' * 1000}", 1)[1]) > 900


@pytest.mark.parametrize(
    "begun",
    [
        [TextDelta("<think>Hm</think>")],
        [TextDelta("Hm.</think>")],
        [TextDelta("Use <think>.")],
        [ThinkingDelta("Hm")],
        [CALL],
    ],
)
def test_a_long_answer_after_its_thoughts_is_not_kept(begun: list[Delta]) -> None:
    """Nothing of it can be taken back."""
    thoughts = Thoughts(begins_open=False)
    for each in (*begun, *[TextDelta("word ")] * 1000):
        assert [*thoughts.of(each)]
    assert len(repr([getattr(thoughts, name) for name in vars(thoughts)])) < 2000


def test_a_server_that_tells_thoughts_apart_itself_is_believed() -> None:
    thoughts = Thoughts(begins_open=True)
    given: list[Delta] = [ThinkingDelta("hm"), TextDelta("<think>"), TextDelta("x.</think>")]
    assert [made for each in given for made in thoughts.of(each)] == given
    assert not [*thoughts.end("stop")]
    assert not thoughts.begins_open


async def test_a_turn_keeps_thoughts_out_of_its_answer_and_of_the_next_request(
    server: ModelServer, compatible: OpenAICompatible
) -> None:
    function = {"name": "current_time", "arguments": "{}"}
    call = {"index": 0, "id": "c", "type": "function", "function": function}
    thought = [chunk({"content": "I look.\n</think>\n\n"}), chunk({"tool_calls": [call]})]
    server.replies = [
        streams(sse(*thought, chunk(finish="tool_calls"))),
        streams(hello("Ten.\n</think>", "It is ten.")),
    ]
    events = Events()
    it = turn(compatible, events)
    await it.run()
    assert it.output.texts == ["It is ten."]
    assert events.of("text") == [{"content": "It is ten."}]
    assert events.of("thinking") == [{"content": "I look.\n"}, {"content": "Ten.\n"}]
    assert server.requests[1]["messages"][1]["content"] == ""


async def test_the_next_answer_of_a_model_whose_template_opens_the_tag_takes_nothing_back(
    server: ModelServer, compatible: OpenAICompatible
) -> None:
    server.replies = [streams(hello("Hm", ".\n</thi", "nk>\n\n", "Four", "."))]
    request = ModelRequest([{"role": "user", "content": "2 + 2?"}])
    first, second = [[each async for each in compatible.stream(request)] for _ in range(2)]
    for deltas in (first, second):
        assert shown(deltas) == ("Hm.\n", "Four.")
        assert deltas[-1] == Finish("stop")
    assert Restart() in first
    assert Restart() not in second
