"""A run's event log as AG-UI events (https://docs.ag-ui.com, version 1.0).

Rules of the protocol's verifier: RUN_STARTED comes first; texts, thoughts and calls are opened and
closed; nothing is open at RUN_FINISHED; ids of messages and calls are unique in a conversation. An
unknown event or field is dropped by clients: our own types are CUSTOM, progress is an ACTIVITY.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from channels_app.client_api.run_adapter import (
    End,
    Failure,
    Medium,
    RunConfig,
    TextKind,
    Usage,
)
from channels_app.client_api.tool_questions import AskingAdapter, Before, Question
from core.messages import (
    ActionMessage,
    CustomMessage,
    ErrorMessage,
    EventMessage,
    LoadingMessage,
    Message,
    RetrievalMessage,
)

Frame = dict[str, object]

VERSION = "1.0"
# Of the id of a tool message that the gateway has made; the client sends it back.
RESULT = "gateway-result:"
# Ids of calls that are shorter may come again: some servers count them from one in each answer.
UNIQUE_CHARACTERS = 20
PIECES = ("TEXT_MESSAGE_CONTENT", "REASONING_MESSAGE_CONTENT")


@dataclass(frozen=True, slots=True, kw_only=True)
class Config(RunConfig):
    """The ids and the state of the client's request, and the run that this one continues."""

    thread: str
    name: str
    state: object = None
    before: Before = field(default_factory=Before)


