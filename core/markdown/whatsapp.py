"""Markdown in the markers that WhatsApp, Signal and most other messengers read.

These channels have no escape character and publish no grammar. Their rules, as far as they agree:
a marker opens where no letter or digit stands before it and no white space behind it, and closes
where it is the other way round; styles stay on their line; code and addresses are left alone.
"""

import re
from bisect import bisect_right
from collections.abc import Iterator
from operator import attrgetter, itemgetter

from .document import read
from .emphasis import is_cjk
from .looks import WHATSAPP
from .quotes import quoted
from .spans import ORDER, Span, insert

MARKERS = {"bold": "*", "italic": "_", "strike": "~"}
# A marker does not open before white space: the thinnest space there is, which a word joiner keeps
# from breaking the line, leaves a literal marker literal.
_GUARD = "\u200a\u2060"
_JOINER = "\u2060"
_MAX_PASSES = 8

_OPAQUE = re.compile(r"`[^`\n]+`|https?://[^\s<>\"]*[^\s<>\"*_~.,;:!?)\]'`]")
_LITERAL = re.compile(r"[*_~]")
# Signs of a quote and of an item, and of a block of code.
_LEAD = re.compile(r"^(?:>(?= )|[*-](?= \S))", re.MULTILINE)
_FENCE = re.compile(r"`{3,}")
_LONE = re.compile(r"(?<!`)`(?!`)")
# A fence with its partner, if it has one: they are no pair without a word between them.
_BLOCK = re.compile(r"```(?!`)[`\s]*+([^`\s].*?```)?", re.DOTALL)

# A piece of a style on one line: (kind, start, end, the span's value), offsets of the whole text.
Piece = tuple[str, int, int, str]


def render(source: str) -> str:
    """Return text for WhatsApp and similar apps; text that is no Markdown stays unchanged."""
    document = read(source, WHATSAPP)
    if not document.marked:
        return source
    text, spans = quoted(*_guarded(document.text, document.spans), nested=False)
    pieces = _by_line(text, spans)
    out: list[str] = []
    last = 0
    blocks = sorted((s for s in spans if s.kind == "pre"), key=attrgetter("start"))
    for span in blocks:
        block = text[span.start : span.end]
        if span is not blocks[-1]:
            block = _balanced(block)
        out += (_lines(text, last, span.start, pieces), block)
        last = span.end
    out.append(_lines(text, last, len(text), pieces))
    return "".join(out)


def _guarded(text: str, spans: list[Span]) -> tuple[str, list[Span]]:
    """Keep signs that are text from beginning a quote, an item or a block of code."""
    guards = [(found.end(), _GUARD) for found in _LEAD.finditer(text)]
    for found in _FENCE.finditer(text):
        guards += [(at, _JOINER) for at in _breaks(found)]
    if not guards:
        return text, spans
    # Code stays as it is; only inline code with a fence in it, which is to be read, gets joiners.
    opaque = sorted(
        (span.start, span.end)
        for span in spans
        if span.kind == "pre" or (span.kind == "code" and "```" not in text[span.start : span.end])
    )
    starts = [start for start, _ in opaque]

    def is_text(at: int) -> bool:
        number = bisect_right(starts, at - 1) - 1
        return number < 0 or opaque[number][1] < at

    guards = sorted((guard for guard in guards if is_text(guard[0])), key=itemgetter(0))
    return insert(text, spans, guards)


def _breaks(found: re.Match[str]) -> range:
    """Return the places in a run of backticks where joiners keep it from being a fence.

    A single one comes first: two behind it do not close what it opens.
    """
    start, end = found.span()
    return range(start + 2 - (end - start) % 2, end, 2)


def _balanced(block: str) -> str:
    """Return a block of code behind which the fences of the next one pair up.

    A block that holds a fence has no form of its own: its fences are shown as they would be alone.
    """
    if not _without_partner(block):
        return block
    lines = block.split("\n")
    if lines[0].startswith("```") and lines[-1].startswith("```") and len(lines) > 2:
        block = "\n".join(lines[1:-1])
    return insert(block, [], _without_partner(block))[0]


