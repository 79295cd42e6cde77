"""The official Python client against a running gateway."""

from collections.abc import Iterator

import openai
import pytest
from openai.types.chat import ChatCompletionToolParam

from tests import people
from tests.gateways import Gateway

pytestmark = pytest.mark.slow

PARIS = "Paris is the capital."
TOOL: ChatCompletionToolParam = {
    "type": "function",
    "function": {
        "name": "get_weather",
        "parameters": {"type": "object", "properties": {"city": {"type": "string"}}},
    },
}


@pytest.fixture
def client(scripted: Gateway, token: str) -> Iterator[openai.OpenAI]:
    """Yield the client; it knows the address and the key only."""
    with openai.OpenAI(base_url=f"{scripted.base_url}/v1", api_key=token, max_retries=0) as made:
        yield made


def test_create(client: openai.OpenAI) -> None:
    """[D5] One answer with usage, annotations and reasoning."""
    answer = client.chat.completions.create(
        model="default", messages=[{"role": "user", "content": "everything"}]
    )
    message = answer.choices[0].message
    assert PARIS in (message.content or "")
    assert people.PIXEL in (message.content or "")
    assert message.annotations is not None
    assert message.annotations[0].url_citation.url == "https://example.org/paris"
    assert "Let me think." in (message.model_extra or {})["reasoning_content"]
    assert message.tool_calls is None
    assert answer.usage is not None
    assert answer.usage.total_tokens > 0


def test_stream(client: openai.OpenAI) -> None:
    """[D5] Chunks, and usage in the last one."""
    text, usage = "", 0
    for chunk in client.chat.completions.create(
        model="default",
        messages=[{"role": "user", "content": "everything"}],
        stream=True,
        stream_options={"include_usage": True},
    ):
        text += (chunk.choices[0].delta.content or "") if chunk.choices else ""
        usage += chunk.usage.total_tokens if chunk.usage else 0
    assert PARIS in text
    assert usage > 0


def test_stream_helper_and_tools(client: openai.OpenAI) -> None:
    """[D5] ``.stream()`` assembles the client's tool call; its result is understood."""
    with client.chat.completions.stream(
        model="default", messages=[{"role": "user", "content": "everything"}]
    ) as stream:
        final = stream.get_final_completion()
    assert PARIS in (final.choices[0].message.content or "")
    with client.chat.completions.stream(
        model="default", messages=[{"role": "user", "content": "weather?"}], tools=[TOOL]
    ) as stream:
        choice = stream.get_final_completion().choices[0]
    assert choice.finish_reason == "tool_calls"
    assert choice.message.tool_calls is not None
    call = choice.message.tool_calls[0]
    assert call.function.arguments == '{"city":"Paris"}'
    answer = client.chat.completions.create(
        model="default",
        tools=[TOOL],
        messages=[
            {"role": "user", "content": "weather?"},
            {
                "role": "assistant",
                "tool_calls": [
                    {
                        "id": call.id,
                        "type": "function",
                        "function": {"name": "get_weather", "arguments": "{}"},
                    }
                ],
            },
            {"role": "tool", "tool_call_id": call.id, "content": "sunny"},
        ],
    )
    assert answer.choices[0].message.content == "It is sunny."


def test_errors(client: openai.OpenAI, scripted: Gateway) -> None:
    """[D5] [RO2] Each error is the exception that the client has for it."""
    question: list[openai.types.chat.ChatCompletionMessageParam] = [
        {"role": "user", "content": "break"}
    ]
    with pytest.raises(openai.InternalServerError, match="It broke"):
        client.chat.completions.create(model="default", messages=question)
    with pytest.raises(openai.APIError, match="It broke"):
        for _ in client.chat.completions.create(model="default", messages=question, stream=True):
            pass
    with pytest.raises(openai.NotFoundError) as caught:
        client.chat.completions.create(model="gpt-9", messages=question)
    assert caught.value.code == "model_not_found"
    with pytest.raises(openai.BadRequestError) as wrong:
        client.chat.completions.create(model="default", messages=question, temperature=9)
    assert wrong.value.param == "temperature"
    unknown = client.with_options(api_key="lk_000000000000_" + "x" * 43)
    with pytest.raises(openai.AuthenticationError):
        unknown.models.list()
    assert [model.id for model in client.models.list()] == ["default"]
    assert client.models.retrieve("default").object == "model"
    assert scripted.is_healthy()
