"""Schemas of tools in the words that Google's models know."""

import json
import time
from typing import Any

import pytest

from core.providers.simple_schemas import simple_tool

TEXT: dict[str, Any] = {"type": "string"}


def simple(schema: Any) -> Any:
    """Return the simple schema of the only argument of a tool."""
    given = {"type": "object", "properties": {"a": schema}}
    tool = {"type": "function", "function": {"name": "f", "parameters": given}}
    return simple_tool(tool)["function"]["parameters"]["properties"]["a"]


@pytest.mark.parametrize(
    ("schema", "expected"),
    [
        ({"const": "x"}, {"type": "string", "enum": ["x"]}),
        ({"const": 3}, {"type": "string"}),
        ({"type": "integer", "enum": [1, 2]}, {"type": "integer"}),
        (
            {"type": "integer", "minimum": 1, "exclusiveMaximum": 9},
            {"type": "integer", "minimum": 1},
        ),
        ({"type": ["null", "number"], "description": "d"}, {"type": "number", "description": "d"}),
        ({"anyOf": [{"type": "null"}, {"type": "boolean"}], "title": "t"}, {"type": "boolean"}),
        ({"oneOf": [{"const": "a"}, {"const": "b"}]}, {"type": "string", "enum": ["a", "b"]}),
        ({"type": "array"}, {"type": "array", "items": TEXT}),
        ({"items": {"type": "string", "format": "uuid"}}, {"type": "array", "items": TEXT}),
        ({"type": "object", "additionalProperties": TEXT}, {"type": "object"}),
        ({}, TEXT),
        (True, TEXT),
        ({"$ref": "#/none"}, TEXT),
        ({"type": "string", "enum": ["", "a", None]}, {"type": "string", "enum": ["a"]}),
    ],
)
def test_a_schema_keeps_the_words_that_google_knows(schema: Any, expected: Any) -> None:
    assert simple(schema) == expected


def test_required_are_properties_that_are_described_and_cannot_be_null() -> None:
    inner = {"a": TEXT, "b": {"type": ["string", "null"]}, "c": {"anyOf": [TEXT, {"type": "null"}]}}
    found = simple({"type": "object", "properties": inner, "required": ["a", "b", "c", "d", 5]})
    assert found == {
        "type": "object",
        "properties": {"a": TEXT, "b": TEXT, "c": TEXT},
        "required": ["a"],
    }


def test_all_parts_of_a_schema_count_and_of_alternatives_the_first() -> None:
    one = {"properties": {"a": TEXT}, "required": ["a"]}
    two = {"properties": {"b": TEXT}, "required": ["b"]}
    assert simple({"allOf": [one, two]})["required"] == ["b", "a"]
    assert simple({"oneOf": [one, two]}) == {"type": "object", **one}
    either = {"properties": {"a": TEXT, "b": TEXT}, "anyOf": [{"required": ["a"]}]}
    assert simple(either) == {"type": "object", "properties": {"a": TEXT, "b": TEXT}}


def test_references_are_followed_and_one_to_itself_ends() -> None:
    node = {"type": "object", "properties": {n: {"$ref": "#/$defs/node"} for n in "abcdefgh"}}
    given = {
        "type": "object",
        "properties": {"n": {"$ref": "#/$defs/node"}},
        "$defs": {"node": node},
    }
    tool = {"type": "function", "function": {"name": "f", "parameters": given}}
    began = time.process_time()
    made = simple_tool(tool)["function"]["parameters"]
    assert time.process_time() - began < 1
    assert made["properties"]["n"]["properties"]["a"]["type"] == "object"
    assert "$ref" not in json.dumps(made)


def test_a_reference_into_a_list_of_schemas_is_followed() -> None:
    """zod writes one where the same schema stands twice."""
    one = {"type": "object", "properties": {"n": {"type": "integer"}}}
    other = {"$ref": "#/properties/a/properties/first/anyOf/1"}
    both = {"first": {"anyOf": [{"type": "null"}, one]}, "second": other}
    found = simple({"type": "object", "properties": both})
    assert found["properties"]["second"] == found["properties"]["first"] == one
    for wrong in ("2", "-1", "x", "1/type/y", "٣"):
        other["$ref"] = f"#/properties/a/properties/first/anyOf/{wrong}"
        assert simple({"type": "object", "properties": both})["properties"]["second"] == TEXT


def test_parts_that_consist_of_themselves_end() -> None:
    """Each level multiplied them: a hostile MCP server stopped a worker."""
    itself = {"$ref": "#/properties/a"}
    for keyword in ("allOf", "anyOf"):
        began = time.process_time()
        assert simple({"description": "d", keyword: [itself] * 10}) == {**TEXT, "description": "d"}
        assert time.process_time() - began < 1


def test_a_tool_without_arguments_has_no_schema() -> None:
    """One of an object without properties is refused, too."""
    function = {"name": "f", "description": "d", "parameters": {"type": "object", "properties": {}}}
    tool = {"type": "function", "function": function}
    assert simple_tool(tool)["function"] == {"name": "f", "description": "d"}
    assert function["parameters"]