class AgUiAdapter(AskingAdapter[Frame]):
    """Turns events into AG-UI events, for one run."""

    def __init__(self, config: Config) -> None:
        super().__init__(config)
        self.config = config
        self._opened: dict[str, int] = {}
        self._open: dict[str, TextKind] = {}
        self._ids: dict[str, str] = {}
        self._pending: list[str] = []

    def begin(self) -> list[Frame]:
        """Begin the run, and give the client its state back."""
        return beginning(self.config)

    def length(self, frame: Frame) -> int:
        return len(str(frame["delta"])) if frame["type"] in PIECES else 0

    def without(self, frame: Frame, characters: int) -> Frame:
        return {**frame, "delta": str(frame["delta"])[characters:]}

    def advance(self, frame: Frame) -> int:
        """Progress has no number: it is not kept."""
        return 0 if frame["type"] == "ACTIVITY_SNAPSHOT" else super().advance(frame)

    def text(self, kind: TextKind, key: str, piece: str, *, settled: bool) -> list[Frame]:
        """Add a piece to a message, which is opened and closed as needed."""
        name = self._ids.get(key, "")
        frames: list[Frame] = []
        if piece and not name:
            name = self._ids[key] = self._new_id(kind)
            self._open[name] = kind
            frames += opening(kind, name)
        if piece:
            event = "TEXT_MESSAGE_CONTENT" if kind == "text" else "REASONING_MESSAGE_CONTENT"
            frames.append({"type": event, "messageId": name, "delta": piece})
        if settled and self._ids.pop(key, ""):
            del self._open[name]
            frames += closing(kind, name)
        return frames

    def _new_id(self, kind: str) -> str:
        number = self._opened[kind] = self._opened.get(kind, 0) + 1
        return f"{self.config.run_id}:{kind}-{number}"

    def call_id(self, call_id: str) -> str:
        """Return an id that is unique in the conversation, also where the model's server repeats
        its ids: that of a call that was asked about is of the run that asked.
        """
        is_asked = call_id in self.config.before.calls
        return unique(call_id, self.config.before.run_id if is_asked else self.config.run_id)

    def client_call(self, call_id: str, name: str, arguments: str) -> list[Frame]:
        """Hand a call to the client; all of a run are in one message."""
        public = self.call_id(call_id)
        self._pending.append(public)
        return call(public, name, arguments, parent=f"{self.config.run_id}:calls")

    def own_call(self, call_id: str, name: str, arguments: str) -> list[Frame]:
        """Show a call that the gateway makes; a call with a question was shown before."""
        if call_id in self.config.before.calls:
            return []
        return call(self.call_id(call_id), name, arguments)

    def own_result(self, call_id: str, data: Mapping[str, object]) -> list[Frame]:
        public = self.call_id(call_id)
        state = self.config.before.calls.get(call_id, "")
        status = "ok" if data.get("status") != "error" else "error"
        word = state if state in ("denied", "expired") else status
        content = str(data.get("output") or "") or word
        result: Frame = {"messageId": f"{RESULT}{self.config.run_id}:{public}", "role": "tool"}
        return [{"type": "TOOL_CALL_RESULT", **result, "toolCallId": public, "content": content}]

    def sources(self, message: RetrievalMessage, *, settled: bool) -> list[Frame]:
        return [custom(message)] if settled else []

    def medium(self, message: Medium) -> list[Frame]:
        """Show a medium: a line of Markdown, which every client shows."""
        line = self.links.markdown(message)
        return self.text("text", f"medium:{len(self._opened)}:{self.number}", line, settled=True)

    def progress(self, message: LoadingMessage, *, settled: bool) -> list[Frame]:
        """Show a progress line: one activity of the run, replaced by the next."""
        return [self._activity({"message": message.props.get("message") or ""})]

    def _activity(self, content: Frame) -> Frame:
        name = f"{self.config.run_id}:progress"
        kind: Frame = {"type": "ACTIVITY_SNAPSHOT", "activityType": "PROGRESS"}
        return {**kind, "messageId": name, "content": content, "replace": True}

    def custom(self, message: CustomMessage, *, settled: bool) -> list[Frame]:
        """Hand a message of another type to the page, once it is whole."""
        is_new = settled and (not message.message_id or self.first(f"card:{message.message_id}"))
        return [custom(message)] if is_new else []

    def action(self, message: ActionMessage) -> list[Frame]:
        return [custom(message)]

    def event(self, message: EventMessage) -> list[Frame]:
        """Hand other events to the page; those of progress are its activity."""
        name = message.props.get("event") or ""
        data = dict(message.props.get("data") or {})
        if name == "progress":
            return [self._activity({"message": message.props.get("message") or "", **data})]
        return [{"type": "CUSTOM", "name": name, "value": data}]

    def harmless_error(self, message: ErrorMessage) -> list[Frame]:
        return [custom(message)]

    def end(self, end: End) -> list[Frame]:
        """Close what is open, and finish: with the questions, if the run waits for a yes."""
        frames = self._closed("error" if end.is_cancelled else "completed")
        for question in self.questions:
            public = self.call_id(question.call_id)
            frames += call(public, question.tool, question.arguments)
        if end.is_cancelled:
            outcome: Frame = {"type": "cancelled"}
        elif self.questions:
            outcome = interrupted(self.questions)
        else:
            pending = {"pendingToolCallIds": self._pending} if self._pending else {}
            outcome = {"type": "success", **pending}
        finished = finish(self.config, outcome)
        if end.reason in ("length", "content_filter"):
            finished["metadata"] = {"finishReason": end.reason}
        return [*frames, {**finished, **usage_of(end.usage)}]

    def fail(self, failure: Failure) -> list[Frame]:
        """Close what is open, and say why the run failed."""
        frames = self._closed("error")
        return [*frames, {**error(failure.text, failure.code), **usage_of(Usage.of(failure.data))}]

    def _closed(self, status: str) -> list[Frame]:
        frames: list[Frame] = []
        for name, kind in self._open.items():
            frames += closing(kind, name)
        self._open.clear()
        return frames + self.end_calls(status)


def beginning(config: Config) -> list[Frame]:
    """Return the first events of a run."""
    ids: Frame = {"threadId": config.thread, "runId": config.name}
    started: Frame = {"type": "RUN_STARTED", **ids, "protocolVersion": VERSION}
    if config.state is None:
        return [started]
    return [started, {"type": "STATE_SNAPSHOT", "snapshot": config.state}]


