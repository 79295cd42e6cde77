"""The tools that a client of the Responses API offers, as functions of chat completions.

A model of the gateway's chain knows functions alone, so every tool that the client runs becomes
one, and :class:`Kinds` remembers what its calls are for the client. Web search of OpenAI's own
servers is left out: an assistant of the gateway searches with its own tool.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import orjson

from channels_app.asgi import chat_tools
from channels_app.asgi.chat_messages import Json, name, refused, text
from core.lib.text import in_ascii

LEFT_OUT = frozenset(
    {
        "web_search",
        "web_search_2025_08_26",
        "web_search_preview",
        "web_search_preview_2025_03_11",
    }
)
LONGEST_NAME = 128
BETWEEN = "__"
SHELL = "local_shell"
SHELL_TOOL: Json = {
    "name": SHELL,
    "description": "Run a command in the shell of the person's machine.",
    "parameters": {
        "type": "object",
        "properties": {
            "command": {"type": "array", "items": {"type": "string"}},
            "working_directory": {"type": "string"},
            "timeout_ms": {"type": "integer"},
        },
        "required": ["command"],
    },
}
INPUT: Json = {
    "type": "object",
    "properties": {"input": {"type": "string"}},
    "required": ["input"],
    "additionalProperties": False,
}


@dataclass(slots=True)
class Kinds:
    """What the functions are to the client, by their names: ``{"type", "name"?, "namespace"?}``;
    those that are not in it are plain functions.
    """

    of: dict[str, Json] = field(default_factory=dict)

    def item(self, item_id: str, call_id: str, function: str, arguments: str) -> Json:
        """Return a complete call as the client's item."""
        kind = self.of.get(function, {})
        named = {"name": kind.get("name", function)}
        if "namespace" in kind:
            named["namespace"] = kind["namespace"]
        found: Json = {"id": item_id, "status": "completed", "call_id": call_id}
        if kind.get("type") == "custom":
            found |= {"type": "custom_tool_call", **named, "input": input_of(arguments)}
        elif kind.get("type") == SHELL:
            found |= {"type": "local_shell_call", "action": action_of(arguments)}
        else:
            found |= {"type": "function_call", **named, "arguments": arguments}
        return found


@dataclass(slots=True)
class Offered:
    """The tools of a request: for the model, what they are, and as the response repeats them."""

    functions: list[Json] = field(default_factory=list)
    kinds: Kinds = field(default_factory=Kinds)
    names: set[str] = field(default_factory=set)

    def add(self, function: Json, kind: Json, where: str) -> None:
        """Add a function. Raises RefusedError 400 for a name that is there, or one too many."""
        if function["name"] in self.names:
            raise refused("holds the same name twice", where)
        if len(self.names) >= chat_tools.MAX_TOOLS:
            raise refused(chat_tools.TOO_MANY, "tools")
        self.names.add(function["name"])
        self.functions.append({"type": "function", "function": function})
        if kind:
            self.kinds.of[function["name"]] = kind


def read(value: Any) -> Offered:
    """Check the tools of a request. Raises RefusedError that names the invalid field."""
    found = Offered()
    if value is None:
        return found
    for number, each in enumerate(chat_tools.bounded(value)):
        add(found, each, f"tools[{number}]")
    return found


def add(found: Offered, value: Any, where: str, namespace: str = "") -> None:
    """Add one tool, or those of a namespace."""
    kind = value.get("type") if isinstance(value, dict) else None
    if kind == "function":
        function = chat_tools.function_of(named(value, where, namespace), value, where)
        found.add(function, spaced({"type": kind, "name": value["name"]}, namespace), where)
    elif kind == "custom":
        function = custom_of(value, where, namespace)
        found.add(function, {**spaced({"name": value["name"]}, namespace), "type": kind}, where)
    elif kind == "namespace" and not namespace:
        inside = chat_tools.bounded(value.get("tools"), f"{where}.tools")
        own = name(value.get("name"), f"{where}.name")
        for number, each in enumerate(inside):
            add(found, each, f"{where}.tools[{number}]", own)
    elif kind == SHELL and not namespace:
        found.add(dict(SHELL_TOOL), {"type": SHELL}, where)
    elif not isinstance(kind, str) or kind not in LEFT_OUT:
        shown = in_ascii(str(kind)[:64])
        raise refused(f"({shown}) is not supported: offer a function", f"{where}.type")


def spaced(kind: Json, namespace: str) -> Json:
    """Return what a tool of a namespace is; empty for a plain function."""
    if namespace:
        return {**kind, "namespace": namespace}
    return {} if kind.get("type") == "function" else kind


def named(value: Json, where: str, namespace: str) -> str:
    """Return the name of a function for the model."""
    own = name(value.get("name"), f"{where}.name")
    full = f"{namespace}{BETWEEN}{own}" if namespace else own
    if len(full) > LONGEST_NAME:
        raise refused("is too long with its namespace", f"{where}.name")
    return full


