"""The provider interface: a request in OpenAI's chat form in, a stream of deltas out."""

import json
from collections.abc import AsyncGenerator
from contextlib import aclosing
from dataclasses import dataclass, field
from typing import Any, Protocol

from django.conf import settings

from core.messages import Message
from core.providers.failures import Failure

ChatMessage = dict[str, Any]
# The tolerance of an answer's length: estimates of tokens differ.
ALLOWANCE = 4
BYTES_PER_TOKEN = 4
LEAST_TOKENS = 256
CALL_BYTES = 64  # overhead of a piece of a tool call
LIMITS = {"max_tokens", "max_completion_tokens"}
# In messages, for core.providers.returned alone.
REASONING, SEALED, EXTRA = "reasoning", "sealed", "extra"
MOST_EXTRA = 64 * 1024  # characters


@dataclass(frozen=True, slots=True)
class ModelRequest:
    """One call: chat messages and tools as in OpenAI's chat completions."""

    messages: list[ChatMessage]
    tools: list[dict[str, Any]] = field(default_factory=list)
    model: str = ""
    options: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class TextDelta:
    text: str


@dataclass(frozen=True, slots=True)
class ThinkingDelta:
    text: str


@dataclass(frozen=True, slots=True)
class SealedDelta:
    """Reasoning that only the server can read, as JSON of at most MOST_EXTRA characters."""

    text: str


@dataclass(frozen=True, slots=True)
class ToolCallDelta:
    """A part of the tool call number ``index``; ``arguments`` is a piece of JSON text. ``extra``:
    a field that the server may want back with the call, as JSON of at most MOST_EXTRA characters.
    """

    index: int
    id: str = ""
    name: str = ""
    arguments: str = ""
    extra: str = ""


def arguments_text(given: object) -> str:
    """Return the arguments of a call as text: some servers send them as an object."""
    if isinstance(given, str):
        return given
    return json.dumps(given, ensure_ascii=False, separators=(",", ":")) if given else ""


@dataclass(frozen=True, slots=True)
class Usage:
    """The tokens of one call, as the provider reports them. ``cached_tokens`` are among those of
    the prompt, ``reasoning_tokens`` among those of the completion.
    """

    prompt_tokens: int
    completion_tokens: int
    cached_tokens: int = 0
    reasoning_tokens: int = 0


@dataclass(frozen=True, slots=True)
class Restart:
    """This answer begins again, and its deltas so far are void, perhaps by another model."""


@dataclass(frozen=True, slots=True)
class Delay:
    """The answer is delayed: a line for the person."""

    line: str


@dataclass(frozen=True, slots=True)
class Finish:
    """The reason of the end: stop, length, tool_calls, content_filter. ``stop_sequence``: the text
    of the request's ``stop`` that ended the answer, where the server says which one.
    """

    reason: str
    stop_sequence: str = ""


@dataclass(frozen=True, slots=True)
class Whole:
    """A message that the model's server created: its search sources, a picture, a warning."""

    message: Message


Delta = (
    TextDelta
    | ThinkingDelta
    | SealedDelta
    | ToolCallDelta
    | Whole
    | Usage
    | Finish
    | Restart
    | Delay
)


class ProviderError(Exception):
    """A model call failed. The text is for the user; it contains no secret and no address.

    ``code``: of :data:`core.providers.failures.KINDS`, or one of the gateway's own (steps,
    attempts). ``retry_after``: seconds to wait before another try, or None when another try is
    useless. ``reason``: the server's own words, for the owner.
    """

    def __init__(
        self, message: str, *, code: str, retry_after: float | None = None, reason: str = ""
    ) -> None:
        super().__init__(message)
        self.code = code
        self.retry_after = retry_after
        self.reason = reason

    @classmethod
    def of(cls, failure: Failure) -> "ProviderError":
        """Return the error of a classified failure, with its text for the user."""
        return cls(
            failure.words,
            code=failure.code,
            retry_after=failure.retry_after,
            reason=failure.reason,
        )


class Provider(Protocol):
    """A source of model answers. One instance serves all runs of a process."""

    def stream(self, request: ModelRequest) -> AsyncGenerator[Delta, None]:
        """Yield the deltas of one answer, ending with one ``Finish``. Raises ProviderError."""
        ...

    async def close(self) -> None: ...


def most_bytes(options: dict[str, Any], *, window: int = 0) -> int:
    """Return the maximum length of one answer, with its reasoning and calls: ALLOWANCE times the
    allowed tokens, at most MAX_ANSWER_BYTES. Without a limit in the request the model's ``window``
    counts, or that of the settings where it is larger.
    """
    asked = [options[name] for name in LIMITS & options.keys()]
    usual = max(window, settings.LLM_CONTEXT_TOKENS)
    tokens = max([*asked, LEAST_TOKENS]) if asked else usual
    return min(settings.MAX_ANSWER_BYTES, int(tokens) * ALLOWANCE * BYTES_PER_TOKEN)


def size_of(delta: Delta) -> int:
    """Return the bytes that a delta counts toward :func:`most_bytes`."""
    match delta:
        case TextDelta() | ThinkingDelta():
            return len(delta.text.encode())
        case ToolCallDelta():
            return len(delta.arguments) + CALL_BYTES
    return 0


@dataclass(frozen=True, slots=True)
class Answer:
    """The text of an answer. ``is_cut``: by its limit; ``has_thought``: with reasoning."""

    text: str
    is_cut: bool
    has_thought: bool


async def answer_of(provider: Provider, request: ModelRequest) -> Answer:
    """Return one answer, within the maximum length. Raises ProviderError."""
    pieces: list[str] = []
    left = most_bytes(request.options)
    is_cut = has_thought = False
    async with aclosing(provider.stream(request)) as stream:
        async for delta in stream:
            match delta:
                case Restart():
                    pieces, left, has_thought = [], most_bytes(request.options), False
                case TextDelta():
                    pieces.append(delta.text)
                case ThinkingDelta():
                    has_thought = True
                case Usage():
                    has_thought = has_thought or delta.reasoning_tokens > 0
                case Finish():
                    is_cut = delta.reason == "length"
            left -= size_of(delta)
            if left <= 0:
                is_cut = True
                break
    return Answer("".join(pieces), is_cut, has_thought)


async def text_of(provider: Provider, request: ModelRequest) -> str:
    """Return the text of one answer, within the maximum length. Raises ProviderError."""
    return (await answer_of(provider, request)).text


class Unavailable:
    """A provider that is not configured: every call fails with ``error``."""

    def __init__(self, error: ProviderError) -> None:
        self._error = error

    async def stream(self, request: ModelRequest) -> AsyncGenerator[Delta, None]:
        # Without the places of earlier calls, whose frames would stay, with their keys and texts.
        raise self._error.with_traceback(None)
        yield  # makes this a generator

    async def close(self) -> None: ...
