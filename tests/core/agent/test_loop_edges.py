"""The edges of one answer: empty ones, the bound of its length, and a new beginning."""

from dataclasses import replace
from typing import Any

import pytest

from core.agent.loop import CUT_HERE, Turn
from core.agent.prompt import Prompt
from core.messages import fold, image_message
from core.providers.base import (
    Finish,
    ModelRequest,
    ProviderError,
    Restart,
    TextDelta,
    ThinkingDelta,
    ToolCallDelta,
    Whole,
)
from core.providers.chain import Chain
from core.tools.base import Tool, ToolContext, ToolResult
from tests.core.agent.test_loop import DONE, EMPTY, Events, Model, Step, call, turn
from tests.core.providers.chains import MODEL

LEAST_BYTES = 256 * 16  # the limit of an answer whose client asks for very few tokens
PICTURE = "https://example.com/picture.png"


@pytest.fixture
def events() -> Events:
    """Return an empty log of messages."""
    return Events()


class Given(Tool):
    """A tool with a result of the test's."""

    name = "given"
    description = ""
    parameters: dict[str, Any] = {}

    def __init__(self, result: ToolResult) -> None:
        self.result = result

    async def run(self, context: ToolContext, arguments: dict[str, Any]) -> ToolResult:
        del context, arguments
        return self.result


def after_a_call(result: ToolResult, *steps: Step, events: Events, said: str = "") -> Turn:
    """Return a turn whose model calls a tool with this ``result``, and then plays ``steps``."""
    begun = [TextDelta(said)] if said else []
    model = Model([*begun, *call("given"), Finish("tool_calls")], *steps)
    return turn(model, events, tools={"given": Given(result)})


def whole() -> Whole:
    """Return a picture that the model's server made."""
    return Whole(image_message(PICTURE))


def retries(events: Events) -> list[str]:
    """Return the ids of the lines about a delay."""
    return [str(each["message_id"]) for each in fold(events) if each["type"] == "loading"]


@pytest.mark.parametrize("number", [1, 2])
async def test_pictures_of_the_models_server_are_an_answer(number: int, events: Events) -> None:
    model = Model([*[whole() for _ in range(number)], Finish("stop")])
    it = turn(model, events)
    await it.run()
    assert it.answered
    assert [each["url"] for each in events.of("image")] == [PICTURE] * number
    named = [each["message_id"] for each in fold(events) if each["type"] == "image"]
    assert named == ["whole-1", "whole-2"][:number]
    assert len(model.requests) == 1


async def test_a_message_that_its_server_has_named_is_an_answer(events: Events) -> None:
    model = Model([Whole(image_message(PICTURE, message_id="theirs")), Finish("stop")])
    it = turn(model, events)
    await it.run()
    assert it.answered
    named = [each["message_id"] for each in fold(events) if each["type"] == "image"]
    assert named == ["theirs"]
    assert len(model.requests) == 1


async def test_a_picture_before_an_empty_answer_does_not_make_it_one(events: Events) -> None:
    model = Model([whole(), *call("nope"), Finish("tool_calls")], EMPTY, DONE)
    await turn(model, events).run()
    assert len(model.requests) == 3
    assert events.of("text") == [{"content": "done"}]


async def test_each_delay_has_a_line_of_its_own(events: Events) -> None:
    model = Model(EMPTY, [*call("nope"), Finish("tool_calls")], EMPTY, DONE)
    await turn(model, events).run()
    assert retries(events) == ["retry-1", "retry-2"]


async def test_a_model_is_asked_twice_and_then_the_failure_is_told(events: Events) -> None:
    model = Model(EMPTY, EMPTY)
    with pytest.raises(ProviderError):
        await turn(model, events).run()
    assert len(model.requests) == 2
    assert retries(events) == ["retry-1"]


@pytest.mark.parametrize(
    "result",
    [ToolResult("made", files=[{"name": "a", "url": "/files/a"}]), ToolResult("", shown="Stopped")],
    ids=["file", "note"],
)
async def test_an_empty_answer_is_enough_after_something_was_shown(
    result: ToolResult, events: Events
) -> None:
    it = after_a_call(result, EMPTY, EMPTY, events=events)
    await it.run()
    assert events.of("text") == [{"content": result.shown or "/files/a"}]


