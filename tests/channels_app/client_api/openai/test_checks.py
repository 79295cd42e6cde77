"""The checks of messages, tools and pictures, one by one."""

import base64
import json
from collections.abc import Callable
from typing import Any

import pytest
from openai.types.chat.completion_create_params import CompletionCreateParamsBase
from pytest_django import Settings

from channels_app.asgi import chat_messages, chat_tools, images
from channels_app.asgi.http import RefusedError
from channels_app.client_api.anthropic import content
from channels_app.client_api.openai import fields
from channels_app.client_api.responses import items
from core.lib.safe_fetch import Fetched, FetchError
from core.providers import agent_library
from gateway_project.home import BASE_DIR
from tests.people import PIXEL

Json = dict[str, Any]
TEXT = {"type": "text", "text": "Look"}
LEFT_OUT = {"type": "text", "text": "[a picture of an earlier message]"}
CALL = {"id": "c1", "type": "function", "function": {"name": "f", "arguments": "{}"}}


def said(content: Any) -> Json:
    """Return a user message."""
    return {"role": "user", "content": content}


@pytest.mark.parametrize(
    ("messages", "field"),
    [
        ("x", "messages"),
        (["x"], "messages[0]"),
        ([{"role": ["user"], "content": "x"}], "messages[0].role"),
        ([said("")], "messages"),
        ([said("a\x00b")], "messages[0].content"),
        ([said("\ud800")], "messages[0].content"),
        ([said(["x"])], "messages[0].content[0].type"),
        ([said([{"type": "input_audio"}])], "messages[0].content[0].type"),
        ([said([{"type": "text"}])], "messages[0].content[0].text"),
        ([said([{"type": "image_url", "image_url": 5}])], "messages[0].content[0].image_url"),
        (
            [{"role": "system", "content": [{"type": "image_url", "image_url": {"url": PIXEL}}]}],
            "messages[0].content[0].type",
        ),
        ([{"role": "assistant", "tool_calls": 5}], "messages[0].tool_calls"),
        ([{"role": "assistant", "tool_calls": [5]}], "messages[0].tool_calls[0]"),
        (
            [{"role": "assistant", "tool_calls": [{**CALL, "id": 5}]}],
            "messages[0].tool_calls[0].id",
        ),
        (
            [{"role": "assistant", "tool_calls": [{**CALL, "function": {"name": "a b"}}]}],
            "messages[0].tool_calls[0].function.name",
        ),
        ([{"role": "tool", "tool_call_id": "c1", "content": "x"}], "messages[0].tool_call_id"),
    ],
)
def test_a_wrong_message_is_named(messages: Any, field: str) -> None:
    """[RO11] By its path."""
    with pytest.raises(RefusedError) as caught:
        chat_messages.checked(messages)
    assert (caught.value.status, caught.value.field) == (400, field)


BIN = "a\x00b\ud800"
BIN_CALL = {"type": "function", "function": {"name": "x", "arguments": BIN}}


@pytest.mark.parametrize(
    "body",
    [
        {"messages": [{"role": "tool", "content": BIN}]},
        {"messages": [{"role": "tool", "content": [{"type": "text", "text": BIN}]}]},
        {"messages": [said([{"type": "tool_result", "content": [{"type": "text", "text": BIN}]}])]},
        {
            "messages": [
                {"role": "assistant", "parts": [{"type": "tool-cat", "output": {"a": BIN}}]}
            ]
        },
        {"message": {"parts": [{"type": "dynamic-tool", "errorText": BIN}]}},
        {"messages": [{"role": "tool", "content": "", "error": BIN}]},
        {"messages": [said([{"type": "tool_use", "name": "x", "input": {"a": [BIN]}}])]},
        {"messages": [{"role": "assistant", "parts": [{"type": "tool-cat", "input": {"a": BIN}}]}]},
        {"message": {"parts": [{"type": "dynamic-tool", "rawInput": BIN, "input": BIN}]}},
        {"input": [{"type": "custom_tool_call", "name": "x", "input": BIN}]},
        {"input": [{"type": "function_call", "name": "x", "arguments": BIN}]},
        {"messages": [{"role": "assistant", "tool_calls": [BIN_CALL]}]},
        {"messages": [{"role": "assistant", "toolCalls": [BIN_CALL]}]},
        {"input": [{"type": "function_call_output", "output": BIN}]},
        {"input": [{"type": "custom_tool_call_output", "output": [{"text": BIN}]}]},
    ],
)
def test_the_call_and_the_result_of_a_clients_tool_are_cleaned(body: Json) -> None:
    """[RO11] In each protocol. A model writes and a terminal prints anything, and the next request
    has it again.
    """
    raw = json.dumps(body).encode()
    assert chat_messages.parse_body(raw) == json.loads(
        raw.replace(b"\\u0000", b"").replace(b"\\ud800", b"\\ufffd")
    )


