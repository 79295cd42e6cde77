"""Check messages with Telegram's own parser, and that no visible character is lost."""

import dataclasses
from collections import Counter
from collections.abc import Iterable
from typing import Any

from core.markdown import TelegramText, split, to_telegram

from .mdb import reference, tdlib

# Direction marks, which Telegram rewrites into one another.
IGNORED = frozenset("\u200c\u200e\u200f")

Shown = tuple[str, list[tuple[str, int, int, str]]]


def shown(delivered: Any) -> Shown:
    """Return a delivered message as comparable values: its text and its spans in order."""
    spans = (tuple(dataclasses.astuple(span)) for span in delivered.spans)
    return delivered.text, sorted((str(a), int(b), int(c), str(d)) for a, b, c, d in spans)


def forms(message: TelegramText) -> tuple[Shown, Shown, Shown]:
    """Return the message as entities, MarkdownV2 and HTML; raises ``Rejected`` if TDLib refuses
    one.
    """
    return (
        shown(tdlib.send_entities(message.text, list(message.entities))),
        shown(tdlib.parse_markdownv2(message.markdown_v2())),
        shown(tdlib.parse_html(message.html())),
    )


def markdown_v2(text: object) -> str:
    return to_telegram(text).markdown_v2()


def html(text: object) -> str:
    return to_telegram(text).html()


def messages_in_markdown_v2(text: object) -> list[str]:
    return [piece.markdown_v2() for piece in split(text)]


def delivered(messages: Iterable[TelegramText]) -> str:
    """Return the text that the reader of all the messages sees."""
    return "\n".join(forms(message)[0][0] for message in messages)


def lost(source: str, messages: Iterable[TelegramText]) -> Counter[str]:
    """Return visible characters of the Markdown that the reader does not see.

    The source is read by an independent reference; where it has several readings (tags shown or
    not, tables as grids or lists), the one with the smallest loss counts.
    """
    seen = Counter("".join(delivered(messages).split()))
    best: Counter[str] | None = None
    for make in reference.build(source).variants:
        missing = _required(make()) - seen
        if best is None or missing.total() < best.total():
            best = missing
    return best or Counter()


def _required(variant: reference.Variant) -> Counter[str]:
    """Return the visible characters of a reading, without those that may be missing."""
    free = {at for start, end in variant.optional for at in range(start, end)}
    return Counter(
        char
        for at, char in enumerate(variant.text)
        if at not in free and not char.isspace() and char not in IGNORED
    )
