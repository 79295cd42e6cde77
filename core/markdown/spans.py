"""Styled ranges of a text, and the arithmetic on them."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from dataclasses import dataclass
from typing import Literal

# fmt: off
Kind = Literal[
    "quote", "pre", "link", "anchor", "image", "bold", "underline", "italic", "strike", "spoiler",
    "code",
]
_OUTER_FIRST: tuple[Kind, ...] = (
    "quote", "pre", "link", "anchor", "image", "bold", "underline", "italic", "strike", "spoiler",
    "code",
)
# fmt: on

LONG = "long"  # the value of a quote that can be folded

# Where two styles cover the very same range, the earlier one is drawn outside the later one.
ORDER: dict[str, int] = {kind: rank for rank, kind in enumerate(_OUTER_FIRST)}


@dataclass(slots=True)
class Span:
    """A style on ``text[start:end]``; offsets are code points of the text it belongs to.

    An ``anchor`` is a link that raw HTML makes: where it cannot be one, its address is not shown.
    ``value`` is the address of a link or an image, the language of a ``pre``, the backticks of a
    ``code``, ``LONG`` of a quote that is folded where a channel can.
    """

    kind: Kind
    start: int
    end: int
    value: str = ""


class Inline:
    """The result: ``text`` with its ``spans``.

    ``marked``: whether any markup was found; ``linked``: whether there are links or images.
    """

    __slots__ = ("linked", "marked", "spans", "text")

    def __init__(self, text: str, spans: list[Span], *, marked: bool, linked: bool = False) -> None:
        self.text, self.spans, self.marked, self.linked = text, spans, marked, linked


def shifted(spans: list[Span], by: int) -> list[Span]:
    """Return the same spans in a text that has ``by`` more code points in front."""
    return [Span(s.kind, s.start + by, s.end + by, s.value) for s in spans]


def insert(text: str, spans: list[Span], pieces: list[tuple[int, str]]) -> tuple[str, list[Span]]:
    """Insert pieces of text at offsets (ascending) and move the spans along.

    A span that ends where a piece is inserted does not grow; one that starts there moves behind it.
    """
    if not pieces:
        return text, spans
    out: list[str] = []
    last = 0
    for at, piece in pieces:
        out += (text[last:at], piece)
        last = at
    out.append(text[last:])
    spots = [at for at, _ in pieces]
    grown = [0]
    for _, piece in pieces:
        grown.append(grown[-1] + len(piece))
    moved = [
        Span(
            s.kind,
            s.start + grown[bisect_right(spots, s.start)],
            s.end + grown[bisect_left(spots, s.end)],
            s.value,
        )
        for s in spans
    ]
    return "".join(out), moved


def clipped(spans: list[Span], start: int, end: int) -> list[Span]:
    """Return the spans within ``text[start:end]``, with offsets from its own beginning."""
    return [
        Span(s.kind, max(s.start, start) - start, min(s.end, end) - start, s.value)
        for s in spans
        if s.start < end and s.end > start
    ]
