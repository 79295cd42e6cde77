"""The agent: model, tools, model again; every failure has its clear message."""

import asyncio
from collections.abc import AsyncGenerator, Callable
from dataclasses import replace
from typing import Any

import pytest
from pytest_django import Settings

from core.agent import loop, prompt
from core.agent.loop import Turn
from core.conversations.tool_calls import Asked
from core.lib.text import quote
from core.lib.tokens import estimate
from core.messages import Message, MessageDict, fold, to_dict
from core.models import ChatSession, Run
from core.models import Message as Line
from core.providers.base import (
    EXTRA,
    Delta,
    Finish,
    ModelRequest,
    ProviderError,
    Restart,
    TextDelta,
    ThinkingDelta,
    ToolCallDelta,
    Unavailable,
    Usage,
    most_bytes,
)
from core.providers.chain import PROVIDER_TRIES
from core.providers.failures import KINDS
from core.tools import registry
from core.tools.base import Tool, ToolContext, ToolResult
from tests.core.agent.sent import sent
from tests.core.conftest import Say
from tests.core.providers.chains import alone

Step = list[Delta | Exception | float]


class Model:
    """A model that plays one list of deltas per call; an exception is raised, a number is slept."""

    def __init__(self, *steps: Step) -> None:
        self.steps = list(steps)
        self.requests: list[ModelRequest] = []
        self.closed = 0

    async def stream(self, request: ModelRequest) -> AsyncGenerator[Delta, None]:
        self.requests.append(
            ModelRequest([*request.messages], request.tools, request.model, request.options)
        )
        try:
            for each in self.steps.pop(0):
                if isinstance(each, Exception):
                    raise each
                if isinstance(each, float):
                    await asyncio.sleep(each)
                else:
                    yield each
        finally:
            self.closed += 1

    async def close(self) -> None:
        """Do nothing."""


class Events(list[MessageDict]):
    """The messages that the turn emitted."""

    def __call__(self, message: Message) -> None:
        self.append(to_dict(message))

    def of(self, kind: str) -> list[dict[str, Any]]:
        return [dict(each["props"]) for each in fold(self) if each["type"] == kind]


def turn(model: Any, events: Events, **more: Any) -> Turn:
    """Return a turn on ``model``."""
    context = ToolContext(1, 2, 3, "", "Europe/Berlin", events)
    given = {"messages": [{"role": "user", "content": "hi"}], **more}
    return Turn(provider=alone(model), emit=events, context=context, **given)


def call(name: str, arguments: str = "{}", *, index: int = 0, id: str = "") -> list[Delta]:  # noqa: A002 - OpenAI's name
    """Return the deltas of one tool call, in pieces."""
    middle = len(arguments) // 2
    return [
        ToolCallDelta(index=index, id=id, name=name),
        ToolCallDelta(index=index, arguments=arguments[:middle]),
        ToolCallDelta(index=index, arguments=arguments[middle:]),
    ]


DONE: Step = [TextDelta("done"), Finish("stop")]


@pytest.fixture
def events() -> Events:
    """Return an empty log of messages."""
    return Events()


async def test_an_answer_is_streamed_between_its_start_and_end(events: Events) -> None:
    model = Model(
        [ThinkingDelta("hm"), TextDelta("a"), TextDelta("b"), Usage(3, 2), Finish("length")]
    )
    it = turn(model, events)
    await it.run()
    assert events.of("text") == [{"content": "ab"}]
    assert events.of("thinking") == [{"content": "hm"}]
    kinds = [each["props"].get("event", each["type"]) for each in events]
    assert kinds == [
        *("message_start", "thinking", "message_end"),
        *("message_start", "text", "text", "message_end"),
    ]
    assert it.finish_reason == "length"
    assert model.closed == 1


