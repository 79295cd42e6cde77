"""A run's complete answer: the JSON of `/inbound`, the `done` and the `final` frame."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Literal

from channels_app.rendering.links import Links
from channels_app.rendering.text import MediaItem, error_line, one_line, render, sources_text
from channels_app.rendering.translations import Wording
from core.markdown import classify_outbound_format
from core.messages import ErrorMessage, Message, RetrievalMessage

Status = Literal["pending", "completed", "error", "cancelled"]

HTTP_STATUS: dict[Status, int] = {"pending": 202, "completed": 200, "error": 502, "cancelled": 409}


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """The output of a run: Markdown, media in order, `error` on one line with its `code`."""

    text: str
    media: list[MediaItem]
    status: Status
    error: str = ""
    code: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply:
    """An answer as clients of `/inbound` and of the web chat get it (contracts D1, T4, T7).

    `images` are data URLs.
    """

    ok: bool
    status: int
    text: str
    format: str
    images: list[str]
    error: str
    code: str = ""


def answer_of(
    messages: list[Message], end: Mapping[str, object], *, links: Links, words: Wording
) -> Answer:
    """Build the answer from merged messages; `end` is the data of the `stream_end`, if any.

    Sources come last; audio, video and custom types are links in the text as well as media, an
    image is media only (contract T7).
    """
    status = _status(end)
    texts: list[str] = []
    media: list[MediaItem] = []
    error = code = ""
    for message in messages:
        if isinstance(message, RetrievalMessage):
            continue
        if isinstance(message, ErrorMessage) and status == "error":
            error, code = error_line(message, words), message.props.get("code") or ""
            continue
        rendering = render(message, links=links, words=words)
        texts.append(rendering.text)
        if rendering.media:
            media.append(rendering.media)
            texts.append("" if rendering.media.kind == "image" else rendering.media.link)
    texts.append(
        sources_text([each for each in messages if isinstance(each, RetrievalMessage)], words)
    )
    if code == "budget" and "retry_after" in end:
        code = "rate_limited"  # other answers hold the budget for a moment; so it is at /v1
    if status == "error" and not error:
        error = one_line(str(end.get("error") or words.failed))
    text = "\n\n".join(text for text in texts if text)
    return Answer(text=text, media=media, status=status, error=error, code=code)


def reply(given: Answer, *, inline: Callable[[str], str | None]) -> Reply:
    """Convert an answer for clients: Markdown as it is, with its format ([T4]).

    `inline` turns an image's address into a data URL, or None when it cannot: then its link is put
    into the text.
    """
    images: list[str] = []
    texts = [given.text]
    for item in given.media:
        if item.kind == "image":
            data = item.url if item.url.startswith("data:image/") else inline(item.url)
            (images if data else texts).append(data or item.link)
    text = "\n\n".join(text for text in texts if text)
    return Reply(
        ok=given.status in ("pending", "completed"),
        status=HTTP_STATUS[given.status],
        text=text,
        format=classify_outbound_format(text),
        images=images,
        error=given.error or ("Cancelled" if given.status == "cancelled" else ""),
        code=given.code,
    )


def _status(end: Mapping[str, object]) -> Status:
    match end.get("status"):
        case "completed" | "error" | "cancelled" as status:
            return status
        case None if not end:
            return "pending"
    return "completed"
