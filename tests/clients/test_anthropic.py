"""The official Python client of the Messages API against a running gateway, in its strict mode."""

from collections.abc import Iterator

import anthropic
import pytest
from anthropic import beta_tool
from anthropic.types import MessageParam, ToolParam

from tests import people
from tests.gateways import Gateway

pytestmark = pytest.mark.slow

PARIS = "Paris is the capital."
TOOL: ToolParam = {
    "name": "get_weather",
    "input_schema": {"type": "object", "properties": {"city": {"type": "string"}}},
}


@pytest.fixture
def client(scripted: Gateway, token: str) -> Iterator[anthropic.Anthropic]:
    """Yield the client; it knows the address and the key only, and refuses any other form."""
    with anthropic.Anthropic(
        base_url=scripted.base_url, api_key=token, max_retries=0, _strict_response_validation=True
    ) as made:
        yield made


def said(text: str) -> list[MessageParam]:
    """Return a conversation of one message."""
    return [{"role": "user", "content": text}]


def test_w34_create(client: anthropic.Anthropic) -> None:
    """[W34] One message with its blocks and usage."""
    answer = client.messages.create(
        model="default",
        max_tokens=1000,
        messages=said("everything"),
        thinking={"type": "enabled", "budget_tokens": 1024},
    )
    text = "".join(block.text for block in answer.content if block.type == "text")
    assert PARIS in text
    assert people.PIXEL in text
    assert answer.content[0].type == "thinking"
    assert answer.stop_reason == "end_turn"
    assert answer.usage.output_tokens > 0
    assert answer._request_id


def test_w34_stream(client: anthropic.Anthropic) -> None:
    """[W34] The accumulator adds the events up to the same message, which comes back as it is."""
    with client.messages.stream(
        model="default",
        max_tokens=1000,
        messages=said("everything"),
        thinking={"type": "adaptive"},
    ) as stream:
        text = "".join(stream.text_stream)
        final = stream.get_final_message()
    assert PARIS in text
    assert final.content[0].type == "thinking"
    assert final.content[0].signature
    assert final.stop_reason == "end_turn"
    assert final.usage.input_tokens > 0
    again = client.messages.create(
        model="default",
        max_tokens=100,
        messages=[
            *said("everything"),
            {"role": "assistant", "content": final.content},
            *said("more?"),
        ],
    )
    assert again.content[0].type == "text"
    assert again.content[0].text == "more?"


def test_w34_w28_tools(client: anthropic.Anthropic) -> None:
    """[W34] [W28] A streamed call, and the tool runner, which runs the client's tool."""
    with client.messages.stream(
        model="default", max_tokens=100, messages=said("weather?"), tools=[TOOL]
    ) as stream:
        final = stream.get_final_message()
    assert final.stop_reason == "tool_use"
    assert final.content[0].type == "tool_use"
    assert final.content[0].input == {"city": "Paris"}
    asked: list[str] = []

    @beta_tool
    def get_weather(city: str) -> str:
        """Tell the weather of a city."""
        asked.append(city)
        return "sunny"

    runner = client.beta.messages.tool_runner(
        model="default",
        max_tokens=100,
        tools=[get_weather],
        messages=[{"role": "user", "content": "weather?"}],
    )
    last = runner.until_done()
    assert asked == ["Paris"]
    assert last.content[0].type == "text"
    assert last.content[0].text == "It is sunny."


def test_w34_w30_w32_errors_and_models(client: anthropic.Anthropic, scripted: Gateway) -> None:
    """[W34] [W30] [W32] Each error is the exception that the client has for it."""
    with pytest.raises(anthropic.InternalServerError, match="It broke") as broken:
        client.messages.create(model="default", max_tokens=10, messages=said("break"))
    assert broken.value.type == "api_error"
    with (
        pytest.raises(anthropic.APIStatusError, match="It broke"),
        client.messages.stream(model="default", max_tokens=10, messages=said("break")) as stream,
    ):
        stream.get_final_message()
    with pytest.raises(anthropic.NotFoundError):
        client.messages.create(model="claude-x", max_tokens=10, messages=said("x"))
    with pytest.raises(anthropic.BadRequestError, match="temperature"):
        client.messages.create(
            model="default", max_tokens=10, messages=said("x"), extra_body={"temperature": 2}
        )
    with pytest.raises(anthropic.RateLimitError):
        client.messages.create(model="default", max_tokens=10, messages=said("busy"))
    unknown = client.with_options(api_key="lk_000000000000_" + "x" * 43)
    with pytest.raises(anthropic.AuthenticationError):
        unknown.models.list()
    assert [model.id for model in client.models.list()] == ["default"]
    assert client.models.retrieve("default").lifecycle == "active"
    counted = client.messages.count_tokens(model="default", messages=said("x"), tools=[TOOL])
    assert counted.input_tokens > 0
    assert scripted.is_healthy()
