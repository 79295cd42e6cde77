"""A run's event log as a UI message stream (Vercel AI SDK, version 1).

An unknown chunk type, or an unknown key in a known one, fails the client's whole stream: types
without a chunk of their own go into `data-<type>` parts, which clients pass to the page unchanged.
Parts with an `id` are replaced by the next of that id; transient ones are not kept in the message.
"""

from __future__ import annotations

import json
import mimetypes
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal, assert_never

import orjson

from channels_app.rendering.links import Links, is_web_url
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

Chunk = dict[str, object]
Frame = Chunk | Literal["[DONE]"]

DONE: Literal["[DONE]"] = "[DONE]"
HEADERS = {"x-vercel-ai-ui-message-stream": "v1"}
MEDIA_TYPES = {"image": "image/png", "audio": "audio/mpeg", "video": "video/mp4"}
LIFECYCLE = ("stream_start", "message_start", "message_end", "block_start", "block_end")


@dataclass(frozen=True, slots=True, kw_only=True)
class Config:
    """The options of one request: the id of the answer, and the tools that the client runs."""

    message_id: str
    links: Links = field(default_factory=Links)
    locale: str = "en"
    client_tools: frozenset[str] = frozenset()


@dataclass(slots=True)
class _Part:
    """A text or reasoning part: the number of times it was opened, and its id while it is open."""

    opened: int = 0
    id: str = ""


