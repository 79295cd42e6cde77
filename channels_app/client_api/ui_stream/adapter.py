"""A run's event log as a UI message stream (Vercel AI SDK, version 1).

An unknown chunk type, or an unknown key in a known one, fails the client's whole stream: types
without a chunk of their own go into `data-<type>` parts, which clients pass to the page unchanged.
Parts with an `id` are replaced by the next of that id; transient ones are not kept in the message.
"""

from __future__ import annotations

import mimetypes
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

import orjson

from channels_app.client_api.run_adapter import (
    DONE,
    STOPPED,
    End,
    Failure,
    Medium,
    RunConfig,
    TextKind,
)
from channels_app.client_api.tool_questions import AskingAdapter, Before, Question
from channels_app.rendering.links import is_web_url
from core.agent.calling import parsed
from core.messages import (
    ActionMessage,
    CustomMessage,
    ErrorMessage,
    EventMessage,
    ImageMessage,
    LoadingMessage,
    Message,
    RetrievalMessage,
)

Chunk = dict[str, object]
Frame = Chunk | Literal["[DONE]"]

HEADERS = {"x-vercel-ai-ui-message-stream": "v1"}
MEDIA_TYPES = {"image": "image/png", "audio": "audio/mpeg", "video": "video/mp4"}
BY_GATEWAY: Chunk = {"providerExecuted": True, "dynamic": True}
FINISH_REASONS = {"content_filter": "content-filter", "tool_calls": "tool-calls"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Config(RunConfig):
    """The options of one request: the id of the answer. ``before``: the run that this one goes on
    with; ``continues``: the answer goes on in the client's message with the calls of that run.
    """

    message_id: str
    before: Before = field(default_factory=Before)
    continues: bool = False


@dataclass(slots=True)
class _Part:
    """A text or reasoning part: the number of times it was opened, and its id while it is open."""

    opened: int = 0
    id: str = ""


class _State(Chunk):
    """A part of a message that grows: the next state replaces it."""


class UiStreamAdapter(AskingAdapter[Frame]):
    """Turns events into chunks, for one run."""

    def __init__(self, config: Config) -> None:
        super().__init__(config)
        self.config = config
        self._parts: dict[str, _Part] = {}

    def begin(self) -> list[Frame]:
        """Begin the message and its only step."""
        start: Chunk = {"type": "start", "messageId": self.config.message_id}
        if self.config.run_id:
            start["messageMetadata"] = {"runId": self.config.run_id}
        return [start, {"type": "start-step"}]

    def length(self, frame: Frame) -> int:
        return 0 if frame == DONE else len(str(frame.get("delta", "")))

    def without(self, frame: Frame, characters: int) -> Frame:
        return frame if frame == DONE else {**frame, "delta": str(frame["delta"])[characters:]}

    def advance(self, frame: Frame) -> int:
        """Only a whole message has a number: its states depend on how the log was cut."""
        return 0 if isinstance(frame, _State) else super().advance(frame)

    def text(self, kind: TextKind, key: str, piece: str, *, settled: bool) -> list[Frame]:
        """Add a piece to a part of text or reasoning, which is opened and closed as needed."""
        name = "text" if kind == "text" else "reasoning"
        key = f"{name}:{key.partition(':')[2] or len(self._parts)}"
        part = self._parts.setdefault(key, _Part())
        frames: list[Frame] = []
        if piece and not part.id:
            part.opened += 1
            part.id = key if part.opened == 1 else f"{key}.{part.opened}"
            frames.append({"type": f"{name}-start", "id": part.id})
        if piece:
            frames.append({"type": f"{name}-delta", "id": part.id, "delta": piece})
        if settled:
            frames += self._close_part(part, name)
        return frames

    def _close_part(self, part: _Part, kind: str) -> list[Frame]:
        part_id, part.id = part.id, ""
        return [{"type": f"{kind}-end", "id": part_id}] if part_id else []

    def client_call(self, call_id: str, name: str, arguments: str) -> list[Frame]:
        return [_call(call_id, name, arguments)]

    def own_call(self, call_id: str, name: str, arguments: str) -> list[Frame]:
        if self.config.continues and call_id in self.config.before.calls:
            return []  # the client's message has the call, and the person's answer
        return [_call(call_id, name, arguments) | BY_GATEWAY]

    def own_result(self, call_id: str, data: Mapping[str, object]) -> list[Frame]:
        ran: Chunk = {"toolCallId": call_id, **BY_GATEWAY}
        if self.config.continues and self.config.before.calls.get(call_id) == "denied":
            return [{"type": "tool-output-denied", "toolCallId": call_id}]
        output = str(data.get("output") or "")
        if data.get("status") == "error":
            text = output or self.words.failed
            return [{"type": "tool-output-error", "errorText": text, **ran}]
        return [{"type": "tool-output-available", "output": output, **ran}]

    def sources(self, message: RetrievalMessage, *, settled: bool) -> list[Frame]:
        """Show sources: each once, and all as data for pages that know our type."""
        frames: list[Frame] = []
        for source in (message.props.get("sources") or []) if settled else []:
            source_id = f"{message.message_id}:{source.get('id')}" if source else ""
            if not source or not self.first(f"source:{source_id}"):
                continue
            title = source.get("title") or source.get("document_id") or source.get("id") or "?"
            part: Chunk = {"sourceId": source_id, "title": title}
            url = source.get("url") or ""
            if is_web_url(url):
                frames.append({"type": "source-url", "url": url, **part})
            else:
                frames.append({"type": "source-document", "mediaType": "text/plain", **part})
        return [*frames, self._data(message)] if settled else []

    def medium(self, message: Medium) -> list[Frame]:
        """Show a medium: the file itself, and its description for pages that know our type."""
        url = message.props.get("url") or ""
        address = url if url.startswith("data:") else self.links.address(message)
        part: Chunk = {"type": "file", "url": address, "mediaType": _media_type(message)}
        return [part, self._data(message)]

    def progress(self, message: LoadingMessage, *, settled: bool) -> list[Frame]:
        """Show a progress line; it is not kept in the message."""
        return [self._data(message, transient=True)]

    def custom(self, message: CustomMessage, *, settled: bool) -> list[Frame]:
        """Show a message of another type, in each of its states."""
        part = self._data(message)
        return [part if settled else _State(part)]

    def action(self, message: ActionMessage) -> list[Frame]:
        return [self._data(message, transient=True)]

    def event(self, message: EventMessage) -> list[Frame]:
        return [self._data(message, transient=True)]

    def _data(self, message: Message, *, transient: bool = False) -> Chunk:
        part: Chunk = {"type": f"data-{message.type}", "data": message.props}
        if message.message_id:
            part["id"] = message.message_id
        if transient:
            part["transient"] = True
        return part

    def harmless_error(self, message: ErrorMessage) -> list[Frame]:
        """Convert an error that did not end the run: data, since clients stop at an error."""
        return [self._data(message)]

    def end(self, end: End) -> list[Frame]:
        """Close what is open, and finish."""
        frames = self._closed("error" if end.is_cancelled else "completed")
        if end.is_cancelled:
            return [*frames, {"type": "abort", "reason": STOPPED}, DONE]
        for question in self.questions:
            frames += asked(question)
        reason = "tool-calls" if self.questions else FINISH_REASONS.get(end.reason, end.reason)
        finish: Chunk = {"type": "finish", "finishReason": reason or "stop"}
        if usage := end.data.get("usage"):
            finish["messageMetadata"] = {"usage": usage}
        return [*frames, {"type": "finish-step"}, finish, DONE]

    def fail(self, failure: Failure) -> list[Frame]:
        """Close what is open, and say why the run failed."""
        return [*self._closed("error"), {"type": "error", "errorText": failure.text}, DONE]

    def _closed(self, status: str) -> list[Frame]:
        frames: list[Frame] = []
        for key, part in self._parts.items():
            frames += self._close_part(part, key.split(":", 1)[0])
        return frames + self.end_calls(status)


def asked(question: Question) -> list[Frame]:
    """Return the chunks of a call that waits for a yes: data for the page, and, if the page may
    answer, a request for approval.

    A client sends its answers when no call of the message is open: one for the owner, or to sign
    in, is only data.
    """
    expires = question.expires_at
    data: Chunk = {
        "approvalId": question.id,
        "toolCallId": question.call_id,
        "toolName": question.tool,
        "input": _tool_input(question.arguments),
        "text": question.text,
        "cost": question.cost,
        "askedOf": question.asked_of,
        "mayAnswer": question.may_answer,
        "state": question.state,
        "expiresAt": expires.isoformat() if expires is not None else None,
    }
    if question.sign_in:
        data["signIn"] = question.sign_in
    part: Chunk = {"type": "data-tool-approval", "id": question.id, "data": data}
    if not question.may_answer:
        return [part]
    request: Chunk = {"approvalId": question.id, "toolCallId": question.call_id}
    return [
        _call(question.call_id, question.tool, question.arguments) | BY_GATEWAY,
        {"type": "tool-approval-request", **request},
        part,
    ]


def waiting(message_id: str, questions: list[Question]) -> list[Frame]:
    """Return the stream of a request after which no run goes on: ``questions`` wait for others."""
    frames: list[Frame] = [{"type": "start", "messageId": message_id}]
    for question in questions:
        frames += asked(question) if not question.may_answer else asked(question)[-1:]
    return [*frames, {"type": "finish", "finishReason": "stop"}, DONE]


def _call(call_id: str, name: str, arguments: str) -> Chunk:
    return {
        "type": "tool-input-available",
        "toolCallId": call_id,
        "toolName": name,
        "input": _tool_input(arguments),
    }


def _tool_input(arguments: str) -> object:
    """Return the arguments in the form of the client's tool; text that is no JSON stays text, and
    JSON that cannot be written again as it is.
    """
    try:
        return parsed(arguments)
    except (orjson.JSONDecodeError, orjson.JSONEncodeError):
        return arguments


def _media_type(message: Medium) -> str:
    """Return the IANA type: of the data URL, the format, the name, else the kind's usual one."""
    url = message.props.get("url") or ""
    if url.startswith("data:"):
        return url[len("data:") :].split(",", 1)[0].split(";", 1)[0] or MEDIA_TYPES[message.type]
    extension = "" if isinstance(message, ImageMessage) else message.props.get("format") or ""
    name = f"file.{extension}" if extension else url.split("?", 1)[0]
    guessed = mimetypes.guess_type(name)[0] or ""
    return guessed if guessed.startswith(f"{message.type}/") else MEDIA_TYPES[message.type]
