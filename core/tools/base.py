"""The contract of a tool."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Protocol

from core.messages import Message


@dataclass(frozen=True, slots=True)
class ToolContext:
    """Who asks, and where progress goes. ``emit`` adds a message to the run's log."""

    run_id: int
    user_id: int
    session_id: int
    tool_call_id: str
    time_zone: str
    emit: Callable[[Message], None]


@dataclass(frozen=True, slots=True)
class ToolResult:
    """What the model gets back, and what the user is shown besides."""

    text: str
    ok: bool = True
    files: list[dict[str, str]] = field(default_factory=list)


class ToolError(Exception):
    """The tool could not do it; the text is told to the model."""


class Tool(Protocol):
    """One tool. ``parameters`` is a JSON schema; ``infer`` is the fallback of [L3]."""

    name: str
    description: str
    parameters: dict[str, Any]

    def progress(self, arguments: dict[str, Any]) -> str:
        """The line shown while it runs; empty for quick tools."""
        ...

    def infer(self, text: str) -> dict[str, Any] | None:
        """Arguments inferred from what the user said, when it is clearly asked for."""
        ...

    async def run(self, context: ToolContext, arguments: dict[str, Any]) -> ToolResult:
        """Do it. Raises ToolError with a text for the model."""
        ...
