"""The checks of a request to ``/v1/responses``, field by field, item by item, tool by tool."""

import json
from typing import Any

import pytest
from openai.types.responses.response_create_params import (
    ResponseCreateParamsBase,
    ResponseCreateParamsStreaming,
)
from pytest_django import Settings

from channels_app.asgi.http import RefusedError
from channels_app.client_api.responses import fields, items, tools
from channels_app.client_api.responses.items import Reader
from gateway_project.home import BASE_DIR
from tests.people import PIXEL

Json = dict[str, Any]
GRAMMAR = {"type": "grammar", "syntax": "lark", "definition": 'start: "x"'}
NAMESPACE = {"type": "namespace", "name": "n"}
SHELL = {"type": "local_shell"}


def body(**more: Any) -> Json:
    """Return a request."""
    return {"model": "default", "input": "x", **more}


def messages(*given: Any, offered: Any = None) -> list[Json]:
    """Return the messages of items."""
    reader = Reader(kinds=tools.read(offered).kinds)
    reader.read(list(given))
    return reader.messages


def test_w10_every_field_of_the_api_has_its_place_in_the_documentation() -> None:
    """[W10] Those that the official client can send, as docs/http.md says."""
    document = (BASE_DIR / "docs" / "http.md").read_text()
    section = document.split("### `/v1/responses`")[1].split("\n### ")[0]
    sent = {
        *ResponseCreateParamsBase.__annotations__,
        *ResponseCreateParamsStreaming.__annotations__,
    }
    for name in sorted({*sent, *fields.READ_HERE, *fields.HINTS, *fields.INSTEAD}):
        assert f"`{name}`" in section, name
    known = fields.READ_HERE | fields.HINTS
    for name in sorted(sent - known):
        with pytest.raises(RefusedError) as caught:
            fields.read(body(**{name: {"a": 1}}))
        assert caught.value.field == name


@pytest.mark.parametrize(
    ("more", "field"),
    [
        ({"model": ""}, "model"),
        ({"background": True, "store": False}, "background"),
        ({"background": 1}, "background"),
        ({"store": "no"}, "store"),
        ({"stream": 1}, "stream"),
        ({"stream_options": 1}, "stream_options"),
        ({"instructions": 5}, "instructions"),
        ({"previous_response_id": 5}, "previous_response_id"),
        ({"conversation": "conv_1"}, "conversation"),
        ({"prompt": {"id": "p"}}, "prompt"),
        ({"max_tokens": 5}, "max_tokens"),
        ({"max_tool_calls": 5}, "max_tool_calls"),
        ({"truncation": "yes"}, "truncation"),
        ({"include": ["message.output_text.logprobs"]}, "include"),
        ({"include": "x"}, "include"),
        ({"top_logprobs": 3}, "top_logprobs"),
        ({"temperature": 3}, "temperature"),
        ({"top_p": -1}, "top_p"),
        ({"max_output_tokens": 0}, "max_output_tokens"),
        ({"parallel_tool_calls": 1}, "parallel_tool_calls"),
        ({"reasoning": 1}, "reasoning"),
        ({"reasoning": {"effort": 1}}, "reasoning.effort"),
        ({"text": 1}, "text"),
        ({"text": {"format": {"type": "x"}}}, "text.format.type"),
        ({"text": {"format": {"type": "json_schema"}}}, "text.format.name"),
        ({"text": {"format": {"type": "json_schema", "name": "n"}}}, "text.format.schema"),
        ({"metadata": {"a": 1}}, "metadata"),
        ({"metadata": {"a": "x" * 513}}, "metadata"),
        ({"metadata": {str(number): "" for number in range(17)}}, "metadata"),
        ({"user": 5}, "user"),
        ({"tools": 5}, "tools"),
        ({"tools": [5]}, "tools[0].type"),
        ({"tools": [{"type": []}]}, "tools[0].type"),
        ({"tools": [{"type": {}}]}, "tools[0].type"),
        ({"tools": [{"type": "file_search"}]}, "tools[0].type"),
        ({"tools": [{"type": "function"}]}, "tools[0].name"),
        ({"tools": [{"type": "function", "name": "f", "strict": 1}]}, "tools[0].strict"),
        ({"tools": [{"type": "function", "name": "f", "parameters": 1}]}, "tools[0].parameters"),
        ({"tools": [{"type": "function", "name": "f"}] * 2}, "tools[1]"),
        ({"tools": [{"type": "custom", "name": "f", "format": 1}]}, "tools[0].format"),
        ({"tools": [NAMESPACE]}, "tools[0].tools"),
        (
            {"tools": [{"type": "namespace", "name": "n", "tools": [SHELL]}]},
            "tools[0].tools[0].type",
        ),
        ({"tool_choice": "required"}, "tool_choice"),
        ({"tool_choice": {"type": "function", "name": "f"}}, "tool_choice"),
        ({"tool_choice": {"type": "web_search"}}, "tool_choice"),
        (
            {"tool_choice": {"type": "allowed_tools", "tools": [], "mode": {"type": "function"}}},
            "tool_choice.mode",
        ),
        ({"nonsense\u00e9": 5}, "nonsense\\xe9"),
    ],
)
def test_w16_a_wrong_field_is_named(more: Json, field: str) -> None:
    """[W16] By its path; nothing is dropped."""
    with pytest.raises(RefusedError) as caught:
        fields.read(body(**more))
    assert (caught.value.status, caught.value.field) == (400, field)