def finish(config: Config, outcome: Frame) -> Frame:
    """Return the last event of a run that did not fail."""
    ids: Frame = {"threadId": config.thread, "runId": config.name}
    return {"type": "RUN_FINISHED", **ids, "outcome": outcome}


def error(message: str, code: str) -> Frame:
    """Return the last event of a run that failed."""
    return {"type": "RUN_ERROR", "message": message, "code": code}


def opening(kind: TextKind, name: str) -> list[Frame]:
    """Return the events before a text or a thought."""
    if kind == "text":
        return [{"type": "TEXT_MESSAGE_START", "messageId": name, "role": "assistant"}]
    start: Frame = {"type": "REASONING_MESSAGE_START", "messageId": name, "role": "reasoning"}
    return [{"type": "REASONING_START", "messageId": name}, start]


def closing(kind: TextKind, name: str) -> list[Frame]:
    """Return the events after a text or a thought."""
    if kind == "text":
        return [{"type": "TEXT_MESSAGE_END", "messageId": name}]
    events = ("REASONING_MESSAGE_END", "REASONING_END")
    return [{"type": event, "messageId": name} for event in events]


def call(call_id: str, name: str, arguments: str, *, parent: str = "") -> list[Frame]:
    """Return the events of a whole call. ``parent``: the id of its message, else the call's."""
    start: Frame = {"type": "TOOL_CALL_START", "toolCallId": call_id, "toolCallName": name}
    if parent:
        start["parentMessageId"] = parent
    args: Frame = {"type": "TOOL_CALL_ARGS", "toolCallId": call_id, "delta": arguments}
    return [start, args, {"type": "TOOL_CALL_END", "toolCallId": call_id}]


def unique(call_id: str, run_id: str) -> str:
    """Return the id of a call, with a part of its run's id where it is short."""
    return call_id if len(call_id) >= UNIQUE_CHARACTERS else f"{call_id}-{run_id[-8:]}"


def custom(message: Message) -> Frame:
    """Return a message of our own type for the page."""
    value: Frame = {**message.props}
    if message.message_id:
        value["id"] = message.message_id
    return {"type": "CUSTOM", "name": message.type, "value": value}


def interrupted(questions: list[Question]) -> Frame:
    """Return the outcome of a run that waits for a yes."""
    return {"type": "interrupt", "interrupts": [interrupt(each) for each in questions]}


def interrupt(question: Question) -> Frame:
    """Return a question; without a schema of answers for the owner's questions and sign-ins."""
    elsewhere = "latchkey:sign_in" if question.sign_in else "latchkey:waiting_for_owner"
    sign_in = {"signIn": question.sign_in} if question.sign_in else {}
    made: Frame = {
        "id": question.id,
        "reason": "tool_call" if question.may_answer else elsewhere,
        "message": question.text,
        "toolCallId": unique(question.call_id, question.run_id),
        "metadata": {
            "latchkey": {
                "tool": question.tool,
                "arguments": question.arguments,
                "cost": question.cost,
                "askedOf": question.asked_of,
                "state": question.state,
                **sign_in,
            }
        },
    }
    if question.may_answer:
        made["responseSchema"] = schema_of(question)
    if question.expires_at is not None:
        made["expiresAt"] = question.expires_at.isoformat()
    return made


def schema_of(question: Question) -> Frame:
    """Return the JSON schema of an answer."""
    properties: Frame = {
        "approved": {"type": "boolean"},
        "scope": {"type": "string", "enum": [*question.choices], "default": "once"},
    }
    if question.may_edit:
        properties["editedArgs"] = {"type": "object"}
    return {"type": "object", "properties": properties, "required": ["approved"]}


def usage_of(usage: Usage) -> Frame:
    """Return the tokens of a run; nothing where they were not counted."""
    if not usage.total:
        return {}
    counts = {"inputTokens": usage.prompt, "outputTokens": usage.answer, "totalTokens": usage.total}
    parts = {"cachedInputTokens": usage.cached, "reasoningTokens": usage.reasoning}
    return {"usage": [counts | {name: amount for name, amount in parts.items() if amount}]}
