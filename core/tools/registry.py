"""Tools by name: the gateway's by dotted path, others' by the entry point ``latchkey.tools``."""

from collections.abc import Mapping
from functools import cache
from importlib.metadata import EntryPoint
from typing import Any

from django.utils.module_loading import import_string

from core.lib.installed import NAME_RULE, BrokenError, Installed, is_name, problem_of, read
from core.tools import phrases
from core.tools.base import Tool

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


def get(name: str) -> Tool | None:
    """Return a tool; None for an unknown name."""
    return own(name) if name in TOOLS else installed().found.get(name)


@cache
def own(name: str) -> Tool:
    tool: Tool = import_string(TOOLS[name])
    return tool


@cache
def installed() -> Installed[Tool]:
    """Return the tools of other packages. The others work without one that cannot be loaded: its
    error is logged, and shown to the owner by the doctor.
    """
    return read(GROUP, "tool", loaded)


def loaded(point: EntryPoint, others: Mapping[str, Tool]) -> tuple[str, Tool]:
    """Return the tool and its name. Raises BrokenError, and any error of its module."""
    tool: Tool = point.load()
    if isinstance(tool, type) or Tool not in type(tool).__mro__:
        raise BrokenError(f"{point.value} is no object of a class that derives from Tool.")
    if not is_name(tool.name):
        raise BrokenError(f"Its name {NAME_RULE}")
    if not isinstance(tool.description, str) or not tool.description.strip():
        raise BrokenError("It has no description.")
    if problem := problem_of(tool.parameters):
        raise BrokenError(f"Its {problem}")
    if tool.name in {**TOOLS, **others}:
        raise BrokenError(f"There is another tool with the name {tool.name}.")
    phrases.add(getattr(tool, "translations", {}))
    return tool.name, tool


def every() -> list[Tool]:
    """Return all tools, the gateway's first. The first call loads them, in about 100 ms."""
    return [*map(own, TOOLS), *installed().found.values()]


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
