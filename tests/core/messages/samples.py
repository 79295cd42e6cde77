"""One sample of every built-in type, whole and in deltas, and small clients that read frames."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from channels_app.rendering.links import Links
from channels_app.rendering.text import Rendering, render
from channels_app.rendering.translations import ENGLISH
from core.messages import (
    BUILTIN_TYPES,
    Message,
    MessageDict,
    Transcript,
    UserInputMessage,
    action_message,
    audio_message,
    delta_message,
    error_message,
    event_message,
    image_message,
    loading_message,
    message_end,
    message_start,
    retrieval_message,
    stream_end,
    stream_start,
    text_message,
    thinking_message,
    to_dict,
    tool_call_message,
    video_message,
)

Event = MessageDict

USAGE = {"prompt_tokens": 3, "completion_tokens": 5, "total_tokens": 8}
SAMPLES: dict[str, Message] = {
    message.type: message
    for message in (
        UserInputMessage(
            props={"content": "Hello?", "role": "user", "name": "John"}, message_id="M1"
        ),
        text_message("Hello **world**!", message_id="M1"),
        thinking_message("Let me see.", message_id="M1"),
        loading_message("Searching…", message_id="M1"),
        tool_call_message("call_1", "document_read", '{"id": "f1"}', message_id="M1"),
        retrieval_message(
            "how?",
            [
                {
                    "id": "s1",
                    "type": "web",
                    "title": "News [1]",
                    "content": "…",
                    "url": "https://e.org/n",
                },
                {"id": "s2", "type": "kb", "title": "Guide", "content": "…", "document_id": "d1"},
            ],
            total_results=2,
            query_time_ms=12,
            provider="tavily",
            message_id="M1",
        ),
        error_message("It broke", "BROKEN", details="at line 1", message_id="M1"),
        image_message("data:image/png;base64,AAAA", "A cat", width=2, height=2, message_id="M1"),
        audio_message("https://e.org/a.ogg", "ogg", transcript="Said so", message_id="M1"),
        video_message("https://e.org/v.webm", props={"url": "", "format": "webm"}, message_id="M1"),
        action_message("open_panel", {"panel_id": "p"}, message_id="M1"),
        event_message("connecting", "Connecting…", {"try": 1}),
    )
}
assert tuple(SAMPLES) == BUILTIN_TYPES


def whole(message: Message) -> list[Event]:
    """Return the message as one event, as a producer logs it."""
    return _framed(message, [to_dict(message)])


def streamed(message: Message) -> list[Event]:
    """Return the message in deltas: texts by two or three appends, everything else set."""
    if message.type == "event":
        return [to_dict(message)]  # lifecycle events have no id and come whole
    deltas = [
        to_dict(part)
        for name, value in message.props.items()
        for part in _parts(message, name, value)
    ]
    return _framed(message, deltas)


def run(*groups: list[Event], status: Any = "completed", **end: Any) -> list[Event]:
    """Return the log of a run: start, its messages, end."""
    start = stream_start(request_id="r1", chat_id="c1", trace_id="t1", timestamp_ms=1)
    last = stream_end(status=status, usage=USAGE, **end)
    return [to_dict(start), *(event for group in groups for event in group), to_dict(last)]


def text_of(*pieces: str, message_id: str = "M1", kind: str = "text") -> list[Event]:
    """Return appends to one text."""
    return [append(kind, piece, message_id) for piece in pieces]


def append(kind: str, piece: str, message_id: str) -> Event:
    props = {"content": piece}
    return to_dict(delta_message(kind, props, message_id=message_id, path="content"))


def end_of(message_id: str, kind: str = "text") -> list[Event]:
    return [to_dict(message_end(message_id=message_id, message_type=kind))]


def _framed(message: Message, events: list[Event]) -> list[Event]:
    if not message.message_id:
        return events
    start = message_start(message_id=message.message_id, message_type=message.type)
    return [to_dict(start), *events, *end_of(message.message_id, message.type)]


def _parts(message: Message, name: str, value: object) -> list[Message]:
    if not isinstance(value, str) or name in ("role", "detail"):
        props = {name: value}
        message_id = message.message_id
        return [delta_message(message.type, props, message_id=message_id, path=name, action="set")]
    cut = max(1, len(value) // 3)
    pieces = [value[at : at + cut] for at in range(0, len(value), cut)]
    return [
        delta_message(message.type, {name: piece}, message_id=message.message_id, path=name)
        for piece in pieces
    ]


def openai_client(frames: list[Any]) -> dict[str, Any]:
    """Return an OpenAI client's state after a stream; asserts the invariants that clients need."""
    assert frames[-1] == "[DONE]"
    seen: dict[str, Any] = {"content": "", "reasoning": "", "tool_calls": [], "finish": None}
    for position, frame in enumerate(frames[:-1]):
        if "error" in frame:
            assert set(frame) == {"error"}
            assert position == len(frames) - 2
            seen["error"] = frame["error"]
            continue
        if not frame["choices"]:
            seen["usage"] = frame["usage"]
            continue
        (choice,) = frame["choices"]
        delta = choice["delta"]
        assert ("role" in delta) is (position == 0)
        assert seen["finish"] is None, "content after the finish chunk"
        seen["content"] += delta.get("content", "")
        seen["reasoning"] += delta.get("reasoning_content", "")
        assert delta.get("tool_calls") != []
        seen["tool_calls"] += delta.get("tool_calls", [])
        seen["annotations"] = delta.get("annotations", [])
        seen["finish"] = choice["finish_reason"]
    assert (seen["finish"] is None) is ("error" in seen)
    return seen


