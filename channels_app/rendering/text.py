"""Renderings of each message type for text and media only.

Telegram, the text channels and the JSON answer of `/inbound` use them:

| type | rendering | |---|---| | text | its Markdown | | loading | the progress line, which the next
one replaces | | retrieval | a short list of sources | | error | one line | | image, audio, video |
a media item; a channel that cannot send it takes its link | | any custom type | a link | | event |
a `progress` event is a progress line; others nothing | | user_input, thinking, tool_call, action |
nothing |
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal, assert_never

from channels_app.rendering.links import Links, citations, source_list
from channels_app.rendering.translations import Wording
from core.messages import (
    ActionMessage,
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
)

MediaKind = Literal["image", "audio", "video"]

SOURCES_SHOWN = 5
LINE_LENGTH = 300


@dataclass(frozen=True, slots=True, kw_only=True)
class MediaItem:
    """A medium to send: its address, its caption, and the Markdown link that replaces it on a
    channel that cannot send it.
    """

    kind: MediaKind
    url: str
    caption: str
    link: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Rendering:
    """The rendering of one message; empty fields when it is not shown.

    `text` is Markdown for the outbound conversion, `progress` a plain line that replaces the
    previous one and is removed when the answer arrives.
    """

    text: str = ""
    progress: str = ""
    media: MediaItem | None = None


SILENT = Rendering()


def render(message: Message, *, links: Links, words: Wording) -> Rendering:
    """Render one whole message."""
    match message:
        case UserInputMessage() | ThinkingMessage() | ToolCallMessage() | ActionMessage():
            return SILENT
        case TextMessage():
            return Rendering(text=message.props.get("content") or "")
        case LoadingMessage():
            return Rendering(progress=one_line(message.props.get("message") or ""))
        case RetrievalMessage():
            return Rendering(text=sources_text([message], words))
        case ErrorMessage():
            return Rendering(text=f"⚠️ {error_line(message, words)}")
        case ImageMessage() | AudioMessage() | VideoMessage():
            return Rendering(media=_media(message, links))
        case CustomMessage():
            return Rendering(text=links.markdown(message))
        case EventMessage():
            return _event(message)
        case _:
            assert_never(message)


@dataclass(slots=True, kw_only=True)
class TextAdapter:
    """Turn a run's events into renderings, each once, when its message is complete.

    A progress line is rendered again whenever it changes.
    """

    links: Links
    words: Wording
    transcript: Transcript = field(default_factory=Transcript)
    _progress: str = ""

    def feed(self, event: Mapping[str, object]) -> list[Rendering]:
        """Return the renderings that one event adds; often none."""
        whole = event.get("delta_action") not in (None, "append")
        renderings = []
        for message, settled in self.transcript.read(event):
            if settled or (whole and isinstance(message, LoadingMessage)):
                rendering = render(message, links=self.links, words=self.words)
                if rendering != SILENT and self._is_news(rendering):
                    renderings.append(rendering)
        return renderings

    def _is_news(self, rendering: Rendering) -> bool:
        if not rendering.progress:
            return True
        last, self._progress = self._progress, rendering.progress
        return last != rendering.progress


def one_line(text: str) -> str:
    """Return the text on one line, cut."""
    line = " ".join(text.split())
    return line if len(line) <= LINE_LENGTH else line[: LINE_LENGTH - 1] + "…"


def _event(message: EventMessage) -> Rendering:
    """Render the `progress` events of tools (contract D2)."""
    if message.props.get("event") != "progress":
        return SILENT
    return Rendering(progress=one_line(message.props.get("message") or ""))


def _media(message: ImageMessage | AudioMessage | VideoMessage, links: Links) -> MediaItem:
    match message:
        case ImageMessage():
            caption = message.props.get("alt") or ""
        case AudioMessage():
            caption = message.props.get("transcript") or ""
        case VideoMessage():
            caption = ""
        case _:
            assert_never(message)
    url = message.props.get("url") or links.address(message)
    return MediaItem(kind=message.type, url=url, caption=caption, link=links.markdown(message))


def sources_text(messages: list[RetrievalMessage], words: Wording) -> str:
    """Return all sources of these retrievals as one short list."""
    return source_list(citations(messages), heading=words.sources, limit=SOURCES_SHOWN)


def error_line(message: ErrorMessage, words: Wording) -> str:
    """Return the error on one line."""
    return one_line(message.props.get("message") or words.failed)