@pytest.mark.parametrize("kind", ["text", "thinking", "arguments"])
@pytest.mark.parametrize(("over", "is_cut"), [(0, False), (1, True)])
async def test_an_answer_of_exactly_its_bound_is_whole(
    over: int, kind: str, is_cut: bool, events: Events
) -> None:
    more = "x" * (LEAST_BYTES - 1 + over)
    steps: dict[str, Step] = {
        "text": [TextDelta("a"), TextDelta(more), Finish("stop")],
        "thinking": [TextDelta("a"), ThinkingDelta(more), Finish("stop")],
        "arguments": [
            *(TextDelta("a"), ToolCallDelta(index=0, name="nope", arguments=more[64:])),
            Finish("tool_calls"),
        ],
    }
    model = Model(steps[kind], DONE)
    it = turn(model, events, options={"max_tokens": 1})
    await it.run()
    cut = f"*{CUT_HERE}*"
    assert (cut in it.output.texts, it.finish_reason == "length") == (is_cut, is_cut)
    assert len(model.requests) == (2 if kind == "arguments" and not is_cut else 1)
    shown = [each["content"] for each in events.of("text") + events.of("thinking")]
    whole_size = {"text": LEAST_BYTES, "thinking": LEAST_BYTES, "arguments": 1}[kind]
    said = "".join(each for each in shown if each not in {cut, "done"})
    assert len(said) == whole_size


async def test_a_letter_that_does_not_fit_whole_is_left_out(events: Events) -> None:
    model = Model([TextDelta("x" * (LEAST_BYTES - 1)), TextDelta("éa"), Finish("stop")])
    it = turn(model, events, options={"max_tokens": 1})
    await it.run()
    assert it.output.texts == ["x" * (LEAST_BYTES - 1), f"*{CUT_HERE}*"]


async def test_an_answer_that_begins_again_may_be_as_long_as_the_first(events: Events) -> None:
    model = Model(
        [TextDelta("x" * LEAST_BYTES), Restart(), TextDelta("y" * LEAST_BYTES), Finish("stop")]
    )
    it = turn(model, events, options={"max_tokens": 1})
    await it.run()
    assert it.output.texts == ["y" * LEAST_BYTES]


async def test_the_text_before_a_call_stays_when_the_answer_begins_again(
    events: Events,
) -> None:
    again: Step = [TextDelta("ha"), Restart(), TextDelta("whole"), Finish("stop")]
    it = after_a_call(ToolResult("ok"), again, events=events, said="let me see")
    await it.run()
    assert it.output.texts == ["let me see", "whole"]
    assert events.of("text") == [{"content": "let me see"}, {"content": "whole"}]
    [reset] = [
        each for each in events if (each.get("delta_action"), each["type"]) == ("set", "text")
    ]
    assert reset["message_id"] == "text-2"
    assert events.of("thinking") == []


@pytest.mark.parametrize(
    ("asked", "seen"), [(["END", "x"], "END"), ("END", "END"), (["x"], ""), (None, "")]
)
async def test_the_stop_that_ended_an_answer_is_known_where_the_client_asked_for_it(
    asked: object, seen: str, events: Events
) -> None:
    options = {} if asked is None else {"stop": asked}
    it = turn(Model([TextDelta("a"), Finish("stop", stop_sequence="END")]), events, options=options)
    await it.run()
    assert it.stop_sequence == seen


async def test_messages_that_do_not_fit_are_told_once_in_a_turn(events: Events) -> None:
    """In the language of the request."""
    question = {"role": "user", "content": "hi"}
    prompt = Prompt({"role": "system", "content": "rules"}, question, 2)
    asked: list[ModelRequest] = []

    async def is_first() -> bool:
        asked.append(ModelRequest([], []))
        return True

    it = after_a_call(ToolResult("ok"), DONE, events=events)
    it.prompt, it.is_first_cut = prompt, is_first
    it.context = replace(it.context, request="eins zwei und das ist ein Text")
    prompt.left_out = 3
    await it.run()
    assert prompt.left_out == 0
    [told] = events.of("loading")
    assert told["message"].startswith("Der Anfang dieses Gesprächs")
    assert len(asked) == 1


def piece(arguments: str = "", *, index: int = 0, name: str = "", call: str = "") -> ToolCallDelta:
    """Return a piece of a call, as a server streams it."""
    return ToolCallDelta(index=index, id=call, name=name, arguments=arguments)


