"""The native protocol on the wire (CUI): built-in and custom types pass through unchanged.

A frame is the logged event with the run's id and the event's `seq`; the client merges deltas by the
rules of docs/messages.md. One `final` frame per run carries what a plain client needs.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal, TypedDict

from channels_app.asgi.http import RefusedError, refused_body
from channels_app.rendering.answer import Reply
from core.messages import MessageDict, Metadata


class CuiFrame(MessageDict):
    """A message with its run, the `seq` of its event, and that of the frame before it (`after`)."""

    run_id: str
    seq: int
    after: int


class FinalFrame(TypedDict):
    """The whole answer, after the last event of its run; `images` are data URLs."""

    type: Literal["final"]
    run_id: str
    seq: int
    ok: bool
    text: str
    format: str
    images: list[str]
    error: str
    code: str


def frame(event: MessageDict, *, run_id: str, seq: int, after: int) -> CuiFrame:
    metadata: Metadata = {**event.get("metadata", {}), "sequence": seq}
    return {**event, "metadata": metadata, "run_id": run_id, "seq": seq, "after": after}


def final_frame(given: Reply, *, run_id: str, seq: int) -> FinalFrame:
    """Return the frame that follows the `stream_end`; `seq` is that of the `stream_end`."""
    return {
        "type": "final",
        "run_id": run_id,
        "seq": seq,
        "ok": given.ok,
        "text": given.text,
        "format": given.format,
        "images": given.images,
        "error": given.error,
        "code": given.code,
    }


def frames_of(
    event: MessageDict, *, run_id: str, session_id: str, seq: int, after: int
) -> list[dict[str, object]]:
    """Return the web chat's frames of one event; a progress line has an additional one."""
    frames: list[dict[str, object]] = [
        {**frame(event, run_id=run_id, seq=seq, after=after), "session_id": session_id}
    ]
    props = event["props"]
    data = props.get("data")
    if event["type"] == "event" and props.get("event") == "progress" and isinstance(data, dict):
        line: dict[str, object] = {"type": "progress", "run_id": run_id, "session_id": session_id}
        line |= {"message": props.get("message", ""), "tool": data.get("tool", "")}
        frames.append(line | ({"percent": data["percent"]} if "percent" in data else {}))
    return frames


def error_frame(error: RefusedError, *, client_id: str = "", run_id: str = "") -> dict[str, object]:
    """Build the error frame for a client's frame, with the fields of a denied answer ([A3])."""
    found = {"type": "error", **refused_body(error)}
    named = {"client_id": client_id, "run_id": run_id}
    return found | {name: value for name, value in named.items() if value}


def refused_plainly(error: RefusedError, *, client_id: str) -> dict[str, object]:
    """Build the error for a client of the plain form, which has no types."""
    return {
        key: each for key, each in error_frame(error, client_id=client_id).items() if key != "type"
    }


def plain_answer(
    result: Mapping[str, object], *, run_id: str, session_id: str, client_id: str
) -> dict[str, object]:
    """Build an answer in the plain form of requirement 1."""
    found: dict[str, object] = {
        "ok": result.get("state") == "succeeded",
        "status": result.get("status", 200),
        "text": result.get("text", ""),
        "format": result.get("format", "plain"),
        "run_id": run_id,
        "session_id": session_id,
    }
    optional = {
        "images": result.get("images"),
        "error": result.get("error"),
        "code": result.get("code"),
        "client_id": client_id,
    }
    return found | {name: value for name, value in optional.items() if value}
