"""Styled ranges of a text, and the arithmetic on them."""

from bisect import bisect_left, bisect_right
from dataclasses import dataclass
from itertools import accumulate
from typing import Literal, get_args

# fmt: off
Kind = Literal[
    "quote", "pre", "link", "anchor", "image", "bold", "underline", "italic", "strike", "spoiler",
    "code",
]
# fmt: on

LONG = "long"  # the value of a quote that can be folded

# Where two styles cover the very same range, the earlier one is drawn outside the later one.
ORDER: dict[str, int] = {kind: rank for rank, kind in enumerate(get_args(Kind))}


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


@dataclass(slots=True)
class Inline:
    """The result: ``text`` with its ``spans``.

    ``marked``: whether any markup was found; ``linked``: whether there are links or images.
    """

    text: str
    spans: list[Span]
    marked: bool
    linked: bool = False


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
    spots = [at for at, _ in pieces]
    for last, (at, piece) in zip([0, *spots], pieces, strict=False):
        out += (text[last:at], piece)
    out.append(text[spots[-1] :])
    grown = list(accumulate((len(piece) for _, piece in pieces), initial=0))
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
