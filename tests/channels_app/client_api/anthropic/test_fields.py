"""The body of ``POST /v1/messages``: the request that it becomes, and refusals by name."""

import base64
import re
from typing import Any

import pytest
from anthropic.types.message_create_params import (
    MessageCreateParamsBase,
    MessageCreateParamsStreaming,
)
from pytest_django import Settings

from channels_app.asgi.http import RefusedError
from channels_app.client_api.anthropic import fields
from tests import ROOT, people

Json = dict[str, Any]
PNG = people.PIXEL.partition(",")[2]
TOOL = {"name": "get_weather", "input_schema": {"type": "object"}, "description": "Weather."}
USE = {"type": "tool_use", "id": "toolu_1", "name": "get_weather", "input": {"city": "Paris"}}


def body(**more: Any) -> Json:
    """Return a request that only differs in ``more``."""
    said = [{"role": "user", "content": "Hello"}]
    return {"model": "default", "max_tokens": 100, "messages": said, **more}


def read(**more: Any) -> fields.Asked:
    """Read such a request."""
    return fields.read(body(**more))


def test_every_field_of_the_api_has_its_place_in_the_documentation() -> None:
    """Those that the official client can send, as docs/http.md says."""
    document = (ROOT / "docs" / "http.md").read_text(encoding="utf-8")
    section = document.split("### `/v1/messages`")[1].split("\n### ")[0]
    known = fields.READ_HERE | fields.NO_EFFECT | fields.ONLY.keys()
    words = set(re.findall(r"`(\w+)", section))
    assert known - words == set()
    sent = {
        *MessageCreateParamsBase.__annotations__,
        *MessageCreateParamsStreaming.__annotations__,
    }
    for name in sorted(sent - known):
        with pytest.raises(RefusedError, match="is not supported"):
            read(**{name: {"a": 1}})
        assert name in words, name


def said(*blocks: Any, role: str = "user") -> Json:
    """Return a message of blocks."""
    return {"role": role, "content": list(blocks)}


def test_w25_the_system_prompt_stays_one_and_stands_first() -> None:
    """[W25] As a string or blocks; one between the messages stays at its place."""
    assert read(system="Be short.").messages[0] == {"role": "system", "content": "Be short."}
    parts = [{"type": "text", "text": "A", "cache_control": {"type": "ephemeral"}}]
    found = read(
        system=[*parts, {"type": "text", "text": "B"}],
        messages=[{"role": "user", "content": "Hi"}, said(*parts, role="system")],
    ).messages
    assert [each["role"] for each in found] == ["system", "user", "system"]
    assert found[0]["content"] == "A\n\nB"


def test_w28_blocks_become_parts_calls_and_results() -> None:
    """[W28] Results of tools stand before what else is said; their pictures follow."""
    picture = {
        "type": "image",
        "source": {"type": "base64", "media_type": "image/png", "data": PNG},
    }
    found = read(
        messages=[
            said({"type": "text", "text": "Look"}, picture),
            said({"type": "text", "text": "I look."}, USE, role="assistant"),
            said(
                {"type": "text", "text": "Well?"},
                {
                    "type": "tool_result",
                    "tool_use_id": "toolu_1",
                    "is_error": True,
                    "content": [{"type": "text", "text": "rain"}, picture],
                },
            ),
        ]
    ).messages
    assert [each["role"] for each in found] == ["user", "assistant", "tool", "user"]
    assert found[0]["content"][1]["image_url"]["url"] == people.PIXEL
    assert found[1]["tool_calls"][0]["function"] == {
        "name": "get_weather",
        "arguments": '{"city": "Paris"}',
    }
    assert found[2]["tool_call_id"] == "toolu_1"
    assert found[2]["content"].startswith("[The tool failed.]\nrain")
    assert [part["type"] for part in found[3]["content"]] == ["text", "image_url"]


def test_w27_thinking_that_comes_back_is_accepted() -> None:
    """[W27] Whole or redacted; it is not sent to the model, and alone it is no message."""
    thinking = {"type": "thinking", "thinking": "Hm.", "signature": "x"}
    redacted = {"type": "redacted_thinking", "data": "x"}
    answer = said(thinking, redacted, {"type": "text", "text": "Yes."}, role="assistant")
    only = said(thinking, role="assistant")
    question = {"role": "user", "content": "Sure?"}
    found = read(messages=[question, answer, question, only, question]).messages
    assert [each["content"] for each in found] == ["Sure?", "Yes.", "Sure?", "Sure?"]


