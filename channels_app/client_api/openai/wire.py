"""The JSON of the chat completions API, as far as the gateway sends it."""

from __future__ import annotations

from typing import Literal, NotRequired, TypedDict, final


class Function(TypedDict):
    """The function to call; `arguments` is a JSON text."""

    name: str
    arguments: str


class ToolCall(TypedDict):
    """A call of a tool that the client runs; clients need the `index`."""

    index: NotRequired[int]
    id: str
    type: Literal["function"]
    function: Function


class UrlCitation(TypedDict):
    """A cited page; the indices are characters of the content."""

    url: str
    title: str
    start_index: int
    end_index: int


class Annotation(TypedDict):
    """A source card in clients that show them."""

    type: Literal["url_citation"]
    url_citation: UrlCitation


class Delta(TypedDict, total=False):
    """The addition of one chunk to the message."""

    role: Literal["assistant"]
    content: str
    reasoning_content: str
    tool_calls: list[ToolCall]
    annotations: list[Annotation]


class Choice(TypedDict):
    """The only choice of a chunk."""

    index: int
    delta: Delta
    finish_reason: str | None


class PromptDetails(TypedDict):
    cached_tokens: int


class CompletionDetails(TypedDict):
    reasoning_tokens: int


class Usage(TypedDict):
    prompt_tokens: int
    completion_tokens: int
    total_tokens: int
    prompt_tokens_details: PromptDetails
    completion_tokens_details: CompletionDetails


@final
class Chunk(TypedDict):
    """One streamed frame; every frame but an error has `choices`."""

    id: str
    object: Literal["chat.completion.chunk"]
    created: int
    model: str
    choices: list[Choice]
    usage: NotRequired[Usage | None]


class Error(TypedDict):
    message: str
    type: str
    code: str | None
    param: str | None


@final
class ErrorFrame(TypedDict):
    """An error, as a frame and as the body of a failed request."""

    error: Error


class FinalMessage(TypedDict):
    """The message of an answer that was not streamed."""

    role: Literal["assistant"]
    content: str | None
    refusal: None
    reasoning_content: NotRequired[str]
    tool_calls: NotRequired[list[ToolCall]]
    annotations: NotRequired[list[Annotation]]


class FinalChoice(TypedDict):
    """The only choice of a completion."""

    index: int
    message: FinalMessage
    logprobs: None
    finish_reason: str


@final
class Completion(TypedDict):
    """The answer without streaming."""

    id: str
    object: Literal["chat.completion"]
    created: int
    model: str
    choices: list[FinalChoice]
    usage: Usage


Frame = Chunk | ErrorFrame | Literal["[DONE]"]
