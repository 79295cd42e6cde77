"""Providers: the same contract for each, against a real server that fails as real ones do."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import aclosing
from dataclasses import replace
from pathlib import Path
from typing import Any

import orjson
import pytest
from aiohttp import web
from openai import AsyncOpenAI
from pydantic_ai.exceptions import ModelHTTPError
from pydantic_ai.messages import (
    ModelMessage,
    PartStartEvent,
    TextPart,
    ThinkingPart,
    ToolCallPart,
)
from pydantic_ai.models.function import AgentInfo, DeltaThinkingPart, DeltaToolCall, FunctionModel
from pydantic_ai.models.openai import OpenAIChatModel
from pydantic_ai.models.test import TestModel
from pydantic_ai.providers.deepseek import DeepSeekProvider
from pydantic_ai.providers.openai import OpenAIProvider
from pytest_django import Settings

from core.providers import agent_library, openai_compatible, registry, resent
from core.providers.agent_library import AgentLibrary
from core.providers.base import (
    REASONING,
    ChatMessage,
    Delta,
    Finish,
    ModelRequest,
    Provider,
    ProviderError,
    TextDelta,
    ThinkingDelta,
    ToolCallDelta,
    Unavailable,
    Usage,
)
from core.providers.failures import BadStreamError
from core.providers.openai_compatible import OpenAICompatible
from core.providers.scripted import Scripted, last_text
from tests.core.providers.conftest import asking
from tests.core.providers.model_server import (
    ModelServer,
    Reply,
    answers,
    answers_late,
    chunk,
    hangs,
    hello,
    says,
    sse,
    streams,
)

ASKED = ModelRequest([{"role": "user", "content": "hi"}])


@pytest.fixture
async def library(server: ModelServer) -> AsyncIterator[AgentLibrary]:
    """Return the agent library on its OpenAI model."""
    async with AsyncOpenAI(base_url=server.url, api_key="sk-secret", max_retries=0) as client:
        model = OpenAIChatModel("m", provider=OpenAIProvider(openai_client=client))
        yield AgentLibrary(model, first_seconds=60, idle_seconds=60)


@pytest.fixture(params=["compatible", "library"])
def provider(request: pytest.FixtureRequest) -> Provider:
    """Return each provider: the following tests are the contract of all."""
    made: Provider = request.getfixturevalue(request.param)
    return made


async def ask(provider: Provider, request: ModelRequest = ASKED) -> list[Delta]:
    """Return the deltas of one answer."""
    async with asyncio.timeout(90), aclosing(provider.stream(request)) as stream:
        return [delta async for delta in stream]


def text(deltas: list[Delta]) -> str:
    """Return the text of an answer."""
    return "".join(delta.text for delta in deltas if isinstance(delta, TextDelta))


async def failure(provider: Provider) -> ProviderError:
    """Return the failure of an answer, which names no secret and no address."""
    with pytest.raises(ProviderError) as caught:
        await ask(provider)
    assert "sk-secret" not in str(caught.value)
    assert "127.0.0.1" not in str(caught.value)
    return caught.value


WORDS = ("Grüße, ", "世界 ", "😀 ", 'and "quotes"\n\ndata: {"x"}')


USED = {"prompt_tokens": 3, "completion_tokens": 1}


@pytest.mark.parametrize("size", [0, 1, 2, 3, 7, 64])
async def test_an_answer_is_the_same_however_its_bytes_are_cut(
    size: int, server: ModelServer, provider: Provider
) -> None:
    server.replies = [streams(hello(*WORDS), size=size)]
    deltas = await ask(provider)
    assert text(deltas) == "".join(WORDS)
    assert deltas[-2:] == [Usage(5, 2), Finish("stop")]
    assert sum(isinstance(delta, Finish) for delta in deltas) == 1


ENDLESS = streams(hello(*(f"{number} " for number in range(10_000))), size=200, pause=0.002)


async def test_a_stream_is_read_once_per_frame_and_immediately_at_its_end(
    server: ModelServer, compatible: OpenAICompatible, settings: Settings
) -> None:
    """A wake-up per token is expensive; the last token waits for no frame."""
    settings.EVENT_FRAME_MILLISECONDS = 100
    words = [f"{number} " for number in range(200)]
    server.replies = [streams(hello(*words), size=170, pause=0.002)]
    deltas = await ask(compatible)
    assert text(deltas) == "".join(words)
    assert sum(isinstance(delta, TextDelta) for delta in deltas) < 60
    settings.EVENT_FRAME_MILLISECONDS = 600_000
    server.replies = [streams(hello("whole ", "at ", "once"))]
    assert text(await ask(compatible)) == "whole at once"


async def test_an_answer_that_is_abandoned_between_two_frames_holds_nothing(
    server: ModelServer, compatible: OpenAICompatible, settings: Settings
) -> None:
    settings.EVENT_FRAME_MILLISECONDS = 600_000
    server.replies = [ENDLESS, streams(hello("next"))]

    async def listen() -> None:
        async with aclosing(compatible.stream(ASKED)) as stream:
            async for _ in stream:
                heard.set()

    heard = asyncio.Event()
    listening = asyncio.ensure_future(listen())
    await asyncio.wait_for(heard.wait(), 20)
    await asyncio.sleep(0.1)  # it waits for a frame that never comes
    listening.cancel()
    with pytest.raises(asyncio.CancelledError):
        await listening
    assert text(await ask(compatible)) == "next"


async def test_a_connection_that_is_closed_between_two_frames_is_a_broken_answer(
    server: ModelServer, compatible: OpenAICompatible, settings: Settings
) -> None:
    settings.EVENT_FRAME_MILLISECONDS = 300
    server.replies = [ENDLESS]
    asyncio.get_running_loop().call_later(0.5, lambda: closing.append(asyncio.create_task(close())))
    closing: list[asyncio.Task[None]] = []

    async def close() -> None:
        await compatible.close()

    assert (await failure(compatible)).code == "cut"
    await asyncio.gather(*closing)


def test_pieces_of_one_text_are_one_and_an_error_takes_nothing_back() -> None:
    lines = hello("a", "b").split(b"\n\n")[1:]
    assert list(openai_compatible.joined(lines[:2])) == [TextDelta("ab")]
    thought = b'data: {"choices": [{"delta": {"reasoning_content": "%b"}}]}'
    mixed = [thought % b"x", thought % b"y", *lines[:2], thought % b"z"]
    assert list(openai_compatible.joined(mixed)) == [
        ThinkingDelta("xy"),
        TextDelta("ab"),
        ThinkingDelta("z"),
    ]
    said = []
    with pytest.raises(BadStreamError):
        for delta in openai_compatible.joined([*lines[:2], b"data: {", lines[0]]):
            said.append(delta)  # noqa: PERF402 - an error ends it
    assert said == [TextDelta("ab")]


async def test_the_request_is_sent_unchanged(server: ModelServer, provider: Provider) -> None:
    server.replies = [streams(hello("ok"))]
    tool = {
        "type": "function",
        "function": {
            "name": "f",
            "description": "d",
            "parameters": {"type": "object", "properties": {}},
        },
    }
    messages: list[ChatMessage] = [
        {"role": "system", "content": "be kind"},
        {"role": "user", "content": "hi"},
        {
            "role": "assistant",
            "content": "let me see",
            "tool_calls": [
                {"id": "c", "type": "function", "function": {"name": "f", "arguments": "{}"}}
            ],
        },
        {"role": "tool", "tool_call_id": "c", "content": "42"},
    ]
    await ask(provider, ModelRequest(messages, [tool], options={"temperature": 0.5}))
    [body] = server.requests
    assert body["model"] == "m"
    assert body["stream"] is True
    assert body["temperature"] == 0.5
    assert [each["role"] for each in body["messages"]] == ["system", "user", "assistant", "tool"]
    assert body["messages"][2]["tool_calls"][0]["function"]["name"] == "f"
    assert body["messages"][3]["content"] == "42"
    assert body["tools"][0]["function"]["name"] == "f"
    assert server.headers[0]["Authorization"] == "Bearer sk-secret"


async def test_an_answer_that_says_nothing_is_not_sent_back(
    server: ModelServer, provider: Provider
) -> None:
    """Clients keep one after a stop; Mistral and vLLM refuse the whole conversation for it."""
    server.replies = [streams(hello("ok"))]
    said: list[ChatMessage] = [
        {"role": "user", "content": "hi"},
        {"role": "assistant", "content": ""},
        {"role": "user", "content": "again"},
    ]
    await ask(provider, ModelRequest(said))
    assert [each["content"] for each in server.requests[0]["messages"]] == ["hi", "again"]


async def test_tool_calls_arrive_in_pieces_and_in_parallel(
    server: ModelServer, provider: Provider
) -> None:
    def piece(index: int, **function: str) -> dict[str, Any]:
        named = {"id": f"call-{index}", "type": "function"} if "name" in function else {}
        return chunk({"tool_calls": [{"index": index, **named, "function": function}]})

    server.replies = [
        streams(
            sse(
                piece(0, name="f", arguments=""),
                piece(0, arguments='{"a"'),
                piece(0, arguments=": 1}"),
                piece(1, name="g", arguments="{}"),
                chunk(finish="tool_calls"),
            )
        )
    ]
    calls: dict[int, list[str]] = {}
    deltas = await ask(provider)
    for delta in deltas:
        if isinstance(delta, ToolCallDelta):
            found = calls.setdefault(delta.index, ["", "", ""])
            found[0] += delta.id
            found[1] += delta.name
            found[2] += delta.arguments
    assert [calls[number] for number in sorted(calls)] == [
        ["call-0", "f", '{"a": 1}'],
        ["call-1", "g", "{}"],
    ]
    assert deltas[-1] == Finish("tool_calls")


async def test_reasoning_is_a_separate_delta(server: ModelServer, provider: Provider) -> None:
    server.replies = [
        streams(
            sse(chunk({"reasoning_content": "hm"}), chunk({"content": "a"}), chunk(finish="stop"))
        )
    ]
    deltas = await ask(provider)
    assert "".join(each.text for each in deltas if isinstance(each, ThinkingDelta)) == "hm"
    assert text(deltas) == "a"


async def test_a_model_that_refuses_in_the_field_of_refusals_has_answered(
    server: ModelServer, compatible: OpenAICompatible
) -> None:
    """OpenAI's models do where a schema leaves no place for the words."""
    start = chunk({"role": "assistant", "content": None, "refusal": None})
    said = [chunk({"refusal": word}) for word in ("I cannot ", "help with that.")]
    server.replies = [streams(sse(start, *said, chunk(finish="stop")))]
    deltas = await ask(compatible)
    assert text(deltas) == "I cannot help with that."
    assert deltas[-1] == Finish("stop")


