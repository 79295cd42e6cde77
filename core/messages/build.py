"""Constructors: one per built-in type, deltas, and the lifecycle events of a run.

The main value may be positional, as in `text_message("Hello")`; all else is by keyword. Optional
props that are not given are left out of the message.
"""

from collections.abc import Mapping
from typing import Any, Literal, TypedDict, Unpack

from core.messages.props import (
    ImageDetail,
    RetrievalSource,
    VideoProps,
)
from core.messages.types import (
    CLASSES,
    ActionMessage,
    AudioMessage,
    CustomMessage,
    DeltaAction,
    ErrorMessage,
    EventMessage,
    ImageMessage,
    LoadingMessage,
    Message,
    MessageError,
    RetrievalMessage,
    TextMessage,
    ThinkingMessage,
    ToolCallMessage,
    VideoMessage,
)

StreamStatus = Literal["completed", "error", "cancelled"]


def _props(required: Mapping[str, object], **optional: object) -> Any:
    """Return the required props, and the optional ones that are neither None nor an empty text."""
    given = {name: value for name, value in optional.items() if value not in (None, "")}
    return {**required, **given}


def text_message(content: str, *, message_id: str = "") -> TextMessage:
    """Return an answer in Markdown."""
    return TextMessage(props={"content": content}, message_id=message_id)


def thinking_message(content: str, *, message_id: str = "") -> ThinkingMessage:
    """Return the model's reasoning."""
    return ThinkingMessage(props={"content": content}, message_id=message_id)


def loading_message(message: str, *, message_id: str = "") -> LoadingMessage:
    """Build a progress line."""
    return LoadingMessage(props={"message": message}, message_id=message_id)


def tool_call_message(
    call_id: str, name: str, arguments: str = "", *, message_id: str = ""
) -> ToolCallMessage:
    """Return a tool call; `arguments` is a JSON text."""
    props = _props({"id": call_id, "name": name}, arguments=arguments)
    return ToolCallMessage(props=props, message_id=message_id)


def retrieval_message(
    query: str,
    sources: list[RetrievalSource],
    *,
    total_results: int | None = None,
    query_time_ms: int | None = None,
    provider: str = "",
    message_id: str = "",
) -> RetrievalMessage:
    """Return the sources a search found; `query_time_ms` in milliseconds."""
    props = _props(
        {"query": query, "sources": sources},
        total_results=total_results,
        query_time_ms=query_time_ms,
        provider=provider,
    )
    return RetrievalMessage(props=props, message_id=message_id)


def error_message(
    message: str, code: str = "", *, details: str = "", message_id: str = ""
) -> ErrorMessage:
    """Build an error for the user; `details` are for the owner."""
    props = _props({"message": message}, code=code, details=details)
    return ErrorMessage(props=props, message_id=message_id)


def action_message(
    name: str, payload: Mapping[str, object] | None = None, *, message_id: str = ""
) -> ActionMessage:
    """Return a command to the frontend: open_panel, navigate, refresh_view, close_modal …"""
    props = _props({"name": name}, payload=payload or None)
    return ActionMessage(props=props, message_id=message_id)


def event_message(
    event: str, message: str = "", data: Mapping[str, object] | None = None
) -> EventMessage:
    return EventMessage(props=_props({"event": event}, message=message, data=data))


def image_message(
    url: str,
    alt: str = "",
    *,
    width: int | None = None,
    height: int | None = None,
    detail: ImageDetail | None = None,
    message_id: str = "",
) -> ImageMessage:
    """Return an image at an address or in a data URL; sizes in pixels."""
    props = _props({"url": url}, alt=alt, width=width, height=height, detail=detail)
    return ImageMessage(props=props, message_id=message_id)


def audio_message(
    url: str,
    audio_format: str = "",
    *,
    duration: float | None = None,
    transcript: str = "",
    autoplay: bool = False,
    controls: bool = True,
    message_id: str = "",
) -> AudioMessage:
    """Make a sound; `duration` in seconds, `audio_format` mp3, wav, ogg …"""
    props = _props(
        {"url": url, "controls": controls},
        format=audio_format,
        duration=duration,
        transcript=transcript,
        autoplay=autoplay or None,
    )
    return AudioMessage(props=props, message_id=message_id)


def video_message(
    url: str, *, message_id: str = "", props: VideoProps | None = None
) -> VideoMessage:
    """Return a film; further `props` (format, duration, thumbnail, width …) as documented."""
    merged: VideoProps = {"url": url, "controls": True}
    if props:
        merged.update(props)
        merged["url"] = url
    return VideoMessage(props=merged, message_id=message_id)


