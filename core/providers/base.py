"""The seam between agent and model: a request in OpenAI's chat form in, a stream of deltas out."""

from collections.abc import AsyncGenerator
from dataclasses import dataclass, field
from typing import Any, Protocol

from core.messages import Message

ChatMessage = dict[str, Any]


@dataclass(frozen=True, slots=True)
class ModelRequest:
    """One call: chat messages and tools as OpenAI's chat completions has them."""

    messages: list[ChatMessage]
    tools: list[dict[str, Any]] = field(default_factory=list)
    model: str = ""
    options: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class TextDelta:
    """More of the answer."""

    text: str


@dataclass(frozen=True, slots=True)
class ThinkingDelta:
    """More reasoning."""

    text: str


@dataclass(frozen=True, slots=True)
class ToolCallDelta:
    """A part of the tool call number ``index``; ``arguments`` is a piece of JSON text."""

    index: int
    id: str = ""
    name: str = ""
    arguments: str = ""


@dataclass(frozen=True, slots=True)
class Usage:
    """Tokens that the call cost."""

    prompt_tokens: int
    completion_tokens: int


@dataclass(frozen=True, slots=True)
class Finish:
    """Why the model stopped: stop, length, tool_calls, content_filter."""

    reason: str


@dataclass(frozen=True, slots=True)
class Whole:
    """A message that the model's server made itself: sources it searched, a picture, a warning."""

    message: Message


Delta = TextDelta | ThinkingDelta | ToolCallDelta | Whole | Usage | Finish


class ProviderError(Exception):
    """A model call failed. The text is for the user; it names no secret and no address.

    ``code``: unreachable, unauthorised, rate_limited, refused, server, bad_stream, timeout, setup.
    ``retry_after``: seconds to wait before another try, or None when another try is useless.
    """

    def __init__(self, message: str, *, code: str, retry_after: float | None = None) -> None:
        """Keep what the agent needs to decide about another try."""
        super().__init__(message)
        self.code = code
        self.retry_after = retry_after


class Provider(Protocol):
    """A source of model answers. One instance serves all runs of a process."""

    def stream(self, request: ModelRequest) -> AsyncGenerator[Delta, None]:
        """The deltas of one answer, ending with one ``Finish``. Raises ProviderError."""
        ...

    async def close(self) -> None:
        """Drop kept connections."""
        ...


class Unavailable:
    """A provider that is not set up: every call fails with ``error``."""

    def __init__(self, error: ProviderError) -> None:
        """Keep why."""
        self._error = error

    async def stream(self, request: ModelRequest) -> AsyncGenerator[Delta, None]:
        """Raises the error."""
        del request
        raise self._error
        yield  # makes this a generator

    async def close(self) -> None:
        """Nothing is kept."""