@pytest.mark.parametrize(
    ("status", "code", "retries"),
    [
        (400, "bad_request", False),
        (401, "unauthorised", False),
        (403, "unauthorised", False),
        (404, "not_found", False),
        (429, "rate_limited", True),
        (500, "server", True),
        (503, "overloaded", True),
    ],
)
async def test_each_refusal_has_its_clear_message(
    status: int, code: str, retries: bool, server: ModelServer, provider: Provider
) -> None:
    server.replies = [says(status, **({"Retry-After": "7"} if status == 429 else {}))]
    error = await failure(provider)
    assert error.code == code
    assert (error.retry_after is not None) == retries
    if status == 429:
        assert error.retry_after == 7
    assert len(server.requests) == 1


async def test_a_stream_that_breaks_off_is_a_failure(
    server: ModelServer, provider: Provider
) -> None:
    body = sse(chunk({"role": "assistant", "content": "half"}), done=False)
    server.replies = [streams(body, cut=True, pause=0.05)]
    assert (await failure(provider)).code == "cut"


async def test_a_refused_connection_is_a_failure(server: ModelServer, provider: Provider) -> None:
    await server.stop()
    assert (await failure(provider)).code == "unreachable"
    await server.start()


async def test_an_answer_can_be_abandoned(server: ModelServer, provider: Provider) -> None:
    server.replies = [streams(hello(*["word "] * 50), size=40, pause=0.01)]
    async with asyncio.timeout(60), aclosing(provider.stream(ASKED)) as stream:
        async for delta in stream:
            if isinstance(delta, TextDelta) and delta.text:
                break
    server.replies = [streams(hello("again"))]
    assert text(await ask(provider)) == "again"


# Only ``openai_compatible`` ------------------------------------------------------------


@pytest.fixture
async def hasty(server: ModelServer) -> AsyncIterator[OpenAICompatible]:
    """Return a provider with short time limits, and no key."""
    async with asking(server, key="", seconds=0.3) as made:
        yield made


async def test_a_model_that_hangs_before_or_within_its_answer_times_out(
    server: ModelServer, hasty: OpenAICompatible
) -> None:
    server.replies = [hangs()]
    assert (await failure(hasty)).code == "timeout"
    comments = b": keep-alive\n\n" * 50
    server.replies = [streams(comments, size=14, pause=0.05, hang=True)]
    assert (await failure(hasty)).code == "timeout"
    server.replies = [streams(sse(chunk({"content": "a"}), done=False), hang=True)]
    assert (await failure(hasty)).code == "silence"
    assert "Authorization" not in server.headers[0]


async def test_a_slow_answer_that_moves_on_is_no_timeout(
    server: ModelServer, hasty: OpenAICompatible
) -> None:
    server.replies = [streams(hello(*"abcdef"), size=150, pause=0.1)]
    assert text(await ask(hasty)) == "abcdef"