@pytest.mark.parametrize(
    "body",
    [
        {"messages": [said(BIN)]},
        {"messages": [{"role": "tool", "tool_call_id": BIN, "content": "x"}]},
        {"messages": [{"role": "assistant", "content": BIN}]},
        {"input": BIN},
        {"input": [{"type": "message", "content": [{"type": "input_text", "text": BIN}]}]},
    ],
)
def test_other_texts_that_are_none_are_refused(body: Json) -> None:
    """[RO11] By their path."""
    with pytest.raises(RefusedError, match="not text"):
        chat_messages.parse_body(json.dumps(body).encode())


@pytest.mark.parametrize("value", [5, [5], [said(5)], [said([5])], [{"parts": "x"}], [[5]]])
def test_a_body_of_any_shape_is_parsed(value: Any) -> None:
    for body in ({"messages": value}, {"input": value}):
        assert chat_messages.parse_body(json.dumps(body).encode()) == body


def test_too_much_is_413() -> None:
    """Messages, pictures, characters."""
    picture = {"type": "image_url", "image_url": PIXEL}
    for messages in (
        [said("x")] * 2001,
        [said([picture] * 17)],
        [said("x" * 200_001)],
    ):
        with pytest.raises(RefusedError) as caught:
            chat_messages.checked(messages)
        assert caught.value.status == 413


def test_a_long_chat_keeps_its_newest_pictures(settings: Settings) -> None:
    """[RO5] Its client sends all of it with each question: the oldest pictures are left out."""
    settings.MAX_ATTACHMENTS = 2
    picture = {"type": "image_url", "image_url": {"url": PIXEL}}
    answer: Json = {"role": "assistant", "content": "A pixel."}
    turns = [each for word in "abc" for each in (said([TEXT | {"text": word}, picture]), answer)]
    found = chat_messages.checked([*turns, said([TEXT, picture])])
    shown = [each["content"] for each in found if each["role"] == "user"]
    assert shown[:2] == [[TEXT | {"text": word}, LEFT_OUT] for word in "ab"]
    assert shown[2:] == [[TEXT | {"text": "c"}, picture], [TEXT, picture]]
    assert chat_messages.checked([*turns, said("And?")])[0]["content"][1] == LEFT_OUT
    new = chat_messages.checked([*turns, said([picture, picture])])[-1]
    assert new["content"] == [picture, picture]
    with pytest.raises(RefusedError, match=r"^messages holds more than 2 pictures") as caught:
        chat_messages.checked([*turns, said([picture]), said([picture, picture])])
    assert (caught.value.status, caught.value.field) == (413, "messages")


def test_pictures_of_an_old_answer_do_not_count_as_its_text() -> None:
    """They are removed, as is text that would make the removal slow."""
    long = f"![a](data:image/png;base64,{'A' * 300_000})"
    assert chat_messages.checked([{"role": "assistant", "content": f"x {long}"}])[0] == {
        "role": "assistant",
        "content": "x ![a]()",
    }
    bomb = "![](data:image/" * 13_000
    assert chat_messages.checked([{"role": "assistant", "content": bomb}])[0]["content"] == bomb


def test_an_assistant_that_only_called_has_no_text() -> None:
    """``content: null`` beside ``tool_calls``; a refusal is text."""
    call = chat_messages.checked(
        [{"role": "assistant", "content": None, "tool_calls": [CALL]}, said("x")]
    )
    assert call[0] == {"role": "assistant", "content": "", "tool_calls": [CALL]}
    refusal = [{"type": "refusal", "refusal": "No."}]
    assert chat_messages.checked([{"role": "assistant", "content": refusal, "tool_calls": []}]) == [
        {"role": "assistant", "content": "No."}
    ]


