"""The provider on pydantic-ai keeps the contract of the lean one, against the same model server."""

from collections.abc import AsyncIterator

import pytest
from pydantic_ai.models.openai import OpenAIChatModel
from pydantic_ai.providers.openai import OpenAIProvider
from pytest_django import Settings

from core.providers import registry
from core.providers.agent_library import AgentLibrary
from core.providers.base import (
    Finish,
    ModelRequest,
    ProviderError,
    ThinkingDelta,
    ToolCallDelta,
    Usage,
)
from tests.core.model_server import ModelServer, chunk, hangs, hello, says, sse, streams
from tests.core.test_providers import WORDS, ask, failure, text

PIXEL = "data:image/png;base64,iVBORw0KGgo="
TOOL = {"type": "function", "function": {"name": "f", "description": "d", "parameters": {}}}


@pytest.fixture
async def server() -> AsyncIterator[ModelServer]:
    """A model server."""
    model = ModelServer()
    await model.start()
    yield model
    await model.stop()


@pytest.fixture
async def provider(server: ModelServer) -> AsyncIterator[AgentLibrary]:
    """The provider under test."""
    vendor = OpenAIProvider(base_url=server.url, api_key="sk-secret")
    vendor.client.max_retries = 0  # the gateway itself decides about another try
    yield AgentLibrary(OpenAIChatModel("m", provider=vendor), first_seconds=5, idle_seconds=5)
    await vendor.client.close()


async def test_an_answer_is_streamed(server: ModelServer, provider: AgentLibrary) -> None:
    server.replies = [streams(hello(*WORDS))]
    deltas = await ask(provider)
    assert text(deltas) == "".join(WORDS)
    assert deltas[-2:] == [Usage(5, 2), Finish("stop")]


async def test_what_is_asked_arrives(server: ModelServer, provider: AgentLibrary) -> None:
    server.replies = [streams(hello("ok"))]
    call = {"id": "c", "type": "function", "function": {"name": "f", "arguments": "{}"}}
    picture = {"type": "image_url", "image_url": {"url": PIXEL}}
    remote = {"type": "image_url", "image_url": {"url": "https://example.org/a.png"}}
    request = ModelRequest(
        [
            {"role": "system", "content": "be kind"},
            {"role": "user", "content": [{"type": "text", "text": "hi"}, picture, remote]},
            {"role": "assistant", "content": "let me see", "tool_calls": [call]},
            {"role": "tool", "tool_call_id": "c", "content": "42"},
            {"role": "user", "content": "and?"},
        ],
        [TOOL],
        options={"temperature": 0.5},
    )
    await ask(provider, request)
    [body] = server.requests
    roles = [each["role"] for each in body["messages"]]
    assert roles == ["system", "user", "assistant", "tool", "user"]
    assert [part["type"] for part in body["messages"][1]["content"]] == [
        "text",
        "image_url",
        "image_url",
    ]
    assert body["messages"][2]["tool_calls"][0]["function"]["name"] == "f"
    assert body["messages"][3]["content"] == "42"
    assert body["tools"][0]["function"]["name"] == "f"
    assert body["temperature"] == 0.5


async def test_tool_calls_and_reasoning_are_told_apart(
    server: ModelServer, provider: AgentLibrary
) -> None:
    first = {"index": 0, "id": "c1", "function": {"name": "f", "arguments": '{"a"'}}
    more = {"index": 0, "function": {"arguments": ": 1}"}}
    server.replies = [
        streams(
            sse(
                chunk({"reasoning_content": "let me "}),
                chunk({"reasoning_content": "think"}),
                chunk({"tool_calls": [first]}),
                chunk({"tool_calls": [more]}),
                chunk(finish="tool_calls"),
            )
        )
    ]
    deltas = await ask(provider, ModelRequest([{"role": "user", "content": "hi"}], [TOOL]))
    thoughts = [delta.text for delta in deltas if isinstance(delta, ThinkingDelta)]
    assert "".join(thoughts) == "let me think"
    calls = [delta for delta in deltas if isinstance(delta, ToolCallDelta)]
    assert (calls[0].id, calls[0].name) == ("c1", "f")
    assert "".join(call.arguments for call in calls) == '{"a": 1}'
    assert deltas[-1] == Finish("tool_calls")


@pytest.mark.parametrize(
    ("status", "code"), [(401, "unauthorised"), (429, "rate_limited"), (500, "server")]
)
async def test_each_refusal_has_its_clear_message(
    status: int, code: str, server: ModelServer, provider: AgentLibrary
) -> None:
    server.replies = [says(status)]
    assert (await failure(provider)).code == code


async def test_nobody_listening_is_a_failure(server: ModelServer, provider: AgentLibrary) -> None:
    await server.stop()
    assert (await failure(provider)).code == "unreachable"


async def test_a_model_that_hangs_times_out(server: ModelServer) -> None:
    server.replies = [hangs()]
    vendor = OpenAIProvider(base_url=server.url, api_key="k")
    hasty = AgentLibrary(OpenAIChatModel("m", provider=vendor), first_seconds=0.2, idle_seconds=0.2)
    assert (await failure(hasty)).code == "timeout"
    await vendor.client.close()


def test_a_vendor_that_is_not_installed_is_said(settings: Settings) -> None:
    settings.LLM_PROVIDER = "nobody:nothing"
    with pytest.raises(ProviderError) as caught:
        registry.build()
    assert caught.value.code == "setup"


def test_a_vendor_is_found_by_name(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-secret")
    settings.LLM_PROVIDER = "openai-chat:gpt-x"
    assert isinstance(registry.build(), AgentLibrary)