PARIS, ROME = '{"city":"Paris"}', '{"city":"Rome"}'
BOTH = [("weather", PARIS), ("weather", ROME)]


@pytest.mark.parametrize(
    ("pieces", "made"),
    [
        ([piece(PARIS, name="weather", call="a"), piece(ROME, name="weather", call="b")], BOTH),
        ([piece(PARIS, name="weather"), piece(ROME, name="weather")], BOTH),
        (
            [
                *(piece(name="weather", call="a"), piece(PARIS[:5]), piece(PARIS[5:])),
                *(piece(name="weather", call="b"), piece(ROME[:5]), piece(ROME[5:])),
            ],
            BOTH,
        ),
        ([piece(name="now", call="a"), piece(name="now", call="b")], [("now", ""), ("now", "")]),
        (
            [
                *(piece(name="weather", call="a"), piece(name="weather", call="b", index=1)),
                *(piece(ROME, index=1), piece(PARIS)),
            ],
            BOTH,
        ),
        (
            [piece(name="wea", call="a"), piece(name="ther", call="a"), piece(PARIS, call="a")],
            BOTH[:1],
        ),
        ([piece(name="wea"), piece(name="ther"), piece(PARIS)], BOTH[:1]),
        (
            [piece(name="weather", call="a"), piece(PARIS[:5], call="b"), piece(PARIS[5:])],
            BOTH[:1],
        ),
        ([piece(PARIS[:5], name="weather", call="a"), piece(PARIS[5:], call="a")], BOTH[:1]),
        ([piece(each, name="weather", call="a") for each in ("", PARIS[:5], PARIS[5:])], BOTH[:1]),
        ([piece(each, name="weather") for each in (PARIS[:5], PARIS[5:], "", ROME)], BOTH),
        (
            [piece(each, name="find") for each in ('{"in":{"a":1}', ',"of":{"b":2}', "}")],
            [("find", '{"in":{"a":1},"of":{"b":2}}')],
        ),
        (
            [
                piece(PARIS[:5], name="weather", call="a"),
                *(piece(each, name="weather") for each in (PARIS[5:], "")),
            ],
            BOTH[:1],
        ),
    ],
    ids=[
        *("one index", "no ids", "one index, in pieces", "no arguments", "interleaved"),
        *("a name in pieces", "a name in pieces, no id", "an id for each piece", "arguments first"),
        *("a name for each piece", "a name for each piece, no id", "an object in another"),
        "a name for each piece, one id",
    ],
)
async def test_calls_side_by_side_stay_apart_however_a_server_numbers_them(
    pieces: list[ToolCallDelta], made: list[tuple[str, str]], events: Events
) -> None:
    """Some give all calls of an answer the index 0, as Gemini does, or no ids; others a new id for
    each piece of one call, or its name, as Fireworks and NVIDIA do.
    """
    model = Model([*pieces, Finish("tool_calls")], DONE)
    await turn(model, events).run()
    [said, *results] = model.requests[1].messages[1:]
    calls = [each["function"] for each in said["tool_calls"]]
    assert [(each["name"], each["arguments"]) for each in calls] == [
        (name, arguments or "{}") for name, arguments in made
    ]
    assert len({each["id"] for each in said["tool_calls"]}) == len(results) == len(made)


FAILED: Step = [TextDelta("half"), ProviderError("cut", code="cut", retry_after=0)]
THOUGHT: Step = [ThinkingDelta("x" * 200_000), TextDelta("done"), Finish("stop")]


@pytest.mark.parametrize(
    "steps",
    [[THOUGHT], [FAILED, THOUGHT], [[TextDelta("x" * 200_000), Restart(), *THOUGHT]]],
    ids=["at once", "again", "after text that is taken back"],
)
async def test_a_model_may_think_as_long_as_its_own_window_allows(
    steps: list[Step], events: Events
) -> None:
    """Not as that of the environment's model, which may be a small one."""
    model = Model(*steps)
    chain = Chain([replace(MODEL, context_tokens=64_000)], lambda _: model)
    it = turn(model, events)
    it.provider, chain.fitted = chain, it.fitted
    await it.run()
    assert events.of("text") == [{"content": "done"}]
    assert it.finish_reason == "stop"
