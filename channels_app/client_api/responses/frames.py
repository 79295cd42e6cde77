"""The parts of which the events of a response are made. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from channels_app.asgi.chat_messages import Json
from channels_app.client_api import failures
from channels_app.client_api.run_adapter import Failure, Usage

# The tests check each event and each response against the types that OpenAI publishes.
Event = Json


def text_part(text: str, annotations: list[Json]) -> Json:
    return {"type": "output_text", "text": text, "annotations": annotations, "logprobs": []}


def summary_text(text: str) -> Json:
    return {"type": "summary_text", "text": text}


def message_of(name: str, status: str, part: Json) -> Json:
    return {
        "id": name,
        "type": "message",
        "role": "assistant",
        "status": status,
        "content": [part],
    }


def reasoning_of(name: str, status: str, text: str, *, sealed: str | None = None) -> Json:
    """Return a thought. ``sealed``: the same, encrypted for the client to keep."""
    return {
        "id": name,
        "type": "reasoning",
        "status": status,
        "summary": [summary_text(text)],
        "encrypted_content": sealed,
    }


def in_text(name: str, at: int) -> Event:
    """Return the place of the only text of a message, the item number ``at``."""
    return {"item_id": name, "output_index": at, "content_index": 0}


def in_summary(name: str, at: int) -> Event:
    """Return the place of the only part of a thought, the item number ``at``."""
    return {"item_id": name, "output_index": at, "summary_index": 0}


def text_ends(name: str, at: int, part: Json) -> list[Event]:
    """Return the events that end the text of a message."""
    place, text = in_text(name, at), part["text"]
    return [
        {"type": "response.output_text.done", **place, "text": text, "logprobs": []},
        {"type": "response.content_part.done", **place, "part": part},
    ]


def summary_ends(name: str, at: int, text: str) -> list[Event]:
    """Return the events that end a thought."""
    place, part = in_summary(name, at), summary_text(text)
    return [
        {"type": "response.reasoning_summary_text.done", **place, "text": text},
        {"type": "response.reasoning_summary_part.done", **place, "part": part},
    ]


def begun(item: Json) -> Json:
    """Return a call as it is before its arguments are known."""
    if item["type"] == "function_call":
        return {**item, "status": "in_progress", "arguments": ""}
    if item["type"] == "custom_tool_call":
        return {**item, "status": "in_progress", "input": ""}
    return {**item, "status": "in_progress"}


def arguments_of(item: Json, at: int) -> list[Event]:
    """Return the events between the begin and the end of a call."""
    place = {"item_id": item["id"], "output_index": at}
    if item["type"] == "function_call":
        given = item["arguments"]
        return [
            {"type": "response.function_call_arguments.delta", **place, "delta": given},
            {"type": "response.function_call_arguments.done", **place, "arguments": given},
        ]
    if item["type"] == "custom_tool_call":
        given = item["input"]
        return [
            {"type": "response.custom_tool_call_input.delta", **place, "delta": given},
            {"type": "response.custom_tool_call_input.done", **place, "input": given},
        ]
    return []


def usage_of(data: Mapping[str, object]) -> Json:
    """Return the usage of a ``stream_end`` in the form of the Responses API."""
    usage = Usage.of(data)
    return {
        "input_tokens": usage.prompt,
        "input_tokens_details": {"cached_tokens": usage.cached, "cache_write_tokens": 0},
        "output_tokens": usage.answer,
        "output_tokens_details": {"reasoning_tokens": usage.reasoning},
        "total_tokens": usage.total,
    }


def seconds_of(data: Mapping[str, object]) -> int | None:
    """Return when a run ended, in seconds since 1970; None where its log does not say."""
    at = data.get("timestamp")
    return int(at) // 1000 if isinstance(at, int | float) else None


def code_of(failure: Failure) -> Literal["rate_limit_exceeded", "invalid_prompt", "server_error"]:
    """Return the code of a failed response: the API's schema has no others that fit."""
    status = failures.status_of(failure)
    if status == 429:
        return "rate_limit_exceeded"
    # Codex begins an answer of any other code anew, also one that was stopped (499).
    return "invalid_prompt" if status in (400, 413, 422, 499) else "server_error"