@pytest.mark.parametrize(
    ("body", "code"),
    [
        (b"", "cut"),
        (b"data: [DONE]\n\n", "cut"),
        (sse(chunk({"content": "a"})), "cut"),
        (sse(chunk({"content": "a"}, usage=USED), done=False), "cut"),
        (sse(chunk(usage=USED)), "cut"),
        (b"<html>not a stream</html>", "no_model_server"),
        (b'{"object": "chat.completion", "choices": []}', "no_model_server"),
        (b"220 smtp.example.org ready\r\n", "no_model_server"),
        (b"\x00\xff" * 500, "no_model_server"),
        (b"data: {broken\n\n", "bad_stream"),
        (b"data: 5\n\n", "bad_stream"),
        (b"data: []\n\n", "bad_stream"),
        (sse({"choices": [None]}), "bad_stream"),
        (sse({"choices": [{"delta": "x"}]}), "bad_stream"),
        (sse({"choices": 5}), "bad_stream"),
        (sse({"choices": [{"delta": {"tool_calls": [None]}}]}), "bad_stream"),
        (sse({"usage": {"prompt_tokens": "many"}}), "cut"),
        (b"data: " + b"x" * (openai_compatible.MAX_LINE_BYTES + 70_000), "bad_stream"),
    ],
)
async def test_an_invalid_stream_is_a_failure(
    body: bytes, code: str, server: ModelServer, compatible: OpenAICompatible
) -> None:
    server.replies = [streams(body)]
    assert (await failure(compatible)).code == code


HALVES = [
    json.dumps(chunk({"content": text})).encode() for text in ("a \ud83d", "\ude00 b")
]  # of an emoji


async def test_comments_and_a_role_are_no_token(server: ModelServer) -> None:
    """Only visible text ends the wait for the first token."""
    compatible = OpenAICompatible(
        base_url=server.url, api_key="", model="m", first_seconds=0.5, idle_seconds=60
    )
    role = sse(chunk({"role": "assistant", "content": ""}), done=False)
    for body in (b": OPENROUTER PROCESSING\n\n" * 100, role, role + b": wait\n\n" * 100):
        server.replies = [streams(body, size=200, pause=0.05, hang=True)]
        assert (await failure(compatible)).code == "timeout"
    await compatible.close()


async def test_an_error_inside_the_stream_is_the_servers(
    server: ModelServer, compatible: OpenAICompatible
) -> None:
    server.replies = [streams(sse(chunk({"content": "a"}), {"error": {"message": "sk-secret"}}))]
    assert (await failure(compatible)).code == "server"


@pytest.mark.parametrize(
    ("body", "said"),
    [
        (sse(chunk({"content": "a"}), chunk(finish="stop"), done=False).rstrip(), "a"),
        (hello("a").replace(b"\n\n", b"\r\n\r\n"), "a"),
        (hello("a").replace(b"data: ", b"data:"), "a"),
        (b": comment\n\nevent: x\nid: 5\n" + hello("a"), "a"),
        (sse(chunk({"content": 5}), chunk(finish="stop")), "5"),
        (sse(*HALVES, chunk(finish="stop")), "a ?? b"),
        (sse({"choices": None, "error": None}, chunk({"content": "a"}), chunk(finish="stop")), "a"),
        (
            sse(chunk({"content": "a"}), chunk(finish="stop", usage={"prompt_tokens": None})),
            "a",
        ),
        # Tokens that cannot be read are estimated: the answer is there.
        (
            sse(chunk({"content": "a"}), chunk(finish="stop", usage={"prompt_tokens": "many"})),
            "a",
        ),
        (sse(chunk({"content": "a"}), chunk(finish="stop", usage=["12"])), "a"),
    ],
)
async def test_odd_streams_of_real_servers_are_read(
    body: bytes, said: str, server: ModelServer, compatible: OpenAICompatible
) -> None:
    server.replies = [streams(body)]
    deltas = await ask(compatible)
    assert text(deltas) == said
    assert deltas[-1] == Finish("stop")


WHOLE: dict[str, Any] = {
    "object": "chat.completion",
    "choices": [{"index": 0, "message": {"content": "a"}, "finish_reason": "stop"}],
    "usage": USED,
}


@pytest.mark.parametrize("indent", [None, 2])
async def test_an_answer_that_is_not_streamed_is_read(
    indent: int | None, server: ModelServer, compatible: OpenAICompatible
) -> None:
    """Servers without streams answer whole, whatever they were asked for."""
    server.replies = [answers(json.dumps(WHOLE, indent=indent).encode())]
    assert await ask(compatible) == [TextDelta("a"), Usage(3, 1), Finish("stop")]
    server.replies = [streams(sse(WHOLE))]
    assert await ask(compatible) == [TextDelta("a"), Usage(3, 1), Finish("stop")]


