"""A run's event log as OpenAI chat completion chunks, and as one completion (contract M3).

Rules of real clients, beyond the table of requirement 2 (for each, a client is known that needs
it):

* one id for all chunks, the role in the first one, exactly one `finish_reason`, after all content;
* a tool that the gateway runs is never a `delta.tool_calls`: clients would run it and call again;
* an error frame is bare (no `choices`), and `[DONE]` follows it;
* with `include_usage` the last chunk has `choices: []` and the usage.

An error stays back until the run's end says whether it was fatal: clients give up at an error
frame, while a run may go on after one. Sent text cannot be taken back; see `AppendOnly` for another
attempt of the run, which begins the answer anew.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from channels_app.client_api import failures
from channels_app.client_api.run_adapter import (
    DONE,
    End,
    Failure,
    ProseAdapter,
    RunConfig,
    TextKind,
    Usage,
)
from channels_app.rendering.links import Citation, source_line
from core.messages import LoadingMessage

# A chunk, an error, or the end. The tests check each chunk against the type that OpenAI publishes.
Json = dict[str, Any]
Frame = Json | Literal["[DONE]"]
TraceLink = Literal["off", "content", "reasoning"]
Field = Literal["content", "reasoning_content"]

LOADING = "Processing..."


@dataclass(frozen=True, slots=True, kw_only=True)
class Config(RunConfig):
    """The options of one request. ``trace_link``: the answer begins with a link to its trace."""

    completion_id: str
    trace_link: TraceLink = "off"
    include_usage: bool = False


class OpenAIAdapter(ProseAdapter[Frame]):
    """Turns events into frames, for one run."""

    has_stopped_end = False

    def __init__(self, config: Config) -> None:
        super().__init__(config)
        self.config = config
        self._lines: dict[str, str] = {}
        self._annotations: list[Json] = []
        self._tool_calls = 0
        self._has_role = False
        self._tails: dict[Field, str] = {"content": "", "reasoning_content": ""}
        self._speaker: dict[Field, str] = {"content": "", "reasoning_content": ""}
        self._length = 0
        self._envelope: Json = {
            "id": config.completion_id,
            "object": "chat.completion.chunk",
            "created": config.created,
            "model": config.model,
            "choices": [],
        }

    def length(self, frame: Frame) -> int:
        return len(content_of(frame))

    def advance(self, frame: Frame) -> int:
        """Return 0 for reasoning, which is joined with progress lines."""
        if frame == DONE or "error" in frame or not frame["choices"]:
            return 1
        delta = frame["choices"][0]["delta"]
        return 0 if "reasoning_content" in delta else len(delta.get("content", "")) or 1

    def without(self, frame: Frame, characters: int) -> Frame:
        if frame == DONE or "error" in frame:
            return frame
        [choice] = frame["choices"]
        delta = {**choice["delta"], "content": content_of(frame)[characters:]}
        return {**frame, "choices": [{**choice, "delta": delta}]}

    def text(self, kind: TextKind, key: str, piece: str, *, settled: bool) -> list[Frame]:
        """Add text to the content, or to the reasoning."""
        return self._say("content" if kind == "text" else "reasoning_content", piece, speaker=key)

    def line(self, text: str) -> list[Frame]:
        return self._say("content", text, speaker="")

    def progress(self, message: LoadingMessage, *, settled: bool) -> list[Frame]:
        """Convert a progress line to reasoning: its new part, or a new line when it changed."""
        line = message.props.get("message", LOADING if settled else "") or ""
        speaker = message.message_id and f"loading:{message.message_id}"
        last = self._lines.get(speaker, "") if speaker else ""
        if last.startswith(line):
            return []
        self._lines[speaker] = line
        if last and line.startswith(last):
            return self._say("reasoning_content", line[len(last) :], speaker=speaker)
        frames = self._say("reasoning_content", line, speaker="")
        self._speaker["reasoning_content"] = speaker
        return frames

    def client_call(self, call_id: str, name: str, arguments: str) -> list[Frame]:
        """Convert a call of the client's own tool; the gateway's tools are not shown."""
        call = {
            "index": self._tool_calls,
            "id": call_id,
            "type": "function",
            "function": {"name": name, "arguments": arguments},
        }
        self._tool_calls += 1
        return [self._chunk({"tool_calls": [call]})]

    def started(self, data: Mapping[str, object]) -> list[Frame]:
        """Begin with a link to the trace of the run, where it is wanted."""
        trace_id = data.get("trace_id")
        if self.config.trace_link == "off" or not trace_id:
            return []
        address = f"{self.links.base_url}/trace/{trace_id}/view"
        words = f"{self.words.processing} - [{self.words.view_process}]({address})\n"
        if self.config.trace_link == "reasoning":
            return self._say("reasoning_content", f"🔍 {words}", speaker="trace")
        return [] if self.wants_json else self._say("content", f"🚀 {words}", speaker="trace")

    def end(self, end: End) -> list[Frame]:
        """End with the sources, the reason and, if asked for, the usage."""
        frames = [*self._sources(), self._finish(end)]
        if self.config.include_usage:
            frames.append({**self._envelope, "usage": usage_of(end.data)})
        return [*frames, DONE]

    def fail(self, failure: Failure) -> list[Frame]:
        return [error_of(failure), DONE]

    def _sources(self) -> list[Frame]:
        """Convert the sources to a numbered list; the annotations point into it."""
        found = self.citations()
        if not found:
            return []
        frames = self._say("content", f"**{self.words.sources}**\n", speaker="sources")
        for number, citation in enumerate(found, start=1):
            frames += self._source(number, citation)
        return frames

    def _source(self, number: int, citation: Citation) -> list[Frame]:
        start = self._length + 1
        frames = self._say("content", "\n" + source_line(number, citation), speaker="sources")
        if citation.url:
            cited = {
                "url": citation.url,
                "title": citation.title,
                "start_index": start,
                "end_index": self._length,
            }
            self._annotations.append({"type": "url_citation", "url_citation": cited})
        return frames

    def _finish(self, end: End) -> Json:
        reason = end.reason or ("tool_calls" if self._tool_calls else "stop")
        if reason == "tool_calls" and not self._tool_calls:  # the last call was the gateway's own
            reason = "stop"
        delta: Json = {"annotations": self._annotations} if self._annotations else {}
        return self._chunk(delta, finish_reason=reason)

    def _say(self, into: Field, piece: str, *, speaker: str) -> list[Frame]:
        """Add text to one field, separated from the text of an earlier message."""
        if not piece:
            return []
        tail = self._tails[into]
        if tail and not (speaker and speaker == self._speaker[into]):
            gap = "\n\n" if into == "content" else "\n"
            there = len(tail) - len(tail.rstrip("\n")) + len(piece) - len(piece.lstrip("\n"))
            piece = gap[there:] + piece
        self._speaker[into] = speaker
        self._tails[into] = (tail + piece)[-2:]
        if into == "content":
            self._length += len(piece)
            return [self._chunk({"content": piece})]
        return [self._chunk({"reasoning_content": piece})]

    def _chunk(self, delta: Json, *, finish_reason: str | None = None) -> Json:
        if not self._has_role:
            self._has_role = True
            delta["role"] = "assistant"
        chunk = {
            **self._envelope,
            "choices": [{"index": 0, "delta": delta, "finish_reason": finish_reason}],
        }
        if self.config.include_usage:
            chunk["usage"] = None  # as the API reference says of all chunks but the last
        return chunk


def error_of(failure: Failure) -> Json:
    """Return an error in the API's wording, where it has some, without the owner's details."""
    kind = failures.kind_of(failure)
    named = (kind.type, kind.name) if kind else (failure.code, failure.code)
    text = failures.message_of(failure)
    return {"error": {"message": text, "type": named[0], "code": named[1], "param": None}}


def content_of(frame: Frame) -> str:
    """Return the text that a frame adds to the answer."""
    if frame == DONE or "error" in frame or not frame["choices"]:
        return ""
    return str(frame["choices"][0]["delta"].get("content", ""))


def usage_of(data: Mapping[str, object]) -> Json:
    """Return the usage of a ``stream_end`` in OpenAI's form."""
    usage = Usage.of(data)
    return {
        "prompt_tokens": usage.prompt,
        "completion_tokens": usage.answer,
        "total_tokens": usage.total,
        "prompt_tokens_details": {"cached_tokens": usage.cached},
        "completion_tokens_details": {"reasoning_tokens": usage.reasoning},
    }
