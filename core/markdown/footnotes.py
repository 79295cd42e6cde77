"""Footnotes: ``[^1]`` in a text, and ``[^1]: …``, which is the note itself. Those with names, as
``[^note]``, stay as they are written, since CommonMark has none ([T3]).
"""

import re
from collections import Counter
from collections.abc import Collection, Iterable
from typing import NamedTuple

_LABEL = r"\[\^([0-9]{1,3})\]"
_MARK = re.compile(_LABEL)
_NOTE = re.compile(rf"^[ \t]*+{_LABEL}:", re.MULTILINE)
_MARK_BEFORE = re.compile(rf"{_LABEL}\Z")
_LONGEST = 6  # characters of a mark
_START = re.compile(r"(?:\A|\n)[ \t]*\Z")
_INDENT = 4  # characters in front of a note


class Footnote(NamedTuple):
    """The mark of a footnote; ``is_note``: the note follows."""

    number: str
    end: int
    is_note: bool


def numbers(blocks: Iterable[str]) -> frozenset[str]:
    """Return the numbers of the footnotes that have a mark and a note. ``blocks``: the texts that
    are no code.
    """
    source = "\n".join(blocks)
    notes = Counter(_NOTE.findall(source))
    marks = Counter(_MARK.findall(source)) if notes else {}
    return frozenset(number for number, count in notes.items() if marks[number] > count)


def mark_at(src: str, at: int, known: Collection[str]) -> Footnote | None:
    """Return the mark at this ``[``, or None. A mark without a note, as ``[^a-z]``, is text."""
    found = _MARK.match(src, at) if known else None
    if found is None or (number := found[1]) not in known:
        return None
    if _MARK_BEFORE.search(src, max(0, at - _LONGEST), at):
        number = f" {number}"  # 1 and 2 are not 12
    begins = _START.search(src, max(0, at - _INDENT), at)
    if src[found.end() : found.end() + 1] != ":" or not begins:
        return Footnote(number, found.end(), is_note=False)
    end = found.end() + 1
    while src[end : end + 1] in (" ", "\t"):
        end += 1
    return Footnote(number, end, is_note=True)
