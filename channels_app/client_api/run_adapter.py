"""The base of all protocols: the event log of one run becomes the frames of a client.

A protocol is a subclass of :class:`RunAdapter` that says which frames a text, a call, a medium or
the end of the run is. The base reads the log, keeps texts append-only (clients can't take text
back), keeps an error until the end of the run says whether it was fatal, and numbers the frames.
Decision 198.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Generic, Literal, TypeVar, assert_never

import orjson

from channels_app.rendering.links import Citation, Links, citations
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
    MessageDict,
    RetrievalMessage,
    TextMessage,
    ThinkingMessage,
    ToolCallMessage,
    Transcript,
    UserInputMessage,
    VideoMessage,
    event_data,
    to_dict,
)
from core.providers.failures import KINDS

Frame = TypeVar("Frame")
# Frames, each with its number.
Numbered = list[tuple[int, Frame]]
Medium = ImageMessage | AudioMessage | VideoMessage
TextKind = Literal["text", "thinking"]

STOPPED = "The answer was stopped."
FINISH_REASONS = ("stop", "length", "tool_calls", "content_filter")
DONE: Literal["[DONE]"] = "[DONE]"  # the end of a stream, in the protocols that mark it


def encode(frame: Mapping[str, object] | Literal["[DONE]"]) -> bytes:
    """Encode one frame as a server-sent event."""
    return b"data: " + (frame.encode() if frame == DONE else orjson.dumps(frame)) + b"\n\n"


@dataclass(frozen=True, slots=True, kw_only=True)
class RunConfig:
    """The facts of a run that every protocol needs.

    ``client_tools`` are the names of the tools that the client offered and runs itself; ``locale``
    is the language of fixed phrases; ``model`` the name that the client asked for; ``created`` is
    in seconds since 1970. ``wants_json``: the client asked for JSON, which a line of the gateway
    would spoil.
    """

    run_id: str = ""
    links: Links = field(default_factory=Links)
    locale: str = "en"
    client_tools: frozenset[str] = frozenset()
    model: str = ""
    created: int = 0
    wants_json: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """Why a run failed: the ``code`` of its error message (a kind of failure of
    core.providers.failures, ``stream_error``, …), and a text for the person. ``data``: of the end
    of the run. ``has_acted``: the gateway's own tools were called before.
    """

    code: str
    text: str
    data: Mapping[str, object] = field(default_factory=dict)
    has_acted: bool = False


@dataclass(frozen=True, slots=True)
class Usage:
    """The tokens of a run; zero where the model's server did not count. ``cached`` are among those
    of the prompt, ``reasoning`` among those of the answer.
    """

    prompt: int = 0
    answer: int = 0
    total: int = 0
    cached: int = 0
    reasoning: int = 0

    @classmethod
    def of(cls, data: Mapping[str, object]) -> Usage:
        """Return the usage in the data of a ``stream_end``."""
        given = data.get("usage")
        usage = given if isinstance(given, dict) else {}
        prompt, answer, total, cached, reasoning = (
            int(usage.get(f"{name}_tokens") or 0)
            for name in ("prompt", "completion", "total", "cached", "reasoning")
        )
        return cls(prompt, answer, total or prompt + answer, cached, reasoning)


@dataclass(frozen=True, slots=True, kw_only=True)
class End:
    """The end of a run that did not fail. ``reason``: one of FINISH_REASONS."""

    is_cancelled: bool
    reason: str
    usage: Usage
    data: Mapping[str, object]


class RunAdapter(ABC, Generic[Frame]):
    """Turns the events of one run into the frames of one protocol.

    The number of a frame depends on what was said, not on how it was cut into events: it counts the
    characters of texts, and one for every other frame. So a client that has everything up to a
    number gets exactly the rest, from the live stream as from the stored log. Progress lines are
    not stored for ever and count nothing.
    """

    # Whether the protocol has an end for an answer that was stopped: `End.is_cancelled`.
    has_stopped_end: bool = True

    def __init__(self, config: RunConfig) -> None:
        self.links = config.links
        self.locale = config.locale
        self.client_tools = config.client_tools
        self.wants_json = config.wants_json
        self.words = wording(config.locale)
        self.failure: Failure | None = None
        self.number = 0
        self.has_ended = False
        # It ended with an error, because the text that was sent is not that of the answer.
        self.is_void = False
        self._has_acted = False
        self._running: list[str] = []  # calls that the gateway makes itself
        # The text that was sent and the one that was to be sent, by key; kept for JSON only.
        self._json: dict[str, tuple[str, str]] | None = {} if config.wants_json else None
        self._has_begun = False
        self._transcript = Transcript()
        self._texts = AppendOnlyTexts(self.words.restarted)
        self._once: set[str] = set()
        self._error: ErrorMessage | None = None
        self._has_notice = False  # to send before the next text

    def feed(self, event: Mapping[str, object]) -> list[Frame]:
        """Return the frames that one event adds; often none."""
        return [frame for _, frame in self.numbered(event)]

    def numbered(self, event: Mapping[str, object]) -> Numbered[Frame]:
        """Return the frames that one event adds, each with its number."""
        if self.has_ended:
            return []
        found: Numbered[Frame] = []
        if self._error is not None and event.get("type") not in ("event", "error"):
            found += self._count(self._past_error())
        for message, settled in self._transcript.read(event):
            if not self.has_ended:
                found += self._message(message, settled=settled)
        return found

    def opened(self) -> Numbered[Frame]:
        """Return the frames before the log begins, with their numbers; none on a second call."""
        if self._has_begun:
            return []
        self._has_begun = True
        return self._count(self.begin())

    def close(self) -> list[Frame]:
        """Return the frames that end a stream whose log stops without ``stream_end``."""
        if self.has_ended:
            return []
        found: Numbered[Frame] = []
        for message, _ in self._transcript.close():
            found += self._message(message, settled=True)
        found += self._count(self._end({"status": "error" if self._error else "completed"}))
        return [frame for _, frame in found]

    def begin_again(self) -> None:
        """Send the texts that follow in full, after a notice."""
        self._texts = AppendOnlyTexts(self.words.restarted)
        self._has_notice = True

    # The frames of a protocol. Each returns frames; those that are not abstract add none.

    def begin(self) -> list[Frame]:
        """Return the frames before all others."""
        return []

    @abstractmethod
    def text(self, kind: TextKind, key: str, piece: str, *, settled: bool) -> list[Frame]:
        """Add ``piece`` (may be empty) to the text ``key``; ``settled``: the text is complete."""

    @abstractmethod
    def client_call(self, call_id: str, name: str, arguments: str) -> list[Frame]:
        """Hand a call to the client, which runs the tool. ``arguments``: JSON."""

    @abstractmethod
    def end(self, end: End) -> list[Frame]:
        """End a stream whose run completed or was cancelled."""

    @abstractmethod
    def fail(self, failure: Failure) -> list[Frame]:
        """End a stream whose run failed."""

    @abstractmethod
    def length(self, frame: Frame) -> int:
        """Return how many characters of an answer a frame carries; 0: it is no piece of a text."""

    @abstractmethod
    def without(self, frame: Frame, characters: int) -> Frame:
        """Return a piece of a text without its first characters."""

    def advance(self, frame: Frame) -> int:
        """Return how much a frame adds to the number: 0 if it depends on how the log was cut, as
        reasoning that is joined with progress lines.
        """
        return self.length(frame) or 1

    def progress(self, message: LoadingMessage, *, settled: bool) -> list[Frame]:
        """Show a progress line."""
        return []

    def own_call(self, call_id: str, name: str, arguments: str) -> list[Frame]:
        """Show a call that the gateway makes itself."""
        return []

    def own_result(self, call_id: str, data: Mapping[str, object]) -> list[Frame]:
        """Show the end of such a call: ``status``, ``output``."""
        return []

    def sources(self, message: RetrievalMessage, *, settled: bool) -> list[Frame]:
        """Show sources."""
        return []

    def medium(self, message: Medium) -> list[Frame]:
        """Show a picture, a recording or a film."""
        return []

    def custom(self, message: CustomMessage, *, settled: bool) -> list[Frame]:
        """Show a message of another type."""
        return []

    def action(self, message: ActionMessage) -> list[Frame]:
        """Hand an action to the page."""
        return []

    def harmless_error(self, message: ErrorMessage) -> list[Frame]:
        """Show an error after which the run went on."""
        return []

    def started(self, data: Mapping[str, object]) -> list[Frame]:
        """Show the start of the run. ``data``: of its ``stream_start``."""
        return []

    def event(self, message: EventMessage) -> list[Frame]:
        """Show another event."""
        return []

    # The same for all protocols.

    def end_calls(self, status: str) -> list[Frame]:
        """Show the end of the gateway's own calls that have not ended."""
        running, self._running = self._running, []
        return [frame for each in running for frame in self.own_result(each, {"status": status})]

    def first(self, key: str) -> bool:
        """Return whether this is the first time; clients show a repeated part twice."""
        if key in self._once:
            return False
        self._once.add(key)
        return True

    def _count(self, frames: list[Frame], *, are_counted: bool = True) -> Numbered[Frame]:
        """Return frames with their numbers, after those before all others."""
        found: Numbered[Frame] = [] if self._has_begun or not frames else self.opened()
        for frame in frames:
            if are_counted:
                self.number += self.advance(frame)
            found.append((self.number, frame))
        return found

    def _past_error(self) -> list[Frame]:
        """Return the frames of an error that did not end the run."""
        error, self._error = self._error, None
        return self.harmless_error(error) if error is not None else []

    def _message(self, message: Message, *, settled: bool) -> Numbered[Frame]:
        if isinstance(message, LoadingMessage):
            return self._count(self.progress(message, settled=settled), are_counted=False)
        return self._count(self._frames(message, settled=settled))

    def _frames(self, message: Message, *, settled: bool) -> list[Frame]:
        match message:
            case TextMessage() | ThinkingMessage():  # the first: nearly all are
                return self._text(message, settled=settled)
            case EventMessage():
                return self._event(message)
            case UserInputMessage() | LoadingMessage():
                return []
            case ToolCallMessage():
                return self._tool_call(message) if settled else []
            case RetrievalMessage():
                return self.sources(message, settled=settled)
            case ErrorMessage():
                self._error = message
                return []
            case ActionMessage():
                return self.action(message) if settled else []
            case CustomMessage():
                return self.custom(message, settled=settled)
            case ImageMessage() | AudioMessage() | VideoMessage():
                return self._medium(message) if settled else []
            case _:
                assert_never(message)

    def _text(self, message: TextMessage | ThinkingMessage, *, settled: bool) -> list[Frame]:
        kind: TextKind = "text" if isinstance(message, TextMessage) else "thinking"
        key = f"{kind}:{message.message_id}" if message.message_id else ""
        content = message.props.get("content") or ""
        piece = self._texts.advance(key, content, settled=settled)
        if self._has_notice and piece and kind == "text":
            self._has_notice = False
            piece = f"\n\n{self.words.restarted}\n\n{piece}"
        if self._json is not None and kind == "text":
            sent = self._json.get(key, ("", ""))[0] + piece
            self._json[key] = sent, content
            if sent != content if piece else not sent.startswith(content):
                return self._void()
        return self.text(kind, key, piece, settled=settled)

    def _medium(self, message: Medium) -> list[Frame]:
        is_new = not message.message_id or self.first(f"medium:{message.message_id}")
        return self.medium(message) if is_new else []

    def _void(self) -> list[Frame]:
        """End the stream with an error: the answer was begun anew with another text."""
        self.has_ended = self.is_void = True
        self.failure = Failure(code="cut", text=KINDS["cut"].person)
        return self.fail(self.failure)

    def _tool_call(self, message: ToolCallMessage) -> list[Frame]:
        call_id = message.props.get("id") or message.message_id
        if not self.first(f"call:{call_id}"):
            return []
        name = message.props.get("name") or ""
        is_own = name not in self.client_tools
        if is_own:
            self._has_acted = True
            self._running.append(call_id)
        show = self.own_call if is_own else self.client_call
        return show(call_id, name, message.props.get("arguments") or "{}")

    def _event(self, message: EventMessage) -> list[Frame]:
        data = event_data(message)
        match message.props.get("event"):
            case "stream_start":
                return self.started(data)
            case "tool_end":
                return self._tool_end(data)
            case "message_start" | "message_end" | "block_start" | "block_end":
                return []
            case "stream_end":
                return self._end(data)
        return self.event(message)

    def _tool_end(self, data: Mapping[str, object]) -> list[Frame]:
        call_id = str(data.get("id") or "")
        if call_id not in self._running:
            return []
        self._running.remove(call_id)
        return self.own_result(call_id, data)

    def _end(self, data: Mapping[str, object]) -> list[Frame]:
        self.has_ended = True
        if data.get("status") == "error":
            self.failure = self._failure(data)
            return self.fail(self.failure)
        if data.get("status") == "cancelled" and not self.has_stopped_end:
            self.failure = Failure(code="stopped", text=STOPPED, data=data)
            return self.fail(self.failure)
        if data.get("status") == "completed" and any(
            sent != content for sent, content in (self._json or {}).values()
        ):
            return self._void()
        reason = str(data.get("finish_reason"))
        end = End(
            is_cancelled=data.get("status") == "cancelled",
            reason=reason if reason in FINISH_REASONS else "",
            usage=Usage.of(data),
            data=data,
        )
        return [*self._past_error(), *self.end(end)]

    def _failure(self, data: Mapping[str, object]) -> Failure:
        code, text = "stream_error", str(data.get("error") or self.words.failed)
        if self._error is not None:
            code = self._error.props.get("code") or "server_error"
            text = self._error.props.get("message") or self.words.failed
        return Failure(code=code, text=text, data=data, has_acted=self._has_acted)