async def test_an_answer_in_one_piece_may_take_longer_than_an_error(
    server: ModelServer, compatible: OpenAICompatible, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its headers, and white space, may come long before it, as from OpenRouter."""
    monkeypatch.setattr(openai_compatible, "ERROR_SECONDS", 0.0)
    server.replies = [answers_late(json.dumps(WHOLE).encode())]
    assert await ask(compatible) == [TextDelta("a"), Usage(3, 1), Finish("stop")]


@pytest.mark.parametrize(
    ("last", "code"),
    [
        ({"object": "error", "message": "The engine is currently overloaded."}, "overloaded"),
        (chunk(finish="error"), "server"),
        (chunk(finish="insufficient_system_resource"), "overloaded"),
        (chunk(finish="abort"), "cut"),
        (chunk(finish="network_error"), "server"),
        (chunk(finish="function_call_filter: MALFORMED_FUNCTION_CALL"), "bad_stream"),
        (
            {"choices": [{"delta": {}, "finish_reason": "error",
                          "error": {"message": "The engine is currently overloaded."}}]},
            "overloaded",
        ),
    ],
)  # fmt: skip
async def test_an_answer_that_its_server_gave_up_is_a_failure(
    last: dict[str, Any], code: str, server: ModelServer, compatible: OpenAICompatible
) -> None:
    """Of DeepSeek, vLLM, Zhipu, Google and OpenRouter; its tokens are counted all the same."""
    server.replies = [streams(sse(chunk({"content": "I make"}, usage=USED), last))]
    found: list[Delta] = []
    with pytest.raises(ProviderError) as caught:
        async with aclosing(compatible.stream(ASKED)) as stream:
            async for delta in stream:
                found.append(delta)  # noqa: PERF401 - those before the failure
    assert (caught.value.code, caught.value.retry_after is None) == (code, False)
    assert found == [TextDelta("I make"), Usage(3, 1)]


@pytest.mark.parametrize(
    ("words", "given", "sent"),
    [
        (
            "Unsupported parameter: 'max_tokens' is not supported with this model. Use "
            "'max_completion_tokens' instead.",
            {"max_tokens": 7},
            {"max_completion_tokens": 7},
        ),
        (
            "Unsupported value: 'temperature' does not support 0 with this model. Only the default "
            "(1) value is supported.",
            {"temperature": 0, "seed": 1},
            {"seed": 1},
        ),
        (
            "Unsupported parameter: 'presence_penalty' is not supported with this model.",
            {"presence_penalty": 1},
            {},
        ),
        ("invalid top_p: only 0.95 is allowed for this model", {"top_p": 0.5}, {}),
        ("`temperature` is deprecated for this model.", {"temperature": 0.5}, {}),
        ("Model grok-4 does not support parameter presencePenalty.", {"presence_penalty": 0}, {}),
        (
            "Argument not supported on this model: reasoningEffort",
            {"reasoning_effort": "low", "stop": "x"},
            {"stop": "x"},
        ),
        (
            'Invalid JSON payload received. Unknown name "frequency_penalty": Cannot find field.',
            {"frequency_penalty": 0},
            {},
        ),
        (
            "gemini does not support parameters: {'frequency_penalty': 0.5}, for model=x.",
            {"frequency_penalty": 0.5},
            {},
        ),
        ("body: property 'frequency_penalty' is unsupported", {"frequency_penalty": 0}, {}),
        ("Penalty is not enabled for models/gemini-1.5-pro", {"frequency_penalty": 0}, {}),
        (
            "`temperature` and `top_p` cannot both be specified for this model. Please use only "
            "one.",
            {"temperature": 0.5, "top_p": 1},
            {"temperature": 0.5},
        ),
        (
            "Unrecognized request argument supplied: reasoning_effort",
            {"reasoning_effort": "low"},
            {},
        ),
        (
            "`reasoning_effort` is not supported with this model",
            {"reasoning_effort": "low"},
            {},
        ),
    ],
)
async def test_an_option_that_a_model_does_not_take_is_sent_otherwise_or_left_out(
    words: str,
    given: dict[str, Any],
    sent: dict[str, Any],
    server: ModelServer,
    compatible: OpenAICompatible,
) -> None:
    """Of OpenAI's and Anthropic's models at any address, of xAI's, Kimi's, Google's, and of Groq:
    clients that do not know which model answers, as aider, were refused always, and so were long
    tasks.
    """
    server.replies = [refuses(words), streams(hello("a")), streams(hello("b")), refuses(words)]
    asked = replace(ASKED, options=given)
    assert text(await ask(compatible, asked)) == "a"
    assert text(await ask(compatible, asked)) == "b"
    own = {"model", "messages", "stream", "stream_options"}
    bodies = [{name: body[name] for name in body.keys() - own} for body in server.requests]
    assert bodies == [given, sent, sent]
    with pytest.raises(ProviderError, match="did not accept"):
        await ask(compatible, asked)
    assert len(server.requests) == 4


@pytest.mark.parametrize(
    "refused",
    [
        "Unknown parameter: 'stream_options'.",
        {"message": {"detail": [{"type": "extra_forbidden", "loc": ["body", "stream_options"]}]}},
    ],
)
async def test_a_server_that_does_not_tell_tokens_is_not_asked_for_them(
    refused: str | dict[str, Any], server: ModelServer, compatible: OpenAICompatible
) -> None:
    """Of Azure's older addresses, Databricks and Mistral's models elsewhere."""
    server.replies = [refuses(refused), streams(hello("a")), streams(hello("b"))]
    assert text(await ask(compatible)) == "a"
    assert text(await ask(compatible)) == "b"
    told = ["stream_options" in body for body in server.requests]
    assert told == [True, False, False]


def person(content: Any) -> dict[str, Any]:
    """Return a message of a person."""
    return {"role": "user", "content": content}


def answered(content: str) -> dict[str, Any]:
    """Return an answer of the model."""
    return {"role": "assistant", "content": content}


A_PICTURE = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AA=="}}
RULES = {"role": "system", "content": "Be kind."}
CALL = {"id": "a", "type": "function", "function": {"name": "f", "arguments": "{}"}}
CALLING: dict[str, Any] = {"role": "assistant", "content": "", "tool_calls": [CALL]}
RESULT = {"role": "tool", "tool_call_id": "a", "content": "1"}


@pytest.mark.parametrize(
    ("given", "sent"),
    [
        (
            [RULES, person("a"), person("b"), person([A_PICTURE])],
            [RULES, person([{"type": "text", "text": "a\n\nb"}, A_PICTURE])],
        ),
        (
            [RULES, RULES, person("a"), answered("b"), answered("c"), person("d"), person("")],
            [
                {**RULES, "content": "Be kind.\n\nBe kind."},
                *(person("a"), answered("b\n\nc"), person("d")),
            ],
        ),
        (
            [person("a"), CALLING, RESULT, RESULT, CALLING, RESULT, answered("b"), person("c")],
            None,
        ),
    ],
    ids=["of a person", "of all", "calls"],
)
async def test_messages_alternate_for_a_model_that_wants_it(
    given: list[dict[str, Any]],
    sent: list[dict[str, Any]] | None,
    server: ModelServer,
    compatible: OpenAICompatible,
) -> None:
    """As the templates of Gemma and Mistral do: after a turn that failed, two messages of a person
    follow each other, and each later turn of the conversation was refused.
    """
    words = "Error: Jinja Exception: Conversation roles must alternate user/assistant/user/..."
    server.replies = [refuses(words), streams(hello("a")), streams(hello("b"))]
    for said in ("a", "b"):
        assert text(await ask(compatible, ModelRequest(given))) == said
    assert [body["messages"] for body in server.requests] == [given, *[sent or given] * 2]
    server.replies = [refuses(words)]
    with pytest.raises(ProviderError):
        await ask(compatible, ModelRequest(given))
    assert len(server.requests) == 5  # once more with the instructions as the person's


@pytest.mark.parametrize(
    "words",
    [
        ["Developer instruction is not enabled for models/gemma-3-27b-it"],
        ["System role not supported"],
        ["Unsupported value: 'messages[0].role' does not support 'system' with this model."],
        ["Conversation roles must alternate user/assistant/user/assistant/..."] * 2,
    ],
)
async def test_a_model_that_takes_no_instructions_gets_them_with_the_question(
    words: list[str], server: ModelServer, compatible: OpenAICompatible
) -> None:
    """Of Google, of templates of Gemma and of OpenAI's first reasoning models; old templates of
    Mistral say no more than that messages must alternate.
    """
    server.replies = [*map(refuses, words), streams(hello("a")), streams(hello("b"))]
    said = [RULES, person("a"), answered("b"), person("c")]
    assert text(await ask(compatible, ModelRequest(said))) == "a"
    assert text(await ask(compatible, ModelRequest(said))) == "b"
    told = [person("Be kind.\n\na"), *said[2:]]
    assert [body["messages"] for body in server.requests[len(words) :]] == [told, told]


async def test_descriptions_of_tools_are_cut_for_a_server_that_takes_shorter_ones(
    server: ModelServer, compatible: OpenAICompatible
) -> None:
    """As Azure's older addresses do; one long tool of an MCP server made every turn fail."""
    words = (
        "Invalid 'tools[1].function.description': string too long. Expected a string with maximum "
        "length 1024, but got a string with length 1025 instead."
    )
    server.replies = [refuses(words), streams(hello("a")), streams(hello("b"))]
    tools = [{"type": "function", "function": {"name": "f", "description": "x" * 1024}}]
    tools += [{"type": "function", "function": {"name": "g", "description": "x" * 1025}}, LOOK]
    for said in ("a", "b"):
        assert text(await ask(compatible, replace(ASKED, tools=tools))) == said
    for body in server.requests[1:]:
        first, second, third = body["tools"]
        assert (first, third) == (tools[0], LOOK)
        assert second["function"] == {"name": "g", "description": "x" * 1023 + "…"}


@pytest.mark.parametrize(
    "words",
    [
        'Invalid JSON payload received. Unknown name "const" at \'tools[0].function_declarations[5]'
        ".parameters.properties[8].value.any_of[0]': Cannot find field.",
        'Invalid JSON payload received. Unknown name "type" at \'tools[0].function_declarations[2]'
        ".***.properties[0].value': Proto field is not repeating, cannot start list.",
        "* GenerateContentRequest.tools[0].function_declarations[41].parameters"
        ".properties[issue_fields].items.required[0]: property is not defined",
        "Unable to submit request because `edit_file` functionDeclaration `parameters.dryRun` "
        "schema specified other fields alongside any_of.",
    ],
)
async def test_schemas_of_tools_are_simple_for_a_relay_to_google(
    words: str, server: ModelServer, compatible: OpenAICompatible
) -> None:
    """One tool of an MCP server made every turn fail."""
    server.replies = [refuses(words), streams(hello("a")), streams(hello("b")), refuses(words)]
    inner = {"kind": {"const": "x"}, "note": {"type": ["string", "null"]}}
    schema = {"type": "object", "properties": inner, "additionalProperties": False}
    tool = {"type": "function", "function": {"name": "f", "parameters": schema}}
    asked = replace(ASKED, tools=[tool])
    assert text(await ask(compatible, asked)) == "a"
    assert text(await ask(compatible, asked)) == "b"
    simple = {"kind": {"type": "string", "enum": ["x"]}, "note": {"type": "string"}}
    sent = [body["tools"][0]["function"]["parameters"] for body in server.requests]
    assert sent == [schema, *[{"type": "object", "properties": simple}] * 2]
    with pytest.raises(ProviderError):
        await ask(compatible, asked)
    assert len(server.requests) == 4


async def test_a_server_that_wants_descriptions_shorter_each_time_is_not_asked_for_ever(
    server: ModelServer, compatible: OpenAICompatible
) -> None:
    words = "'function.description': string too long. Expected a string with maximum length {}"
    server.replies = [refuses(words.format(most)) for most in (9, 8, 7)]
    with pytest.raises(ProviderError, match="did not accept"):
        await ask(compatible, ASKED)
    assert len(server.requests) == 2


async def test_requests_that_are_refused_at_the_same_time_are_all_sent_again(
    server: ModelServer, compatible: OpenAICompatible
) -> None:
    """As those of two people after a start: the second refusal is no news, but its request is."""
    barrier = asyncio.Barrier(2)

    async def refuse(_: web.Request) -> web.StreamResponse:
        await barrier.wait()
        words = "Unsupported value: 'temperature' does not support 0.5 with this model."
        return web.json_response({"error": {"message": words}}, status=400)

    server.replies = [refuse, refuse, streams(hello("a")), streams(hello("a"))]
    asked = replace(ASKED, options={"temperature": 0.5})
    said = await asyncio.gather(ask(compatible, asked), ask(compatible, asked))
    assert [text(each) for each in said] == ["a", "a"]


LOOK: dict[str, Any] = {"type": "function", "function": {"name": "look", "parameters": {}}}


@pytest.mark.parametrize(
    "words",
    [
        "system role not supported",
        "does not support tools",
        "Does  not support\ntools",
        "must alternate",
        "Unsupported parameter: reasoning_effort",
    ],
)
@pytest.mark.parametrize("place", ["an option", "a tool"])
async def test_words_of_a_person_in_a_refusal_change_nothing_for_others(
    words: str, place: str, server: ModelServer, settings: Settings
) -> None:
    """Servers quote a value that they do not take. A refusal of theirs counts for the requests of
    all people.
    """
    settings.LLM_PROVIDER, settings.LLM_BASE_URL = "openai-compatible", server.url
    made = registry.of_settings()
    said = [RULES, person("a"), person("b")]
    given: dict[str, Any] = {"reasoning_effort": words if place == "an option" else "low"}
    odd = {"type": "function", "function": {"name": "f", "parameters": {"type": words}}}
    told = refuses(f"Invalid value: {words!r}. Supported values are: 'low' and 'high'.")
    server.replies = [told, told, told]
    with pytest.raises(ProviderError):
        await ask(made, ModelRequest(said, [odd if place == "a tool" else LOOK], options=given))
    assert all("reasoning_effort" in body and "tools" in body for body in server.requests)
    server.requests.clear()
    server.replies = [streams(hello("a"))]
    await ask(made, ModelRequest(said, [LOOK], options={"reasoning_effort": "low"}))
    (body,) = server.requests
    assert (body["messages"], body["tools"], body["reasoning_effort"]) == (said, [LOOK], "low")
    await made.close()


async def test_words_of_a_person_about_schemas_leave_those_of_others(
    server: ModelServer, compatible: OpenAICompatible
) -> None:
    """A simple schema lacks the word that the server has refused: it would count for all."""
    odd, other = (
        {"type": "object", "properties": {"a": {"type": "string", "format": each}}}
        for each in ("function_declarations", "uuid")
    )
    tools = [{"type": "function", "function": {"name": "f", "parameters": odd}}]
    server.replies = [refuses("'function_declarations' is no format."), streams(hello("a"))]
    with pytest.raises(ProviderError):
        await ask(compatible, replace(ASKED, tools=tools))
    tools = [{"type": "function", "function": {"name": "f", "parameters": other}}]
    await ask(compatible, replace(ASKED, tools=tools))
    assert server.requests[-1]["tools"] == tools


async def test_a_value_that_a_model_does_not_take_leaves_the_others(
    provider: Provider, server: ModelServer
) -> None:
    """Of the options of one person the model takes the ones of the other."""
    words = "Unsupported value: 'temperature' does not support 0.2 with this model."
    low, high = (replace(ASKED, options={"temperature": each}) for each in (0.2, 1))
    server.replies = [refuses(words), *(streams(hello("a")) for _ in range(3))]
    for asked in (low, low, high):
        assert text(await ask(provider, asked)) == "a"
    given = [body.get("temperature") for body in server.requests]
    assert given == [0.2, None, None, 1]


async def test_refused_values_are_not_remembered_without_end(
    server: ModelServer, compatible: OpenAICompatible
) -> None:
    """A person may think of any number of values."""
    words = "invalid temperature: only 1 is allowed for this model"
    for at in range(60):
        server.replies = [refuses(words), streams(hello("a"))]
        assert text(await ask(compatible, replace(ASKED, options={"temperature": at / 100}))) == "a"
    server.replies = [
        refuses("invalid temperature: only 1 is allowed"),
        refuses("Unsupported parameter: top_p"),
        *(streams(hello("a")) for _ in range(2)),
    ]
    for _ in range(2):
        await ask(compatible, replace(ASKED, options={"temperature": 0.9, "top_p": 1}))
    assert len(next(iter(compatible._refused.values()))) == resent.MOST_VALUES + 1


@pytest.mark.parametrize(
    "words",
    [
        "registry.ollama.ai/library/gemma3:4b does not support tools",
        '"auto" tool choice requires --enable-auto-tool-choice and --tool-call-parser to be set',
        "tools param requires --jinja flag",
        "Function calling is not enabled for models/gemma-3-27b-it",
        "No endpoints found that support tool use. To learn more about provider routing, visit: x",
        "`tool calling` is not supported with this model",
        "Unsupported parameter: 'tools' is not supported with this model.",
    ],
)
async def test_tools_are_left_out_for_a_model_of_the_environment_that_refuses_them(
    words: str, server: ModelServer, compatible: OpenAICompatible, settings: Settings
) -> None:
    """It is not tested, and each turn was refused. A client that demands a call is told, and so is
    the owner of a row, which says whether its model calls tools.
    """
    settings.LLM_PROVIDER, settings.LLM_BASE_URL = "openai-compatible", server.url
    made = registry.of_settings()
    server.replies = [refuses(words), streams(hello("a")), streams(hello("b"))]
    asked = replace(ASKED, tools=[LOOK], options={"parallel_tool_calls": False, "seed": 1})
    assert text(await ask(made, asked)) == "a"
    assert text(await ask(made, asked)) == "b"
    of_tools = [sorted(body.keys() & {*asked.options, "tools"}) for body in server.requests]
    assert of_tools == [["parallel_tool_calls", "seed", "tools"], ["seed"], ["seed"]]
    demanded = replace(asked, options={"tool_choice": "required"})
    for provider, request in ((made, demanded), (made, ASKED), (compatible, asked)):
        server.replies = [refuses(words)]
        with pytest.raises(ProviderError):
            await ask(provider, request)
    assert [len(body.get("tools", [])) for body in server.requests[3:]] == [1, 0, 1]
    await made.close()


@pytest.mark.parametrize(
    ("words", "given"),
    [
        ("Unsupported parameter: 'stop' is not supported with this model.", {"stop": "x"}),
        ("Unsupported value: 'temperature' does not support 0.", {"seed": 1}),
        ("'max_tokens' or 'max_completion_tokens' is too large: 8192.", {"max_tokens": 8192}),
        ("invalid temperature", {"temperature": 3}),
    ],
)
async def test_an_option_that_changes_the_answer_is_not_left_out(
    words: str, given: dict[str, Any], server: ModelServer, compatible: OpenAICompatible
) -> None:
    server.replies = [refuses(words)]
    with pytest.raises(ProviderError, match="did not accept"):
        await ask(compatible, replace(ASKED, options=given))
    assert len(server.requests) == 1


def refuses(said: str | dict[str, Any]) -> Reply:
    """Return a reply that refuses a request in these words, or with this body."""
    body = {"error": {"message": said}} if isinstance(said, str) else said

    async def reply(request: web.Request) -> web.StreamResponse:
        return web.json_response(body, status=400)

    return reply


@pytest.mark.parametrize("begun", [b"", sse(chunk({"content": "a"}), done=False)])
async def test_an_error_in_a_line_of_its_own_is_read(
    begun: bytes, server: ModelServer, compatible: OpenAICompatible
) -> None:
    """As llama.cpp wrote it until late in 2025."""
    words = "the request exceeds the available context size"
    told = {"code": 400, "message": words, "type": "invalid_request_error"}
    line = b"error: " + orjson.dumps(told)
    server.replies = [streams(begun + line + b"\n\ndata: [DONE]\n\n")]
    error = await failure(compatible)
    assert (error.code, error.reason) == ("context_length", words)


async def test_a_refusal_with_its_reason_is_one(
    server: ModelServer, compatible: OpenAICompatible
) -> None:
    """As Google's compatible API gives it."""
    server.replies = [streams(sse(chunk(finish="content_filter: PROHIBITED_CONTENT")))]
    assert await ask(compatible) == [Finish("content_filter")]


@pytest.mark.parametrize(
    ("reason", "meant"),
    [
        ("model_length", "length"),
        ("model_context_window_exceeded", "length"),
        ("sensitive", "content_filter"),
        ("eos", "stop"),
    ],
)
async def test_an_end_for_a_reason_of_the_servers_own_has_openais_word(
    reason: str, meant: str, server: ModelServer, compatible: OpenAICompatible
) -> None:
    """Of Mistral and Zhipu: a client took an answer that was cut for a whole one."""
    server.replies = [streams(sse(chunk({"content": "a"}), chunk(finish=reason)))]
    assert await ask(compatible) == [TextDelta("a"), Finish(meant)]


async def test_an_answer_without_a_reason_is_whole_where_its_tokens_are_counted_at_the_end(
    server: ModelServer, compatible: OpenAICompatible
) -> None:
    """Some servers give no ``finish_reason``; of one that broke off there is no count."""
    call = {"tool_calls": [{"index": 0, "id": "a", "function": {"name": "f", "arguments": "{}"}}]}
    for delta, reason in (({"content": "a"}, "stop"), (call, "tool_calls")):
        server.replies = [streams(sse(chunk(delta), chunk(usage=USED)))]
        deltas = await ask(compatible)
        assert deltas[-2:] == [Usage(3, 1), Finish(reason)]


async def test_an_answer_that_was_whole_before_the_connection_broke_counts(
    server: ModelServer, compatible: OpenAICompatible
) -> None:
    body = sse(chunk({"content": "a"}), chunk(finish="stop"), done=False)
    server.replies = [streams(body, cut=True, pause=0.05)]
    assert text(await ask(compatible)) == "a"


async def test_tool_calls_without_an_index_or_a_function_are_read(
    server: ModelServer, compatible: OpenAICompatible
) -> None:
    calls = [{"function": {"name": "f", "arguments": None}}, {"index": None, "id": "x"}]
    server.replies = [streams(sse(chunk({"tool_calls": calls}), chunk(finish="tool_calls")))]
    deltas = await ask(compatible)
    assert deltas[:2] == [ToolCallDelta(0, name="f"), ToolCallDelta(1, id="x")]


async def test_arguments_that_are_no_text_are_read(
    server: ModelServer, compatible: OpenAICompatible
) -> None:
    """As of some builds of llama.cpp, and of text-generation-inference."""
    function = {"name": "f", "arguments": {"a": "é", "b": [True, None], "c": 2**64 + 1}}
    call = {"index": 0, "id": "x", "function": function}
    line = json.dumps(chunk({"tool_calls": [call]})).encode()
    whole = {"choices": [{"message": {"tool_calls": [call]}, "finish_reason": "tool_calls"}]}
    server.replies = [
        streams(sse(line, chunk(finish="tool_calls"))),
        answers(json.dumps(whole).encode()),
    ]
    for _ in range(2):
        [first, *_] = await ask(compatible)
        assert isinstance(first, ToolCallDelta)
        assert json.loads(first.arguments) == function["arguments"]


async def test_the_key_is_not_taken_along_a_redirect(
    server: ModelServer, compatible: OpenAICompatible
) -> None:
    async def away(request: web.Request) -> web.StreamResponse:
        raise web.HTTPFound(f"{server.url}/elsewhere")

    server.replies = [away]
    error = await failure(compatible)
    assert (error.code, len(server.requests)) == ("no_model_server", 1)


async def test_a_number_that_postgresql_gives_back_whole_is_sent(
    server: ModelServer, compatible: OpenAICompatible
) -> None:
    """jsonb stores 3.4e38 as a whole number of 39 digits."""
    server.replies = [streams(hello("a"))]
    tool = {"type": "function", "function": {"name": "f", "parameters": {"maximum": 10**38}}}
    await ask(compatible, ModelRequest(ASKED.messages, [tool]))
    assert server.requests[0]["tools"][0]["function"]["parameters"]["maximum"] == 1e38


async def test_options_cannot_replace_fields_that_the_gateway_sets(
    server: ModelServer, compatible: OpenAICompatible
) -> None:
    server.replies = [streams(hello("a"))]
    await ask(compatible, ModelRequest(ASKED.messages, options={"stream": False, "messages": []}))
    assert server.requests[0]["stream"] is True
    assert server.requests[0]["messages"] == ASKED.messages


async def test_an_address_that_is_none_is_said() -> None:
    compatible = OpenAICompatible(
        base_url="localhost:1", api_key="", model="m", first_seconds=1, idle_seconds=1
    )
    assert (await failure(compatible)).code == "setup"
    await compatible.close()


# The agent library -------------------------------------------------------------------------------


def library_of(model: Any, *, seconds: float = 5) -> AgentLibrary:
    """Return the provider on a model of the library."""
    return AgentLibrary(model, first_seconds=seconds, idle_seconds=seconds)


async def test_any_model_of_the_library_streams_text_thoughts_and_calls() -> None:
    seen: list[ModelMessage] = []

    async def play(messages: list[ModelMessage], info: AgentInfo) -> AsyncIterator[Any]:
        seen.extend(messages)
        assert [tool.name for tool in info.function_tools] == ["f"]
        yield {0: DeltaThinkingPart(content="hm")}
        yield {1: DeltaToolCall(name="f", json_args='{"a"', tool_call_id="c")}
        yield {1: DeltaToolCall(json_args=": 1}")}

    tool = {"type": "function", "function": {"name": "f"}}
    pictures = [
        {"type": "text", "text": "look"},
        {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}},
        {"type": "image_url", "image_url": {"url": "data:image/png;base64,A"}},
        {"type": "image_url", "image_url": {"url": "http://169.254.169.254/"}},
    ]
    messages: list[ChatMessage] = [
        {"role": "system", "content": "be kind"},
        {"role": "user", "content": pictures},
        {"role": "assistant", "content": None, "tool_calls": []},
        {"role": "tool", "tool_call_id": "x", "content": [{"type": "text", "text": "42"}]},
    ]
    deltas = await ask(
        library_of(FunctionModel(stream_function=play)), ModelRequest(messages, [tool])
    )
    assert ThinkingDelta("hm") in deltas
    calls = [delta for delta in deltas if isinstance(delta, ToolCallDelta)]
    assert "".join(call.name for call in calls) == "f"
    assert "".join(call.arguments for call in calls) == '{"a": 1}'
    assert deltas[-1] == Finish("tool_calls")
    content = seen[0].parts[1].content  # type: ignore[union-attr]
    assert [str(each)[:8] for each in content if isinstance(each, str)] == [  # type: ignore[union-attr]
        "look", "[an imag", "[image: ",
    ]  # fmt: skip
    assert seen[-1].parts[0].content == "42"  # type: ignore[union-attr]


