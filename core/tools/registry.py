"""Tools by name: dotted paths, resolved on first use."""

from functools import cache
from typing import Any

from django.utils.module_loading import import_string

from core.tools.base import Tool

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


@cache
def get(name: str) -> Tool | None:
    tool: Tool | None = import_string(TOOLS[name]) if name in TOOLS else None
    return tool


def every() -> list[Tool]:
    """Return the tools that come with the gateway. The first call loads them, in about 100 ms."""
    return [tool for name in TOOLS if (tool := get(name)) is not None]


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
