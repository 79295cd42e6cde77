"""The clients from npm, under Node, against a running gateway."""

import pytest

from tests.clients.conftest import Script

pytestmark = pytest.mark.slow
both = pytest.mark.parametrize(
    "packages", [".", "previous"], indirect=True, ids=["newest", "before"]
)

PARIS = "Paris is the capital."


@both
def test_the_official_javascript_client_works(run_script: Script) -> None:
    """[D5] [M3] ``openai``: create, stream, ``.stream()``, tools, usage, errors, models."""
    found = run_script("openai.mjs")
    for text in (
        found["created"]["content"],
        found["streamed"],
        found["helped"]["message"]["content"],
    ):
        assert PARIS in text
        assert "![A pixel](data:image/png" in text
        assert "[Paris](https://example.org/paris)" in text
    assert "Let me think." in found["created"]["reasoning_content"]
    assert found["usage"]["total_tokens"] > 0
    assert found["streamed_usage"]["total_tokens"] > 0
    assert found["helped"]["finish_reason"] == "stop"
    assert found["called"]["finish_reason"] == "tool_calls"
    call = found["called"]["message"]["tool_calls"][0]["function"]
    assert call["arguments"] == '{"city":"Paris"}'
    assert found["after_tool"] == "It is sunny."
    assert found["unknown_model"]["name"] == "NotFoundError"
    assert found["unknown_model"]["code"] == "model_not_found"
    assert found["broken"]["status"] == 502
    assert "It broke" in found["broken_stream"]["message"]
    assert found["models"] == ["default"]


@both
def test_w11_the_official_javascript_client_works_with_responses(run_script: Script) -> None:
    """[W11] [W14] ``openai``: create, stream, ``.stream()``, tools, background, errors."""
    found = run_script("responses.mjs")
    for text in (found["created"], found["streamed"], found["helped"]):
        assert PARIS in text
        assert "[Paris](https://example.org/paris)" in text
    assert found["kinds"] == ["reasoning", "message"]
    assert found["annotations"][0]["url"] == "https://example.org/paris"
    assert found["usage"]["total_tokens"] > 0
    assert (found["called"]["type"], found["called"]["arguments"]) == (
        "function_call",
        '{"city":"Paris"}',
    )
    assert found["after_tool"] == "It is sunny."
    assert found["background"] == "one two three four"
    assert found["cancelled"] == "cancelled"
    assert found["items"] == ["hang"]
    assert found["deleted"]["name"] == "NotFoundError"
    assert found["broken"]["status"] == 502


@pytest.mark.parametrize("api", ["chat", "responses"])
@both
def test_the_ai_sdk_works_over_both_apis_of_openai(run_script: Script, api: str) -> None:
    """[D5] [M3] [W12] ``ai`` with ``@ai-sdk/openai``: text, stream, a tool it runs, errors."""
    found = run_script("ai_openai.mjs", api)
    assert PARIS in found["text"]
    assert PARIS in found["streamed"]
    assert found["finish"] == found["streamed_finish"] == "stop"
    assert found["sources"] == ["https://example.org/paris"]
    assert found["usage"]["totalTokens"] > 0
    assert found["tool_results"] == ["sunny in Paris"]
    assert found["tool_text"] == "It is sunny."
    assert found["errors_before"] == []
    assert "It broke" in found["errors"][0]


@both
def test_the_ai_sdk_reads_the_ui_message_stream(run_script: Script) -> None:
    """[M3] ``ai``: the default transport of ``useChat`` with every kind of part, resume, idle."""
    found = run_script("ui.mjs")
    everything = found["everything"]
    assert everything["errors"] == []
    kinds = {part["type"] for part in everything["message"]["parts"]}
    assert {"reasoning", "dynamic-tool", "source-url", "source-document", "file", "text"} <= kinds
    assert {"data-retrieval", "data-error", "data-chart"} <= kinds
    assert found["broken"]["errors"] == ["It broke"]
    call = found["called"]["message"]["parts"][-1]
    assert (call["type"], call["state"]) == ("tool-get_weather", "input-available")
    assert found["idle"] is None
    assert found["resumed"]["message"]["parts"][-1]["text"] == "one two three four"
