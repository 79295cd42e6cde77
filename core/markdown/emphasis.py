"""Delimiter runs (``*``, ``_``, ``~~``, ``||``) and how they pair up.

The algorithm is the one of the CommonMark specification ("process emphasis"), with its lower bounds
for openers, which keep it linear. Runs next to CJK text are read as the CJK-friendly amendment has
it: CommonMark alone refuses to close ``**注意：**请`` because no CJK writer puts a space there.
"""

from __future__ import annotations

import functools
import unicodedata

from .spans import Kind

_SPACE, _PUNCTUATION, _WORD, _CJK = range(4)

# Scripts whose writers put no spaces around words (and their full-width punctuation).
_CJK_RANGES = (
    (0x1100, 0x11FF), (0x2E80, 0x303F), (0x3040, 0xA4CF), (0xAC00, 0xD7FF),
    (0xF900, 0xFAFF), (0xFE30, 0xFE4F), (0xFF00, 0xFFEF), (0x20000, 0x3FFFF),
)  # fmt: skip

# One raw span: (kind, first fragment, fragment behind the last, value).
Mark = tuple[Kind, int, int, str]


@functools.lru_cache(maxsize=8192)
def _classify(char: str) -> tuple[int, bool]:
    """(white space, punctuation or word; CJK or not) of one character."""
    if char in "\t\n\f\r\x0b" or unicodedata.category(char) == "Zs":
        kind = _SPACE
    elif unicodedata.category(char)[0] in "PS":
        kind = _PUNCTUATION
    else:
        kind = _WORD
    return kind, is_cjk(char)


def is_cjk(char: str) -> bool:
    """Whether a character belongs to a script that is written without spaces between words."""
    code = ord(char)
    return any(low <= code <= high for low, high in _CJK_RANGES)


class Run:
    """A run of one marker character, and what it may still do."""

    __slots__ = (
        "closes", "count", "fragment", "index", "length", "loose", "marker", "next", "opens",
        "prev",
    )  # fmt: skip

    def __init__(self, marker: str, length: int, before: str, after: str) -> None:
        self.marker = marker
        self.length = self.count = length
        self.fragment = self.index = 0
        self.prev: Run | None = None
        self.next: Run | None = None
        left, left_cjk = _classify(before) if before else (_SPACE, False)
        right, right_cjk = _classify(after) if after else (_SPACE, False)
        opens = right != _SPACE and (right != _PUNCTUATION or left != _WORD)
        closes = left != _SPACE and (left != _PUNCTUATION or right != _WORD)
        if marker == "_":
            opens, closes = (
                opens and (not closes or left == _PUNCTUATION),
                closes and (not opens or right == _PUNCTUATION),
            )
        elif marker == "|":  # a spoiler stands apart: `a || b` and `x||y` are code, not secrets
            opens, closes = opens and left != _WORD, closes and right != _WORD
        else:
            opens = opens or (left_cjk and right != _SPACE)
            closes = closes or (right_cjk and left != _SPACE)
        self.opens, self.closes = opens, closes
        # `2*3*4` is arithmetic to every reader, whatever CommonMark makes of it.
        self.loose = length == 1 and before.isalnum() and after.isalnum() and before.isascii()


class Runs:
    """The delimiter stack of one inline text."""

    __slots__ = ("_count", "last", "marks", "strict")

    def __init__(self, marks: list[Mark]) -> None:
        self.marks = marks
        self.last: Run | None = None
        self._count = 0
        self.strict = False  # whether a pair was found that is more than `2*3*4`

    def push(self, run: Run, fragment: int) -> None:
        """Add a run whose characters are the fragment of that number."""
        self._count += 1
        run.index, run.fragment = self._count, fragment
        run.prev, self.last = self.last, run
        if run.prev is not None:
            run.prev.next = run

    def _remove(self, run: Run) -> None:
        if run.prev is not None:
            run.prev.next = run.next
        if run.next is not None:
            run.next.prev = run.prev
        else:
            self.last = run.prev

    def pair(self, bottom: Run | None, fragments: list[str]) -> None:
        """Pair all runs above ``bottom`` and take them off the stack."""
        floor = bottom.index if bottom is not None else 0
        floors: dict[tuple[str, bool, int], int] = {}
        closer = self._first_above(floor)
        while closer is not None:
            if not closer.closes:
                closer = closer.next
                continue
            key = (closer.marker, closer.opens, closer.length % 3)
            opener = _opener(closer, max(floor, floors.get(key, 0)))
            if opener is None:
                floors[key] = closer.prev.index if closer.prev is not None else 0
                following = closer.next
                if not closer.opens:
                    self._remove(closer)
                closer = following
            else:
                closer = self._join(opener, closer, fragments)
        self._drop_above(bottom)

    def _first_above(self, floor: int) -> Run | None:
        run, first = self.last, None
        while run is not None and run.index > floor:
            run, first = run.prev, run
        return first

    def _drop_above(self, bottom: Run | None) -> None:
        self.last = bottom
        if bottom is not None:
            bottom.next = None

    def _join(self, opener: Run, closer: Run, fragments: list[str]) -> Run | None:
        """Make a span of the two; the next closer to look at."""
        double = opener.count > 1 and closer.count > 1
        kind = _style(opener.marker, double=double)
        size = 2 if double else 1
        self.marks.append((kind, opener.fragment + 1, closer.fragment, ""))
        if not (opener.loose and closer.loose):
            self.strict = True
        opener.next, closer.prev = closer, opener
        for run in (opener, closer):
            run.count -= size
            fragments[run.fragment] = run.marker * run.count
            if run.count < (2 if run.marker in "~|" else 1):
                self._remove(run)
        return closer if closer.count >= (2 if closer.marker in "~|" else 1) else closer.next


def _style(marker: str, *, double: bool) -> Kind:
    if marker == "~":
        return "strike"
    if marker == "|":
        return "spoiler"
    return "bold" if double else "italic"


def _opener(closer: Run, floor: int) -> Run | None:
    """The nearest run that the closer can close, above the floor."""
    run = closer.prev
    while run is not None and run.index > floor:
        if run.marker == closer.marker and run.opens and not _odd(run, closer):
            return run
        run = run.prev
    return None


def _odd(opener: Run, closer: Run) -> bool:
    """The specification's "rule of three"."""
    if closer.marker in "~|" or not (opener.closes or closer.opens):
        return False
    return bool((opener.length + closer.length) % 3 == 0 and opener.length % 3)
