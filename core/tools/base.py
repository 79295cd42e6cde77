"""The contract of a tool."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Protocol

from core.messages import Message, message_end, message_start


def never_said(message_id: str) -> bool:
    """Where nothing was said before."""
    del message_id
    return False


def no_more_time(seconds: float) -> None:
    """Where nothing limits the turn."""
    del seconds


@dataclass(frozen=True, slots=True)
class ToolContext:
    """Who asks, and where progress goes. ``emit`` adds a message to the run's log.

    ``request`` is what the user said; ``more_time`` puts off the end of a turn that waits for long
    work, by seconds. ``was_said``: whether an earlier attempt of the run said this message already.
    """

    run_id: int
    user_id: int
    session_id: int
    tool_call_id: str
    time_zone: str
    emit: Callable[[Message], None]
    request: str = ""
    more_time: Callable[[float], None] = no_more_time
    was_said: Callable[[str], bool] = never_said

    def send(self, message: Message) -> None:
        """Add a whole message, which has an id, to the run's log, between its start and its end
        ([M2]); nothing when it is there already."""
        if self.was_said(message.message_id):
            return
        kind, name = message.type, message.message_id
        self.emit(message_start(message_id=name, message_type=kind))
        self.emit(message)
        self.emit(message_end(message_id=name, message_type=kind))


@dataclass(frozen=True, slots=True)
class ToolResult:
    """What the model gets back, and what the user is shown besides.

    ``final``: the text is the answer for the user, word for word; the model is not asked again.
    ``messages`` (pictures, recordings, films that were made) follow the text.
    """

    text: str
    ok: bool = True
    final: bool = False
    files: list[dict[str, str]] = field(default_factory=list)
    messages: list[Message] = field(default_factory=list)


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
