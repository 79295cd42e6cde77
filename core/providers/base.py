"""The seam between agent and model: a request in OpenAI's chat form in, a stream of deltas out."""

from collections.abc import AsyncGenerator
from contextlib import aclosing
from dataclasses import dataclass, field
from typing import Any, Protocol

from django.conf import settings

from core.messages import Message
from core.providers.failures import Failure

ChatMessage = dict[str, Any]
# An answer may be so many times as long as was allowed: estimates of tokens differ.
ALLOWANCE = 4
BYTES_PER_TOKEN = 4
LEAST_TOKENS = 256
LIMITS = {"max_tokens", "max_completion_tokens"}


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

    ``code``: of :data:`core.providers.failures.KINDS`, or one of the gateway's own (steps,
    attempts). ``retry_after``: seconds to wait before another try, or None when another try is
    useless. ``reason``: the server's own words, for the owner.
    """

    def __init__(
        self, message: str, *, code: str, retry_after: float | None = None, reason: str = ""
    ) -> None:
        """Keep what the agent needs to decide about another try."""
        super().__init__(message)
        self.code = code
        self.retry_after = retry_after
        self.reason = reason

    @classmethod
    def of(cls, failure: Failure) -> "ProviderError":
        """The error of a classified failure, with its words for the person."""
        return cls(
            failure.words,
            code=failure.code,
            retry_after=failure.retry_after,
            reason=failure.reason,
        )


class Provider(Protocol):
    """A source of model answers. One instance serves all runs of a process."""

    def stream(self, request: ModelRequest) -> AsyncGenerator[Delta, None]:
        """The deltas of one answer, ending with one ``Finish``. Raises ProviderError."""
        ...

    async def close(self) -> None:
        """Drop kept connections."""
        ...


def most_bytes(options: dict[str, Any]) -> int:
    """How long one answer may be, with its reasoning and its calls: ALLOWANCE times the tokens that
    were allowed, at most MAX_ANSWER_BYTES. Without a limit of the request it is the model's
    window."""
    asked = [options[name] for name in LIMITS & options.keys()]
    tokens = max([*asked, LEAST_TOKENS]) if asked else settings.LLM_CONTEXT_TOKENS
    return min(settings.MAX_ANSWER_BYTES, int(tokens) * ALLOWANCE * BYTES_PER_TOKEN)


async def text_of(provider: Provider, request: ModelRequest) -> str:
    """The text of one answer, as far as it may be long. Raises ProviderError."""
    pieces: list[str] = []
    left = most_bytes(request.options)
    async with aclosing(provider.stream(request)) as stream:
        async for delta in stream:
            if isinstance(delta, TextDelta):
                pieces.append(delta.text)
            left -= len(delta.text.encode()) if isinstance(delta, TextDelta | ThinkingDelta) else 0
            if left <= 0:
                break
    return "".join(pieces)


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
