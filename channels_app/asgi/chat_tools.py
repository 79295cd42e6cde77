"""The tools that a client offers and runs itself: their shape, size, and finite schemas ([RO4])."""

from collections.abc import Callable
from graphlib import CycleError, TopologicalSorter
from typing import Any
from urllib.parse import unquote

from channels_app.asgi.chat_messages import Json, name, refused, text
from core.lib.text import is_number

MAX_TOOLS = 128
TOO_MANY = f"holds more than {MAX_TOOLS} tools"
# Keywords whose schemas are about the same value, not about a part of it.
WHOLE = ("allOf", "anyOf", "oneOf", "not", "if", "then", "else")
MAX_NODES = 10_000
MAX_DEPTH = 32


def checked(value: Any) -> list[Json]:
    """Convert ``value`` to tools for the model. Raises RefusedError naming the invalid field."""
    return converted(value, tool)


def converted(value: Any, convert: Callable[[Any, str], Json]) -> list[Json]:
    """Convert a list of tools, each by ``convert`` (tool, its path). Raises RefusedError."""
    if value is None:
        return []
    found = [convert(item, f"tools[{number}]") for number, item in enumerate(bounded(value))]
    if len({item["function"]["name"] for item in found}) != len(found):
        raise refused("holds the same name twice", "tools")
    return found


def bounded(value: Any, field: str = "tools") -> list[Any]:
    """Check a list of tools before anything in it is read. Raises RefusedError."""
    if not isinstance(value, list):
        raise refused("must be a list", field)
    if len(value) > MAX_TOOLS:
        raise refused(TOO_MANY, field)
    return value


def tool(value: Any, field: str) -> Json:
    """Check one tool; the only type is ``function``."""
    if not isinstance(value, dict) or value.get("type") != "function":
        raise refused("must be function", f"{field}.type")
    given = value.get("function")
    if not isinstance(given, dict):
        raise refused("must be an object", f"{field}.function")
    own = name(given.get("name"), f"{field}.function.name")
    return {"type": "function", "function": function_of(own, given, f"{field}.function")}


def function_of(own: str, given: Json, field: str) -> Json:
    """Check what a function has besides its name ``own``."""
    function: Json = {"name": own}
    if given.get("description") is not None:
        function["description"] = text(given["description"], f"{field}.description")
    if given.get("parameters") is not None:
        function["parameters"] = schema(given["parameters"], f"{field}.parameters")
    if given.get("strict") is not None:
        if not isinstance(given["strict"], bool):
            raise refused("must be true or false", f"{field}.strict")
        function["strict"] = given["strict"]
    return function


def schema(value: Any, field: str) -> Json:
    """Check a JSON schema: bounded size, and only local references that resolve.

    Recursive schemas (a tree of comments) are allowed; a reference that resolves to itself is
    refused.
    """
    if not isinstance(value, dict):
        raise refused("must be a JSON schema", field)
    if too_big(value):
        raise refused("is too large or too deep", field)
    # By the identity of the part: a reference to it can be written in any number of ways.
    parts = {each: resolved(value, each, field) for each in references(value)}
    meant = {id(part): part for part in (value, *parts.values())}
    graph = {key: {id(parts[each]) for each in same_as(part)} for key, part in meant.items()}
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        raise refused("refers to itself without an end", field) from error
    return value


def too_big(value: Any) -> bool:
    """Return whether a schema has too many nodes or levels; without recursion."""
    level, nodes = [value], 0
    for _ in range(MAX_DEPTH):
        nodes += len(level)
        level = [child for node in level for child in children(node)]
        if not level or nodes > MAX_NODES:
            return nodes > MAX_NODES
    return True


def children(node: Any) -> list[Any]:
    """Return the values directly inside a JSON value."""
    if isinstance(node, dict):
        return list(node.values())
    return list(node) if isinstance(node, list) else []


def references(value: Any) -> set[str]:
    """Return the ``$ref`` of ``value`` and of everything inside it."""
    found: set[str] = set()
    waiting = [value]
    while waiting:
        node = waiting.pop()
        if isinstance(node, dict) and isinstance(node.get("$ref"), str):
            found.add(node["$ref"])
        waiting += children(node)
    return found


def same_as(node: Any) -> set[str]:
    """Return the references that apply to the whole value of ``node``, not to one of its parts."""
    found: set[str] = set()
    waiting = [node]
    while waiting:
        each = waiting.pop()
        if not isinstance(each, dict):
            continue
        if isinstance(each.get("$ref"), str):
            found.add(each["$ref"])
        for keyword in WHOLE:
            inner = each.get(keyword)
            waiting += inner if isinstance(inner, list) else [inner]
    return found


def resolved(value: Any, reference: str, field: str) -> Any:
    """Return the part of the schema that a local reference points to. Raises RefusedError."""
    if not reference.startswith("#"):
        raise refused("may only refer to itself", field)
    node = value
    for step in reference[1:].split("/")[1:]:
        key = unquote(step).replace("~1", "/").replace("~0", "~")
        if isinstance(node, dict) and key in node:
            node = node[key]
        elif isinstance(node, list) and is_number(key, 6) and int(key) < len(node):
            node = node[int(key)]
        else:
            raise refused("refers to something that is not there", field)
    return node


def choice(value: Any, tools: list[Json]) -> str | Json | None:
    """Check the client's ``tool_choice``; None leaves the choice to the model, as does ``auto``."""
    if value in (None, "auto", "none"):
        return None
    if not tools:
        raise refused("needs tools", "tool_choice")
    if value == "required":
        return "required"
    if not isinstance(value, dict) or value.get("type") != "function":
        raise refused("must be none, auto, required or a function", "tool_choice")
    function = value.get("function")
    wanted = function.get("name") if isinstance(function, dict) else None
    if not any(item["function"]["name"] == wanted for item in tools):
        raise refused("names no tool of the request", "tool_choice")
    return {"type": "function", "function": {"name": wanted}}
