"""A tool of an MCP server as a text, and its difference from the one that was accepted."""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from difflib import unified_diff
from typing import Any

from core.lib.text import visible
from core.models import McpTool

WHOLE = 100_000  # lines around a difference: all of them
YES_NO = {True: "yes", False: "no"}


@dataclass(frozen=True, slots=True)
class Line:
    """A line of a difference; ``mark`` is "+", "-" or a space."""

    mark: str
    text: str


@dataclass(frozen=True, slots=True)
class Difference:
    """The description of a tool by its server, beside the accepted one."""

    tool: McpTool
    lines: list[Line]
    problem: str

    @property
    def choice(self) -> str:
        """Return the value with which exactly this is accepted."""
        return f"{self.tool.pk}:{self.tool.offered_hash}"


def of(tool: McpTool) -> Difference:
    """Return the difference of a tool that is new or changed."""
    new = list(described(tool.offered))
    if not tool.accepted_hash:
        lines = [Line(" ", each) for each in new]
    else:
        names = ("title", "description", "schema", "read_only", "idempotent")
        old = list(described({name: getattr(tool, name) for name in names}))
        found = list(unified_diff(old, new, lineterm="", n=WHOLE))[3:]
        lines = [Line(each[:1], each[1:]) for each in found] or [Line(" ", each) for each in new]
    return Difference(tool, lines, str(tool.offered.get("problem", "")))


def described(given: dict[str, Any]) -> Iterator[str]:
    """Return the lines of a tool, as a model or the owner is told about it."""
    yield f"Title: {visible(given.get('title', ''))}"
    yield f"Only reads: {YES_NO[bool(given.get('read_only'))]}"
    yield f"May be repeated: {YES_NO[bool(given.get('idempotent'))]}"
    yield "Description:"
    yield from visible(given.get("description", "")).splitlines()
    yield "Arguments:"
    packed = json.dumps(given.get("schema", {}), indent=2, ensure_ascii=False, sort_keys=True)
    yield from visible(packed).splitlines()