async def test_a_picture_behind_an_address_is_fetched_and_looked_at() -> None:
    """[RO5] The content must be a picture, whatever its declared type."""
    png = base64.b64decode(PIXEL.split(",", 1)[1])

    async def get(url: str) -> Fetched:
        if "away" in url:
            raise FetchError("address not allowed")
        body = png if "png" in url else b"<svg/>"
        return Fetched(url=url, content_type="image/png", body=body)

    def message(url: str) -> list[Json]:
        return chat_messages.checked([said([{"type": "image_url", "image_url": {"url": url}}])])

    messages = message("https://example.org/png")
    await chat_messages.fetch_pictures(messages, get=get)
    assert messages[0]["content"][0]["image_url"]["url"] == PIXEL
    for url in ("https://example.org/svg", "https://example.org/away"):
        wrong = message(url)
        wrong[0]["content"].insert(0, {"type": "text", "text": "See"})
        with pytest.raises(RefusedError) as caught:
            await chat_messages.fetch_pictures(wrong, get=get)
        assert caught.value.status == 400
        assert caught.value.field == "messages[0].content[1].image_url.url"


def test_pictures_are_known_by_their_first_bytes() -> None:
    """[RO5] PNG, JPEG, GIF, WebP; nothing else."""
    assert images.kind_of(b"\xff\xd8\xff\xe0") == "image/jpeg"
    assert images.kind_of(b"GIF89a...") == "image/gif"
    assert images.kind_of(b"RIFF....WEBP") == "image/webp"
    assert images.kind_of(b"RIFF....WAVE") == ""
    jpeg = base64.b64encode(b"\xff\xd8\xff\xe0").decode()
    for declared in ("image/jpg", "image/png", "application/octet-stream", "image/jpeg;x=1"):
        found = images.check(f"data:{declared};base64,{jpeg}", field="x")
        assert found == f"data:image/jpeg;base64,{jpeg}"
    with pytest.raises(RefusedError) as caught:
        images.check("data:image/png;base64," + "A" * 15_000_000, field="x")
    assert caught.value.status == 413


@pytest.mark.parametrize("declared", ["image/jpg", "IMAGE/JPEG", "image/jpeg;name=a.jpg"])
def test_a_pictures_type_is_told_as_models_know_it(declared: str) -> None:
    """[RO5] Anthropic and Google refuse a picture that is said to be ``image/jpg``; all accept it
    as what it is.
    """
    jpeg = base64.b64encode(b"\xff\xd8\xff\xe0").decode()
    url, known = f"data:{declared};base64,{jpeg}", f"data:image/jpeg;base64,{jpeg}"
    asked = chat_messages.checked([said([{"type": "image_url", "image_url": {"url": url}}])])
    item = {"role": "user", "content": [{"type": "input_image", "image_url": url}]}
    reader = items.Reader()
    reader.read([item])
    source = {"type": "base64", "media_type": declared, "data": jpeg}
    shown = {"role": "user", "content": [{"type": "image", "source": source}]}
    for messages in (asked, reader.messages, content.conversation(None, [shown])):
        assert messages[0]["content"][0]["image_url"]["url"] == known


@pytest.mark.parametrize(
    ("tools", "field"),
    [
        ([5], "tools[0].type"),
        ([{"type": "web_search"}], "tools[0].type"),
        ([{"type": "function"}], "tools[0].function"),
        ([{"type": "function", "function": {"name": ""}}], "tools[0].function.name"),
        (
            [{"type": "function", "function": {"name": "f", "description": 5}}],
            "tools[0].function.description",
        ),
        (
            [{"type": "function", "function": {"name": "f", "strict": 1}}],
            "tools[0].function.strict",
        ),
        ([{"type": "function", "function": {"name": "f"}}] * 2, "tools"),
        ([{"type": "function", "function": {"name": f"f{n}"}} for n in range(129)], "tools"),
    ],
)
def test_a_wrong_tool_is_named(tools: Any, field: str) -> None:
    """[RO4] By its path."""
    with pytest.raises(RefusedError) as caught:
        chat_tools.checked(tools)
    assert caught.value.field == field


