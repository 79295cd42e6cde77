"""Answers as Telegram's messages: text and entities, never markup ([T5], [T6]). Pure."""

from typing import Any

from channels_app.aggregator import split, utf16_units
from channels_app.base import Block
from core.markdown import markdown_to_channel

TEXT_LIMIT = 4096  # UTF-16 units: always within Telegram's 4096 code points
CAPTION_LIMIT = 1024


def render(text: str) -> list[Block]:
    """Markdown as messages, each ``{"text", "entities"}``."""
    plain = markdown_to_channel(text, "plain")
    return [{"text": piece} for piece in split(plain, limit=TEXT_LIMIT, measure=utf16_units)]


def keyboard(block: Block) -> dict[str, Any] | None:
    """The inline keyboard of a block."""
    if not block.get("buttons"):
        return None
    return {
        "inline_keyboard": [
            [{"text": each["text"], "callback_data": each["data"]} for each in row]
            for row in block["buttons"]
        ]
    }
