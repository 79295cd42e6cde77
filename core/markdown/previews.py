"""Textual previews of messages for the terminal."""

from __future__ import annotations

from .split import split
from .telegram import TelegramText, utf16_length


def preview(message: TelegramText, shape: str) -> str:
    """Return the messages that Telegram gets, or ``""`` for a shape that is not Telegram's."""
    if shape == "telegram":
        return "\n\n".join(_drawn(piece) for piece in split(message))
    if shape == "markdownv2":
        return "\n\n".join(piece.markdown_v2() for piece in split(message))
    if shape == "html":
        return "\n\n".join(piece.html() for piece in split(message))
    return ""


def _drawn(piece: TelegramText) -> str:
    """Return the visible text, with each style and its words below."""
    lines = [piece.text, f"--- {utf16_length(piece.text)} of 4096"]
    for span, entity in zip(piece.spans, piece.entities, strict=True):
        words = " ".join(piece.text[span.start : span.end].split())
        lines.append(
            f"{entity.type:13} {words[:60]!r} {entity.url or entity.language or ''}".rstrip()
        )
    return "\n".join(lines)