class ProseAdapter(RunAdapter[Frame]):
    """A protocol without media, cards and sources: these become lines of the answer."""

    def __init__(self, config: RunConfig) -> None:
        super().__init__(config)
        self._retrievals: dict[str, RetrievalMessage] = {}

    @abstractmethod
    def line(self, text: str) -> list[Frame]:
        """Add a text of its own to the answer."""

    def beside(self, text: str) -> list[Frame]:
        """Add a line that the model did not write; none to JSON, which could not be parsed then."""
        return [] if self.wants_json else self.line(text)

    def sources(self, message: RetrievalMessage, *, settled: bool) -> list[Frame]:
        """Keep sources for the list at the end, which an answer in JSON has not."""
        if not self.wants_json:
            self._retrievals[message.message_id or str(len(self._retrievals))] = message
        return []

    def citations(self) -> list[Citation]:
        """Return the sources that were kept."""
        return citations(self._retrievals.values())

    def medium(self, message: Medium) -> list[Frame]:
        """Convert a medium to a line of the answer."""
        return self.beside(self.links.markdown(message))

    def custom(self, message: CustomMessage, *, settled: bool) -> list[Frame]:
        """Convert a card to a line of the answer."""
        if not settled or (message.message_id and not self.first(f"card:{message.message_id}")):
            return []
        return self.beside(self.links.markdown(message))

    def harmless_error(self, message: ErrorMessage) -> list[Frame]:
        """Convert an error that did not end the run to a line of the answer."""
        return self.beside(f"⚠️ {one_line(message.props.get('message') or self.words.failed)}")