async def test_a_tool_is_called_and_its_result_goes_back_to_the_model(events: Events) -> None:
    model = Model(
        [
            TextDelta("let me see"),
            *call("current_time", '{"time_zone": "UTC"}', id="x"),
            Finish("tool_calls"),
        ],
        DONE,
    )
    await turn(model, events).run()
    [said, result] = model.requests[1].messages[1:]
    assert said["content"] == "let me see"
    assert said["tool_calls"][0]["function"]["arguments"] == '{"time_zone": "UTC"}'
    assert result["tool_call_id"] == said["tool_calls"][0]["id"] == "x"
    assert "UTC" in result["content"]
    assert [each["name"] for each in events.of("tool_call")] == ["current_time"]
    names = {each["function"]["name"] for each in model.requests[0].tools}
    assert "current_time" in names


@pytest.mark.parametrize(
    ("calls", "answer"),
    [
        (call("launch_rocket"), "There is no tool called launch_rocket."),
        (call("current_time", '{"time_zone": '), "The arguments are not valid JSON."),
        (call("current_time", "[1]"), "The arguments must be a JSON object."),
        (call("current_time", '{"a":' * 300 + "1" + "}" * 300), "are nested too deeply."),
        (call("current_time", f'{{"a": {2**64}}}'), "Write it as a text."),
        (call("current_time", f'{{"a": -{2**63 + 1}}}'), "Write it as a text."),
        (call("current_time", f'{{"a": [{"1" * 300}]}}'), "Write it as a text."),
        (call("current_time", f'{{"a": [{2**64 - 1}, -{2**63}]}}'), "a is not known"),
        (call("current_time", '{"time_zone": "Mars/Olympus"}'), "Error: There is no time zone"),
        (call("current_time", '{"time_zone": "../../etc/passwd"}'), "Error: There is no time zone"),
        (call("current_time", ""), "Europe/Berlin"),
    ],
)
async def test_errors_of_a_call_are_returned_to_the_model(
    calls: list[Delta], answer: str, events: Events
) -> None:
    model = Model([*calls, Finish("tool_calls")], DONE)
    await turn(model, events).run()
    assert answer in model.requests[1].messages[-1]["content"]


async def test_white_space_before_a_call_does_not_go_back_to_the_model(events: Events) -> None:
    """Anthropic's API refuses a text without a letter, and with it the whole turn."""
    model = Model([TextDelta("\n\n"), *call("current_time"), Finish("tool_calls")], DONE)
    await turn(model, events).run()
    (sent,) = (each for each in model.requests[1].messages if each.get("tool_calls"))
    assert sent["content"] == ""


@pytest.mark.parametrize("arguments", ['{"time_zone": "Eur', ""])
async def test_a_call_that_a_limit_has_cut_is_not_made_and_the_model_is_told(
    arguments: str, events: Events
) -> None:
    """It repeated a call whose arguments were called no JSON, as long as before. No yes is asked
    for.
    """

    class Asking:
        async def question(self, tool: Tool, *rest: str) -> Asked:
            return Asked(rest[0], tool.name, rest[1])

    model = Model([*call("current_time", arguments), Finish("length")], DONE)
    await turn(model, events, approvals=Asking()).run()
    assert model.requests[1].messages[-1]["content"] == loop.CUT_CALL


async def test_several_calls_of_one_step_and_repeated_ids_stay_apart(events: Events) -> None:
    """Some servers send no id, or the same one every time; a job is unique per call."""
    model = Model(
        [*call("current_time", id="c"), *call("nope", index=1, id="c"), Finish("tool_calls")],
        [*call("current_time"), *call("nope", index=1), Finish("tool_calls")],
        DONE,
    )
    await turn(model, events).run()
    ids = [each["tool_call_id"] for each in model.requests[2].messages if each["role"] == "tool"]
    assert ids == ["c", "c-2", "call", "call-2"]
    assert len(events.of("tool_call")) == 4