async def test_an_answer_of_the_library_that_has_begun_is_not_asked_for_again() -> None:
    """Its first words would be shown twice."""
    asked = 0

    async def play(messages: list[ModelMessage], info: AgentInfo) -> AsyncIterator[Any]:
        nonlocal asked
        del messages, info
        asked += 1
        yield "half"
        raise ModelHTTPError(400, "m", {"message": "Unsupported parameter: 'temperature'"})

    given = ModelRequest(ASKED.messages, options={"temperature": 0.5})
    with pytest.raises(ProviderError):
        await ask(library_of(FunctionModel(stream_function=play)), given)
    assert asked == 1


@pytest.mark.parametrize("is_wanted", [True, False])
async def test_the_library_gives_reasoning_back_to_a_model_that_wants_it(
    server: ModelServer, *, is_wanted: bool
) -> None:
    """DeepSeek's and Kimi's do; others get neither a field nor a text of it."""
    server.replies = [streams(hello("42"))]
    messages: list[ChatMessage] = [
        {"role": "user", "content": "hi"},
        {"role": "assistant", "content": "", REASONING: "hm", "tool_calls": [
            {"id": "c", "type": "function", "function": {"name": "f", "arguments": "{}"}}
        ]},
        {"role": "tool", "tool_call_id": "c", "content": "42"},
    ]  # fmt: skip
    async with AsyncOpenAI(base_url=server.url, api_key="sk-secret", max_retries=0) as client:
        vendor = DeepSeekProvider if is_wanted else OpenAIProvider
        model = OpenAIChatModel("m", provider=vendor(openai_client=client))
        await ask(AgentLibrary(model, first_seconds=60, idle_seconds=60), ModelRequest(messages))
    [body] = server.requests
    assert body["messages"][1].get("reasoning_content") == ("hm" if is_wanted else None)
    assert not body["messages"][1]["content"]


