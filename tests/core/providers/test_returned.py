"""Vendors whose reasoning models refuse calls of tools without what their server sent with them."""

from collections.abc import Callable, Sequence
from typing import Any

import orjson
import pytest
from aiohttp import web

from core.providers.base import Finish, ModelRequest, TextDelta
from core.providers.openai_compatible import OpenAICompatible
from tests.core.agent.test_loop import Events, turn
from tests.core.providers.model_server import ModelServer, Reply, chunk, hello, sse, streams
from tests.core.providers.test_providers import ask

SIGNED = {"google": {"thought_signature": "c2lnbmVk"}}
UNSIGNED = {"google": {"thought_signature": "skip_thought_signature_validator"}}
SEALED = {
    "type": "reasoning.encrypted",
    "data": "c2VhbGVk",
    "id": "call_1",
    "format": "google-gemini-v1",
    "index": 0,
}
# The refusals of DeepSeek, Google and OpenRouter, word for word.
NO_REASONING = {
    "error": {
        "message": "The `reasoning_content` in the thinking mode must be passed back to the API.",
        "type": "invalid_request_error",
        "code": "invalid_request_error",
    }
}
NO_SIGNATURE = [
    {
        "error": {
            "code": 400,
            "message": "Function call is missing a thought_signature in functionCall parts.",
            "status": "INVALID_ARGUMENT",
        }
    }
]
NO_DETAILS = {
    "error": {
        "message": "Provider returned error",
        "code": 400,
        "metadata": {
            "raw": "Gemini models require OpenRouter reasoning details to be preserved in each "
            "request. Upstream error: Function call is missing a thought_signature.",
            "provider_name": "Google AI Studio",
        },
    }
}


def called(details: Sequence[dict[str, Any]] = (), **more: Any) -> Reply:
    """Return a reply that thinks and calls a tool. ``more``: of the call."""
    function = {"name": "current_time", "arguments": "{}"}
    made = {"index": 0, "id": "call_1", "type": "function", "function": function, **more}
    return streams(
        sse(
            chunk({"reasoning_content": "The time "}),
            chunk({"reasoning_content": "is asked for."}),
            chunk({"tool_calls": [made]}),
            *(chunk({"reasoning_details": [each]}) for each in details),
            chunk(finish="tool_calls"),
        )
    )


def strict(refusal: Any, is_whole: Callable[[dict[str, Any]], Any], after: Reply) -> Reply:
    """Return a reply that refuses a request with a call that is not whole; else ``after``."""

    async def reply(request: web.Request) -> web.StreamResponse:
        messages = orjson.loads(await request.read())["messages"]
        asked = [each for each in messages if each.get("tool_calls")]
        if all(is_whole(each) for each in asked):
            return await after(request)
        return web.json_response(refusal, status=400)

    return reply


def reasons(message: dict[str, Any]) -> Any:
    """Return whether a message is one that DeepSeek takes."""
    return message.get("reasoning_content")


def is_signed(message: dict[str, Any]) -> Any:
    """Return whether a message is one that Google takes."""
    first, *_ = message["tool_calls"]
    return first.get("extra_content", {}).get("google", {}).get("thought_signature")


def is_sealed(message: dict[str, Any]) -> Any:
    """Return whether a message is one that OpenRouter takes for Google."""
    return message.get("reasoning_details")


@pytest.fixture
def events() -> Events:
    """Return an empty log of messages."""
    return Events()


async def test_reasoning_goes_back_with_a_call_to_a_server_that_wants_it(
    server: ModelServer, compatible: OpenAICompatible, events: Events
) -> None:
    after = strict(NO_REASONING, reasons, streams(hello("It is ten.")))
    server.replies = [called(), after]
    await turn(compatible, events).run()
    assert events.of("text") == [{"content": "It is ten."}]
    before, with_reasoning = server.requests[1:]
    assert "reasoning_content" not in before["messages"][1]
    assert with_reasoning["messages"][1]["reasoning_content"] == "The time is asked for."
    # The next turn is not refused first: this server is known by now.
    server.replies = [called(), after]
    await turn(compatible, events).run()
    assert len(server.requests) == 5


async def test_a_signature_goes_back_with_its_call(
    server: ModelServer, compatible: OpenAICompatible, events: Events
) -> None:
    after = strict(NO_SIGNATURE, is_signed, streams(hello("It is ten.")))
    server.replies = [called(extra_content=SIGNED), after]
    await turn(compatible, events).run()
    assert events.of("text") == [{"content": "It is ten."}]
    sent = [each["messages"][1] for each in server.requests[1:]]
    assert [each["tool_calls"][0].get("extra_content") for each in sent] == [None, SIGNED]
    assert not any("extra" in each["tool_calls"][0] for each in sent)
    assert not any("reasoning" in each or "reasoning_content" in each for each in sent)