async def test_the_data_beside_very_many_calls_is_not_kept(events: Events) -> None:
    """A hostile server may send 64 KB with each of thousands of calls."""
    asked: Step = [
        ToolCallDelta(index=number, name="nope", arguments="{}", extra="x" * 1000)
        for number in range(100)
    ]
    model = Model([*asked, Finish("tool_calls")], DONE)
    await turn(model, events).run()
    (calls,) = [each["tool_calls"] for each in model.requests[1].messages if "tool_calls" in each]
    kept = [EXTRA in each for each in calls]
    assert (len(calls), sum(kept), all(kept[:32])) == (100, 32, True)


async def test_text_before_a_call_is_stored_once(events: Events) -> None:
    model = Model(
        [TextDelta("one"), *call("nope"), Finish("tool_calls")],
        [*call("nope"), Finish("tool_calls")],
        DONE,
    )
    await turn(model, events).run()
    said = [each["content"] for each in model.requests[2].messages if each["role"] == "assistant"]
    assert said == ["one", ""]


async def test_d5_calls_of_the_clients_tools_are_handed_over(events: Events) -> None:
    model = Model(
        [*call("book", '{"a": 1}', id="b"), *call("current_time", index=1), Finish("tool_calls")]
    )
    client = [{"type": "function", "function": {"name": "book", "parameters": {}}}]
    it = turn(model, events, client_tools=client, options={"temperature": 0})
    await it.run()
    assert [(each["name"], each["arguments"]) for each in events.of("tool_call")] == [
        ("book", '{"a": 1}')
    ]
    assert it.finish_reason == "tool_calls"
    assert model.requests[0].options == {"temperature": 0}
    assert client[0] in model.requests[0].tools


async def test_d5_a_client_hears_that_a_call_was_cut_at_the_limit(events: Events) -> None:
    """Its arguments are no JSON, or fewer than were meant: a client asks again for a longer one."""
    model = Model([*call("book", '{"a": "Once upon'), Finish("length")])
    client = [{"type": "function", "function": {"name": "book", "parameters": {}}}]
    it = turn(model, events, client_tools=client, options={"max_tokens": 9})
    await it.run()
    assert [each["arguments"] for each in events.of("tool_call")] == ['{"a": "Once upon']
    assert it.finish_reason == "length"


async def test_a_call_never_has_the_id_of_another_in_the_clients_history(events: Events) -> None:
    """Some servers count from one in each answer; the AI SDK takes both for the same call."""
    client = [{"type": "function", "function": {"name": "book", "parameters": {}}}]
    function = {"name": "book", "arguments": "{}"}
    asked = [{"id": "call_0", "type": "function", "function": function}]
    messages = [
        {"role": "user", "content": "hi"},
        {"role": "assistant", "content": "", "tool_calls": asked},
        {"role": "tool", "tool_call_id": "call_0", "content": "full"},
    ]
    model = Model([*call("book", id="call_0"), Finish("tool_calls")])
    it = turn(model, events, messages=messages, client_tools=client)
    await it.run()
    assert [each["id"] for each in events.of("tool_call")] == ["call_0-2"]


BUSY = ProviderError("busy", code="rate_limited", retry_after=0)
FATAL = ProviderError("no key", code="unauthorised")


async def test_a_busy_model_is_retried_with_a_progress_line(events: Events) -> None:
    model = Model([BUSY], [ThinkingDelta("hm"), BUSY], DONE)
    await turn(model, events).run()
    assert [each["message"] for each in events.of("loading")] == [
        "The model is busy (rate limit). Trying again…"
    ] * 2
    assert events.of("text") == [{"content": "done"}]
    starts = [each for each in events if each["props"].get("event") == "message_start"]
    ends = [each for each in events if each["props"].get("event") == "message_end"]
    assert len(starts) == len(ends)