def ui_client(frames: list[Any]) -> dict[str, Any]:
    """Return the state of a UI message stream client after a stream."""
    assert frames[-1] == "[DONE]"
    assert frames[0] == {"type": "start", "messageId": "A1"}
    seen: dict[str, Any] = {"text": "", "reasoning": "", "parts": [], "data": {}, "end": None}
    is_open: set[str] = set()
    for frame in frames[:-1]:
        kind = frame["type"]
        if kind in ("text-start", "reasoning-start"):
            assert frame["id"] not in is_open
            is_open.add(frame["id"])
        elif kind in ("text-delta", "reasoning-delta"):
            assert frame["id"] in is_open
            seen[kind.split("-")[0]] += frame["delta"]
        elif kind in ("text-end", "reasoning-end"):
            is_open.remove(frame["id"])
        elif kind.startswith("data-"):
            seen["data"][kind] = frame["data"]
        elif kind in ("finish", "abort", "error"):
            seen["end"] = frame
        elif kind not in ("start", "start-step", "finish-step"):
            seen["parts"].append(frame)
    assert not is_open
    return seen


def rendered(log: list[Event], links: Links) -> list[Rendering]:
    """Return what a text channel shows of each message that the log completes."""
    transcript = Transcript()
    settled = [each.message for event in log for each in transcript.read(event) if each.settled]
    shown = [render(message, links=links, words=ENGLISH) for message in settled]
    return [each for each in shown if each != Rendering()]


def no_image(_url: str) -> None:
    """Return no image: an inliner that reaches nothing."""


def subset(expected: object, actual: object) -> bool:
    """Return whether all expected parts are there; `<int>` is any integer, `<…>` any text."""
    if isinstance(expected, Mapping):
        return isinstance(actual, Mapping) and all(
            (value is None and name not in actual) or subset(value, actual.get(name))
            for name, value in expected.items()
        )
    if isinstance(expected, list):
        return (
            isinstance(actual, list)
            and len(expected) == len(actual)
            and all(map(subset, expected, actual))
        )
    if expected == "<int>":
        return isinstance(actual, int)
    if isinstance(expected, str) and expected.startswith("<"):
        return isinstance(actual, str)
    return expected == actual
