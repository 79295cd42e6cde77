"""The JSON of the Messages API, as far as the gateway sends it."""

from __future__ import annotations

from typing import Any, Literal, NotRequired, TypedDict

StopReason = Literal["end_turn", "max_tokens", "stop_sequence", "tool_use", "refusal"]


class TextBlock(TypedDict):
    type: Literal["text"]
    text: str


class ThinkingBlock(TypedDict):
    """``signature`` is opaque; it is accepted when it comes back."""

    type: Literal["thinking"]
    thinking: str
    signature: str


class ToolUseBlock(TypedDict):
    """A call of a tool that the client runs."""

    type: Literal["tool_use"]
    id: str
    name: str
    input: dict[str, Any]


Block = TextBlock | ThinkingBlock | ToolUseBlock


class Usage(TypedDict):
    """The tokens of a run. ``input_tokens`` are those that did not come from the cache; how many
    were written to it is not known.
    """

    input_tokens: int
    output_tokens: int
    cache_creation_input_tokens: int
    cache_read_input_tokens: int
    service_tier: NotRequired[Literal["standard"]]


class Message(TypedDict):
    """An answer, whole or as it begins."""

    id: str
    type: Literal["message"]
    role: Literal["assistant"]
    model: str
    content: list[Block]
    stop_reason: StopReason | None
    stop_sequence: str | None
    usage: Usage


class MessageStart(TypedDict):
    type: Literal["message_start"]
    message: Message


class BlockStart(TypedDict):
    type: Literal["content_block_start"]
    index: int
    content_block: Block


class TextDelta(TypedDict):
    type: Literal["text_delta"]
    text: str


class ThinkingDelta(TypedDict):
    type: Literal["thinking_delta"]
    thinking: str


class SignatureDelta(TypedDict):
    type: Literal["signature_delta"]
    signature: str


class InputDelta(TypedDict):
    type: Literal["input_json_delta"]
    partial_json: str


class BlockDelta(TypedDict):
    type: Literal["content_block_delta"]
    index: int
    delta: TextDelta | ThinkingDelta | SignatureDelta | InputDelta


class BlockStop(TypedDict):
    type: Literal["content_block_stop"]
    index: int


class Stop(TypedDict):
    stop_reason: StopReason
    stop_sequence: str | None


class MessageDelta(TypedDict):
    """The end of the answer; the usage is of the whole run."""

    type: Literal["message_delta"]
    delta: Stop
    usage: Usage


class MessageStop(TypedDict):
    type: Literal["message_stop"]


class ErrorDetails(TypedDict):
    """The cause of an error, for clients that then ask in another way."""

    error_code: str
    unsupported: list[str]


class Error(TypedDict):
    type: str
    message: str
    details: NotRequired[ErrorDetails]


class ErrorFrame(TypedDict):
    """An error, as an event and as the body of a failed request."""

    type: Literal["error"]
    error: Error
    request_id: str


Frame = MessageStart | BlockStart | BlockDelta | BlockStop | MessageDelta | MessageStop | ErrorFrame


class Model(TypedDict):
    """One entry of ``GET /v1/models``."""

    type: Literal["model"]
    id: str
    display_name: str
    created_at: str
    lifecycle: Literal["active"]