@pytest.mark.parametrize(
    ("item", "field"),
    [
        (5, "input[0].type"),
        ({"type": "web_search_call"}, "input[0].type"),
        ({"type": "item_reference", "id": "msg_x"}, "input[0].id"),
        ({"role": "tool", "content": "x"}, "input[0].role"),
        ({"role": "user"}, "input[0].content"),
        ({"role": "user", "content": [5]}, "input[0].content[0].type"),
        ({"role": "user", "content": [{"type": "input_audio"}]}, "input[0].content[0].type"),
        ({"role": "user", "content": [{"type": "input_text"}]}, "input[0].content[0].text"),
        ({"role": "user", "content": [{"type": "input_image"}]}, "input[0].content[0].image_url"),
        (
            {
                "role": "user",
                "content": [{"type": "input_file", "file_url": "https://e.org/a.pdf"}],
            },
            "input[0].content[0].file_url",
        ),
        (
            {"role": "user", "content": [{"type": "input_file", "file_data": "x"}]},
            "input[0].content[0].file_data",
        ),
        (
            {"role": "user", "content": [{"type": "input_file", "file_id": "file-abc123"}]},
            "input[0].content[0].file_id",
        ),
        (
            {"role": "user", "content": [{"type": "input_image", "file_id": "file-abc123"}]},
            "input[0].content[0].file_id",
        ),
        (
            {"role": "system", "content": [{"type": "input_image", "image_url": PIXEL}]},
            "input[0].content[0].type",
        ),
        ({"type": "function_call", "call_id": "c", "name": "a b"}, "input[0].name"),
        ({"type": "function_call", "call_id": "c", "name": "f"}, "input[0].arguments"),
        ({"type": "function_call", "name": "f", "arguments": "{}"}, "input[0].call_id"),
        ({"type": "function_call_output", "call_id": "c", "output": "x"}, "input[0].call_id"),
        ({"type": "local_shell_call", "call_id": "c", "action": 5}, "input[0].action"),
    ],
)
def test_w16_a_wrong_item_is_named(item: Any, field: str) -> None:
    """[W16] By its place in the input."""
    with pytest.raises(RefusedError) as caught:
        messages(item)
    assert caught.value.field == field