def custom_message(
    message_type: str, props: Mapping[str, object], *, message_id: str = ""
) -> CustomMessage:
    """Return a message of a type of your own. Raises `MessageError` for a built-in type's name."""
    if message_type in CLASSES:
        raise MessageError("type", f"{message_type} is a built-in type")
    return CustomMessage(type=message_type, props=props, message_id=message_id)


def delta_message(
    message_type: str,
    props: Mapping[str, object],
    *,
    message_id: str,
    path: str = "",
    action: DeltaAction = "append",
    type_change: bool = False,
) -> Message:
    """Build a change to the message with this id; the new value is at `path` in `props`."""
    build = CLASSES.get(message_type)
    if build is None:
        message: Message = CustomMessage(type=message_type, props=props)
    else:
        message = build(props=props)
    message.message_id = message_id
    message.delta = True
    message.delta_path = path
    message.delta_action = action
    message.type_change = type_change
    return message


def text_delta(content: str, *, message_id: str) -> Message:
    """Return more text of an answer."""
    return delta_message("text", {"content": content}, message_id=message_id, path="content")


def thinking_delta(content: str, *, message_id: str) -> Message:
    """Return more of the model's reasoning."""
    return delta_message("thinking", {"content": content}, message_id=message_id, path="content")


def reset_delta(message_type: str, *, message_id: str) -> Message:
    """Return the delta that empties a streamed text or thinking message for another attempt."""
    return delta_message(
        message_type, {"content": ""}, message_id=message_id, path="content", action="set"
    )


def stream_start(
    *, request_id: str, chat_id: str, trace_id: str, timestamp_ms: int, context_id: str = ""
) -> EventMessage:
    """Return the first event of a run. `trace_id` names the trace page, `chat_id` the session."""
    data = {
        "request_id": request_id,
        "context_id": context_id or request_id,
        "chat_id": chat_id,
        "trace_id": trace_id,
        "timestamp": timestamp_ms,
    }
    return event_message("stream_start", "Stream started", data)


def message_start(*, message_id: str, message_type: str) -> EventMessage:
    """Return the event before the first event of a message."""
    return event_message("message_start", data={"message_id": message_id, "type": message_type})


def message_end(
    *, message_id: str, message_type: str, chunk_count: int | None = None
) -> EventMessage:
    """Return the event after the last event of a message; `chunk_count` events were sent for it."""
    data = _props({"message_id": message_id, "type": message_type}, chunk_count=chunk_count)
    return event_message("message_end", data=data)


def block_start(*, block_id: str, block_type: str) -> EventMessage:
    """Return the event before the first message of a block; `block_type` is llm, mixed …"""
    return event_message("block_start", data={"block_id": block_id, "type": block_type})


def block_end(
    *, block_id: str, block_type: str, message_count: int, status: StreamStatus = "completed"
) -> EventMessage:
    """Return the event after the last message of a block."""
    data = {
        "block_id": block_id,
        "type": block_type,
        "message_count": message_count,
        "status": status,
    }
    return event_message("block_end", data=data)


class EndFacts(TypedDict, total=False):
    """Facts that only some runs end with. `stop_sequence`: which one ended the answer;
    `retry_after`: the seconds after which a failed run may be asked for again."""

    stop_sequence: str
    retry_after: float | None


def stream_end(
    *,
    status: StreamStatus,
    request_id: str = "",
    timestamp_ms: int | None = None,
    duration_ms: int | None = None,
    error: str = "",
    usage: Mapping[str, int] | None = None,
    finish_reason: str = "",
    **more: Unpack[EndFacts],
) -> EventMessage:
    """Return the last event of a run. `usage` has prompt_tokens, completion_tokens, total_tokens,
    and cached_tokens and reasoning_tokens where the model reports some; `finish_reason` is the
    model's: stop, length, tool_calls, content_filter."""
    data = _props(
        {"status": status},
        finish_reason=finish_reason,
        request_id=request_id,
        timestamp=timestamp_ms,
        duration_ms=duration_ms,
        error=error,
        usage=usage,
        **more,
    )
    return event_message("stream_end", f"Stream {status}", data)


def progress(message: str, *, tool: str = "", percent: float | None = None) -> EventMessage:
    """Build a tool's progress; `percent` 0 to 100 where known (contract D2)."""
    return event_message("progress", message, _props({"tool": tool}, percent=percent))


def tool_end(
    *, call_id: str, name: str, ok: bool, output: str = "", waits: bool = False
) -> EventMessage:
    """Return the end of a tool that the gateway ran; `output` is a short text for the user.
    ``waits``: the call was not made, and is made after a sign-in.
    """
    status = "completed" if ok else "error"
    data = _props({"id": call_id, "name": name, "status": status}, output=output)
    if waits:
        data["waits"] = True
    return event_message("tool_end", data=data)
