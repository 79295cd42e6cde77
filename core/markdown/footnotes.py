"""Footnotes: ``[^1]`` in a text, and ``[^1]: …``, which is the note itself."""

import re
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import NamedTuple

_LABEL = r"\[\^([^\[\]\s^]{1,40})\]"
_MARK = re.compile(_LABEL)
_NOTE = re.compile(rf"^[ \t]*+{_LABEL}:", re.MULTILINE)
_MARK_BEFORE = re.compile(rf"{_LABEL}\Z")
_LONGEST = 44  # characters of a mark
_START = re.compile(r"(?:\A|\n)[ \t]*\Z")
_INDENT = 4  # characters in front of a note


class Footnote(NamedTuple):
    """The mark of a footnote; ``is_note``: the note follows."""

    number: str
    end: int
    is_note: bool


def numbers(blocks: Iterable[str]) -> Mapping[str, str]:
    """Return the numbers of the footnotes that have a mark and a note, by their labels. ``blocks``:
    the texts that are no code.
    """
    source = "\n".join(blocks)
    notes = Counter(_NOTE.findall(source))
    marks = Counter(_MARK.findall(source)) if notes else {}
    labels = [label for label, count in notes.items() if marks[label] > count]
    if all(label.isdecimal() and label.isascii() for label in labels):
        return {label: label for label in labels}
    return {label: str(number) for number, label in enumerate(labels, 1)}


def mark_at(src: str, at: int, known: Mapping[str, str]) -> Footnote | None:
    """Return the mark at this ``[``, or None. A mark without a note, as ``[^a-z]``, is text."""
    found = _MARK.match(src, at) if known else None
    number = known.get(found[1]) if found else None
    if found is None or number is None:
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
