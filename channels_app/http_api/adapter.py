"""A run's event log as the progress and the answer of `/inbound` (contracts D1 and D2).

One adapter reads one run from its first event. To resume after an event, replay the log through
a fresh adapter and drop the frames of the events the client has: the rest is the same, byte for
byte.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Literal, NotRequired, TypedDict

from channels_app.rendering.answer import Reply, answer_of, reply
from channels_app.rendering.links import Links
from channels_app.rendering.text import one_line
from channels_app.rendering.translations import ENGLISH, Wording
from core.messages import EventMessage, LoadingMessage, Message, Transcript, event_data

PROCESSING = "Processing your request…"


class ProgressFrame(TypedDict):
    """The current activity; `percent` 0 to 100 where known."""

    event: Literal["progress"]
    message: str
    tool: str
    percent: NotRequired[float]
    run_id: NotRequired[str]
    session_id: NotRequired[str]


class Body(TypedDict):
    """The answer of `/inbound`; `images` are data URLs, `image` is the first of them."""

    ok: bool
    status: int
    text: str
    format: str
    run_id: str
    session_id: str
    images: NotRequired[list[str]]
    image: NotRequired[str]
    error: NotRequired[str]
    code: NotRequired[str]


class DoneFrame(Body):
    """The same, as the last event of a stream."""

    event: Literal["done"]


Frame = ProgressFrame | DoneFrame


class InboundAdapter:
    """Turns events into progress frames and, at the end of the run, one `done`.

    `inline` as in `answer.reply`.
    """

    def __init__(
        self,
        *,
        run_id: str,
        session_id: str,
        inline: Callable[[str], str | None],
        links: Links | None = None,
        words: Wording = ENGLISH,
    ) -> None:
        self.run_id = run_id
        self.session_id = session_id
        self._inline = inline
        self._links = links or Links()
        self._words = words
        self._transcript = Transcript()
        self._last = PROCESSING
        self._done = False

    def feed(self, event: Mapping[str, object]) -> list[Frame]:
        """Return the frame that one event adds; often none, and none after `done`.

        Never two: they would share one id, and a client cut between them could not resume.
        """
        if self._done:
            return []
        # A loading line that grows by appends is shown when it is whole, others at once.
        whole = event.get("delta_action") not in (None, "append")
        frames: list[Frame] = []
        for message, settled in self._transcript.read(event):
            if settled or whole:
                frames += self._message(message)
        return frames[-1:]

    def _message(self, message: Message) -> list[Frame]:
        """Return the frame of progress or of the end; the answer holds what other messages say."""
        if isinstance(message, LoadingMessage):
            return self._progress(message.props.get("message") or "")
        if isinstance(message, EventMessage):
            return self._event(message)
        return []

    def _event(self, message: EventMessage) -> list[Frame]:
        data = event_data(message)
        match message.props.get("event"):
            case "progress":
                line = message.props.get("message") or ""
                return self._progress(line, tool=str(data.get("tool") or ""), data=data)
            case "stream_end":
                self._done = True
                given = answer_of(
                    self._transcript.messages(), data, links=self._links, words=self._words
                )
                shown = reply(given, inline=self._inline)
                return [done(body(shown, run_id=self.run_id, session_id=self.session_id))]
        return []

    def _progress(
        self, line: str, *, tool: str = "", data: Mapping[str, object] | None = None
    ) -> list[Frame]:
        """Return a progress frame; None when it would repeat the line that is shown."""
        line = one_line(line)
        percent = (data or {}).get("percent")
        if not line or (line == self._last and percent is None):
            return []
        self._last = line
        frame = progress(line, tool=tool)
        if isinstance(percent, int | float):
            frame["percent"] = percent
        return [frame]


def progress(line: str = PROCESSING, *, tool: str = "") -> ProgressFrame:
    return {"event": "progress", "message": line, "tool": tool}


def first_frame(*, run_id: str, session_id: str) -> ProgressFrame:
    """Return the first frame of every stream, with the ids that a client needs to resume."""
    return {**progress(), "run_id": run_id, "session_id": session_id}


def body(given: Reply, *, run_id: str, session_id: str) -> Body:
    """Return the JSON answer of `/inbound`."""
    answer: Body = {
        "ok": given.ok,
        "status": given.status,
        "text": given.text,
        "format": given.format,
        "run_id": run_id,
        "session_id": session_id,
    }
    if given.images:
        answer["images"] = given.images
        answer["image"] = given.images[0]
    if given.error:
        answer["error"] = given.error
    if given.code:
        answer["code"] = given.code
    return answer


def done(answer: Body) -> DoneFrame:
    return {"event": "done", **answer}
