"""A tool as its MCP server describes it: bounded, without invisible characters, with its hash."""

import hashlib
import unicodedata
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

import orjson

from core.lib.text import HIDDEN, JOINERS, UNSEEN, clean, is_clean
from core.providers.simple_schemas import referred
from core.tools.arguments import is_too_deep

MOST_NAME = 128  # characters; the specification's own limit
MOST_TITLE = 200
MOST_DESCRIPTION = 8_000
MOST_SCHEMA_BYTES = 32_000
MOST_DEPTH = 32
MOST_CALL_NAME = 64  # of OpenAI's API, and of most others
DIGEST = 8
PROSE = ("description", "title")
# Vendors refuse these at the top of a schema of arguments, and with it the whole request.
ALTERNATIVES = ("anyOf", "oneOf", "allOf")
NOT_AT_TOP = frozenset({*ALTERNATIVES, "enum", "not", "$ref", "$schema", "$id"})
# The keywords that hold schemas: by name, in a list, and one, which may be a list in older drafts.
NAMED = frozenset({"properties", "patternProperties", "$defs", "definitions", "dependentSchemas"})
LISTED = frozenset({*ALTERNATIVES, "prefixItems"})
SINGLE = frozenset({"items", "contains", "propertyNames", "not", "if", "then", "else"})
OPEN = frozenset({"additionalProperties", "additionalItems"})  # one, or whether there are more
KINDS = frozenset({"string", "number", "integer", "boolean", "object", "array", "null"})
ALLOWED = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-")


@dataclass(frozen=True, slots=True)
class Offer:
    """A tool as its server describes it. ``problem``: why it cannot be used; empty for nothing."""

    name: str
    title: str = ""
    description: str = ""
    schema: dict[str, Any] = field(default_factory=dict)
    read_only: bool = False
    idempotent: bool = False
    problem: str = ""

    def digest(self) -> str:
        """Return the hash of all that a model or the owner is told about the tool."""
        return hashlib.sha256(orjson.dumps(asdict(self), option=orjson.OPT_SORT_KEYS)).hexdigest()


def offer(
    name: str,
    *,
    title: str = "",
    description: str = "",
    schema: Mapping[str, Any],
    hints: Mapping[str, Any] | None = None,
) -> Offer:
    """Return a server's description, as far as it can be used. ``hints``: its annotations."""
    given = hints or {}
    read_only = given.get("readOnlyHint") is True
    idempotent = read_only or given.get("idempotentHint") is True
    found, problem = schema_of(schema)
    if len(description) > MOST_DESCRIPTION:
        problem = f"Its description is longer than {MOST_DESCRIPTION} characters."
    return Offer(
        name=name,
        title=seen(title)[:MOST_TITLE],
        description=seen(description[:MOST_DESCRIPTION]),
        schema=found,
        read_only=read_only,
        idempotent=idempotent,
        problem=problem,
    )


def name_problem(name: str) -> str:
    """Return why a tool's name cannot be used; empty for nothing."""
    if not name or len(name) > MOST_NAME or not name.isprintable() or not is_clean(name):
        return "A name is empty, too long, or has invisible characters."
    return ""


def schema_of(given: Mapping[str, Any]) -> tuple[dict[str, Any], str]:
    """Return a schema of arguments with readable prose, and why it cannot be used."""
    if is_too_deep(given, MOST_DEPTH):
        return {}, f"The description of its arguments is nested deeper than {MOST_DEPTH} levels."
    try:
        packed = orjson.dumps(given)
    except TypeError:
        return {}, "The description of its arguments has numbers or texts that no JSON can hold."
    if len(packed) > MOST_SCHEMA_BYTES:
        return {}, f"The description of its arguments is larger than {MOST_SCHEMA_BYTES} bytes."
    schema = readable(orjson.loads(packed))
    if schema.get("type", "object") != "object":
        return {}, "Its arguments are no object."
    return {"type": "object", **schema}, ""


def for_models(schema: Mapping[str, Any]) -> dict[str, Any]:
    """Return a schema of arguments as all vendors take it: an object with properties, without
    alternatives at its top, and plain below it. The server checks by its own one.
    """
    made = plain(one_object(schema, schema, set(), MOST_DEPTH))
    if not made["required"]:
        del made["required"]  # older drafts know no empty one
    return made


