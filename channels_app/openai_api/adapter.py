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
from dataclasses import dataclass, field
from typing import Literal, assert_never

import orjson

from channels_app.openai_api.wire import (
    DONE,
    Annotation,
    Chunk,
    Delta,
    ErrorFrame,
    Frame,
    ToolCall,
    UrlCitation,
    Usage,
)
from channels_app.rendering.links import Citation, Links, citations, source_line
from channels_app.rendering.text import one_line
from channels_app.rendering.translations import wording
from core.messages import (
    ActionMessage,
    AppendOnlyTexts,
    AudioMessage,
    CustomMessage,
    ErrorMessage,
    EventMessage,
    ImageMessage,
    LoadingMessage,
    Message,
    RetrievalMessage,
    TextMessage,
    ThinkingMessage,
    ToolCallMessage,
    Transcript,
    UserInputMessage,
    VideoMessage,
    event_data,
)
from core.providers.failures import KINDS

TraceLink = Literal["off", "content", "reasoning"]
Field = Literal["content", "reasoning_content"]

LOADING = "Processing..."
FINISH_REASONS = ("stop", "length", "tool_calls", "content_filter")


@dataclass(frozen=True, slots=True, kw_only=True)
class Config:
    """The options of one request.

    `created` is in seconds since 1970. `trace_link` puts a link to the trace page of the run before
    the answer, in the viewer's `locale`. `client_tools` are the names of the tools that the client
    offered and runs itself.
    """

    completion_id: str
    model: str
    created: int
    links: Links = field(default_factory=Links)
    locale: str = "en"
    trace_link: TraceLink = "off"
    include_usage: bool = False
    client_tools: frozenset[str] = frozenset()


