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


class ResponseEvent(TypedDict):
    """The response as it is now."""

    type: Literal[
        "response.created",
        "response.in_progress",
        "response.completed",
        "response.incomplete",
        "response.failed",
    ]
    response: Response


class ItemEvent(TypedDict):
    """An item begins, or is complete."""

    type: Literal["response.output_item.added", "response.output_item.done"]
    output_index: int
    item: Item


class InItem(TypedDict):
    """The place of an event: an item of the output."""

    item_id: str
    output_index: int


class InText(InItem):
    """The place of an event: a text of a message."""

    content_index: int


class InSummary(InItem):
    """The place of an event: a part of the reasoning."""

    summary_index: int


class PartEvent(InText):
    """A part of a message begins, or is complete."""

    type: Literal["response.content_part.added", "response.content_part.done"]
    part: OutputText


class TextDelta(InText):
    """More text of a part."""

    type: Literal["response.output_text.delta"]
    delta: str
    logprobs: list[Json]


class TextDone(InText):
    """The whole text of a part."""

    type: Literal["response.output_text.done"]
    text: str
    logprobs: list[Json]


class AnnotationAdded(InText):
    """A citation of a part."""

    type: Literal["response.output_text.annotation.added"]
    annotation_index: int
    annotation: UrlCitation


class SummaryPartEvent(InSummary):
    """A part of the reasoning begins, or is complete."""

    type: Literal["response.reasoning_summary_part.added", "response.reasoning_summary_part.done"]
    part: SummaryText


class SummaryDelta(InSummary):
    """More reasoning."""

    type: Literal["response.reasoning_summary_text.delta"]
    delta: str


class SummaryDone(InSummary):
    """The whole reasoning of a part."""

    type: Literal["response.reasoning_summary_text.done"]
    text: str


class CallDelta(InItem):
    """The arguments of a call, or the input of a custom one."""

    type: Literal["response.function_call_arguments.delta", "response.custom_tool_call_input.delta"]
    delta: str


class ArgumentsDone(InItem):
    """The whole arguments of a call."""

    type: Literal["response.function_call_arguments.done"]
    arguments: str


class InputDone(InItem):
    """The whole input of a custom call."""

    type: Literal["response.custom_tool_call_input.done"]
    input: str


Event = (
    ResponseEvent
    | ItemEvent
    | PartEvent
    | TextDelta
    | TextDone
    | AnnotationAdded
    | SummaryPartEvent
    | SummaryDelta
    | SummaryDone
    | CallDelta
    | ArgumentsDone
    | InputDone
)
