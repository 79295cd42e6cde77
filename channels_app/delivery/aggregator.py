"""A text as blocks at natural boundaries ([C5]), for platforms that cannot show a stream.

Pure. A block is decided by its own characters and the next one: the blocks of a text that grows,
all but the last, stay. A boundary is never inside a fence or a table, unless one alone is larger
than a message; then a fence is closed and opened again with its language.
"""

import re
from collections.abc import Iterator
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


@dataclass(frozen=True, slots=True)
class Spot:
    """A possible cut in a text: before offset ``at``. ``fence`` opens the fence around it."""

    at: int
    rank: int
    fence: str = ""


def split(text: str, *, limit: int) -> list[str]:
    """Split ``text`` into as few blocks of at most ``limit`` characters as boundaries allow."""
    blocks = []
    while len(text) > limit:
        # One character more than fits, so that later text does not change the decision.
        spot = best_spot(text[: limit + 1], limit)
        block, text = text[: spot.at], text[spot.at :]
        if spot.fence:
            blocks.append(f"{block.rstrip(chr(10))}\n{marker_of(spot.fence)}")
            text = f"{spot.fence}\n{text}"
        else:
            blocks.append(block.strip("\n"))
    blocks.append(text.strip("\n"))
    return [block for block in blocks if block.strip()]


def best_spot(head: str, limit: int) -> Spot:
    """Return the last fitting spot of the best rank; a tiny block only without alternative."""
    size = limit - CLOSING
    fitting = [spot for spot in spots_of(head) if spot.at <= size]
    large = [spot for spot in fitting if spot.at * 4 >= limit] or fitting
    if large:
        best = min(spot.rank for spot in large)
        return [spot for spot in large if spot.rank == best][-1]
    fence = fence_after("", head.partition("\n")[0])[0]
    end = hard_end(head, size)
    return Spot(end, INSIDE, fence if end > len(fence) + 1 else "")


def spots_of(text: str) -> Iterator[Spot]:
    """Yield the possible cuts of ``text``, in order; none at its end, where a line may go on."""
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
    closes = found is not None and not found[2].strip() and found[1].startswith(marker_of(fence))
    return ("" if closes else fence, True)


def within(line: str, at: int) -> Iterator[Spot]:
    """Yield the ends of sentences and words inside one line that starts at ``at``."""
    sentences = {found.end() for found in SENTENCE_END.finditer(line)}
    words = {found.end() for found in SPACE.finditer(line)}
    for end in sorted(sentences | words):
        if 0 < end < len(line):
            yield Spot(at + end, SENTENCE if end in sentences else WORD)


def hard_end(text: str, size: int) -> int:
    """Return the largest cut within ``size`` that separates no joined characters; at least one."""
    most = end = max(1, min(len(text), size))
    while 1 < end < len(text) and (STICKS.match(text[end]) or text[end - 1] == JOINER):
        end -= 1
    return end if end > 1 else most


def marker_of(fence: str) -> str:
    """Return the backticks or tildes that ``fence`` begins with."""
    return fence[: len(fence) - len(fence.lstrip(fence[0]))]
