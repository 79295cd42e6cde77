"""A run's event log as the events of one response, whose number is their ``sequence_number``.

Texts, media and cards of the answer are one message, until reasoning or a call of the client's
tools comes between; sources are a list at its end, with annotations. Calls of the gateway's own
tools and progress lines are no items: clients would run them and call again.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import orjson

from channels_app.asgi.chat_messages import Json
from channels_app.client_api import failures
from channels_app.client_api.responses.frames import (
    Event,
    arguments_of,
    begun,
    code_of,
    in_summary,
    in_text,
    message_of,
    reasoning_of,
    seconds_of,
    summary_ends,
    summary_text,
    text_ends,
    text_part,
    usage_of,
)
from channels_app.client_api.responses.tools import Kinds
from channels_app.client_api.run_adapter import (
    End,
    Failure,
    ProseAdapter,
    RunConfig,
    TextKind,
)
from channels_app.rendering.links import source_line

GAP = "\n\n"
PIECES = ("response.output_text.delta", "response.reasoning_summary_text.delta")
INCOMPLETE = {"length": "max_output_tokens", "content_filter": "content_filter"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Config(RunConfig):
    """The response as it is before the run begins, and what the client's tools are. ``encrypt``:
    a thought, for the client to keep; None where it did not ask for that.
    """

    response: Json
    kinds: Kinds = field(default_factory=Kinds)
    encrypt: Callable[[str], str] | None = None


class ResponsesAdapter(ProseAdapter[Event]):
    """Turns events into those of a response. ``response``: as the last one shows it."""

    # `response.incomplete` of a stopped answer has no reason: the AI SDK takes it for a whole one.
    has_stopped_end = False

    def __init__(self, config: Config) -> None:
        super().__init__(config)
        self.config = config
        self.response: Json = {**config.response, "status": "in_progress"}
        self._output: list[Json] = []
        self._open: Json | None = None
        self._open_key = ""
        self._speaker = ""
        self._tail = ""

    def length(self, frame: Event) -> int:
        return len(frame["delta"]) if frame["type"] in PIECES else 0

    def without(self, frame: Event, characters: int) -> Event:
        if frame["type"] not in PIECES:
            return frame
        return {**frame, "delta": frame["delta"][characters:]}

    def begin(self) -> list[Event]:
        return [{"type": "response.created", "response": self.response}]

    def started(self, data: Mapping[str, object]) -> list[Event]:
        """Say that a worker has begun."""
        return [{"type": "response.in_progress", "response": self.response}]

    def text(self, kind: TextKind, key: str, piece: str, *, settled: bool) -> list[Event]:
        if kind == "text":
            return self._say(piece, speaker=key)
        frames = self._think(piece, key)
        if settled and self._open is not None and self._open_key == key:
            frames += self._close()
        return frames

    def line(self, text: str) -> list[Event]:
        return self._say(text)

    def client_call(self, call_id: str, name: str, arguments: str) -> list[Event]:
        frames = self._close()
        item = self.config.kinds.item(self._id("fc"), call_id, name, arguments)
        at = len(self._output)
        frames.append(
            {"type": "response.output_item.added", "output_index": at, "item": begun(item)}
        )
        frames += arguments_of(item, at)
        self._output.append(item)
        frames.append({"type": "response.output_item.done", "output_index": at, "item": item})
        return frames

    def end(self, end: End) -> list[Event]:
        """End with the sources and the response."""
        reason = INCOMPLETE.get(end.reason)
        is_whole = reason is None
        frames = self._sources()
        frames += self._close("completed" if is_whole else "incomplete")
        self._settle("completed" if is_whole else "incomplete", end.data)
        if is_whole:
            self.response["completed_at"] = seconds_of(end.data)
            return [*frames, {"type": "response.completed", "response": self.response}]
        self.response["incomplete_details"] = {"reason": reason}
        return [*frames, {"type": "response.incomplete", "response": self.response}]

    def fail(self, failure: Failure) -> list[Event]:
        frames = self._close("incomplete")
        self._settle("cancelled" if failure.code == "stopped" else "failed", failure.data)
        text = failures.message_of(failure)
        self.response["error"] = {"code": code_of(failure), "message": text}
        return [*frames, {"type": "response.failed", "response": self.response}]

    def _settle(self, status: str, data: Mapping[str, object]) -> None:
        self.response = {
            **self.response,
            "status": status,
            "output": self._output,
            "usage": usage_of(data),
        }

    def _id(self, prefix: str) -> str:
        return f"{prefix}_{self.config.run_id}_{len(self._output)}"

    def _say(self, piece: str, speaker: str = "") -> list[Event]:
        """Add text to the message, separated from the text of an earlier one."""
        if not piece:
            return []
        frames: list[Event] = []
        if self._open is None or self._open["type"] != "message":
            frames = [*self._close(), *self._begin_message()]
        if self._tail and not (speaker and speaker == self._speaker):
            piece = GAP[len(self._tail) - len(self._tail.rstrip("\n")) :] + piece
        self._speaker = speaker
        self._tail = (self._tail + piece)[-2:]
        message = self._open
        assert message is not None  # noqa: S101 - above
        message["content"][0]["text"] += piece
        place = in_text(message["id"], len(self._output))
        return [
            *frames,
            {"type": "response.output_text.delta", **place, "delta": piece, "logprobs": []},
        ]

    def _begin_message(self) -> list[Event]:
        name, at = self._id("msg"), len(self._output)
        part = text_part("", [])
        self._open = message_of(name, "in_progress", text_part("", []))
        empty = {**self._open, "content": []}
        return [
            {"type": "response.output_item.added", "output_index": at, "item": empty},
            {"type": "response.content_part.added", **in_text(name, at), "part": part},
        ]

    def _think(self, piece: str, key: str) -> list[Event]:
        """Add reasoning; another thought is another item."""
        if not piece:
            return []
        frames: list[Event] = []
        is_open = self._open is not None and self._open["type"] == "reasoning"
        if not is_open or self._open_key != key:
            frames = [*self._close(), *self._begin_reasoning(key)]
        item = self._open
        assert item is not None  # noqa: S101 - above
        item["summary"][0]["text"] += piece
        place = in_summary(item["id"], len(self._output))
        return [
            *frames,
            {"type": "response.reasoning_summary_text.delta", **place, "delta": piece},
        ]

    def _begin_reasoning(self, key: str) -> list[Event]:
        name, at = self._id("rs"), len(self._output)
        self._open_key = key
        self._open = reasoning_of(name, "in_progress", "")
        empty = {**self._open, "summary": []}
        place, part = in_summary(name, at), summary_text("")
        return [
            {"type": "response.output_item.added", "output_index": at, "item": empty},
            {"type": "response.reasoning_summary_part.added", **place, "part": part},
        ]

    def _close(self, status: str = "completed") -> list[Event]:
        """End the open item."""
        item, self._open, self._open_key = self._open, None, ""
        if item is None:
            return []
        at = len(self._output)
        if item["type"] == "message":
            [part] = item["content"]
            done = message_of(item["id"], status, part)
            frames = text_ends(item["id"], at, part)
        else:
            [summary] = item["summary"]
            text, encrypt = summary["text"], self.config.encrypt
            done = reasoning_of(item["id"], status, text, sealed=encrypt(text) if encrypt else None)
            frames = summary_ends(item["id"], at, text)
        self._output.append(done)
        return [
            *frames,
            {"type": "response.output_item.done", "output_index": at, "item": done},
        ]

    def _sources(self) -> list[Event]:
        """Convert the sources to a numbered list; the annotations point into it."""
        found = self.citations()
        if not found:
            return []
        frames = self._say(f"**{self.words.sources}**\n", speaker="sources")
        for number, citation in enumerate(found, start=1):
            line = "\n" + source_line(number, citation)
            frames += self._say(line, speaker="sources")
            if citation.url:
                frames.append(self._annotate(citation.url, citation.title, len(line) - 1))
        return frames

    def _annotate(self, url: str, title: str, characters: int) -> Event:
        message = self._open
        assert message is not None  # noqa: S101 - just said
        part = message["content"][0]
        cited = {
            "type": "url_citation",
            "url": url,
            "title": title,
            "start_index": len(part["text"]) - characters,
            "end_index": len(part["text"]),
        }
        part["annotations"].append(cited)
        return {
            "type": "response.output_text.annotation.added",
            **in_text(message["id"], len(self._output)),
            "annotation_index": len(part["annotations"]) - 1,
            "annotation": cited,
        }


def encode(number: int, frame: Event) -> bytes:
    """Encode one event, with its number, as a server-sent event."""
    data = orjson.dumps({**frame, "sequence_number": number})
    return b"event: %s\ndata: %s\n\n" % (frame["type"].encode(), data)
