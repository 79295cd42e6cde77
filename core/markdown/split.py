"""Long messages in pieces: cut on (text, spans), never on rendered markup.

The least possible number of pieces comes first; within it every cut takes the best place it can
have: between paragraphs, lines, lines of code, sentences, words. Styles that a cut goes through end
in one piece and begin again in the next, code with its language.
"""

import re
import unicodedata
from bisect import bisect_left, bisect_right
from collections.abc import Callable
from itertools import accumulate

from .emphasis import is_cjk
from .spans import Span, clipped
from .telegram import TelegramText

MESSAGE_LIMIT = 4096  # UTF-16 units; Telegram counts code points, of which there are never more
ENTITY_LIMIT = 100  # Telegram drops the rest without a word
# Telegram has no nested styles: it cuts one where another begins in it, and around a link in it.
_CUT_BY_TELEGRAM = frozenset(("bold", "underline", "italic", "strike", "spoiler"))
TRUNCATED = "… (truncated)"

# The Bot API takes 32,768 bytes of markup, and addresses can be long.
_MARKUP_LIMIT = 14_000
_SENTENCE = re.compile(r"[.!?…]['\")\]»”’]*(?=\s)|[。！？；]")
_INVISIBLE = re.compile(r"[\s\u200b-\u200f\u2060\ufeff\u00ad\u2800\u3164\u115f]*\Z")
_WORD_WINDOW = 256  # how far before the last possible place a cut between words is looked for
_CHARACTER = 64  # code points of one visible character, at most
_FLAGS = re.compile("[\U0001f1e6-\U0001f1ff]{2,}")
_SMALLEST = 6  # part of a message that is left when a better place to cut comes early
_UNSEEN = 2  # characters behind a cut that it is chosen by
_JOINERS = frozenset("\u200d\ufe0e\ufe0f")


def split_message(
    message: TelegramText, *, limit: int = MESSAGE_LIMIT, growing: bool = False
) -> list[TelegramText]:
    """Return the message as pieces of at most ``limit`` UTF-16 units and ``ENTITY_LIMIT`` entities.

    Joined, they have every visible character; white space at a cut is dropped. An invisible message
    has no pieces. ``growing``: more text will follow, and no cut depends on it.
    """
    cutter = _Cutter(message, limit)
    stable = cutter.stable_pieces(growing=growing)
    pieces = stable if growing or len(stable) < 2 else cutter.pieces()
    # The messages of a text that grew stay as they were, unless that takes one more of them.
    found = stable if len(stable) <= len(pieces) else pieces
    return [piece for piece in found if not is_blank(piece.text)]