def _without_partner(block: str) -> list[tuple[int, str]]:
    """Return the joiners for the fences of a block that pair with none of its own."""
    guards: list[tuple[int, str]] = []
    last = 0
    pairs = [found.span() for found in _BLOCK.finditer(block) if found[1]]
    for start, end in [*pairs, (len(block), 0)]:
        for found in _FENCE.finditer(block, last, start):
            guards += [(at, _JOINER) for at in _breaks(found)]
        last = end
    return guards


def _by_line(text: str, spans: list[Span]) -> dict[int, list[Piece]]:
    """Return the styles of each line (by its start), without white space at their ends."""
    found: dict[int, list[Piece]] = {}
    for span in spans:
        if span.kind not in MARKERS and span.kind != "code":
            continue
        start = span.start
        while start < span.end:
            end = text.find("\n", start, span.end)
            end = span.end if end < 0 else end
            piece = text[start:end]
            first = start + len(piece) - len(piece.lstrip())
            last = start + len(piece.rstrip())
            if span.kind == "code":
                first, last = start, end
            if last > first:
                line = text.rfind("\n", 0, start) + 1
                found.setdefault(line, []).append((span.kind, first, last, span.value))
            start = end + 1
    return found


def _lines(text: str, start: int, end: int, pieces: dict[int, list[Piece]]) -> str:
    """Return the lines of a part of the text that holds no code block, with their markers."""
    out = []
    while start <= end:
        stop = text.find("\n", start, end)
        stop = end if stop < 0 else stop
        line = text[start:stop]
        styles = pieces.get(text.rfind("\n", 0, start) + 1, []) if pieces else []
        if styles or _LITERAL.search(line):
            line = _Line(text, start, stop, styles).render()
        out.append(line)
        start = stop + 1
    return "\n".join(out)


class _Marked:
    """A line with its markers: ``places`` has the intended pairs of each style."""

    def __init__(self, text: str, places: dict[str, list[tuple[int, int]]]) -> None:
        self.text, self.places = text, places

    def guard(self, kind: str) -> bool:
        """Keep literal markers of a kind from pairing; return False when that fails.

        Whether a messenger treats letters of other scripts as letters is unknown: markers next to
        them are assumed to work.
        """
        marker = MARKERS[kind]
        for _ in range(_MAX_PASSES):
            intended = set(self.places[kind])
            found = _pairs(self.text, marker)
            wrong = [pair for pair in found if pair not in intended]
            if not wrong:
                return len(found) == len(intended)
            openers = {pair[0] for pair in intended}
            self._insert(
                [
                    (closing, _GUARD[::-1]) if opening in openers else (opening + 1, _GUARD)
                    for opening, closing in wrong
                ]
            )
        return False

    def _insert(self, guards: list[tuple[int, str]]) -> None:
        guards.sort()
        spots = [at for at, _ in guards]
        self.text, _ = insert(self.text, [], guards)
        by = len(_GUARD)
        for kind, pairs in self.places.items():
            self.places[kind] = [
                (a + by * bisect_right(spots, a), b + by * bisect_right(spots, b)) for a, b in pairs
            ]


