"""Textual previews of messages for the terminal."""

from collections.abc import Callable

from .split import split_message
from .telegram import TelegramText, utf16_length


def preview(message: TelegramText, shape: str) -> str:
    """Return the messages that Telegram gets, or ``""`` for a shape that is not Telegram's."""
    draw = _SHAPES.get(shape)
    return "\n\n".join(draw(piece) for piece in split_message(message)) if draw else ""


def _drawn(piece: TelegramText) -> str:
    """Return the visible text, with each style and its words below."""
    lines = [piece.text, f"--- {utf16_length(piece.text)} of 4096"]
    for span, entity in zip(piece.spans, piece.entities, strict=True):
        words = " ".join(piece.text[span.start : span.end].split())
        lines.append(
            f"{entity.type:13} {words[:60]!r} {entity.url or entity.language or ''}".rstrip()
        )
    return "\n".join(lines)


_SHAPES: dict[str, Callable[[TelegramText], str]] = {
    "telegram": _drawn,
    "markdownv2": TelegramText.markdown_v2,
    "html": TelegramText.html,
}