class UiStreamAdapter:
    """Turns events into chunks, for one run; `encode` makes server-sent events of them."""

    def __init__(self, config: Config) -> None:
        self.config = config
        self._words = wording(config.locale)
        self._transcript = Transcript()
        self._texts = AppendOnlyTexts(self._words.restarted)
        self._parts: dict[str, _Part] = {}
        self._once: set[str] = set()
        self._running: list[str] = []
        self._error: ErrorMessage | None = None
        self._begun = False
        self._ended = False

    def feed(self, event: Mapping[str, object]) -> list[Frame]:
        """Return the frames that one event adds; often none."""
        if self._ended:
            return []
        frames = self._harmless_error() if self._goes_on_after_error(event) else []
        for message, settled in self._transcript.read(event):
            frames += self._message(message, settled=settled)
        return self._with_start(frames)

    def close(self) -> list[Frame]:
        """Return the frames that end a stream whose log stops without a `stream_end`; else none."""
        if self._ended:
            return []
        frames: list[Frame] = []
        for message, settled in self._transcript.close():
            frames += self._message(message, settled=settled)
        frames += self._end({"status": "error" if self._error else "completed"})
        return self._with_start(frames)

    def _with_start(self, frames: list[Frame]) -> list[Frame]:
        if self._begun or not frames:
            return frames
        self._begun = True
        start: Chunk = {"type": "start", "messageId": self.config.message_id}
        return [start, {"type": "start-step"}, *frames]

    def _message(self, message: Message, *, settled: bool) -> list[Frame]:
        match message:
            case UserInputMessage():
                return []
            case TextMessage() | ThinkingMessage():
                return self._text(message, settled=settled)
            case LoadingMessage() | CustomMessage():
                return [self._data(message, transient=isinstance(message, LoadingMessage))]
            case ActionMessage():
                return [self._data(message, transient=True)] if settled else []
            case ToolCallMessage():
                return self._tool_call(message) if settled else []
            case RetrievalMessage():
                return self._retrieval(message) if settled else []
            case ErrorMessage():
                self._error = message
                return []
            case ImageMessage() | AudioMessage() | VideoMessage():
                return self._media(message) if settled else []
            case EventMessage():
                return self._event(message)
            case _:
                assert_never(message)

    def _text(self, message: TextMessage | ThinkingMessage, *, settled: bool) -> list[Frame]:
        kind = "text" if isinstance(message, TextMessage) else "reasoning"
        key = f"{kind}:{message.message_id or len(self._parts)}"
        part = self._parts.setdefault(key, _Part())
        text = message.props.get("content") or ""
        piece = self._texts.advance(message.message_id and key, text, settled=settled)
        frames: list[Frame] = []
        if piece and not part.id:
            part.opened += 1
            part.id = key if part.opened == 1 else f"{key}.{part.opened}"
            frames.append({"type": f"{kind}-start", "id": part.id})
        if piece:
            frames.append({"type": f"{kind}-delta", "id": part.id, "delta": piece})
        if settled:
            frames += self._close_part(part, kind)
        return frames

    def _close_part(self, part: _Part, kind: str) -> list[Frame]:
        part_id, part.id = part.id, ""
        return [{"type": f"{kind}-end", "id": part_id}] if part_id else []

    def _tool_call(self, message: ToolCallMessage) -> list[Frame]:
        call_id = message.props.get("id") or message.message_id
        if not self._first(f"call:{call_id}"):
            return []
        name = message.props.get("name") or ""
        call: Chunk = {
            "type": "tool-input-available",
            "toolCallId": call_id,
            "toolName": name,
            "input": _tool_input(message.props.get("arguments") or "{}"),
        }
        if name not in self.config.client_tools:
            self._running.append(call_id)
            call |= {"providerExecuted": True, "dynamic": True}
        return [call]

    def _tool_end(self, data: Mapping[str, object]) -> list[Frame]:
        """Convert the end of a tool that the gateway runs."""
        call_id = str(data.get("id") or "")
        if call_id not in self._running:
            return []
        self._running.remove(call_id)
        ran: Chunk = {"toolCallId": call_id, "providerExecuted": True, "dynamic": True}
        output = str(data.get("output") or "")
        if data.get("status") == "error":
            text = output or self._words.failed
            return [{"type": "tool-output-error", "errorText": text, **ran}]
        return [{"type": "tool-output-available", "output": output, **ran}]

    def _retrieval(self, message: RetrievalMessage) -> list[Frame]:
        frames: list[Frame] = []
        for source in message.props.get("sources") or []:
            source_id = f"{message.message_id}:{source.get('id')}" if source else ""
            if not source or not self._first(f"source:{source_id}"):
                continue
            title = source.get("title") or source.get("document_id") or source.get("id") or "?"
            part: Chunk = {"sourceId": source_id, "title": title}
            url = source.get("url") or ""
            if is_web_url(url):
                frames.append({"type": "source-url", "url": url, **part})
            else:
                frames.append({"type": "source-document", "mediaType": "text/plain", **part})
        return [*frames, self._data(message)]

    def _media(self, message: ImageMessage | AudioMessage | VideoMessage) -> list[Frame]:
        """Convert a medium: the file itself, and its description for pages that know our type."""
        if message.message_id and not self._first(f"media:{message.message_id}"):
            return []
        url = message.props.get("url") or ""
        address = url if url.startswith("data:") else self.config.links.address(message)
        part: Chunk = {"type": "file", "url": address, "mediaType": _media_type(message)}
        return [part, self._data(message)]

    def _event(self, message: EventMessage) -> list[Frame]:
        data = event_data(message)
        event = message.props.get("event") or ""
        if event == "tool_end":
            return self._tool_end(data)
        if event == "stream_end":
            return self._end(data)
        return [] if event in LIFECYCLE else [self._data(message, transient=True)]

    def _data(self, message: Message, *, transient: bool = False) -> Chunk:
        part: Chunk = {"type": f"data-{message.type}", "data": message.props}
        if message.message_id:
            part["id"] = message.message_id
        if transient:
            part["transient"] = True
        return part

    def _goes_on_after_error(self, event: Mapping[str, object]) -> bool:
        return self._error is not None and event.get("type") not in ("event", "error")

    def _harmless_error(self) -> list[Frame]:
        """Convert an error that did not end the run: data, since clients stop at an error."""
        error, self._error = self._error, None
        return [self._data(error)] if error else []

    def _end(self, data: Mapping[str, object]) -> list[Frame]:
        self._ended = True
        frames: list[Frame] = []
        for key, part in self._parts.items():
            frames += self._close_part(part, key.split(":", 1)[0])
        status = data.get("status")
        for call_id in list(self._running):
            ended = "completed" if status == "completed" else "error"
            frames += self._tool_end({"id": call_id, "status": ended})
        if status == "error":
            return [*frames, {"type": "error", "errorText": self._error_text(data)}, DONE]
        frames += self._harmless_error()
        if status == "cancelled":
            return [*frames, {"type": "abort"}, DONE]
        finish: Chunk = {"type": "finish"}
        if usage := data.get("usage"):
            finish["messageMetadata"] = {"usage": usage}
        return [*frames, {"type": "finish-step"}, finish, DONE]

    def _error_text(self, data: Mapping[str, object]) -> str:
        if self._error is not None:
            return self._error.props.get("message") or self._words.failed
        return str(data.get("error") or self._words.failed)

    def _first(self, key: str) -> bool:
        """Return whether this is the first time; clients show a repeated part twice."""
        if key in self._once:
            return False
        self._once.add(key)
        return True


def encode(frame: Frame) -> bytes:
    """Encode one frame as a server-sent event."""
    return b"data: " + (frame.encode() if frame == DONE else orjson.dumps(frame)) + b"\n\n"


def _tool_input(arguments: str) -> object:
    """Return the arguments in the form of the client's tool; text that is no JSON stays text."""
    try:
        return json.loads(arguments)
    except (ValueError, RecursionError):
        return arguments


def _media_type(message: ImageMessage | AudioMessage | VideoMessage) -> str:
    """Return the IANA type: of the data URL, the format, the name, else the kind's usual one."""
    url = message.props.get("url") or ""
    if url.startswith("data:"):
        return url[len("data:") :].split(",", 1)[0].split(";", 1)[0] or MEDIA_TYPES[message.type]
    extension = "" if isinstance(message, ImageMessage) else message.props.get("format") or ""
    name = f"file.{extension}" if extension else url.split("?", 1)[0]
    guessed = mimetypes.guess_type(name)[0] or ""
    return guessed if guessed.startswith(f"{message.type}/") else MEDIA_TYPES[message.type]