def after(
    adapter: RunAdapter[Frame], found: Iterable[tuple[int, Frame]], seen: int
) -> Iterator[tuple[int, Frame]]:
    """Yield the numbered frames that a client which has all up to the number ``seen`` lacks."""
    for number, frame in found:
        if number <= seen:
            continue
        missing = number - seen
        length = adapter.length(frame)
        yield number, (adapter.without(frame, length - missing) if missing < length else frame)


class Rest(Generic[Frame]):
    """The frames of a log that a client lacks which has all up to the number ``seen``; 0: all.

    A client may have more of an attempt whose worker was killed than the log: it gets a notice and
    the whole text of the next attempt then, since what it has is not known.
    """

    def __init__(self, adapter: RunAdapter[Frame], seen: int) -> None:
        self._adapter = adapter
        self._seen = seen

    def of(self, event: Mapping[str, object]) -> Iterable[tuple[int, Frame]]:
        """Return the frames of one event."""
        if self._seen and is_reset(event):
            if self._seen > self._adapter.number:
                self._adapter.begin_again()
            self._seen = 0
        found = self._adapter.numbered(event)
        return after(self._adapter, found, self._seen) if self._seen else found


def is_reset(event: Mapping[str, object]) -> bool:
    """Return whether an event empties a text for another attempt of the run."""
    props = event.get("props")
    is_set = event.get("delta") is True and event.get("delta_action") == "set"
    return is_set and isinstance(props, dict) and props.get("content") == ""


