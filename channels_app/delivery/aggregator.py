"""Text deltas -> blocks at natural boundaries ([C5]), for platforms that cannot show a stream.

Pure. Where a block ends depends on the text alone, not on how it was cut into deltas: the blocks of
a stream are the blocks of the whole text. A boundary is never inside a fence or a table, unless one
alone is larger than a message; then a fence is closed and opened again with its language.
"""

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass

PARAGRAPH, LINE, SENTENCE, WORD, INSIDE = range(5)

FENCE = re.compile(r" {0,3}(`{3,10}|~{3,10})[ \t]*([^`\n]*)$")
TABLE_ROW = re.compile(r"\s*\|.*\|\s*$")
SENTENCE_END = re.compile(r"[.!?…](?:[\"')\]»”]*)\s+|[。！？]+")
SPACE = re.compile(r"\s+")
# Characters that stay with the one before them: joiners, variation selectors, marks.
STICKS = re.compile(r"[\u200d\ufe00-\ufe0f\u0300-\u036f\U0001f3fb-\U0001f3ff\U000e0020-\U000e007f]")
JOINER = "\u200d"
LANGUAGE_LENGTH = 20
CLOSING = 12  # space for the line that closes a fence

Measure = Callable[[str], int]


@dataclass(frozen=True, slots=True)
class Piece:
    """One block: ``text`` to show, and how many characters of the source it used up."""

    text: str
    used: int


@dataclass(frozen=True, slots=True)
class Spot:
    """A possible cut in a text: before offset ``at``. ``fence`` opens the fence around it."""

    at: int
    rank: int
    fence: str = ""


class Aggregator:
    """Collects deltas; gives blocks of at most ``limit`` (as ``measure`` counts) characters.

    A paragraph that ends after ``enough`` characters ends a block.
    """

    def __init__(self, *, limit: int, enough: int = 600, measure: Measure = len) -> None:
        self._limit = limit
        self._enough = enough
        self._measure = measure
        self._buffer = ""

    def feed(self, delta: str) -> list[Piece]:
        """Add text; return the blocks that are complete now."""
        self._buffer += delta
        return list(self._ready())

    def flush(self) -> list[Piece]:
        """End the text; return what is left, split as well."""
        pieces = list(self._ready())
        if self._buffer.strip():
            pieces.append(Piece(self._buffer.strip("\n"), len(self._buffer)))
        self._buffer = ""
        return pieces

    def _ready(self) -> Iterator[Piece]:
        while len(self._buffer) >= self._enough or self._measure(self._buffer) > self._limit:
            # One character more than fits, so that later text does not change the decision.
            head = self._buffer[: longest(self._buffer, self._limit, self._measure) + 1]
            spots = list(spots_of(head))
            ends = (s for s in spots if s.rank == PARAGRAPH and s.at >= self._enough)
            spot = next((end for end in ends if self._measure(head[: end.at]) <= self._limit), None)
            if spot is None and self._measure(head) > self._limit:
                spot = self._best(head, spots)
            if spot is None:
                return
            yield self._cut(spot)

    def _best(self, head: str, spots: list[Spot]) -> Spot:
        """Return the last fitting spot of the best rank; a tiny block only without alternative."""
        size = self._limit - CLOSING
        fitting = [s for s in spots if self._measure(head[: s.at]) <= size]
        large = [s for s in fitting if s.at * 4 >= self._limit] or fitting
        if large:
            best = min(s.rank for s in large)
            return [s for s in large if s.rank == best][-1]
        fence = fence_after("", head.partition("\n")[0])[0]
        end = hard_end(head, size, self._measure)
        return Spot(end, INSIDE, fence if end > len(fence) + 1 else "")

    def _cut(self, spot: Spot) -> Piece:
        said, self._buffer = self._buffer[: spot.at], self._buffer[spot.at :]
        if not spot.fence:
            return Piece(said.strip("\n"), len(said))
        closing = spot.fence[: len(spot.fence) - len(spot.fence.lstrip(spot.fence[0]))]
        self._buffer = f"{spot.fence}\n{self._buffer}"
        return Piece(f"{said.rstrip(chr(10))}\n{closing}", len(said) - len(spot.fence) - 1)


def split(text: str, *, limit: int, measure: Measure = len) -> list[str]:
    """Split ``text`` into as few blocks of at most ``limit`` characters as natural boundaries
    allow.
    """
    aggregator = Aggregator(limit=limit, enough=limit + 1, measure=measure)
    pieces = aggregator.feed(text) + aggregator.flush()
    return [piece.text for piece in pieces if piece.text.strip()]


def spots_of(text: str) -> Iterator[Spot]:
    """Yield the possible cuts of ``text``, in order. The last line, which may go on, ends
    nowhere.
    """
    at, fence, table, blank = 0, "", False, False
    for line in text.splitlines(keepends=True):
        if not line.endswith("\n"):
            if blank and not fence and line.strip():
                yield Spot(at, PARAGRAPH)
            if not (fence or TABLE_ROW.match(line) or line.lstrip().startswith("|")):
                yield from within(line, at)
            return
        stripped = line.rstrip("\n")
        if blank and not fence and stripped.strip():
            yield Spot(at, PARAGRAPH)
        table = not fence and bool(TABLE_ROW.match(stripped))
        opened, (fence, inside) = not fence, fence_after(fence, stripped)
        if not (inside or table):
            yield from within(stripped, at)
        at += len(line)
        blank = not stripped.strip()
        if not blank and not (opened and fence):
            yield Spot(at, INSIDE if fence or table else LINE, fence)


def fence_after(fence: str, line: str) -> tuple[str, bool]:
    """Return the open fence after ``line``, and whether the line belongs to one."""
    found = FENCE.match(line)
    if not fence:
        return (found[1] + found[2][:LANGUAGE_LENGTH].rstrip() if found else "", bool(found))
    marker = fence[: len(fence) - len(fence.lstrip(fence[0]))]
    closes = found is not None and not found[2].strip() and found[1].startswith(marker)
    return ("" if closes else fence, True)


def within(line: str, at: int) -> Iterator[Spot]:
    """Yield the ends of sentences and words inside one line that starts at ``at``."""
    sentences = {found.end() for found in SENTENCE_END.finditer(line)}
    words = {found.end() for found in SPACE.finditer(line)}
    for end in sorted(sentences | words):
        if 0 < end < len(line):
            yield Spot(at + end, SENTENCE if end in sentences else WORD)


def longest(text: str, size: int, measure: Measure) -> int:
    """Return how many characters of ``text`` fit into ``size``."""
    low, high = 0, min(len(text), size)  # no measure counts a character as less than one
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if measure(text[:middle]) <= size else (low, middle - 1)
    return low


def hard_end(text: str, size: int, measure: Measure) -> int:
    """Return the largest cut within ``size`` that separates no joined characters; at least one."""
    most = end = max(1, longest(text, size, measure))
    while 1 < end < len(text) and (STICKS.match(text[end]) or text[end - 1] == JOINER):
        end -= 1
    return end if end > 1 else most


def utf16_units(text: str) -> int:
    """Return the length in UTF-16 code units, as Telegram and JavaScript count."""
    return len(text) + sum(character > "\uffff" for character in text)