def test_w28_documents_are_files_or_text() -> None:
    """[W28] base64 as a file, text and content as text; a search result as text."""
    data = base64.b64encode(b"%PDF-1.7 ...").decode()
    pdf = {"type": "base64", "media_type": "application/pdf", "data": data}
    found = read(
        messages=[
            said(
                {"type": "document", "source": pdf, "title": "a.pdf", "context": "My paper"},
                {"type": "document", "source": {"type": "text", "data": "plain"}},
                {
                    "type": "document",
                    "title": "B",
                    "source": {"type": "content", "content": "inner"},
                },
                {
                    "type": "search_result",
                    "title": "T",
                    "source": "https://example.org",
                    "content": [{"type": "text", "text": "found"}],
                },
            )
        ]
    ).messages
    parts = found[0]["content"]
    assert parts[1]["file"] == {
        "kind": "file",
        "url": f"data:application/pdf;base64,{data}",
        "name": "a.pdf",
    }
    texts = [part["text"] for part in parts if part["type"] == "text"]
    assert texts[0] == "My paper"
    assert {"plain", "[Document: B]", "inner", "T (https://example.org)\nfound"} <= set(texts)


def test_w29_options_have_the_names_of_the_models_server() -> None:
    """[W29] The options that are passed on, and their names there."""
    asked = read(
        temperature=0.5,
        top_p=0.9,
        top_k=40,
        stop_sequences=["END"],
        tools=[TOOL],
        tool_choice={"type": "any", "disable_parallel_tool_use": True},
        output_config={
            "effort": "low",
            "format": {"type": "json_schema", "schema": {"type": "object"}},
        },
    )
    shape = asked.options.pop("response_format")
    assert shape["json_schema"]["schema"] == {"type": "object"}
    assert asked.options == {
        "max_tokens": 100,
        "temperature": 0.5,
        "top_p": 0.9,
        "top_k": 40,
        "stop": ["END"],
        "tool_choice": "required",
        "parallel_tool_calls": False,
        "reasoning_effort": "low",
    }
    assert asked.tools[0]["function"]["parameters"] == {"type": "object"}


def test_w29_the_choice_of_a_tool() -> None:
    """[W29] auto leaves it to the model, tool names one, none offers none."""
    chosen = read(tools=[TOOL], tool_choice={"type": "tool", "name": "get_weather"})
    assert chosen.options["tool_choice"]["function"]["name"] == "get_weather"
    assert "tool_choice" not in read(tools=[TOOL], tool_choice={"type": "auto"}).options
    assert read(tools=[TOOL], tool_choice={"type": "none"}).tools == []


def test_w29_fields_that_clients_send_by_themselves_change_nothing() -> None:
    """[W29] The fields that Claude Code sends with every request need no support of a model."""
    asked = read(
        cache_control={"type": "ephemeral"},
        service_tier="auto",
        thinking={"type": "adaptive", "display": "omitted"},
        context_management={"edits": [{"type": "clear_thinking_20251015", "keep": "all"}]},
        output_config={"effort": "high"},
        metadata={"user_id": '{"device_id":"%s"}' % ("7" * 300)},
        tools=[{**TOOL, "type": "custom", "defer_loading": True, "cache_control": None}],
    )
    assert asked.options == {"max_tokens": 100}
    assert not asked.shows_thinking


@pytest.mark.parametrize(
    ("thinking", "is_shown"),
    [
        (None, False),
        ({"type": "disabled"}, False),
        ({"type": "enabled", "budget_tokens": 1024}, True),
        ({"type": "adaptive"}, True),
        ({"type": "adaptive", "display": "summarized"}, True),
        ({"type": "enabled", "budget_tokens": 2000, "display": "omitted"}, False),
    ],
)
def test_w27_thinking_is_shown_when_asked_for(thinking: Json | None, *, is_shown: bool) -> None:
    """[W27] By the field ``thinking``."""
    assert read(thinking=thinking).shows_thinking is is_shown