def truncate_message(message: TelegramText, *, limit: int = MESSAGE_LIMIT) -> TelegramText:
    """Return the message if it fits into one, else its beginning and ``… (truncated)``."""
    whole = _Cutter(message, limit)
    start = whole.start(0)
    if whole.reach(start) >= len(message.text.rstrip()):
        return message
    cutter = _Cutter(message, max(1, limit - len(TRUNCATED) - 1))
    far = cutter.reach(start)
    piece = cutter.piece(start, cutter.cut(start, far - (far - start) // 4, far))
    size = len(piece.text)
    if not any(span.kind in ("pre", "quote") and span.end == size for span in piece.spans):
        return TelegramText(f"{piece.text}{TRUNCATED}", piece.spans)
    # The line break belongs to a quote, as everywhere.
    spans = [
        Span("quote", s.start, size + 1) if s.kind == "quote" and s.end == size else s
        for s in piece.spans
    ]
    return TelegramText(f"{piece.text}\n{TRUNCATED}", tuple(spans))


def is_blank(text: str) -> bool:
    """Return whether Telegram would refuse the text because nothing of it can be seen."""
    return _INVISIBLE.match(text) is not None


class _Cutter:
    """Finds the places to cut a message at; all positions are code points."""

    flags: list[tuple[int, int]] | None = None  # the runs of letters that make flags

    def __init__(self, message: TelegramText, limit: int) -> None:
        self.text, self.spans, self.limit = message.text, message.spans, limit
        ascii_only = self.text.isascii()
        self.wide = [] if ascii_only else [i for i, c in enumerate(self.text) if c > "\uffff"]
        self.starts = [span.start for span in self.spans]
        self.parents = _parents(self.spans)
        weights = _weights(self.spans, self.parents)
        self.weights = weights
        self.counts = list(accumulate(weights, initial=0))
        self.costs = list(accumulate((_cost(span) for span in self.spans), initial=0))
        code = [span for span in self.spans if span.kind == "pre"]
        self.code_starts = [span.start for span in code]
        self.code_ends = [span.end for span in code]

    def stable_pieces(self, *, growing: bool) -> list[TelegramText]:
        """Return all pieces, each cut where it would be cut whatever text followed."""
        return self._pieces(lambda at, far: at + (far - at) // _SMALLEST, growing=growing)

    def pieces(self) -> list[TelegramText]:
        """Return the least possible number of pieces."""
        marks = self._marks()

        def nearest(at: int, far: int) -> int:
            while marks and marks[-1] <= at:
                marks.pop()
            return marks[-1] if marks and marks[-1] <= far else at + 1

        return self._pieces(nearest, growing=False)

    def _pieces(self, nearest: Callable[[int, int], int], *, growing: bool) -> list[TelegramText]:
        """Cut at the best places between ``nearest(start, farthest end)`` and the farthest end."""
        size = len(self.text)
        pieces, at = [], self.start(0)
        while at < size:
            far = self.reach(at)
            if growing and far < size < far + _UNSEEN:
                size = far  # the text that decides about the cut is not complete
            cut = self.cut(at, nearest(at, far), far) if far < size else size
            pieces.append(self.piece(at, cut))
            at = self.start(cut)
        return pieces

    def _marks(self) -> list[int]:
        """Return the earliest places where the last piece, the last two … can begin, the last
        first.

        A cut that comes before the next of them costs one piece more than needed.
        """
        marks: list[int] = []
        target = len(self.text)
        while target:
            start = bisect_left(range(target), target, key=self.reach)
            if start >= target:
                break
            marks.append(start)
            target = start
        return marks

    # -- limits --------------------------------------------------------------------

    def reach(self, at: int) -> int:
        """Return the farthest end of a piece that begins here, by length, entities and markup.

        One code point is always within reach, whatever the limit.
        """
        passed = at + bisect_left(self.wide, at)
        ends = range(at, min(len(self.text), at + self.limit) + 1)
        fitting = bisect_right(
            ends, self.limit, key=lambda end: end + bisect_left(self.wide, end) - passed
        )
        return self._reach_of_entities(at, at + max(fitting - 1, 1))

    def _reach_of_entities(self, at: int, end: int) -> int:
        opened = self._open_at(at)
        first = bisect_left(self.starts, at)
        spare = ENTITY_LIMIT - sum(self.weights[index] for index in opened)
        last = max(first, bisect_right(self.counts, self.counts[first] + spare) - 1)
        budget = (
            self.costs[first] + _MARKUP_LIMIT - sum(_cost(self.spans[index]) for index in opened)
        )
        last = min(last, bisect_right(self.costs, budget) - 1)
        if last >= len(self.starts) or self.starts[last] >= end:
            return end
        return max(self.starts[last], at + 1)

    def _open_at(self, at: int) -> list[int]:
        """Return the indices of the spans across this position, outer first."""
        index = bisect_left(self.starts, at) - 1
        found: list[int] = []
        while index >= 0:
            if self.spans[index].end > at:
                found.append(index)
            index = self.parents[index]
        return found[::-1]

    # -- places ----------------------------------------------------------------------

    def in_code(self, at: int) -> bool:
        """Return whether a cut here goes through a code block."""
        index = bisect_left(self.code_starts, at) - 1
        return index >= 0 and at < self.code_ends[index]

    def start(self, at: int) -> int:
        """Return the start of the piece after a cut: no white space but the indentation of code."""
        if self.in_code(at):
            return at + 1 if self.text[at] == "\n" else at
        size = len(self.text)
        while at < size and self.text[at].isspace() and at not in self.code_starts:
            at += 1
        return at

    def cut(self, at: int, near: int, far: int) -> int:
        """Return the best place to end the piece that begins ``at``, from ``near`` to ``far``."""
        close = max(at + 1, far - _WORD_WINDOW)
        for found in (
            self._line("\n\n", near, far, code=False),
            self._line("\n", near, far, code=False),
            self._line("\n", near, far, code=True),
            self._sentence(near, far),
            self._word(min(near, close), far),
        ):
            if found > at:
                return found
        return self._character(close, far)

    def _line(self, separator: str, near: int, far: int, *, code: bool) -> int:
        at = self.text.rfind(separator, near, far + len(separator))
        while at >= 0 and self.in_code(at) != code:
            at = self.text.rfind(separator, near, at + len(separator) - 1)
        return at

    def _sentence(self, near: int, far: int) -> int:
        ends = [found.end() for found in _SENTENCE.finditer(self.text, near, far + 1)]
        return next((at for at in reversed(ends) if at <= far and not self.in_code(at)), -1)

    def _word(self, near: int, far: int) -> int:
        for at in range(far, near - 1, -1):
            if self.text[at].isspace():
                return at
        return -1

    def _character(self, near: int, far: int) -> int:
        """Return a cut between two visible characters, if possible not inside a word."""
        for at in range(far, near, -1):
            if not _in_word(self.text[at - 1], self.text[at]) and not self._joined(at):
                return at
        at = far
        while at > max(near, far - _CHARACTER) and self._joined(at):
            at -= 1
        return at if not self._joined(at) else far

    def _joined(self, at: int) -> bool:
        """Return whether the code points around this position are one visible character."""
        before, after = self.text[at - 1], self.text[at]
        if before == "\u200d" or after in _JOINERS or "\U0001f3fb" <= after <= "\U0001f3ff":
            return True
        if unicodedata.category(after)[0] == "M" or "\U000e0020" <= after <= "\U000e007f":
            return True
        return "\U0001f1e6" <= after <= "\U0001f1ff" and self._in_flag(at)

    def _in_flag(self, at: int) -> bool:
        """Return whether a cut here parts the two letters of a flag, also in a row of flags."""
        if self.flags is None:
            self.flags = [found.span() for found in _FLAGS.finditer(self.text)]
        index = bisect_right(self.flags, (at, 0)) - 1
        return index >= 0 and at < self.flags[index][1] and bool((at - self.flags[index][0]) % 2)

    def piece(self, start: int, end: int) -> TelegramText:
        """Return the message from ``start`` to ``end``, without white space at its end."""
        text = self.text[start:end].rstrip()
        end = start + len(text)
        first = bisect_left(self.starts, start)
        opened = [self.spans[index] for index in self._open_at(start)]
        spans = [*opened, *self.spans[first : bisect_left(self.starts, end)]]
        return TelegramText(text, tuple(clipped(spans, start, end)))


def _parents(spans: tuple[Span, ...]) -> list[int]:
    """Return for each span of a nested order the index of the one around it, or -1."""
    parents: list[int] = []
    stack: list[int] = []
    for index, span in enumerate(spans):
        while stack and spans[stack[-1]].end <= span.start:
            stack.pop()
        parents.append(stack[-1] if stack else -1)
        stack.append(index)
    return parents


def _weights(spans: tuple[Span, ...], parents: list[int]) -> list[int]:
    """Return how many entities each span makes for Telegram: itself and the cuts around it."""
    weights = []
    for index, span in enumerate(spans):
        weight, around = 1, parents[index]
        while around >= 0:
            outer = spans[around]
            if outer.kind in _CUT_BY_TELEGRAM:
                weight += outer.start < span.start
                weight += span.kind == "link" and outer.end > span.end
            around = parents[around]
        weights.append(weight)
    return weights


def _cost(span: Span) -> int:
    """Return the maximum of the markup in bytes."""
    return 24 + 2 * len(span.value.encode(errors="replace"))


def _in_word(before: str, after: str) -> bool:
    return before.isalnum() and after.isalnum() and not is_cjk(before) and not is_cjk(after)
