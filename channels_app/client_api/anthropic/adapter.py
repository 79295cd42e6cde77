"""A run's event log as the events of the Messages API, and as one message.

Every text, every stretch of thinking and every call of a tool of the client is a block of its own,
with an index; a block ends when the next one begins, whether the log is live or stored. Calls that
the gateway makes itself are no ``tool_use`` blocks: the client would run them and call again.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import orjson

from channels_app.client_api import failures
from channels_app.client_api.anthropic import errors
from channels_app.client_api.run_adapter import (
    End,
    Failure,
    ProseAdapter,
    RunConfig,
    TextKind,
    Usage,
    whole_run,
)
from channels_app.rendering.links import source_line
from core.providers.returned import as_object

# The JSON of an event. The tests check each against the types that Anthropic publishes.
Frame = dict[str, Any]

STOP_REASONS = {
    "stop": "end_turn",
    "length": "max_tokens",
    "tool_calls": "tool_use",
    "content_filter": "refusal",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Config(RunConfig):
    """The options of one request. ``shows_thinking``: the client asked for thinking blocks.
    ``prompt_tokens``: of the request, as estimated.
    """

    shows_thinking: bool = False
    prompt_tokens: int = 0


class AnthropicAdapter(ProseAdapter[Frame]):
    """Turns events into frames, for one run; `encode` makes server-sent events of them."""

    has_stopped_end = False

    def __init__(self, config: Config) -> None:
        super().__init__(config)
        self.config = config
        self._index = -1
        self._calls = 0
        # The kind and the name of the block that is not ended yet.
        self._open: tuple[TextKind, str] | None = None

    def length(self, frame: Frame) -> int:
        return len(text_of(frame))

    def without(self, frame: Frame, characters: int) -> Frame:
        field = field_of(frame)
        if not field:
            return frame
        delta = frame["delta"]
        return {**frame, "delta": {**delta, field: delta[field][characters:]}}

    def begin(self) -> list[Frame]:
        """Begin with the empty message and estimated tokens: some clients read them only here."""
        return [{"type": "message_start", "message": empty_message(self.config)}]

    def text(self, kind: TextKind, key: str, piece: str, *, settled: bool) -> list[Frame]:
        """Add to the open block, or begin one. Thinking is shown only on request."""
        if not piece or (kind == "thinking" and not self.config.shows_thinking):
            return []
        frames: list[Frame] = []
        if not key or self._open != (kind, key):
            block = {"type": "text", "text": ""}
            if kind == "thinking":
                block = {"type": "thinking", "thinking": "", "signature": ""}
            frames += [*self._stop(), self._start(block)]
            self._open = (kind, key)
        delta = {"type": "text_delta", "text": piece}
        if kind == "thinking":
            delta = {"type": "thinking_delta", "thinking": piece}
        return [*frames, self._delta(delta)]

    def client_call(self, call_id: str, name: str, arguments: str) -> list[Frame]:
        """Convert a call of the client's own tool. Its arguments are an object, as clients can read
        nothing else; their own check of the fields refuses another text in one.

        Its id is new: some models' servers give the same one in every turn, and the client's
        history holds them all.
        """
        self._calls += 1
        block = {
            "type": "tool_use",
            "id": f"toolu_{self.config.run_id}_{self._calls}",
            "name": name,
            "input": {},
        }
        piece = {"type": "input_json_delta", "partial_json": as_object(arguments)}
        ended = self._stop()
        frames = [*ended, self._start(block), self._delta(piece)]
        return [*frames, {"type": "content_block_stop", "index": self._index}]

    def end(self, end: End) -> list[Frame]:
        """End with the sources, the reason and the usage."""
        frames = [*self._sources(), *self._stop()]
        reason = "tool_use" if self._calls else "end_turn"
        stopped = STOP_REASONS.get(end.reason, reason)
        if stopped == "tool_use" and not self._calls:
            stopped = "end_turn"
        matched = str(end.data.get("stop_sequence") or "") if stopped == "end_turn" else ""
        return [
            *frames,
            {
                "type": "message_delta",
                "delta": {
                    "stop_reason": "stop_sequence" if matched else stopped,
                    "stop_sequence": matched or None,
                },
                "usage": usage_of(end.usage),
            },
            {"type": "message_stop"},
        ]

    def fail(self, failure: Failure) -> list[Frame]:
        return [error_of(failure, request_id=self.config.run_id)]

    def _sources(self) -> list[Frame]:
        """Convert the sources to a numbered list."""
        found = self.citations()
        if not found:
            return []
        lines = [source_line(number, each) for number, each in enumerate(found, start=1)]
        return self.line("\n".join([f"**{self.words.sources}**\n", *lines]))

    def line(self, text: str) -> list[Frame]:
        return self.text("text", "", text, settled=True)

    def _start(self, block: Mapping[str, object]) -> Frame:
        self._index += 1
        return {"type": "content_block_start", "index": self._index, "content_block": block}

    def _delta(self, delta: Mapping[str, str]) -> Frame:
        return {"type": "content_block_delta", "index": self._index, "delta": delta}

    def _stop(self) -> list[Frame]:
        """End the open block; thinking is signed before."""
        if self._open is None:
            return []
        kind, self._open = self._open[0], None
        frames: list[Frame] = []
        if kind == "thinking":
            # The same for the same block, and of no other use.
            signature = hashlib.sha256(f"{self.config.run_id}:{self._index}".encode()).hexdigest()
            frames.append(self._delta({"type": "signature_delta", "signature": signature}))
        return [*frames, {"type": "content_block_stop", "index": self._index}]


def text_of(frame: Frame) -> str:
    """Return the text or thinking that a frame adds."""
    field = field_of(frame)
    return str(frame["delta"][field]) if field else ""


def field_of(frame: Frame) -> str:
    """Return the field of a delta that has its text or thinking; "" for another frame."""
    if frame["type"] != "content_block_delta":
        return ""
    return next((name for name in ("text", "thinking") if name in frame["delta"]), "")


def encode(frame: Frame) -> bytes:
    """Encode one frame as a server-sent event."""
    return b"event: %s\ndata: %s\n\n" % (frame["type"].encode(), orjson.dumps(frame))


def empty_message(config: Config) -> Frame:
    """Return the message before its first block."""
    return {
        "id": f"msg_{config.run_id}",
        "type": "message",
        "role": "assistant",
        "model": config.model,
        "content": [],
        "stop_reason": None,
        "stop_sequence": None,
        "usage": {**usage_of(Usage(prompt=config.prompt_tokens)), "service_tier": "standard"},
    }


def usage_of(usage: Usage) -> dict[str, int]:
    """Return the usage of a run in Anthropic's form. ``input_tokens`` are those that did not come
    from the cache; how many were written to it is not known.
    """
    return {
        "input_tokens": max(0, usage.prompt - usage.cached),
        "output_tokens": usage.answer,
        "cache_creation_input_tokens": 0,
        "cache_read_input_tokens": usage.cached,
    }


def error_of(failure: Failure, *, request_id: str) -> Frame:
    """Return the error of a failed run, without the owner's details."""
    text = failures.message_of(failure, too_long=errors.TOO_LONG)
    return errors.body(errors.status_of(failure), text, request_id=request_id)


def message(events: Iterable[Mapping[str, object]], config: Config) -> Frame | Failure:
    """Return the whole run as one message, or why it failed.

    Abandoned attempts leave no trace: only the final messages are included.
    """
    adapter = AnthropicAdapter(config)
    frames, _ = whole_run(events, adapter)
    if adapter.failure is not None:
        return adapter.failure
    found = empty_message(config)
    for frame in frames:
        match frame["type"]:
            case "content_block_start":
                found["content"].append(frame["content_block"])
            case "content_block_delta":
                add(found["content"][-1], frame)
            case "message_delta":
                found["stop_reason"] = frame["delta"]["stop_reason"]
                found["stop_sequence"] = frame["delta"]["stop_sequence"]
                found["usage"] = {**frame["usage"], "service_tier": "standard"}
    return found


def add(block: dict[str, Any], frame: Frame) -> None:
    """Merge one delta into a block, as clients do."""
    delta = frame["delta"]
    if delta["type"] == "input_json_delta":
        block["input"] = orjson.loads(delta["partial_json"])
    elif delta["type"] == "signature_delta":
        block["signature"] += delta["signature"]
    else:
        block[field_of(frame)] += text_of(frame)