async def test_an_answer_that_begins_again_keeps_the_names_of_its_messages(
    events: Events,
) -> None:
    """A reader compares the new text with what it has, as with a second attempt of the run."""
    first = [ThinkingDelta("hm"), TextDelta("ha"), *call("current_time"), TextDelta("lf")]
    model = Model([*first, Restart(), TextDelta("whole"), Finish("stop")])
    it = turn(model, events)
    await it.run()
    texts = {each["message_id"]: each for each in fold(events) if each["type"] == "text"}
    assert [each["props"] for each in texts.values()] == [{"content": "whole"}]
    assert [each["content"] for each in events.of("thinking")] == [""]
    assert it.output.texts == ["whole"]
    assert events.of("tool_call") == []


async def test_an_assistant_may_use_its_own_tools_only(events: Events) -> None:
    model = Model([*call("current_time"), Finish("tool_calls")], DONE)
    await turn(
        model,
        events,
        tools={each.name: each for each in registry.every() if each.name == "route_to_plugin"},
    ).run()
    names = [each["function"]["name"] for each in model.requests[0].tools]
    assert names == ["route_to_plugin"]
    assert "no tool called current_time" in model.requests[1].messages[-1]["content"]


EMPTY: Step = [Finish("stop")]


async def test_an_empty_answer_is_requested_again_once(events: Events) -> None:
    model = Model([TextDelta(" \n"), Finish("stop")], DONE)
    it = turn(model, events)
    await it.run()
    assert events.of("text")[-1] == {"content": "done"}
    assert [each["message"] for each in events.of("loading")] == [
        "The model gave an empty answer. Asking again…"
    ]
    assert it.answered


@pytest.mark.parametrize(
    ("steps", "code"),
    [
        ([EMPTY, EMPTY], "empty"),
        ([[ThinkingDelta("hm"), Finish("stop")], EMPTY], "empty"),
        ([[Usage(1, 0), Finish("length")], EMPTY], "empty"),
        ([EMPTY, [ThinkingDelta("hm"), Finish("length")]], "length"),
        ([[Finish("content_filter")]], "content"),
        ([[TextDelta("let me see"), *call("nope"), Finish("tool_calls")], EMPTY, EMPTY], "empty"),
    ],
)
async def test_an_answer_that_stays_empty_is_a_failure_with_its_words(
    steps: list[Step], code: str, events: Events
) -> None:
    """The user always gets an answer or an error, and an empty text never counts as an answer."""
    it = turn(Model(*(list(step) for step in steps)), events)
    with pytest.raises(ProviderError) as failure:
        await it.run()
    assert failure.value.code == code
    assert str(failure.value) == KINDS[code].person


@pytest.mark.parametrize("options", [{"stop": ["x"]}, {"max_tokens": 5}])
async def test_an_answer_may_be_empty_where_its_client_set_the_end(
    options: dict[str, Any], events: Events
) -> None:
    it = turn(Model([Finish("length")]), events, options=options)
    await it.run()
    assert events.of("text") == []


async def test_an_answer_that_is_empty_by_the_assistants_limit_is_a_failure(
    events: Events,
) -> None:
    """As of a model that thinks until then."""
    thought: Step = [ThinkingDelta("hm"), Usage(3, 500), Finish("length")]
    it = turn(Model(thought, thought), events, options={"max_tokens": 500}, has_own_limit=False)
    with pytest.raises(ProviderError) as failure:
        await it.run()
    assert failure.value.code == "length"


@pytest.mark.parametrize(
    ("reason", "is_read", "told"),
    [("length", True, True), ("stop", True, False), ("length", False, False)],
)
async def test_a_person_is_told_that_a_limit_has_ended_an_answer(
    reason: str, is_read: bool, told: bool, events: Events
) -> None:
    """Else half of a list is taken for all of it; a program gets the reason."""
    it = turn(Model([TextDelta("1. one 2. t"), Finish(reason)]), events, is_read=is_read)
    await it.run()
    notes = [f"*{loop.ENDS_HERE}*"] if told else []
    assert [each["content"] for each in events.of("text")] == ["1. one 2. t", *notes]
    assert it.finish_reason == reason