class OpenAIAdapter:
    """Turns events into frames, for one run; `encode` makes server-sent events of them."""

    def __init__(self, config: Config) -> None:
        self.config = config
        self.error: ErrorMessage | None = None
        self._words = wording(config.locale)
        self._transcript = Transcript()
        self._texts = AppendOnlyTexts(self._words.restarted)
        self._lines: dict[str, str] = {}
        self._rendered: set[str] = set()
        self._retrievals: dict[str, RetrievalMessage] = {}
        self._annotations: list[Annotation] = []
        self._tool_calls = 0
        self._begun = False
        self._ended = False
        self._tails: dict[Field, str] = {"content": "", "reasoning_content": ""}
        self._speaker: dict[Field, str] = {"content": "", "reasoning_content": ""}
        self._length = 0

    def feed(self, event: Mapping[str, object]) -> list[Frame]:
        """Return the frames that one event adds; often none."""
        if self._ended:
            return []
        frames = self._harmless_error() if self._goes_on_after_error(event) else []
        for message, settled in self._transcript.read(event):
            frames += self._message(message, settled=settled)
        return frames

    def close(self) -> list[Frame]:
        """Return the frames that end a stream whose log stops without a `stream_end`; else none."""
        if self._ended:
            return []
        frames: list[Frame] = []
        for message, settled in self._transcript.close():
            frames += self._message(message, settled=settled)
        return [*frames, *self._end({"status": "error" if self.error else "completed"})]

    def _goes_on_after_error(self, event: Mapping[str, object]) -> bool:
        return self.error is not None and event.get("type") not in ("event", "error")

    def _message(self, message: Message, *, settled: bool) -> list[Frame]:
        match message:
            case UserInputMessage() | ActionMessage():
                return []
            case EventMessage():
                return self._event(message)
            case TextMessage() | ThinkingMessage():
                return self._text(message, settled=settled)
            case LoadingMessage():
                return self._loading(message, settled=settled)
            case ToolCallMessage():
                return self._tool_call(message) if settled else []
            case RetrievalMessage():
                self._retrievals[message.message_id or str(len(self._retrievals))] = message
                return []
            case ErrorMessage():
                self.error = message
                return []
            case ImageMessage() | AudioMessage() | VideoMessage() | CustomMessage():
                return self._linked(message) if settled else []
            case _:
                assert_never(message)

    def _text(self, message: TextMessage | ThinkingMessage, *, settled: bool) -> list[Frame]:
        speaker = message.message_id and f"{message.type}:{message.message_id}"
        text = message.props.get("content") or ""
        piece = self._texts.advance(speaker, text, settled=settled)
        into: Field = "content" if isinstance(message, TextMessage) else "reasoning_content"
        return self._say(into, piece, speaker=speaker)

    def _loading(self, message: LoadingMessage, *, settled: bool) -> list[Frame]:
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

    def _linked(
        self, message: ImageMessage | AudioMessage | VideoMessage | CustomMessage
    ) -> list[Frame]:
        if message.message_id in self._rendered:
            return []
        if message.message_id:
            self._rendered.add(message.message_id)
        return self._say("content", self.config.links.markdown(message), speaker="")

    def _tool_call(self, message: ToolCallMessage) -> list[Frame]:
        """Convert a call of the client's own tool; the gateway's tools are not shown."""
        name = message.props.get("name") or ""
        call_id = message.props.get("id") or message.message_id
        if name not in self.config.client_tools or f"call:{call_id}" in self._rendered:
            return []
        self._rendered.add(f"call:{call_id}")
        call: ToolCall = {
            "index": self._tool_calls,
            "id": call_id,
            "type": "function",
            "function": {"name": name, "arguments": message.props.get("arguments") or "{}"},
        }
        self._tool_calls += 1
        return [self._chunk({"tool_calls": [call]})]

    def _event(self, message: EventMessage) -> list[Frame]:
        match message.props.get("event"):
            case "stream_start":
                return self._trace_link(event_data(message))
            case "stream_end":
                return self._end(event_data(message))
        return []

    def _trace_link(self, data: Mapping[str, object]) -> list[Frame]:
        trace_id = data.get("trace_id")
        if self.config.trace_link == "off" or not trace_id:
            return []
        address = f"{self.config.links.base_url}/trace/{trace_id}/view"
        words = f"{self._words.processing} - [{self._words.view_process}]({address})\n"
        if self.config.trace_link == "reasoning":
            return self._say("reasoning_content", f"🔍 {words}", speaker="trace")
        return self._say("content", f"🚀 {words}", speaker="trace")

    def _harmless_error(self) -> list[Frame]:
        """Convert an error that did not end the run: a line of the answer."""
        error, self.error = self.error, None
        if error is None:
            return []
        line = one_line(error.props.get("message") or self._words.failed)
        return self._say("content", f"⚠️ {line}", speaker="")

    def _end(self, data: Mapping[str, object]) -> list[Frame]:
        self._ended = True
        if data.get("status") == "error":
            return [self._error_frame(data), DONE]
        frames = [*self._harmless_error(), *self._sources()]
        frames.append(self._finish(data))
        if self.config.include_usage:
            last = self._envelope()
            last["usage"] = usage_of(data)
            frames.append(last)
        return [*frames, DONE]

    def _error_frame(self, data: Mapping[str, object]) -> ErrorFrame:
        """Convert an error to the API's wording, where it has some, without the owner's details."""
        if self.error is not None:
            code = self.error.props.get("code") or "server_error"
            text = self.error.props.get("message") or self._words.failed
        else:
            code, text = "stream_error", str(data.get("error") or self._words.failed)
        kind = KINDS.get(code)
        named = (kind.type, kind.name) if kind else (code, code)
        return {"error": {"message": text, "type": named[0], "code": named[1], "param": None}}

    def _sources(self) -> list[Frame]:
        """Convert the sources to a numbered list; the annotations point into it."""
        found = citations(self._retrievals.values())
        if not found:
            return []
        frames = self._say("content", f"**{self._words.sources}**\n", speaker="sources")
        for number, citation in enumerate(found, start=1):
            frames += self._source(number, citation)
        return frames

    def _source(self, number: int, citation: Citation) -> list[Frame]:
        start = self._length + 1
        frames = self._say("content", "\n" + source_line(number, citation), speaker="sources")
        if citation.url:
            cited: UrlCitation = {
                "url": citation.url,
                "title": citation.title,
                "start_index": start,
                "end_index": self._length,
            }
            self._annotations.append({"type": "url_citation", "url_citation": cited})
        return frames

    def _finish(self, data: Mapping[str, object]) -> Chunk:
        reason = data.get("finish_reason")
        if reason not in FINISH_REASONS:
            reason = "tool_calls" if self._tool_calls else "stop"
        delta: Delta = {"annotations": self._annotations} if self._annotations else {}
        return self._chunk(delta, finish_reason=str(reason))

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

    def _chunk(self, delta: Delta, *, finish_reason: str | None = None) -> Chunk:
        if not self._begun:
            self._begun = True
            delta["role"] = "assistant"
        chunk = self._envelope()
        chunk["choices"] = [{"index": 0, "delta": delta, "finish_reason": finish_reason}]
        if self.config.include_usage:
            chunk["usage"] = None  # as the API reference says of all chunks but the last
        return chunk

    def _envelope(self) -> Chunk:
        return {
            "id": self.config.completion_id,
            "object": "chat.completion.chunk",
            "created": self.config.created,
            "model": self.config.model,
            "choices": [],
        }


def encode(frame: Frame) -> bytes:
    """Encode one frame as a server-sent event."""
    return b"data: " + (frame.encode() if frame == DONE else orjson.dumps(frame)) + b"\n\n"


def usage_of(data: Mapping[str, object]) -> Usage:
    """Return the usage in OpenAI's form; zero where the model's server did not count."""
    given = data.get("usage")
    usage = given if isinstance(given, dict) else {}
    prompt = int(usage.get("prompt_tokens") or 0)
    answer = int(usage.get("completion_tokens") or 0)
    total = int(usage.get("total_tokens") or prompt + answer)
    return {"prompt_tokens": prompt, "completion_tokens": answer, "total_tokens": total}
