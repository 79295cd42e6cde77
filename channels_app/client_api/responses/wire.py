"""The JSON of the Responses API, as far as the gateway sends it."""

from __future__ import annotations

from typing import Any, Literal, NotRequired, TypedDict

Json = dict[str, Any]
Status = Literal["queued", "in_progress", "completed", "failed", "cancelled", "incomplete"]
ItemStatus = Literal["in_progress", "completed", "incomplete"]


class UrlCitation(TypedDict):
    """A cited page; the indices are characters of the text of its part."""

    type: Literal["url_citation"]
    url: str
    title: str
    start_index: int
    end_index: int


class OutputText(TypedDict):
    """The text of a message. ``logprobs`` is always empty."""

    type: Literal["output_text"]
    text: str
    annotations: list[UrlCitation]
    logprobs: list[Json]


class SummaryText(TypedDict):
    """The reasoning of the model, as far as its server shows it."""

    type: Literal["summary_text"]
    text: str


class MessageItem(TypedDict):
    """A message of the assistant."""

    id: str
    type: Literal["message"]
    role: Literal["assistant"]
    status: ItemStatus
    content: list[OutputText]


class ReasoningItem(TypedDict):
    """The thoughts of the model, encrypted too where the client asked for that."""

    id: str
    type: Literal["reasoning"]
    status: ItemStatus
    summary: list[SummaryText]
    encrypted_content: str | None


class FunctionCall(TypedDict):
    """A call of a function of the client; ``arguments`` is a JSON text."""

    id: str
    type: Literal["function_call"]
    status: ItemStatus
    call_id: str
    name: str
    arguments: str
    namespace: NotRequired[str]


class CustomCall(TypedDict):
    """A call of a tool of the client whose input is a text of any form."""

    id: str
    type: Literal["custom_tool_call"]
    status: ItemStatus
    call_id: str
    name: str
    input: str
    namespace: NotRequired[str]


class ShellCall(TypedDict):
    """A command for the client's own shell."""

    id: str
    type: Literal["local_shell_call"]
    status: ItemStatus
    call_id: str
    action: Json


CallItem = FunctionCall | CustomCall | ShellCall
Item = MessageItem | ReasoningItem | CallItem


class TokensIn(TypedDict):
    cached_tokens: int
    cache_write_tokens: int


class TokensOut(TypedDict):
    reasoning_tokens: int


class Usage(TypedDict):
    input_tokens: int
    input_tokens_details: TokensIn
    output_tokens: int
    output_tokens_details: TokensOut
    total_tokens: int


class Response(TypedDict):
    """A response, with the fields of its request as the gateway understood them."""

    id: str
    object: Literal["response"]
    created_at: int
    completed_at: int | None
    status: Status
    error: Json | None
    incomplete_details: Json | None
    output: list[Item]
    usage: Usage | None
    model: str
    background: bool
    store: bool
    instructions: str | None
    previous_response_id: str | None
    metadata: dict[str, str]
    tools: list[Json]
    tool_choice: str | Json
    parallel_tool_calls: bool
    temperature: float | None
    top_p: float | None
    max_output_tokens: int | None
    reasoning: Json
    text: Json
    truncation: str
    service_tier: str | None
    user: str | None
    safety_identifier: str | None
    prompt_cache_key: str | None


# An event of a stream. The tests check each against the types that OpenAI publishes.
Event = Json
