"""Answers as Telegram's messages: text and entities, never markup ([T5], [T6]). Pure."""

from typing import Any

from channels_app.base import Block
from core.markdown import TelegramText, live_view, split, to_rich, to_telegram, truncate

CAPTION_LIMIT = 1024


def render(text: str) -> list[Block]:
    """Convert Markdown to messages of at most 4096 UTF-16 units, each ``{"text", "entities"?}``."""
    return blocks_of(split(text))


def render_growing(text: str) -> list[Block]:
    """Convert an unfinished text in the same way; full messages do not change any more."""
    return blocks_of(split(live_view(text), growing=True))


def render_rich(text: str, *, growing: bool = False) -> list[Block]:
    """Convert Markdown to one rich message ([C13]): ``rich`` has the blocks of the Bot API, and the
    rest is the first message of the ordinary form, with ``more`` for those after it. The ordinary
    messages where there is no rich one.
    """
    shown = live_view(text) if growing else text
    ordinary = blocks_of(split(shown, growing=growing))
    blocks = to_rich(shown, is_long=len(ordinary) > 1)
    if blocks is None or not ordinary:
        return ordinary
    first, *more = ordinary
    return [first | {"rich": blocks, "more": more}]


def blocks_of(pieces: list[TelegramText]) -> list[Block]:
    blocks: list[Block] = []
    for piece in pieces:
        block: Block = {"text": piece.text}
        if piece.entities:
            block["entities"] = [entity.to_dict() for entity in piece.entities]
        blocks.append(block)
    return blocks


def render_one(text: str) -> Block | None:
    """Convert Markdown to one MarkdownV2 message, cut with ``… (truncated)``, or None for none.

    ``text`` is sent instead when Telegram cannot parse the markup ([S3]).
    """
    message = to_telegram(text)
    if not split(message):
        return None
    piece = truncate(message)
    return {"text": piece.text, "markdown_v2": piece.markdown_v2()}


def keyboard(block: Block) -> dict[str, Any] | None:
    if not block.get("buttons"):
        return None
    return {
        "inline_keyboard": [
            [{"text": each["text"], "callback_data": each["data"]} for each in row]
            for row in block["buttons"]
        ]
    }