def one_object(
    schema: Mapping[str, Any], root: Mapping[str, Any], seen: set[int], levels: int
) -> dict[str, Any]:
    """Return a schema with the properties of all its alternatives; required are those that each of
    them requires. The part that a reference means counts once (``seen``), to at most so many
    ``levels``.
    """
    own = schema.get("properties")
    found = {name: [each] for name, each in own.items()} if isinstance(own, dict) else {}
    required = names_in(schema)
    for keyword, given in alternatives(schema, root, seen) if levels else ():
        branches = [
            one_object(each, root, seen, levels - 1)
            for each in given
            if isinstance(each, dict) and each.get("type", "object") == "object"
        ]
        for branch in branches:
            for name, each in branch["properties"].items():
                found.setdefault(name, []).append(each)
        needed = [set(branch["required"]) for branch in branches] or [set()]
        is_each = keyword in ("anyOf", "oneOf")
        required |= set.intersection(*needed) if is_each else set.union(*needed)
    kept = {name: each for name, each in schema.items() if name not in NOT_AT_TOP}
    properties = {name: one_of(each) for name, each in found.items()}
    return {**kept, "type": "object", "properties": properties, "required": sorted(required)}


def alternatives(
    schema: Mapping[str, Any], root: Mapping[str, Any], seen: set[int]
) -> Iterator[tuple[str, list[Any]]]:
    """Yield the schemas that apply to the same value as ``schema``, by keyword."""
    for keyword in ALTERNATIVES:
        given = schema.get(keyword)
        yield keyword, given if isinstance(given, list) else []
    reference = schema.get("$ref")
    if isinstance(reference, str):
        found = referred(root, reference)
        if id(found) not in seen:  # not its address, of which there are many: %61 is a
            seen.add(id(found))
            yield "$ref", [found]


def names_in(schema: Mapping[str, Any]) -> set[str]:
    """Return the required properties of a schema."""
    given = schema.get("required")
    return {each for each in given if isinstance(each, str)} if isinstance(given, list) else set()


def one_of(schemas: list[Any]) -> Any:
    """Return one schema for what several describe."""
    different = [each for at, each in enumerate(schemas) if each not in schemas[:at]]
    return different[0] if len(different) == 1 else {"anyOf": different}


def plain(schema: Any) -> dict[str, Any]:
    """Return a schema without what some vendors refuse: a truth value for a schema, lists that do
    not say what they hold, if only that it may be anything, and what JSON Schema does not know.
    """
    if not isinstance(schema, dict):
        return {"not": {}} if schema is False else {}
    made = {key: inside(key, each) for key, each in schema.items() if is_sound(key, each)}
    kind, items = made.get("type"), made.get("items")
    if isinstance(items, list):
        made["items"] = {"anyOf": items} if items else {}
    elif items is None and (kind == "array" or (isinstance(kind, list) and "array" in kind)):
        made["items"] = {}
    return made


def inside(keyword: str, value: Any) -> Any:
    """Return the value of a keyword with such schemas."""
    if keyword in NAMED:
        return {name: plain(each) for name, each in value.items()}
    if keyword in LISTED or (keyword == "items" and isinstance(value, list)):
        return [plain(each) for each in value]
    is_one = keyword in SINGLE or (keyword in OPEN and isinstance(value, dict))
    return plain(value) if is_one else value


def is_sound(keyword: str, value: Any) -> bool:
    """Return whether the value of a keyword has the shape that JSON Schema gives it, where servers
    are known to err; vendors refuse a request for another.
    """
    if keyword in NAMED:
        return isinstance(value, dict)
    if keyword in LISTED or keyword == "enum":
        return isinstance(value, list) and bool(value)
    if keyword == "required":
        return isinstance(value, list) and all(isinstance(each, str) for each in value)
    if keyword == "type":
        kinds = value if isinstance(value, list) and value else [value]
        return all(isinstance(each, str) and each in KINDS for each in kinds)
    return not (keyword in SINGLE and value is None)


def readable(value: Any) -> Any:
    """Return a schema that can be stored, with its prose as a reader sees it."""
    if isinstance(value, dict):
        return {
            clean(key): seen(inner) if key in PROSE and isinstance(inner, str) else readable(inner)
            for key, inner in value.items()
        }
    if isinstance(value, list):
        return [readable(each) for each in value]
    return clean(value) if isinstance(value, str) else value


def seen(text: str) -> str:
    """Return ``text`` without invisible characters: a model reads the same text as the owner."""
    if text.isascii() and text.isprintable():
        return text
    return "".join(
        each
        for each in HIDDEN.sub("", clean(text))
        if each in "\n\t" or each in JOINERS or unicodedata.category(each) not in UNSEEN
    )


def call_name(slug: str, name: str) -> str:
    """Return the name of a server's tool for models: ``mcp_<slug>_<name>``, at most 64 characters
    of those that all vendors accept; a changed name ends with its hash.
    """
    plain = f"mcp_{slug}_" + "".join(each if each in ALLOWED else "_" for each in name)
    if plain == f"mcp_{slug}_{name}" and len(plain) <= MOST_CALL_NAME:
        return plain
    digest = hashlib.sha256(name.encode(errors="surrogatepass")).hexdigest()[:DIGEST]
    return f"{plain[: MOST_CALL_NAME - DIGEST - 1]}_{digest}"
