"""The native protocol on the wire (CUI): built-in and custom types pass through unchanged.

A frame is the logged event with the run's id and the event's `seq`; the client merges deltas by
the rules of docs/messages.md. One `final` frame a run carries what a plain client needs.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal, TypedDict

import orjson

from channels_app.answers import Reply
from core.messages import MessageDict


class CuiFrame(MessageDict):
    """A message, where it belongs and which event of the run it is."""

    run_id: str
    seq: int


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


def frame(event: MessageDict, *, run_id: str, seq: int) -> CuiFrame:
    """The frame of one event of the log."""
    return {**event, "run_id": run_id, "seq": seq}


def final_frame(given: Reply, *, run_id: str, seq: int) -> FinalFrame:
    """The frame that follows the `stream_end`; `seq` is that of the `stream_end`."""
    return {
        "type": "final",
        "run_id": run_id,
        "seq": seq,
        "ok": given.ok,
        "text": given.text,
        "format": given.format,
        "images": given.images,
        "error": given.error,
    }


def encode(data: Mapping[str, object]) -> bytes:
    """One frame as a server-sent event, with `id: <seq>` where it has one."""
    seq = data.get("seq")
    head = b"" if seq is None else b"id: %d\n" % seq if isinstance(seq, int) else b""
    return head + b"data: " + orjson.dumps(data) + b"\n\n"