async def test_an_answer_as_long_as_the_limit_ends_in_words_too(events: Events) -> None:
    """Of the model's limit: ours cuts only what is longer."""
    text = "x" * most_bytes({"max_tokens": 1})
    model = Model([TextDelta(text), Finish("length")])
    it = turn(model, events, is_read=True, options={"max_tokens": 1})
    await it.run()
    assert it.output.texts == [text, f"*{loop.ENDS_HERE}*"]


async def test_that_a_limit_has_ended_an_answer_is_told_in_the_language_of_the_request(
    events: Events,
) -> None:
    """Not in that of a file that comes with it."""
    it = turn(Model([TextDelta("Eins"), Finish("length")]), events, is_read=True)
    file = quote("The mill is old and it has been in the village for a long time.", sender="a.txt")
    request = f"[file message received]\nText: {file}\nCaption: Was steht da, und ist es wichtig?"
    it.context = replace(it.context, request=request)
    await it.run()
    assert "Antwort" in events.of("text")[-1]["content"]


def endless(kind: str) -> Step:
    """Stream without end: 50 pieces of 64 KB."""
    piece = "x" * 65_536
    made: dict[str, Delta] = {
        "text": TextDelta(piece),
        "thinking": ThinkingDelta(piece),
        "arguments": ToolCallDelta(index=0, name="nope", arguments=piece),
    }
    if kind == "calls":
        return [ToolCallDelta(index=number, name="nope") for number in range(50_000)]
    return [made[kind]] * 50


@pytest.mark.parametrize("kind", ["text", "thinking", "arguments", "calls"])
async def test_an_answer_ends_at_its_bound_and_says_so(
    kind: str, events: Events, settings: Settings
) -> None:
    """In any mix of text, reasoning, arguments of a call, and calls."""
    settings.LLM_CONTEXT_TOKENS = 1000
    model = Model([*endless(kind), Finish("stop")])
    it = turn(model, events)
    await it.run()
    assert model.closed == 1
    assert len(model.requests) == 1
    size = sum(len(str(each["props"])) for each in events)
    assert size < 20_000
    assert events.of("text")[-1]["content"] == f"*{loop.CUT_HERE}*"
    assert it.finish_reason == "length"
    assert events.of("tool_call") == []
    starts = [each for each in events if each["props"].get("event") == "message_start"]
    ends = [each for each in events if each["props"].get("event") == "message_end"]
    assert len(starts) == len(ends)


def test_the_limit_is_four_times_the_allowed_tokens_and_at_most_a_megabyte(
    settings: Settings,
) -> None:
    settings.LLM_CONTEXT_TOKENS = 8192
    assert most_bytes({}) == 8192 * 16
    assert most_bytes({"max_tokens": 2000}) == 2000 * 16
    assert most_bytes({"max_completion_tokens": 3, "max_tokens": 1}) == 256 * 16
    assert most_bytes({"max_tokens": 2**60}) == 1_000_000


