"""Schemas of the arguments of tools in the words that Google's models know. Pure.

Behind relays that speak OpenAI's protocol, and in older versions of Google's own API, one schema
with more refuses the whole request, each time. The tool itself checks by all of its schema.
https://ai.google.dev/api/caching#Schema
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import unquote

from core.lib.text import is_number

REFUSAL = re.compile(r"(?i)\bfunction_?declarations?\b")
SCHEMAS = "schemas of tools beyond Google's words"
BOUNDS = ("minimum", "maximum")
NUMBERS = ("integer", "number")
# A schema that refers to itself has no end.
MOST_LEVELS, MOST_SCHEMAS = 16, 1000
Json = dict[str, Any]


def simple_tool(tool: Mapping[str, Any]) -> Json:
    """Return a tool of a request with a simple schema; without one where it takes no arguments."""
    function = dict(tool["function"])
    given = function.pop("parameters", None)
    if isinstance(given, dict):
        made = Simplifier(given, MOST_SCHEMAS).simple(given, MOST_LEVELS)
        if made.get("properties"):
            function["parameters"] = made
    return {**tool, "function": function}


@dataclass(slots=True)
class Simplifier:
    """Makes the schemas of one tool; ``root``: where references lead, ``left``: how many more."""

    root: Json
    left: int

    def simple(self, given: Any, levels: int) -> Json:
        """Return a schema with one type, and of each keyword only what Google knows."""
        self.left -= 1
        if levels <= 0 or self.left < 0 or not isinstance(given, dict):
            return {"type": "string"}
        schema = self.united(given, levels)
        kind = type_of(schema)
        kept = ("description", *(BOUNDS if kind in NUMBERS else ()))
        made: Json = {"type": kind, **{name: schema[name] for name in kept if name in schema}}
        if kind == "string" and (texts := choices_in(schema)):
            made["enum"] = texts
        if kind == "array":
            made["items"] = self.simple(schema.get("items"), levels - 1)
        described = schema.get("properties") if kind == "object" else None
        if isinstance(described, dict):
            inner = described.items()
            made["properties"] = {name: self.simple(each, levels - 1) for name, each in inner}
            made |= {"required": required} if (required := required_of(schema)) else {}
        return made

    def united(self, given: Json, levels: int) -> Json:
        """Return a schema with what it refers to, with all that it must be, and, where it has no
        form of its own, with the first of its alternatives that is not null.
        """
        made = dict(given)
        for _ in range(levels):
            reference = made.pop("$ref", None)
            meant = referred(self.root, reference) if isinstance(reference, str) else None
            if isinstance(meant, dict):
                made = both(meant, made)
        for each in listed(made, "allOf"):
            made = both(self.inner(each, levels), made)
        alternatives = [*listed(made, "anyOf"), *listed(made, "oneOf")]
        values = [each["const"] for each in alternatives if "const" in each]
        if values and len(values) == len(alternatives):
            return {**made, "enum": values}
        has_form = made.keys() & {"properties", "items"}
        for each in alternatives[: 0 if has_form else 1]:
            made = both(self.inner(each, levels), made)
        return made

    def inner(self, given: Json, levels: int) -> Json:
        """Return a schema that is part of another one, united; empty where there are too many."""
        self.left -= 1
        return self.united(given, levels - 1) if levels > 1 and self.left > 0 else {}


def referred(root: Mapping[str, Any], reference: str) -> Any:
    """Return the part of a schema that a reference means; None for one that is not there."""
    found: Any = root if reference.startswith("#") else None
    for step in reference.split("/")[1:]:
        key = unquote(step).replace("~1", "/").replace("~0", "~")
        if isinstance(found, list):
            is_there = is_number(key, 4) and int(key) < len(found)
            found = found[int(key)] if is_there else None
        else:
            found = found.get(key) if isinstance(found, dict) else None
    return found


def listed(schema: Json, keyword: str) -> list[Json]:
    """Take the schemas of a keyword out of a schema; those for null alone are left out."""
    found = schema.pop(keyword, None)
    given = found if isinstance(found, list) else []
    return [each for each in given if isinstance(each, dict) and each.get("type") != "null"]


def both(first: Json, second: Json) -> Json:
    """Return one schema for two; a keyword of the second counts, their properties all do."""
    made = {**first, **second}
    for name in ("properties", "required"):
        one, two = first.get(name), second.get(name)
        if isinstance(one, dict) and isinstance(two, dict):
            made[name] = {**one, **two}
        if isinstance(one, list) and isinstance(two, list):
            made[name] = [*one, *two]
    return made


def type_of(schema: Json) -> str:
    """Return the one type of a schema: the first that is not null, or what its keywords mean."""
    given = schema.get("type")
    kinds = given if isinstance(given, list) else [given]
    named = next((each for each in kinds if isinstance(each, str) and each != "null"), "")
    otherwise = "array" if "items" in schema else "string"
    return named or ("object" if "properties" in schema else otherwise)


def choices_in(schema: Json) -> list[str]:
    """Return the texts that a value may be; empty for any: Google knows no other values."""
    found = [schema["const"]] if "const" in schema else schema.get("enum")
    given = found if isinstance(found, list) else []
    return [each for each in given if isinstance(each, str) and each]


def required_of(schema: Json) -> list[str]:
    """Return the required properties, of those that are described and cannot be null."""
    described, given = schema.get("properties"), schema.get("required")
    if not isinstance(described, dict) or not isinstance(given, list):
        return []
    return [
        each
        for each in dict.fromkeys(given)
        if isinstance(each, str) and each in described and not may_be_null(described[each])
    ]


def may_be_null(schema: Any) -> bool:
    """Return whether a value may be null, which a model then says by leaving it out."""
    if not isinstance(schema, dict):
        return False
    kind = schema.get("type")
    if kind == "null" or (isinstance(kind, list) and "null" in kind):
        return True
    given = schema.get("anyOf") or schema.get("oneOf")
    return isinstance(given, list) and any(each == {"type": "null"} for each in given)
