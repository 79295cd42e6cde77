"""The numbers that Word puts in front of the paragraphs of its lists and before headings: they
are in no text of the file. ECMA-376 part 1, chapter 17.9.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import islice
from typing import Any

from core.documents.word import PARAGRAPH, UNSEEN, WORD

MOST_LEVELS = 9  # of a list
PLACE = re.compile(r"%([1-9])")
ROMAN = ((1000, "m"), (900, "cm"), (500, "d"), (400, "cd"), (100, "c"), (90, "xc"), (50, "l"),
         (40, "xl"), (10, "x"), (9, "ix"), (5, "v"), (4, "iv"), (1, "i"))  # fmt: skip


@dataclass(frozen=True, slots=True)
class Level:
    """How a list counts at one depth: the form of its numbers, its text ("%1.%2"), its first one,
    and the style whose paragraphs are at this depth. ``is_legal``: all numbers in its text are in
    digits; ``restart``: it begins anew after depths below this one alone.
    """

    form: str
    text: str
    start: int
    style: str
    is_legal: bool
    restart: int


@dataclass(slots=True)
class NumberedList:
    """A list. Others of the same form share its levels, and count on from it."""

    levels: dict[int, Level]
    counts: dict[int, int]
    restarts: dict[int, int]  # the numbers with which it begins anew, by depth


@dataclass(slots=True)
class Counter:
    """The lists of a document by their numbers, and its styles: list, depth and parent."""

    lists: dict[str, NumberedList] = field(default_factory=dict)
    styles: dict[str, tuple[str, int, str]] = field(default_factory=dict)

    def label(self, paragraph: Any) -> str:
        """Return the number of a paragraph, as Word shows it; "" for one without. In order."""
        found, depth = self._list_of(paragraph)
        if found is None or depth not in found.levels:
            return ""
        level, counts = found.levels[depth], found.counts
        if level.form in {"bullet", "none"}:
            return ""
        following = counts[depth] + 1 if depth in counts else level.start
        counts[depth] = found.restarts.pop(depth, following)
        for deeper in [each for each in counts if depth < each]:
            if depth < found.levels[deeper].restart:
                del counts[deeper]

        def shown(place: re.Match[str]) -> str:
            at = int(place[1]) - 1
            known = found.levels.get(at, level)
            is_kept = known.form.startswith("decimal") or not level.is_legal
            form = known.form if is_kept else "decimal"
            return written(counts.get(at, known.start), form)

        return PLACE.sub(shown, level.text).strip()

    def _list_of(self, paragraph: Any) -> tuple[NumberedList | None, int]:
        """Return the list of a paragraph, its own or its style's, and its depth."""
        own = paragraph.find(f"{WORD}pPr/{WORD}numPr")
        name = value(paragraph, f"{WORD}pPr/{WORD}pStyle")
        number, own_depth = properties(own)
        if number is not None:
            return self.lists.get(number), own_depth
        seen: set[str] = set()
        while name in self.styles and name not in seen:
            seen.add(name)
            number, depth, parent = self.styles[name]
            if number:
                found = self.lists.get(number)
                levels = found.levels.items() if found else ()
                linked = (at for at, level in levels if level.style == name)
                return found, own_depth if own is not None else next(linked, depth)
            name = parent
        return None, 0


def value(element: Any, path: str) -> str:
    """Return the value of a property below an element; "" for none."""
    found = element.find(path)
    return "" if found is None else found.get(f"{WORD}val", "")


def is_on(found: Any) -> bool:
    """Return whether a switch of Word's is on: it is there, and not switched off."""
    return found is not None and found.get(f"{WORD}val", "1") not in {"0", "false", "off"}


def properties(found: Any) -> tuple[str | None, int]:
    """Return the list and the depth in the properties of a paragraph or a style."""
    if found is None:
        return None, 0
    number = found.find(f"{WORD}numId")
    depth = whole(value(found, f"{WORD}ilvl"), 0)
    return (None if number is None else number.get(f"{WORD}val", "")), depth


def whole(text: str, otherwise: int) -> int:
    return int(text) if re.fullmatch(r"\d{1,6}", text, re.ASCII) else otherwise


def counter_of(numbering: Iterable[Any], styles: Iterable[Any]) -> Counter:
    """Return the lists of a document, by the roots of its numbering and style parts."""
    made = Counter()
    for root in numbering:
        abstract = {
            each.get(f"{WORD}abstractNumId", ""): (levels_of(each), dict[int, int]())
            for each in root.iterfind(f"{WORD}abstractNum")
        }
        for each in root.iterfind(f"{WORD}num"):
            levels, counts = abstract.get(value(each, f"{WORD}abstractNumId"), ({}, {}))
            number = each.get(f"{WORD}numId", "")
            made.lists[number] = NumberedList(levels, counts, restarts_of(each))
    for root in styles:
        for style in root.iterfind(f"{WORD}style"):
            number, depth = properties(style.find(f"{WORD}pPr/{WORD}numPr"))
            parent = value(style, f"{WORD}basedOn")
            made.styles[style.get(f"{WORD}styleId", "")] = (number or "", depth, parent)
    return made


def levels_of(abstract: Any) -> dict[int, Level]:
    """Return how a list counts, by depth."""
    return {
        whole(level.get(f"{WORD}ilvl", ""), 0): Level(
            value(level, f"{WORD}numFmt") or "decimal",
            value(level, f"{WORD}lvlText"),
            whole(value(level, f"{WORD}start"), 1),
            value(level, f"{WORD}pStyle"),
            is_on(level.find(f"{WORD}isLgl")),
            whole(value(level, f"{WORD}lvlRestart"), MOST_LEVELS),
        )
        for level in islice(abstract.iterfind(f"{WORD}lvl"), MOST_LEVELS)
    }


def restarts_of(found: Any) -> dict[int, int]:
    """Return the numbers with which a list begins anew, by depth."""
    return {
        whole(level.get(f"{WORD}ilvl", ""), 0): whole(value(level, f"{WORD}startOverride"), 1)
        for level in found.iterfind(f"{WORD}lvlOverride")
        if level.find(f"{WORD}startOverride") is not None
    }


def written(number: int, form: str) -> str:
    """Return a number in a form of Word's; an unknown form in digits."""
    if form in {"lowerLetter", "upperLetter"} and number > 0:
        text = chr(ord("a") + (number - 1) % 26) * ((number - 1) // 26 + 1)
    elif form in {"lowerRoman", "upperRoman"} and 0 < number < 4000:
        text = ""
        for size, letters in ROMAN:
            text += letters * (number // size)
            number %= size
    else:
        return f"{number:02}" if form == "decimalZero" else str(number)
    return text.upper() if form.startswith("upper") else text


def write_numbers(body: Any, counter: Counter) -> None:
    """Put the number of each paragraph of a document before its text."""
    if not counter.lists:
        return
    for paragraph in list(body.iter(PARAGRAPH)):
        if any(each.tag in UNSEEN for each in paragraph.iterancestors()):
            continue  # the same once more, for older programs
        if label := counter.label(paragraph):
            text = paragraph.makeelement(f"{WORD}t")
            text.text = f"{label} "
            paragraph.insert(1 if paragraph.find(f"{WORD}pPr") is not None else 0, text)