async def test_a_wait_beyond_the_limit_is_an_immediate_failure(
    events: Events, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A ``retry_after`` of an hour is not waited for: one call, no retries."""
    slept: list[float] = []

    async def sleep(seconds: float) -> None:
        slept.append(seconds)

    later = ProviderError("busy for an hour", code="rate_limited", retry_after=3600)
    model = Model([later])
    with pytest.raises(ProviderError, match="hour"):
        await turn(model, events).run()
    assert events.of("loading") == []
    monkeypatch.setattr(asyncio, "sleep", sleep)
    soon = ProviderError("busy", code="rate_limited", retry_after=7)
    await turn(Model([soon], [soon], DONE), events).run()
    usual = ProviderError("failed", code="server", retry_after=1)
    await turn(Model([usual], [usual], DONE), events).run()
    assert slept == [7, 7, 1, 2]


@pytest.mark.parametrize(
    "steps",
    [
        [[FATAL]],
        [[BUSY], [FATAL]],
        [[BUSY]] * PROVIDER_TRIES,
        [[TextDelta("half"), FATAL]],
        [[TextDelta("half"), BUSY]] * PROVIDER_TRIES,
    ],
)
async def test_a_failure_that_another_try_cannot_mend_is_raised(
    steps: list[Step], events: Events
) -> None:
    model = Model(*steps)
    it = turn(model, events)
    with pytest.raises(ProviderError) as failure:
        await it.run()
    it.fail(failure.value)
    assert model.steps == []
    assert events.of("error")[0]["message"] == str(failure.value)


async def test_half_a_text_of_a_lone_model_is_void_when_it_is_asked_again(events: Events) -> None:
    model = Model([TextDelta("half"), BUSY], DONE)
    it = turn(model, events)
    await it.run()
    assert ([each["content"] for each in events.of("text")], it.output.texts) == (
        ["done"],
        ["done"],
    )


async def test_a_turn_that_never_ends_is_stopped(events: Events, settings: Settings) -> None:
    settings.AGENT_MAX_STEPS = 3
    step: Step = [*call("current_time"), Finish("tool_calls")]
    model = Model(step, list(step), list(step))
    with pytest.raises(ProviderError, match="too many steps"):
        await turn(model, events).run()


async def test_c9_text_before_a_cancellation_is_kept(events: Events) -> None:
    model = Model([TextDelta("half"), 60.0, Finish("stop")])
    it = turn(model, events)
    task = asyncio.create_task(it.run())
    async with asyncio.timeout(60):
        while not events.of("text"):
            await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    it.output.end_message()
    assert events.of("text") == [{"content": "half"}]
    assert events[-1]["props"]["event"] == "message_end"
    assert model.closed == 1


async def test_an_emit_that_fails_closes_the_stream(events: Events) -> None:
    def refuse(message: Message) -> None:
        raise RuntimeError("lost")

    model = Model(DONE)
    it = turn(model, events)
    it.output.emit = refuse
    with pytest.raises(RuntimeError):
        await it.run()
    assert model.closed == 1


async def test_rw13_unstorable_characters_are_cleaned_before_storing(
    events: Events,
) -> None:
    model = Model([TextDelta("a\x00b\ud800"), ThinkingDelta("\x00"), Finish("stop")])
    it = turn(model, events)
    await it.run()
    assert events.of("text") == [{"content": "ab\ufffd"}]
    assert it.output.texts == ["ab\ufffd"]


async def test_a_provider_that_is_not_set_up_says_so(events: Events) -> None:
    model = Unavailable(ProviderError("No model is set up.", code="setup"))
    with pytest.raises(ProviderError, match="No model"):
        await turn(model, events).run()
    await model.close()


async def test_files_of_tools_are_kept_and_progress_is_shown(
    events: Events, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Slow(Tool):
        """A tool with progress and a file."""

        name = "slow"
        description = ""
        parameters: dict[str, Any] = {}

        def progress(self, arguments: dict[str, Any]) -> str:
            return "Working…"

        def infer(self, text: str) -> None:
            """Return None: it is never inferred."""

        async def run(self, context: ToolContext, arguments: dict[str, Any]) -> ToolResult:
            assert (context.run_id, context.tool_call_id, context.session_id) == (1, "s", 3)
            return ToolResult("x" * 100_000, files=[{"name": "a"}])

    monkeypatch.setattr(registry, "get", lambda name: Slow())
    model = Model([*call("slow", id="s"), Finish("tool_calls")], DONE)
    it = turn(model, events)
    await it.run()
    assert it.files == [{"name": "a"}]
    assert len(model.requests[1].messages[-1]["content"]) == loop.TOOL_TEXT_CHARACTERS
    assert {"event": "progress", "message": "Working…", "data": {"tool": "slow"}} in [
        each["props"] for each in events
    ]


def test_the_one_tool_infers_nothing_and_is_quick() -> None:
    tool = registry.get("current_time")
    assert tool is not None
    assert tool.infer("what time is it?") is None
    assert tool.progress({}) == ""
    assert registry.get("unknown") is None
    assert registry.schema(tool)["function"]["parameters"]["type"] == "object"


# Contents of the request ------------------------------------------------------------------


@pytest.fixture
def answer(session: ChatSession) -> Callable[[Run, str], None]:
    """Return a function that stores an assistant's answer in a run."""

    def write(run: Run, text: str) -> None:
        tokens = estimate(text)
        Line.objects.create(session=session, run=run, role="assistant", text=text, tokens=tokens)

    return write


def words(messages: list[dict[str, Any]]) -> list[tuple[str, Any]]:
    """Return role and content, without the system prompt."""
    assert messages[0]["role"] == "system"
    return [(each["role"], each["content"]) for each in messages[1:]]


def test_the_history_is_sent_in_order_without_waiting_messages(
    say: Say, answer: Callable[[Run, str], None]
) -> None:
    first, second, waiting = say("one"), say("two"), say("three")
    answer(first, "1")
    assert words(sent(second)) == [("user", "one"), ("assistant", "1"), ("user", "two")]
    answer(second, "")
    assert words(sent(waiting)) == [
        *(("user", "one"), ("assistant", "1")),
        *(("user", "two"), ("user", "three")),
    ]


def test_the_oldest_messages_are_left_out_when_the_budget_is_spent(
    say: Say, answer: Callable[[Run, str], None], settings: Settings
) -> None:
    settings.LLM_CONTEXT_TOKENS, settings.LLM_MAX_OUTPUT_TOKENS = 1000, 100
    runs = [say(f"{number} " + "x" * 400) for number in range(12)]
    for run in runs:
        answer(run, "y" * 400)
    told = words(sent(runs[-1]))
    assert told[0][0] == "user"
    assert told[-1][1].startswith("11 ")
    assert told[-3][1].startswith("10 ")
    assert 3 <= len(told) < 9
    spent = sum(estimate(content) for _, content in told)
    assert spent + estimate(prompt.SYSTEM_PROMPT) <= 900


def test_a_message_that_leaves_no_place_for_others_is_sent_alone(
    say: Say, settings: Settings
) -> None:
    settings.LLM_CONTEXT_TOKENS, settings.LLM_MAX_OUTPUT_TOKENS = 1200, 1100
    say("before")
    assert len(words(sent(say("x" * 2000)))) == 1


def test_cleared_history_is_not_sent(say: Say, session: ChatSession) -> None:
    say("secret")
    session.history_from = Line.objects.latest("id").id
    session.save()
    assert words(sent(Run.objects.select_related("session").get(id=say("new").id))) == [
        ("user", "new")
    ]


def test_pictures_are_sent_as_parts(say: Say) -> None:
    media = [
        {"kind": "image", "url": "data:image/png;base64,AA=="},
        {"kind": "audio", "url": "data:a"},
    ]
    image = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AA=="}}
    assert words(sent(say("look", media=media)))[-1][1] == [
        {"type": "text", "text": "look"},
        image,
    ]
    assert words(sent(say("", media=media)))[-1][1] == [image]


def test_d5_a_clients_own_history_is_sent_unchanged(say: Say, settings: Settings) -> None:
    settings.LLM_SYSTEM_PROMPT = "Be kind."
    say("before")
    own = [{"role": "user", "content": "mine"}]
    built = sent(say("mine", options={"messages": own}))
    assert built == [{"role": "system", "content": "Be kind."}, *own]


def test_a_clients_instructions_follow_the_rules_in_the_one_system_message(
    say: Say, settings: Settings
) -> None:
    """[RO3] Some servers take only one, and only as the first message."""
    settings.LLM_SYSTEM_PROMPT = "Rules."
    own = [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": "mine"},
        {"role": "system", "content": "Be kind."},
    ]
    built = sent(say("mine", options={"messages": own}))
    assert built == [{"role": "system", "content": "Rules.\n\nBe brief.\n\nBe kind."}, own[1]]