def test_w12_calls_and_their_results_become_messages() -> None:
    """[W12] Parallel calls are one message, with the text before them; reasoning is left out;
    pictures of a result follow it.
    """
    picture = {"type": "input_image", "image_url": PIXEL}
    found = messages(
        {"role": "user", "content": [{"type": "input_text", "text": "look"}]},
        {"type": "reasoning", "summary": [], "encrypted_content": "x"},
        {
            "type": "message",
            "role": "assistant",
            "content": [{"type": "output_text", "text": "Yes"}],
        },
        {"type": "function_call", "call_id": "a", "name": "f", "arguments": "{}"},
        {"type": "function_call", "call_id": "b", "name": "g", "arguments": "{}"},
        {"type": "function_call_output", "call_id": "a", "output": [picture]},
        {"type": "function_call_output", "call_id": "b", "output": "two"},
        {"role": "developer", "content": "be quick"},
    )
    calls = [
        {"id": each, "type": "function", "function": {"name": name, "arguments": "{}"}}
        for each, name in (("a", "f"), ("b", "g"))
    ]
    assert found == [
        {"role": "user", "content": "look"},
        {"role": "assistant", "content": "Yes", "tool_calls": calls},
        {"role": "tool", "tool_call_id": "a", "content": "(a picture)"},
        {"role": "tool", "tool_call_id": "b", "content": "two"},
        {
            "role": "user",
            "content": [
                {"type": "text", "text": items.PICTURES},
                {"type": "image_url", "image_url": {"url": PIXEL}},
            ],
        },
        {"role": "system", "content": "be quick"},
    ]


def test_w19_tools_that_are_no_functions_become_functions_and_their_calls_come_back() -> None:
    """[W19] Custom tools with their grammar, tools of a namespace, the client's shell; web search
    of OpenAI's servers is left out.
    """
    offered = tools.read(
        [
            {"type": "custom", "name": "apply_patch", "description": "Patch.", "format": GRAMMAR},
            {"type": "namespace", "name": "mcp", "tools": [{"type": "function", "name": "read"}]},
            SHELL,
            {"type": "web_search", "external_web_access": True},
        ]
    )
    functions = {each["function"]["name"]: each["function"] for each in offered.functions}
    assert set(functions) == {"apply_patch", "mcp__read", "local_shell"}
    assert functions["apply_patch"]["description"].endswith('(lark):\nstart: "x"')
    kinds = offered.kinds
    patch = kinds.item("fc_1", "c1", "apply_patch", json.dumps({"input": "*** Begin"}))
    assert patch["type"] == "custom_tool_call"
    assert (patch["name"], patch["input"]) == ("apply_patch", "*** Begin")
    raw = kinds.item("fc_1", "c1", "apply_patch", "*** no JSON")
    assert raw["type"] == "custom_tool_call"
    assert raw["input"] == "*** no JSON"
    read = kinds.item("fc_2", "c2", "mcp__read", "{}")
    assert read["type"] == "function_call"
    assert (read["name"], read["namespace"], read["arguments"]) == ("read", "mcp", "{}")
    shell = kinds.item("fc_3", "c3", "local_shell", '{"command": ["ls"], "timeout_ms": 5}')
    assert shell["type"] == "local_shell_call"
    assert shell["action"] == {"type": "exec", "command": ["ls"], "env": {}, "timeout_ms": 5}
    back = Reader(kinds=kinds)
    back.read([patch, read, shell])
    assert [each["function"]["name"] for each in back.messages[0]["tool_calls"]] == [*functions]
    back.read([{"type": "local_shell_call_output", "id": "c3", "output": "a.txt"}])
    assert back.messages[-1]["content"] == "a.txt"
    shown = tools.shown(offered.functions, kinds)
    assert [each["type"] for each in shown] == ["custom", "function", "local_shell"]