async def test_the_librarys_own_test_model_is_a_provider() -> None:
    deltas = await ask(library_of(TestModel(custom_output_text="hello you", call_tools=[])))
    assert text(deltas) == "hello you"
    assert deltas[-1] == Finish("stop")
    assert isinstance(deltas[-2], Usage)
    await library_of(TestModel()).close()


async def test_a_library_model_that_hangs_times_out() -> None:
    async def hang(messages: list[ModelMessage], info: AgentInfo) -> AsyncIterator[str]:
        yield "a"
        await asyncio.Event().wait()

    provider = library_of(FunctionModel(stream_function=hang), seconds=0.3)
    assert (await failure(provider)).code == "silence"


def test_options_are_translated_and_unknown_ones_left_out() -> None:
    given = {"temperature": 0.5, "max_completion_tokens": 7, "stop": "END", "logprobs": True}
    assert agent_library.options(given) == {
        "temperature": 0.5, "max_tokens": 7, "stop_sequences": ["END"],
    }  # fmt: skip
    assert agent_library.options({"stop": ["a", "b"]}) == {"stop_sequences": ["a", "b"]}


@pytest.mark.parametrize("name", ["anthropic:claude-x", "nobody:x", "nonsense", "openai:gpt-x"])
async def test_a_library_model_that_is_not_set_up_is_said(
    name: str, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    settings.LLM_PROVIDER = name
    with pytest.raises(ProviderError, match="LLM_PROVIDER") as error:
        await ask(registry.current())
    assert error.value.code == "setup"


async def test_a_library_model_is_chosen_by_its_name(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "k")
    settings.LLM_PROVIDER = "openai:gpt-x"
    assert isinstance(registry.current(), AgentLibrary)
    await registry.close()


@pytest.mark.parametrize("is_in_stream", [True, False])
async def test_a_key_of_the_environment_that_a_vendor_repeats_is_hidden(
    server: ModelServer, monkeypatch: pytest.MonkeyPatch, *, is_in_stream: bool
) -> None:
    """The library takes it from a variable of its own."""
    key = "n5TzKeyOfTheEnvironment81w"
    monkeypatch.setenv("OPENAI_API_KEY", key)
    monkeypatch.setenv("OPENAI_BASE_URL", server.url)

    async def refuse(request: web.Request) -> web.StreamResponse:
        assert request.headers["Authorization"] == f"Bearer {key}"
        return web.json_response(
            {"error": {"message": f"Bad key {key}"}}, status=400, headers={"X-Key": key}
        )

    words = streams(sse(chunk({"content": "a"}), orjson.dumps({"error": {"message": f"No {key}"}})))
    server.replies = [words if is_in_stream else refuse]
    made = agent_library.build("openai-chat:gpt-x")
    with pytest.raises(ProviderError) as caught:
        await ask(made)
    assert isinstance(made._model, OpenAIChatModel)
    await made._model.client.close()
    assert key not in repr(vars(caught.value)) + str(caught.value)
    if not is_in_stream:
        assert caught.value.reason == "Bad key [key]"


def test_parts_that_come_whole_are_deltas_too() -> None:
    def found(event: Any) -> list[Delta]:
        return list(agent_library.deltas(event))

    start = PartStartEvent
    assert found(start(index=0, part=TextPart(content="a"))) == [TextDelta("a")]
    assert found(start(index=0, part=ThinkingPart(content="a"))) == [ThinkingDelta("a")]
    call = ToolCallPart(tool_name="f", args={"a": 1}, tool_call_id="c")
    assert found(start(index=2, part=call)) == [ToolCallDelta(2, "c", "f", '{"a":1}')]
    assert found(start(index=0, part=TextPart(content=""))) == []


# The scripted one --------------------------------------------------------------------------------


async def test_without_a_script_the_model_repeats_the_message() -> None:
    model = Scripted.from_file("")
    request = ModelRequest(
        [
            {
                "role": "user",
                "content": [{"type": "text", "text": "two  words\n"}, {"type": "image_url"}],
            }
        ]
    )
    deltas = await ask(model, request)
    assert text(deltas) == "two  words\n\n"
    assert deltas[-1] == Finish("stop")
    assert model.calls == 1
    assert last_text([{"role": "system", "content": "x"}]) == ""
    await model.close()


async def test_a_script_is_played(tmp_path: Path) -> None:
    rules: list[dict[str, Any]] = [
        {"match": "", "after_tool": True, "steps": [{"text": "it is late"}]},
        {
            "match": "time",
            "steps": [{"thinking": "hm"}, {"tool": "current_time", "arguments": {"a": 1}}],
        },
        {"match": "fail", "steps": [{"error": "rate_limited", "retry_after": 3}]},
        {
            "match": "slow",
            "steps": [{"sleep": 0.01}, {"text": "{input} ok", "tokens_per_second": 1000}],
        },
        {"match": "hang", "steps": [{"hang": True}]},
    ]
    path = tmp_path / "script.json"
    path.write_bytes(orjson.dumps(rules))
    model = Scripted.from_file(str(path))

    def asked(said: str, *more: dict[str, Any]) -> ModelRequest:
        return ModelRequest([{"role": "user", "content": said}, *more])

    assert await ask(model, asked("what time")) == [
        ThinkingDelta("hm"),
        ToolCallDelta(0, id="call_0", name="current_time"),
        ToolCallDelta(0, arguments='{"a":1}'),
        Usage(2, 3),
        Finish("tool_calls"),
    ]
    assert text(await ask(model, asked("time", {"role": "tool", "content": "9"}))) == "it is late"
    assert text(await ask(model, asked("slow"))) == "slow ok"
    assert text(await ask(model, asked("else"))) == "else"
    with pytest.raises(ProviderError) as error:
        await ask(model, asked("fail"))
    assert (error.value.code, error.value.retry_after) == ("rate_limited", 3)
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.05):
            await ask(model, asked("hang"))