TREE = {
    "type": "object",
    "properties": {
        "text": {"type": "string"},
        "replies": {"type": "array", "items": {"$ref": "#"}},
    },
}
LIST = {
    "$defs": {
        "node": {
            "type": "object",
            "properties": {"next": {"anyOf": [{"$ref": "#/$defs/node"}, {"type": "null"}]}},
        }
    },
    "$ref": "#/$defs/node",
}


@pytest.mark.parametrize("schema", [TREE, LIST])
def test_a_schema_may_hold_itself(schema: Json) -> None:
    """[RO4] Tools often take trees and lists."""
    assert chat_tools.schema(schema, "x") is schema


@pytest.mark.parametrize(
    "schema",
    [
        {"$ref": "#"},
        {"$defs": {"a": {"$ref": "#/$defs/b"}, "b": {"$ref": "#/$defs/a"}}, "$ref": "#/$defs/a"},
        {"anyOf": [{"type": "null"}, {"$ref": "#"}]},
        {
            "$defs": {"a": {"allOf": [{"$ref": "#/$defs/a"}]}},
            "properties": {"x": {"$ref": "#/$defs/a"}},
        },
        {"properties": {"x": {"not": {"$ref": "#/properties/x"}}}},
    ],
)
def test_a_schema_that_is_nothing_but_itself_is_refused(schema: Json) -> None:
    """[RO4] It leads nowhere."""
    with pytest.raises(RefusedError):
        chat_tools.schema(schema, "x")


@pytest.mark.parametrize("reference", ["#", "#{0}", "#{0}/properties"])
def test_a_schema_is_walked_a_fixed_number_of_times(
    monkeypatch: pytest.MonkeyPatch, reference: str
) -> None:
    """However often, and in however many ways, it refers to the same part."""
    number = 2000
    references = {f"p{each}": {"$ref": reference.format(each)} for each in range(number)}
    steps = 0
    children, same_as = chat_tools.children, chat_tools.same_as

    def counted(walk: Callable[[Any], Any]) -> Callable[[Any], Any]:
        def walked(node: Any) -> Any:
            nonlocal steps
            steps += 1
            return walk(node)

        return walked

    monkeypatch.setattr(chat_tools, "children", counted(children))
    monkeypatch.setattr(chat_tools, "same_as", counted(same_as))
    schema = {"properties": references}
    assert chat_tools.schema(schema, "x") is schema
    assert steps < 6 * number


def test_a_schema_may_refer_to_its_own_parts() -> None:
    """[RO4] References that end are kept as they are; lists and escapes are followed."""
    schema = {
        "$defs": {"a/b": {"type": "string"}, "c": {"$ref": "#/$defs/a~1b"}},
        "anyOf": [{"$ref": "#/$defs/c"}, {"$ref": "#/$defs/c"}, {"type": "null"}],
        "properties": {"x": {"$ref": "#/anyOf/2"}},
    }
    assert chat_tools.schema(schema, "x") is schema
    with pytest.raises(RefusedError):
        chat_tools.schema({"anyOf": [], "$ref": "#/anyOf/0"}, "x")


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({"tool_choice": "always"}, "tool_choice"),
        ({"tool_choice": {"type": "function", "function": {"name": "g"}}}, "tool_choice"),
        ({"tool_choice": {"type": "allowed_tools"}}, "tool_choice"),
        ({"logprobs": True}, "logprobs"),
        ({"modalities": ["audio"]}, "modalities"),
        ({"functions": []}, "functions"),
        ({"function_call": "auto"}, "function_call"),
        ({"audio": {"voice": "x"}}, "audio"),
        ({"n": 2}, "n"),
        ({"n": True}, "n"),
        ({"top_logprobs": 3}, "top_logprobs"),
        ({"surprise": 1}, "surprise"),
        ({"verbosity": 5}, "verbosity"),
        ({"top_k": list(range(20_000))}, "top_k"),
        ({"user": 5}, "user"),
        ({"stop": [""]}, "stop"),
        ({"reasoning_effort": ""}, "reasoning_effort"),
        ({"response_format": "json"}, "response_format.type"),
        ({"response_format": {"type": "json_schema"}}, "response_format.json_schema"),
        ({"logit_bias": []}, "logit_bias"),
        ({"logit_bias": {"a": 1}}, "logit_bias"),
        ({"logit_bias": {"1": 101}}, "logit_bias.1"),
    ],
)
def test_a_wrong_option_is_named(body: Json, field: str) -> None:
    """[RO11] By its name."""
    tool = {"type": "function", "function": {"name": "f"}}
    whole = {"model": "default", "messages": [said("x")], "tools": [tool], **body}
    with pytest.raises(RefusedError) as caught:
        fields.read(whole)
    assert (caught.value.status, caught.value.field) == (400, field)


