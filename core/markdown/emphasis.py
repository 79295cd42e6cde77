"""Delimiter runs (``*``, ``_``, ``~~``, ``||``) and how they pair up.

The algorithm is the one of the CommonMark specification ("process emphasis"), with its lower bounds
for openers, which keep it linear. Runs next to CJK text are read as the CJK-friendly amendment has
it: CommonMark alone refuses to close ``**注意：**请`` because no CJK writer puts a space there.

Three things are never emphasis, whatever CommonMark makes of them, because a reader would lose what
was written: a marker inside a word or a number (:func:`inside_word`), a pair of operators
(``(a+b)*c + d*(e+f)``), and stars that belong to paths and comments (``src/*, /*c*/``).
"""

import functools
import unicodedata

from .spans import Kind

_SPACE, _PUNCTUATION, _WORD, _CJK = range(4)

# Scripts whose writers put no spaces around words (and their full-width punctuation).
_CJK_RANGES = (
    (0x1100, 0x11FF), (0x2E80, 0x303F), (0x3040, 0xA4CF), (0xAC00, 0xD7FF),
    (0xF900, 0xFAFF), (0xFE30, 0xFE4F), (0xFF00, 0xFFEF), (0x20000, 0x3FFFF),
)  # fmt: skip
# The same without East Asian width: Thai, Lao, Tibetan, Myanmar, Khmer. Hebrew and Arabic join
# "and", "in" and "the" to the next word.
_UNSPACED_RANGES = (
    (0x0590, 0x08FF), (0x0E00, 0x0FFF), (0x1000, 0x109F), (0x1780, 0x17FF), (0xFB1D, 0xFDFF),
    (0xFE70, 0xFEFE),
)  # fmt: skip
# Characters that end and begin a term of a formula, besides letters and digits.
_TERM_ENDS, _TERM_BEGINS = frozenset(")]}%"), frozenset("([{$€£¥")
_SIGNS, _SLASHES = frozenset("-+."), ("/", "\\")
_FACES = frozenset("^-=@><~+T")
_FACE_BRACKETS = frozenset("()[]{}\"'*_~`")
_NEAR = 16  # runs behind an operator that are looked at
_TINY = 16  # characters of a pair whose content may be nothing but punctuation

# One raw span: (kind, first fragment, fragment behind the last, value).
Mark = tuple[Kind, int, int, str]


@functools.lru_cache(maxsize=8192)
def _classify(char: str) -> tuple[int, bool]:
    """Return (white space, punctuation or word; CJK or not) of one character."""
    if char in "\t\n\f\r\x0b" or unicodedata.category(char) == "Zs":
        kind = _SPACE
    elif unicodedata.category(char)[0] in "PS":
        kind = _PUNCTUATION
    else:
        kind = _WORD
    return kind, is_cjk(char)


def is_cjk(char: str) -> bool:
    """Return whether a character belongs to a script that is written without spaces."""
    code = ord(char)
    return any(low <= code <= high for low, high in _CJK_RANGES)


@functools.lru_cache(maxsize=8192)
def _is_word(char: str) -> bool:
    return unicodedata.category(char)[0] in "LNM"


def is_unspaced(char: str) -> bool:
    """Return whether words of this character's script may follow one another without spaces."""
    if char.isdecimal():
        return is_cjk(char)
    code = ord(char)
    return is_cjk(char) or any(low <= code <= high for low, high in _UNSPACED_RANGES)


def inside_word(before: str, after: str) -> bool:
    """Return whether markers between these characters stand inside a word or a number.

    They are the neighbours of all the markers that stand next to each other. Where a script has no
    spaces between words, markers may begin one.
    """
    if not (before and after and _is_word(before) and _is_word(after)):
        return False
    return not (is_unspaced(before) or is_unspaced(after))


def is_face(before: str, after: str) -> bool:
    """Return whether one underscore between these is the mouth of ``^_^``, ``-_-`` or ``>_<``."""
    if not (before and after) or before in _FACE_BRACKETS:
        return False
    same = before == after and unicodedata.category(before)[0] in "PS"
    return same or (before in _FACES and after in _FACES)


class Run:
    """A run of one marker character, and what it may still do.

    ``operator``: it stands between the terms of a formula; ``multiplies``: it is no marker at all;
    ``slashes``: whether a slash of a path stands before and behind it.
    """

    __slots__ = (
        "closes", "count", "end", "fragment", "index", "length", "marker", "multiplies", "next",
        "opens", "operator", "prev", "slashes", "start",
    )  # fmt: skip

    def __init__(self, marker: str, start: int, end: int, src: str) -> None:
        before, after = src[start - 1] if start else "", src[end : end + 1]
        length = end - start
        self.marker, self.start, self.end = marker, start, end
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
            if right_cjk and left != _SPACE:
                closes = closes or unicodedata.category(before) not in ("Ps", "Pi")
        self.slashes = before in _SLASHES, after in _SLASHES
        if self.slashes[0] and marker == "*" and right != _WORD:
            opens = False  # `src/*, lib/*`
        self.opens, self.closes = opens, closes
        self.operator = _is_operator(before, after, src[end + 1 : end + 2], single=length == 1)
        unspaced = self.operator and (is_unspaced(before) or is_unspaced(after))
        self.multiplies = self.operator and not unspaced and (length == 1 or (opens and closes))

    @property
    def is_marker(self) -> bool:
        """Return whether enough of its characters are left for a style."""
        return self.count >= (2 if self.marker in "~|" else 1)