def final_log(
    events: Iterable[Mapping[str, object]],
) -> tuple[list[MessageDict], Mapping[str, object]]:
    """Return a finished log with every message whole and once, and the data of its end.

    Abandoned attempts leave no trace, and half a tool call is never passed to a client.
    """
    transcript = Transcript()
    before: list[MessageDict] = []
    ends: list[MessageDict] = []
    end: Mapping[str, object] = {}
    for event in events:
        for message, _ in transcript.read(event):
            if not isinstance(message, EventMessage):
                continue
            if message.props.get("event") == "stream_end":
                end = event_data(message)
                ends.append(to_dict(message))
            else:
                before.append(to_dict(message))
    completed = end.get("status") == "completed"
    whole = [
        message
        for message in transcript.messages()
        if completed or not (isinstance(message, ToolCallMessage) and transcript.is_open(message))
    ]
    return [*before, *map(to_dict, whole), *ends], end


def whole_run(
    events: Iterable[Mapping[str, object]], adapter: RunAdapter[Frame]
) -> tuple[list[Frame], Mapping[str, object]]:
    """Return the frames of a finished run that is not streamed, and the data of its end."""
    settled, end = final_log(events)
    settled = json_alone(settled) if adapter.wants_json else settled
    return [frame for event in settled for frame in adapter.feed(event)] + adapter.close(), end


def json_alone(settled: list[MessageDict]) -> list[MessageDict]:
    """Return a finished log without the texts beside its answer in JSON: a model may say something
    before it calls a tool, and the gateway adds lines. Unchanged where no text is JSON.
    """
    texts = [each for each in settled if each["type"] == "text"]
    answers = [each for each in texts if is_json(str(each["props"].get("content") or ""))]
    if not answers:
        return settled
    return [each for each in settled if each["type"] != "text" or each is answers[-1]]


def is_json(text: str) -> bool:
    """Return whether a text is a JSON object or list."""
    try:
        return isinstance(orjson.loads(text), dict | list)
    except orjson.JSONDecodeError:
        return False