class _Line:
    """One line: its text and the styles that can be shown on it."""

    def __init__(self, text: str, start: int, end: int, pieces: list[Piece]) -> None:
        self.text, self.start, self.end = text, start, end
        self.code = [p for p in pieces if p[0] == "code"]
        self.styles = [
            (kind, first, last)
            for kind in MARKERS
            for first, last in _united(pieces, kind)
            if self._stands_apart(first, last)
        ]

    def _stands_apart(self, first: int, last: int) -> bool:
        before = self.text[first - 1 : first] if first > self.start else ""
        after = self.text[last : last + 1] if last < self.end else ""
        return not (_joins(before) or _joins(after))

    def render(self) -> str:
        """Return the line with markers, literal ones guarded; else styles give way."""
        line = self._compose()
        if not _LITERAL.search(self.text, self.start, self.end):
            return line.text
        for kind in MARKERS:
            if not line.guard(kind):
                self.styles = [style for style in self.styles if style[0] != kind]
                line = self._compose()
        for kind in MARKERS:
            line.guard(kind)
        return line.text

    def _ticked(self) -> Iterator[tuple[int, int, str]]:
        """Return the inline code with its ticks: three behind a backtick that is text."""
        at, is_open = self.start, False
        for _, first, last, ticks in sorted(self.code, key=itemgetter(1)):
            is_open ^= len(_LONE.findall(self.text, at, first)) % 2 == 1
            yield first, last, "```" if is_open else ticks
            at = last

    def _compose(self) -> _Marked:
        """Return the line with its markers, and where the markers of each style stand in it."""
        edges = []
        for number, (kind, first, last) in enumerate(self.styles):
            edges.append((first, 1, -last, ORDER[kind], MARKERS[kind], number))
            edges.append((last, 0, -first, -ORDER[kind], MARKERS[kind], number))
        for first, last, ticks in self._ticked():
            opening, closing = _ticks(self.text[first:last], ticks)
            edges.append((first, 1, -last, ORDER["code"], opening, -1))
            edges.append((last, 0, -first, -ORDER["code"], closing, -1))
        out: list[str] = []
        at, size = self.start, 0
        spots: dict[int, list[int]] = {}
        for place, _, _, _, marker, number in sorted(edges):
            out += (self.text[at:place], marker)
            size += place - at
            spots.setdefault(number, []).append(size)
            size += len(marker)
            at = place
        out.append(self.text[at : self.end])
        places: dict[str, list[tuple[int, int]]] = {kind: [] for kind in MARKERS}
        for number, (kind, _, _) in enumerate(self.styles):
            places[kind].append((spots[number][0], spots[number][1]))
        return _Marked("".join(out), places)


def _joins(neighbour: str) -> bool:
    """Return whether a letter beside a marker may keep it from working; CJK text does not."""
    return neighbour.isalnum() and not is_cjk(neighbour)


def _is_word(neighbour: str) -> bool:
    """Return whether a letter beside a marker surely keeps it from working."""
    return neighbour.isascii() and neighbour.isalnum()


def _united(pieces: list[Piece], kind: str) -> list[tuple[int, int]]:
    """Return the ranges of one style, overlapping and touching ones as one."""
    united: list[tuple[int, int]] = []
    for first, last in sorted((p[1], p[2]) for p in pieces if p[0] == kind):
        if united and first <= united[-1][1]:
            united[-1] = (united[-1][0], max(last, united[-1][1]))
        else:
            united.append((first, last))
    return united


def _ticks(code: str, ticks: str) -> tuple[str, str]:
    """Return the backticks around inline code: one, or three where it has one, or none."""
    if "```" in code:
        return "", ""
    if "`" not in code:
        return (ticks, ticks) if ticks == "```" else ("`", "`")
    return "``` " if code[0] == "`" else "```", " ```" if code[-1] == "`" else "```"


def _pairs(line: str, marker: str) -> list[tuple[int, int]]:
    """Return the markers of one kind that a messenger would pair up on this line."""
    opaque = [found.span() for found in _OPAQUE.finditer(line)]
    opaque.append((len(line), len(line)))
    pairs: list[tuple[int, int]] = []
    opened, number = -1, 0
    at = line.find(marker)
    while at >= 0:
        while opaque[number][1] <= at:
            number += 1
        if at < opaque[number][0]:
            before, after = line[at - 1 : at] if at else "", line[at + 1 : at + 2]
            if opened < 0:
                if after and not after.isspace() and not _is_word(before):
                    opened = at
            elif at > opened + 1 and not before.isspace() and not _is_word(after):
                pairs.append((opened, at))
                opened = -1
        at = line.find(marker, at + 1)
    return pairs