def _is_operator(before: str, after: str, following: str, *, single: bool) -> bool:
    """Return whether a marker between these characters may stand between the terms of a formula."""
    if not (before and after):
        return False
    if is_unspaced(before) or is_unspaced(after):
        return single and _is_word(before) and _is_word(after)
    if before not in _TERM_ENDS and not _is_word(before):
        return False
    if after in _SIGNS:
        return following.isdecimal()
    return after in _TERM_BEGINS or _is_word(after)


class Runs:
    """The delimiter stack of one inline text."""

    __slots__ = ("_count", "last", "marks", "paired", "src")

    def __init__(self, marks: list[Mark], src: str) -> None:
        self.marks, self.src = marks, src
        self.last: Run | None = None
        self._count = 0
        self.paired = False  # whether any pair was found

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
        floors: dict[tuple[object, ...], int] = {}
        closer = self._first_above(floor)
        while closer is not None:
            if not closer.closes:
                closer = closer.next
                continue
            key = (
                closer.marker, closer.opens, closer.length % 3, closer.operator, closer.slashes
            )  # fmt: skip
            opener = self._opener(closer, max(floor, floors.get(key, 0)))
            if opener is None:
                floors[key] = closer.prev.index if closer.prev is not None else 0
                following = closer.next
                if not closer.opens:
                    self._remove(closer)
                closer = following
            else:
                closer = self._join(opener, closer, fragments)
        self.last = bottom
        if bottom is not None:
            bottom.next = None

    def unpaired(self, fragments: list[str]) -> list[Run]:
        """Return the runs that would open a style and that nothing closes, in order."""
        first = self._first_above(0)
        self.pair(None, fragments)
        found: list[Run] = []
        while first is not None:
            if first.opens and first.is_marker:
                found.append(first)
            first = first.next
        return found

    def _first_above(self, floor: int) -> Run | None:
        run, first = self.last, None
        while run is not None and run.index > floor:
            run, first = run.prev, run
        return first

    def _join(self, opener: Run, closer: Run, fragments: list[str]) -> Run | None:
        """Make a span of the two; the next closer to look at."""
        double = opener.count > 1 and closer.count > 1
        kind = _style(opener.marker, double=double)
        size = 2 if double else 1
        self.marks.append((kind, opener.fragment + 1, closer.fragment, ""))
        self.paired = True
        opener.next, closer.prev = closer, opener
        for run in (opener, closer):
            run.count -= size
            fragments[run.fragment] = run.marker * run.count
            if not run.is_marker:
                self._remove(run)
        return closer if closer.is_marker else closer.next

    def _opener(self, closer: Run, floor: int) -> Run | None:
        """Return the nearest run above the floor that the closer can close, operators last."""
        if closer.operator and _closes_later(closer):
            return None
        run, second = closer.prev, None
        while run is not None and run.index > floor:
            if run.marker == closer.marker and run.opens and not _odd(run, closer):
                if not run.operator:
                    return run if self._is_pair(run, closer) else None
                second = second or run
            run = run.prev
        return second if second is not None and self._is_pair(second, closer) else None

    def _is_pair(self, opener: Run, closer: Run) -> bool:
        """Return whether the two are markers, and no operators, parts of paths, or a face."""
        if opener.operator and closer.operator:
            return False
        if (opener.operator or closer.operator) and opener.length != closer.length:
            return False
        (before, behind), (inside, after) = opener.slashes, closer.slashes
        if (behind and inside) or (before and after):  # `**/x/**`, `/*x*/`
            return False
        size = closer.start - opener.end
        if opener.marker in "~|" or size > _TINY or min(opener.length, closer.length) > 1:
            return True
        content = self.src[opener.end : closer.start]
        return any(not char.isascii() or char.isalnum() or char == "\\" for char in content)


def _closes_later(closer: Run) -> bool:
    """Return whether a run close behind this operator closes instead of it: ``**2**(3+4)**``."""
    run = closer.next
    for _ in range(_NEAR):
        if run is None:
            return False
        if run.marker == closer.marker and run.length == closer.length and not run.operator:
            return run.closes and not run.opens
        run = run.next
    return False


def _style(marker: str, *, double: bool) -> Kind:
    if marker == "~":
        return "strike"
    if marker == "|":
        return "spoiler"
    return "bold" if double else "italic"


def _odd(opener: Run, closer: Run) -> bool:
    """Apply the specification's "rule of three"."""
    if closer.marker in "~|" or not (opener.closes or closer.opens):
        return False
    return bool((opener.length + closer.length) % 3 == 0 and opener.length % 3)