async def test_sealed_reasoning_goes_back_with_its_calls(
    server: ModelServer, compatible: OpenAICompatible, events: Events
) -> None:
    after = strict(NO_DETAILS, is_sealed, streams(hello("It is ten.")))
    read = {"type": "reasoning.text", "text": "The time is asked for.", "index": 0}
    sealed = [{**SEALED, "index": number} for number in range(40)]
    server.replies = [called([read, *sealed]), after]
    await turn(compatible, events).run()
    assert events.of("text") == [{"content": "It is ten."}]
    sent = [each["messages"][1] for each in server.requests[1:]]
    assert [each.get("reasoning_details") for each in sent] == [None, sealed[-32:]]
    assert not any("sealed" in each for each in sent)


async def test_a_long_id_of_a_call_is_replaced_and_not_cut(
    server: ModelServer, compatible: OpenAICompatible, events: Events
) -> None:
    """LiteLLM writes Google's signature into it, and refuses a piece of one."""
    name = f"call_1__thought__{'QUJD' * 100}"
    corrupted = {"error": {"message": "Corrupted thought signature.", "code": 400}}

    def is_unharmed(message: dict[str, Any]) -> bool:
        return all(
            each["id"] == name or "__thought__" not in each["id"] for each in message["tool_calls"]
        )

    more = {"index": 0, "id": name, "function": {"arguments": "{}"}}
    function = {"name": "current_time", "arguments": ""}
    call = streams(
        sse(
            chunk({"tool_calls": [{"index": 0, "id": name, "function": function}]}),
            chunk({"tool_calls": [more]}),
            chunk(finish="tool_calls"),
        )
    )
    server.replies = [call, strict(corrupted, is_unharmed, streams(hello("It is ten.")))]
    await turn(compatible, events).run()
    assert events.of("text") == [{"content": "It is ten."}]
    [shown] = events.of("tool_call")
    assert len(shown["id"]) <= 64
    assert shown["id"] == server.requests[1]["messages"][2]["tool_call_id"]


@pytest.mark.parametrize(
    ("refusal", "is_whole"), [(NO_REASONING, reasons), (NO_SIGNATURE, is_signed)]
)
async def test_calls_of_an_earlier_turn_are_completed(
    refusal: Any,
    is_whole: Callable[[dict[str, Any]], Any],
    server: ModelServer,
    compatible: OpenAICompatible,
) -> None:
    """Those of the history, of a client, of another model, or after a kill: nothing was kept."""
    server.replies = [strict(refusal, is_whole, streams(hello("yes")))]
    call = {"id": "1", "type": "function", "function": {"name": "f", "arguments": '{"a": 1}'}}
    asked = ModelRequest(
        [
            {"role": "user", "content": "hi"},
            {"role": "assistant", "content": "", "tool_calls": [call]},
            {"role": "tool", "tool_call_id": "1", "content": "2"},
        ]
    )
    deltas = await ask(compatible, asked)
    assert [TextDelta("yes"), Finish("stop")] == [deltas[0], deltas[-1]]
    assert asked.messages[1] == {"role": "assistant", "content": "", "tool_calls": [call]}


@pytest.mark.parametrize(
    ("written", "sent"),
    [
        ('{"a": 1', '{"arguments":"{\\"a\\": 1"}'),
        ("[1]", '{"arguments":"[1]"}'),
        ("null", '{"arguments":"null"}'),
        ("", "{}"),
        ('{"a":  1}', '{"a":  1}'),
    ],
)
async def test_arguments_go_back_as_an_object(
    written: str, sent: str, server: ModelServer, compatible: OpenAICompatible
) -> None:
    """vLLM and llama.cpp refuse the rest of a conversation in which a model, or a client, wrote
    anything else; the model is told so by the result of the call.
    """
    call = {"id": "a", "type": "function", "function": {"name": "f", "arguments": written}}
    said: list[dict[str, Any]] = [
        {"role": "user", "content": "hi"},
        {"role": "assistant", "content": "", "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "a", "content": "The arguments are not valid JSON."},
    ]
    server.replies = [streams(hello("a"))]
    await ask(compatible, ModelRequest(said))
    [body] = server.requests
    [given] = body["messages"][1]["tool_calls"]
    assert given == {**call, "function": {"name": "f", "arguments": sent}}