def test_a_request_of_the_other_api_is_told_its_address() -> None:
    """[RO11] Cursor sends what belongs to the Responses API here, for some names of models."""
    with pytest.raises(RefusedError, match="use messages, or the address /v1/responses"):
        fields.read({"user": "u", "model": "default", "input": [said("x")], "stream": True})


def test_a_schema_of_answers_is_passed_on_whole() -> None:
    """[D5] Its description tells the model what the answer is for."""
    schema = {"name": "x", "description": "A city.", "schema": {"type": "object"}, "strict": True}
    form = {"type": "json_schema", "json_schema": schema}
    whole = {"model": "default", "messages": [said("x")]}
    assert fields.read({**whole, "response_format": form}).options == {"response_format": form}
    wrong = {**form, "json_schema": {**schema, "description": 5}}
    assert outcome({**whole, "response_format": wrong}) == "response_format"


def test_no_stop_sequences_are_none() -> None:
    """[D5] Clients send an empty list, which OpenAI refuses, as with a picture."""
    whole = {"model": "default", "messages": [said("x")]}
    assert fields.read({**whole, "stop": [], "seed": 1}).options == {"seed": 1}


def test_every_field_of_the_api_is_read_passed_on_or_refused_by_name() -> None:
    """[D5] Nothing is dropped: the official client's own list of fields."""
    whole = {"model": "default", "messages": [said("x")]}
    values: Json = {"response_format": {"type": "text"}, "stop": "x", "logit_bias": {}}
    for name in CompletionCreateParamsBase.__annotations__.keys() | fields.CHECKS.keys():
        if name in fields.READ_HERE or name in fields.KEPT:
            continue
        value = values.get(name, 1 if name != "parallel_tool_calls" else True)
        for given in (value, "x", {"a": 1}):
            assert outcome({**whole, name: given}) in ({name: given}, {}, name)
            assert outcome({**whole, name: given}) != {} or (name, given) == ("n", 1)


def outcome(body: Json) -> Any:
    """Return the options that are passed on of a body, and the field that was refused."""
    try:
        return fields.read(body).options
    except RefusedError as error:
        return error.field.split(".")[0]


def test_a_provider_that_takes_few_fields_refuses_the_others(settings: Settings) -> None:
    """By name, instead of leaving them out."""
    settings.LLM_PROVIDER = "anthropic:claude-x"
    whole = {"model": "default", "messages": [said("x")]}
    for known in ({"top_p": 0.5}, {"response_format": {"type": "json_object"}}):
        assert fields.read({**whole, **known}).options == known
    for name, value in (("top_k", 3), ("reasoning_effort", "low")):
        with pytest.raises(RefusedError) as caught:
            fields.read({**whole, name: value})
        assert caught.value.field == name
    passed_on = agent_library.OPTIONS.keys() - {"top_k"}
    assert passed_on | {"stop", "response_format"} == fields.LIBRARY_FIELDS


def table() -> str:
    """Describe the treatment of each field, as the table of docs/http.md."""
    refused_names = [*fields.ONLY, *fields.INSTEAD]
    rows = {
        "read by the gateway": sorted(fields.READ_HERE),
        "passed on, checked": [
            name for name, check in fields.CHECKS.items() if check is not fields.small
        ],
        "passed on as it is": [
            name for name, check in fields.CHECKS.items() if check is fields.small
        ],
        "not used: the gateway keeps conversations itself": sorted(fields.KEPT),
        "refused by name, unless it changes nothing": sorted(refused_names),
        "refused by name": ["any other"],
    }
    lines = [
        f"| {', '.join(f'`{name}`' if name != 'any other' else name for name in names)} | {what} |"
        for what, names in rows.items()
    ]
    return "\n".join(["| field | handling |", "|---|---|", *lines])


def test_the_table_of_fields_in_the_documentation_is_true() -> None:
    """The failure message contains the right table."""
    text = (BASE_DIR / "docs" / "http.md").read_text()
    assert table() in text, table()