async def test_a_rule_of_a_script_may_wait_for_one_tool() -> None:
    model = Scripted([
        {"match": "", "after_tool": "web_search", "steps": [{"text": "found"}]},
        {"match": "", "after_tool": True, "steps": [{"text": "done"}]},
        {"match": "", "after_tool": False, "steps": [{"text": "asked"}]},
    ])  # fmt: skip
    user: dict[str, Any] = {"role": "user", "content": "go"}
    said = []
    for name in ("", "web_search", "web_fetch"):
        call = {"id": "1", "function": {"name": name, "arguments": "{}"}}
        called: dict[str, Any] = {"role": "assistant", "content": "", "tool_calls": [call]}
        result: dict[str, Any] = {"role": "tool", "tool_call_id": "1", "content": "r"}
        said.append(
            text(await ask(model, ModelRequest([user, called, result] if name else [user])))
        )
    assert said == ["asked", "found", "done"]


@pytest.mark.parametrize(
    "script",
    ["", "{", "{}", "[1]", '[{"match": "("}]', '[{"match": "(", "steps": []}]', '[{"steps": []}]'],
)
def test_a_script_that_is_none_is_said(script: str, tmp_path: Path) -> None:
    path = tmp_path / "script.json"
    path.write_text(script)
    with pytest.raises(ProviderError, match="LLM_SCRIPT"):
        Scripted.from_file(str(path))
    with pytest.raises(ProviderError, match="LLM_SCRIPT"):
        Scripted.from_file(str(tmp_path / "none.json"))


# The registry ------------------------------------------------------------------------------------


async def test_the_settings_choose_the_provider(settings: Settings) -> None:
    settings.LLM_PROVIDER, settings.LLM_SCRIPT = "scripted", ""
    first = registry.current()
    assert isinstance(first, Scripted)
    assert registry.current() is first
    await registry.close()
    await registry.close()
    settings.LLM_PROVIDER, settings.LLM_BASE_URL = "openai-compatible", "http://127.0.0.1:1/v1"
    assert isinstance(registry.current(), OpenAICompatible)
    await registry.close()


async def test_a_model_that_is_not_set_up_is_said_in_the_answer(settings: Settings) -> None:
    settings.LLM_PROVIDER, settings.LLM_BASE_URL = "openai-compatible", ""
    provider = registry.current()
    assert isinstance(provider, Unavailable)
    with pytest.raises(ProviderError, match="GATEWAY_MODEL_URL"):
        await ask(provider)