def custom_of(value: Json, where: str, namespace: str) -> Json:
    """Check a custom tool; it becomes a function with one text, which the description explains."""
    lines = [text(value.get("description") or "", f"{where}.description")]
    form = value.get("format")
    if form is not None and not isinstance(form, dict):
        raise refused("must be an object", f"{where}.format")
    if form is not None and form.get("type") == "grammar":
        syntax = text(form.get("syntax"), f"{where}.format.syntax")
        definition = text(form.get("definition"), f"{where}.format.definition")
        lines.append(f"The input must match this grammar ({syntax}):\n{definition}")
    elif form is not None and form.get("type") != "text":
        raise refused("must be text or grammar", f"{where}.format.type")
    description = "\n\n".join(each for each in lines if each)
    return {
        "name": named(value, where, namespace),
        "description": description,
        "parameters": INPUT,
    }


def choice(value: Any, offered: Offered) -> str | Json | None:
    """Check ``tool_choice``; return it in the form of chat completions, None for ``auto``.

    ``allowed_tools`` leaves the others out of ``offered``.
    """
    if isinstance(value, dict) and value.get("type") == "allowed_tools":
        allowed = chat_tools.bounded(value.get("tools"), "tool_choice.tools")
        names = {function_named(each, offered.kinds) for each in allowed}
        offered.functions = [
            each for each in offered.functions if each["function"]["name"] in names
        ]
        value = value.get("mode")
        if value not in (None, "none", "auto", "required"):
            raise refused("must be none, auto or required", "tool_choice.mode")
    if isinstance(value, dict) and value.get("type") in ("function", "custom", SHELL):
        wanted = {"type": "function", "function": {"name": function_named(value, offered.kinds)}}
        return chat_tools.choice(wanted, offered.functions)
    if value == "none":
        offered.functions = []
        return None
    if value is not None and value not in ("auto", "required"):
        raise refused("must be none, auto, required or a function", "tool_choice")
    return chat_tools.choice(value, offered.functions)


def shown_choice(value: Any, wanted: str | Json | None, offered: Offered) -> str | Json:
    """Return ``tool_choice`` as the response repeats it. ``wanted``: from :func:`choice`."""
    if isinstance(value, dict) and value.get("type") == "allowed_tools":
        allowed = [reference(each["function"]["name"], offered.kinds) for each in offered.functions]
        return {"type": "allowed_tools", "mode": value.get("mode") or "auto", "tools": allowed}
    if isinstance(wanted, dict):
        return reference(wanted["function"]["name"], offered.kinds)
    return wanted or ("none" if value == "none" else "auto")


def reference(function: str, kinds: Kinds) -> Json:
    """Return the client's reference to a tool."""
    kind = {"type": "function", "name": function} | kinds.of.get(function, {})
    return {"type": SHELL} if kind["type"] == SHELL else kind


def function_named(value: Any, kinds: Kinds) -> str:
    """Return the function that a client's reference to a tool means; empty for none."""
    if not isinstance(value, dict):
        return ""
    if value.get("type") == SHELL:
        return SHELL
    return function_name(value.get("name"), value.get("namespace"), kinds.of)


def function_name(own: Any, namespace: Any, kinds: Mapping[str, Json]) -> str:
    """Return the name of a function for the model, of a client's name and namespace."""
    if not isinstance(own, str):
        return ""
    if isinstance(namespace, str) and namespace:
        return f"{namespace}{BETWEEN}{own}"
    return next(
        (full for full, kind in kinds.items() if kind.get("name") == own and full != own), own
    )


def input_of(arguments: str) -> str:
    """Return the input of a custom call; a model that wrote no JSON has written the input."""
    try:
        given = orjson.loads(arguments)
    except orjson.JSONDecodeError:
        return arguments
    found = given.get("input") if isinstance(given, dict) else None
    return found if isinstance(found, str) else arguments


def action_of(arguments: str) -> Json:
    """Return the command of a shell call."""
    try:
        given = orjson.loads(arguments)
    except orjson.JSONDecodeError:
        given = None
    given = given if isinstance(given, dict) else {}
    command = given.get("command")
    if not isinstance(command, list):
        command = ["sh", "-c", command if isinstance(command, str) else ""]
    action: Json = {"type": "exec", "command": [str(each) for each in command], "env": {}}
    for option, kind in (("working_directory", str), ("timeout_ms", int)):
        if isinstance(given.get(option), kind):
            action[option] = given[option]
    return action


def shown(functions: list[Json], kinds: Kinds) -> list[Json]:
    """Return the tools as the response repeats them; those of a namespace by their full names."""
    found: list[Json] = []
    for each in functions:
        function = each["function"]
        kind = kinds.of.get(function["name"], {}).get("type", "function")
        if kind == SHELL:
            found.append({"type": SHELL})
        elif kind == "custom":
            about = {"name": function["name"], "description": function["description"]}
            found.append({"type": "custom", **about})
        else:
            about = {"name": function["name"], "description": function.get("description")}
            rest = {"parameters": function.get("parameters"), "strict": function.get("strict")}
            found.append({"type": "function", **about, **rest})
    return found
