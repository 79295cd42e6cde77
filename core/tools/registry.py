"""Tools by name: the gateway's by dotted path, others' by the entry point ``latchkey.tools``."""

import logging
import re
from dataclasses import dataclass, field
from functools import cache
from importlib.metadata import EntryPoint, entry_points
from typing import Any

import jsonschema
from django.utils.module_loading import import_string

from core.lib.text import one_line
from core.tools import phrases
from core.tools.base import Tool

logger = logging.getLogger(__name__)

GROUP = "latchkey.tools"
TOOLS = {
    "current_time": "core.tools.current_time.TOOL",
    "route_to_plugin": "core.tools.route_to_plugin.TOOL",
    "run_skill": "core.tools.run_skill.TOOL",
    "document_read": "core.tools.document_read.TOOL",
    "schedule": "core.tools.schedule.TOOL",
    "save_result_page": "core.tools.save_result_page.TOOL",
    "web_search": "core.tools.web.search.TOOL",
    "web_fetch": "core.tools.web.fetch.TOOL",
}
NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}")  # as vendors take it
LONGEST_ERROR = 300


@dataclass(frozen=True, slots=True)
class Installed:
    """The tools of other packages by name, and by entry point the error of each broken one."""

    tools: dict[str, Tool] = field(default_factory=dict)
    broken: dict[str, str] = field(default_factory=dict)


class BrokenToolError(Exception):
    """Why an object of another package is no tool; the text is for the owner."""


def get(name: str) -> Tool | None:
    """Return a tool; None for an unknown name."""
    return own(name) if name in TOOLS else installed().tools.get(name)


@cache
def own(name: str) -> Tool:
    tool: Tool = import_string(TOOLS[name])
    return tool


@cache
def installed() -> Installed:
    """Return the tools of other packages. The others work without one that cannot be loaded: its
    error is logged, and shown to the owner by the doctor.
    """
    found = Installed()
    for point in sorted(entry_points(group=GROUP), key=lambda each: (each.name, each.value)):
        try:
            tool = loaded(point)
            if tool.name in {**TOOLS, **found.tools}:
                raise BrokenToolError(f"There is another tool with the name {tool.name}.")
            phrases.add(getattr(tool, "translations", {}))
        except Exception as error:
            logger.exception("the tool %s cannot be loaded", point.name)
            kind = "" if isinstance(error, BrokenToolError) else f"{type(error).__name__}: "
            found.broken[point.name] = one_line(f"{kind}{error}", LONGEST_ERROR)
        else:
            found.tools[tool.name] = tool
    return found


def loaded(point: EntryPoint) -> Tool:
    """Return the tool of another package. Raises BrokenToolError, and any error of its module."""
    tool: Tool = point.load()
    if isinstance(tool, type) or Tool not in type(tool).__mro__:
        raise BrokenToolError(f"{point.value} is no object of a class that derives from Tool.")
    if not isinstance(tool.name, str) or NAME.fullmatch(tool.name) is None:
        raise BrokenToolError("Its name has letters, digits, - and _, at most 64 of them.")
    if not isinstance(tool.description, str) or not tool.description.strip():
        raise BrokenToolError("It has no description.")
    if not isinstance(tool.parameters, dict) or tool.parameters.get("type") != "object":
        raise BrokenToolError("Its parameters are no JSON schema of an object.")
    try:
        jsonschema.Draft202012Validator.check_schema(tool.parameters)
    except jsonschema.SchemaError as error:
        raise BrokenToolError(f"Its JSON schema is not valid: {error.message}") from error
    return tool


def every() -> list[Tool]:
    """Return all tools, the gateway's first. The first call loads them, in about 100 ms."""
    return [*map(own, TOOLS), *installed().tools.values()]


def schemas() -> list[dict[str, Any]]:
    """Return all of them in the form of OpenAI's ``tools`` parameter."""
    return [schema(tool) for tool in every()]


def schema(tool: Tool) -> dict[str, Any]:
    """Return the tool in the form of OpenAI's ``tools`` parameter."""
    return {
        "type": "function",
        "function": {
            "name": tool.name,
            "description": tool.description,
            "parameters": tool.parameters,
        },
    }
