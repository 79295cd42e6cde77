"""Each message type as text or a medium, for text channels and the JSON answer of `/inbound`.

docs/messages.md has the table of all formats.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, assert_never

from channels_app.rendering.links import Links, citations, source_line
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
    UserInputMessage,
    VideoMessage,
)

MediaKind = Literal["image", "audio", "video"]

SOURCES_SHOWN = 5
LINE_LENGTH = 300


@dataclass(frozen=True, slots=True, kw_only=True)
class MediaItem:
    """A medium: its address, and the Markdown link that replaces it where it cannot be sent."""

    kind: MediaKind
    url: str
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
    match message:
        case UserInputMessage() | ThinkingMessage() | ToolCallMessage() | ActionMessage():
            return SILENT
        case TextMessage():
            return Rendering(text=message.props.get("content") or "")
        case LoadingMessage():
            return Rendering(progress=one_line(message.props.get("message") or ""))
        case EventMessage():  # those of tools are lines of progress (contract D2)
            is_progress = message.props.get("event") == "progress"
            line = one_line(message.props.get("message") or "")
            return Rendering(progress=line) if is_progress else SILENT
        case RetrievalMessage():
            return Rendering(text=sources_text([message], words))
        case ErrorMessage():
            return Rendering(text=f"⚠️ {error_line(message, words)}")
        case ImageMessage() | AudioMessage() | VideoMessage():
            url = message.props.get("url") or links.address(message)
            link = links.markdown(message)
            return Rendering(media=MediaItem(kind=message.type, url=url, link=link))
        case CustomMessage():
            return Rendering(text=links.markdown(message))
        case _:
            assert_never(message)


def one_line(text: str) -> str:
    """Return the text on one line, cut."""
    line = " ".join(text.split())
    return line if len(line) <= LINE_LENGTH else line[: LINE_LENGTH - 1] + "…"


def sources_text(messages: list[RetrievalMessage], words: Wording) -> str:
    """Return the sources of all these retrievals as one short numbered list in Markdown."""
    found = citations(messages)
    if not found:
        return ""
    lines = [source_line(number, each) for number, each in enumerate(found[:SOURCES_SHOWN], 1)]
    if len(found) > SOURCES_SHOWN:
        lines.append(f"{SOURCES_SHOWN + 1}. … (+{len(found) - SOURCES_SHOWN})")
    return f"**{words.sources}**\n\n" + "\n".join(lines)


def error_line(message: ErrorMessage, words: Wording) -> str:
    """Return the error on one line."""
    return one_line(message.props.get("message") or words.failed)