def test_w16_too_many_tools_are_refused_before_they_are_read(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """[W16] In one list, in one namespace, and over all namespaces."""
    read: list[str] = []
    named = tools.named

    def counted(value: Json, where: str, namespace: str) -> str:
        read.append(where)
        return named(value, where, namespace)

    monkeypatch.setattr(tools, "named", counted)
    many: list[Json] = [{"type": "function", "name": f"f{number}"} for number in range(5000)]
    spread = [
        {"type": "namespace", "name": f"n{start}", "tools": many[start : start + 100]}
        for start in range(0, 5000, 100)
    ]
    inside = [{"type": "namespace", "name": "n", "tools": many}]
    for given, field, most in (
        (many, "tools", 0),
        (inside, "tools[0].tools", 0),
        (spread, "tools", 129),
    ):
        read.clear()
        with pytest.raises(RefusedError) as caught:
            tools.read(given)
        assert (caught.value.status, caught.value.field) == (400, field)
        assert len(read) <= most
    assert len(tools.read(many[:128]).functions) == 128
    offered = tools.read(many[:3])
    with pytest.raises(RefusedError) as caught:
        tools.choice({"type": "allowed_tools", "mode": "auto", "tools": many}, offered)
    assert caught.value.field == "tool_choice.tools"


def test_w19_a_choice_of_tools_is_kept() -> None:
    """[W19] One tool, some of them, none."""
    given = [{"type": "function", "name": name} for name in "ab"]
    offered = tools.read(given)
    wanted = tools.choice({"type": "function", "name": "b"}, offered)
    assert wanted == {"type": "function", "function": {"name": "b"}}
    allowed = {"type": "allowed_tools", "mode": "required", "tools": given[:1]}
    assert tools.choice(allowed, offered) == "required"
    assert [each["function"]["name"] for each in offered.functions] == ["a"]
    assert tools.choice("none", offered) is None
    assert offered.functions == []


NESTED = {"type": "namespace", "name": "n", "tools": [{"type": "function", "name": "f"}]}


@pytest.mark.parametrize(
    ("sent", "kept"),
    [
        ({"tool_choice": "auto"}, "auto"),
        ({"tool_choice": "none"}, "none"),
        ({"tool_choice": "required"}, "required"),
        (
            {"tool_choice": {"type": "function", "name": "a", "more": ["x"]}},
            {"type": "function", "name": "a"},
        ),
        (
            {"tool_choice": {"type": "custom", "name": "c", "more": 1}},
            {"type": "custom", "name": "c"},
        ),
        (
            {"tool_choice": {"type": "function", "name": "f", "namespace": "n"}},
            {"type": "function", "name": "f", "namespace": "n"},
        ),
        ({"tool_choice": {"type": "local_shell", "more": 1}}, {"type": "local_shell"}),
        (
            {
                "tool_choice": {
                    "type": "allowed_tools",
                    "mode": "required",
                    "tools": [{"type": "function", "name": "a", "more": 1}, SHELL],
                    "more": 1,
                }
            },
            {
                "type": "allowed_tools",
                "mode": "required",
                "tools": [{"type": "function", "name": "a"}, SHELL],
            },
        ),
        ({"text": {}}, {"format": {"type": "text"}}),
        (
            {"text": {"format": {"type": "json_object", "more": 1}, "verbosity": "low", "more": 1}},
            {"format": {"type": "json_object"}, "verbosity": "low"},
        ),
        (
            {"text": {"format": {"type": "json_schema", "name": "n", "schema": {}, "more": 1}}},
            {"format": {"type": "json_schema", "name": "n", "schema": {}}},
        ),
    ],
)
def test_w10_a_response_repeats_the_checked_values_and_no_more(sent: Json, kept: Any) -> None:
    """[W10] Unknown members of ``text`` and ``tool_choice`` are not stored."""
    offered = [
        {"type": "function", "name": "a"},
        {"type": "custom", "name": "c"},
        NESTED,
        SHELL,
    ]
    (name,) = sent
    assert fields.read(body(tools=offered, **sent)).repeated == {name: kept}


def test_w10_options_reach_the_model_under_the_names_of_chat_completions(
    settings: Settings,
) -> None:
    """[W10] A provider of the agent library gets the format, and no hints."""
    settings.LLM_PROVIDER = "openai-compatible"
    form = {"type": "json_schema", "name": "n", "schema": {"type": "object"}, "strict": True}
    more = {
        "tools": [{"type": "function", "name": "f", "strict": True}],
        "parallel_tool_calls": False,
        "max_output_tokens": 50,
        "reasoning": {"effort": "low", "summary": "auto"},
        "text": {"format": form, "verbosity": "low"},
        "service_tier": "flex",
    }
    assert fields.read(body(**more)).options == {
        "max_tokens": 50,
        "parallel_tool_calls": False,
        "service_tier": "flex",
        "reasoning_effort": "low",
        "verbosity": "low",
        "response_format": {
            "type": "json_schema",
            "json_schema": {"name": "n", "schema": {"type": "object"}, "strict": True},
        },
    }
    settings.LLM_PROVIDER = "anthropic:claude"
    found = fields.read(body(**more)).options
    assert set(found) == {"max_tokens", "parallel_tool_calls", "response_format"}