WRONG: list[tuple[Json, str]] = [
    ({"model": 5}, "model"),
    ({"max_tokens": None}, "max_tokens"),
    ({"max_tokens": 0}, "max_tokens"),
    ({"messages": []}, "messages"),
    ({"messages": [{"role": "robot", "content": "x"}]}, "messages[0].role"),
    ({"messages": [{"role": "user", "content": 5}]}, "messages[0].content"),
    ({"messages": [{"role": "user", "content": [5]}]}, "messages[0].content[0]"),
    ({"messages": [said({"type": "audio"})]}, "messages[0].content[0].type"),
    ({"messages": [said({"type": "text"})]}, "messages[0].content[0].text"),
    ({"messages": [said(USE)]}, "messages[0].content[0].type"),
    (
        {"messages": [said({"type": "tool_result", "tool_use_id": "no"})]},
        "messages[0].content[0].tool_use_id",
    ),
    (
        {"messages": [said({"type": "image", "source": {"type": "file", "file_id": "f"}})]},
        "messages[0].content[0].source.type",
    ),
    (
        {"messages": [said({"type": "document", "source": {"type": "url", "url": "https://a"}})]},
        "messages[0].content[0].source.type",
    ),
    ({"messages": [said(role="assistant")]}, "messages"),
    ({"system": [{"type": "image"}]}, "system[0].type"),
    ({"stream": "yes"}, "stream"),
    ({"temperature": 2}, "temperature"),
    ({"top_k": -1}, "top_k"),
    ({"stop_sequences": "END"}, "stop_sequences"),
    ({"thinking": {"type": "deep"}}, "thinking.type"),
    ({"thinking": {"type": "enabled"}}, "thinking.budget_tokens"),
    ({"output_config": {"effort": "huge"}}, "output_config.effort"),
    ({"output_config": {"format": {"type": "xml"}}}, "output_config.format.type"),
    ({"output_config": {"task_budget": {}}}, "output_config.task_budget"),
    ({"tools": {}}, "tools"),
    ({"tools": [{"name": "x"}]}, "tools[0].input_schema"),
    ({"tools": [TOOL, TOOL]}, "tools"),
    ({"tools": [{"type": "web_search_20250305", "name": "web_search"}]}, "tools[0].type"),
    ({"tools": [{**TOOL, "allowed_callers": ["x"]}]}, "tools[0].allowed_callers"),
    ({"tool_choice": {"type": "any"}}, "tool_choice"),
    ({"tool_choice": {"type": "some"}}, "tool_choice.type"),
    ({"tools": [TOOL], "tool_choice": {"type": "tool", "name": "x"}}, "tool_choice"),
    ({"metadata": {"user_id": 5}}, "metadata.user_id"),
    ({"service_tier": "priority"}, "service_tier"),
    ({"speed": "fast"}, "speed"),
    ({"container": "c"}, "container"),
    ({"mcp_servers": []}, "mcp_servers"),
    (
        {"context_management": {"edits": [{"type": "clear_tool_uses_20250919"}]}},
        "context_management.edits[0].type",
    ),
]  # fmt: skip


@pytest.mark.parametrize(("more", "field"), WRONG)
def test_w29_fields_without_effect_here_are_refused_by_name(more: Json, field: str) -> None:
    """[W29] With the path of the field."""
    with pytest.raises(RefusedError) as caught:
        read(**more)
    assert caught.value.status == 400
    assert caught.value.field == field
    assert str(caught.value).startswith(field)


def test_w29_a_provider_of_the_library_refuses_other_options(settings: Any) -> None:
    """[W29] By the name that the client gave them."""
    settings.LLM_PROVIDER = "anthropic:x"
    assert read(stop_sequences=["END"]).options["stop"] == ["END"]
    form = {"type": "json_schema", "schema": {"type": "object"}}
    assert read(output_config={"format": form}).options["response_format"]
    with pytest.raises(RefusedError, match="top_k is not supported"):
        read(top_k=5)
    with pytest.raises(RefusedError, match=r"output_config\.effort is not supported"):
        read(output_config={"effort": "low"})


def test_w32_tokens_are_estimated() -> None:
    """[W32] Messages, pictures and tools; without a limit of the answer."""
    short = fields.tokens(fields.read(body(max_tokens=None), counts=True))
    more = fields.tokens(read(system="word " * 100, tools=[TOOL]))
    assert 0 < short < more


def test_w28_a_long_chat_keeps_its_newest_pictures(settings: Settings) -> None:
    """[W28] An agent that looks at its screen sends each picture again with every request."""
    settings.MAX_ATTACHMENTS = 2
    source = {"type": "base64", "media_type": "image/png", "data": PNG}
    result = {"type": "tool_result", "tool_use_id": "toolu_1"}
    screen = said({**result, "content": [{"type": "image", "source": source}]})
    turn = [said(USE, role="assistant"), screen]
    found = read(messages=[said({"type": "text", "text": "Look"}), *turn * 4]).messages
    screens = [each["content"] for each in found if each["role"] == "user"][1:]
    kinds = [parts[0]["type"] for parts in screens]
    assert kinds == ["text", "text", "image_url", "image_url"]


ADVISOR = {"type": "advisor_20260301", "name": "advisor", "model": "x"}
EDIT = {"type": "clear_tool_uses_20250919"}
ADDED = {"type": "tool_addition", "tools": []}
FOUND = {"type": "tool_result", "tool_use_id": "toolu_1", "content": [ADDED]}


@pytest.mark.parametrize(
    ("more", "kind"),
    [
        ({"tools": [ADVISOR]}, "advisor_20260301"),
        ({"context_management": {"edits": [EDIT]}}, "clear_tool_uses_20250919"),
        ({"messages": [said(ADDED)]}, "tool_addition"),
        ({"messages": [said(ADDED, role="assistant")]}, "tool_addition"),
        ({"messages": [said(ADDED, role="system")]}, "tool_addition"),
        ({"messages": [said(USE, role="assistant"), said(FOUND)]}, "tool_addition"),
        ({"tools": [{"type": "é'" * 99, "name": "x"}]}, "\\xe9'" * 32),
    ],
)
def test_a_type_that_is_not_known_is_named_in_the_words_of_the_api(more: Json, kind: str) -> None:
    """Claude Code looks for them, and asks again without the feature that has this type."""
    with pytest.raises(RefusedError) as caught:
        read(**more)
    assert f"Input tag '{kind}'" in str(caught.value)
