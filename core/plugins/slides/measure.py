"""Measure and wrap text by the advances of real fonts.

The table (widths.json, made by tests/core/plugins/make_widths.py) holds for each character the
widest advance among the faces that may draw it, so the result fits on any machine. Lengths are
points. Heights need no font: every line of a deck has an exact pitch.
"""

import json
import re
import unicodedata
from collections.abc import Iterator
from functools import cache
from importlib.resources import files

EM = 1000
BLOCK = 64
# Unknown characters and emoji: Noto Color Emoji advances 1.275 em, a box with a code in it less.
UNKNOWN = 1300
# Kerning and hinting move text by less than this share.
SAFETY = 1.02
# Marks over and under letters that renderers set without an advance of their own.
NO_ADVANCE = {"Mn", "Me", "Cf"}
SELF_PLACED_MARKS = 0x0900
CJK = re.compile(
    "[\u2e80-\ua4cf\uac00-\ud7af\uf900-\ufaff\ufe30-\ufe4f\uff00-\uffef\U00020000-\U0003ffff]"
)
# Written without spaces, broken by dictionary: lines end up to a word earlier than we can know.
BY_DICTIONARY = re.compile("[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff]")
TALL = re.compile(
    "[\u0590-\u10ff\u1780-\u18af\u2e80-\ua4cf\ua840-\ud7af\uf900-\ufdff\ufe70-\ufeff]"
)
TALLEST = re.compile("[\u0600-\u0dff\u0e00-\u109f\u1780-\u17ff\ufb50-\ufdff\ufe70-\ufeff]")
NOT_FIRST = "、。，．！？：；）」』】〕〉》’”)]},.!?:;…ー々"


@cache
def table(weight: str) -> tuple[dict[int, int], dict[int, int]]:
    """Return exact advances by character, and the widest by block of 64 characters."""
    raw = json.loads(files(__package__).joinpath("widths.json").read_text())[weight]
    exact = {
        int(first, 16) + at: advance
        for first, run in raw["exact"].items()
        for at, advance in enumerate(run)
        if advance
    }
    return exact, {int(start, 16): advance for start, advance in raw["blocks"].items()}


@cache
def advance(character: str, *, bold: bool) -> int:
    """Return the widest advance of one character, in 1/1000 em."""
    code = ord(character)
    if unicodedata.category(character) in NO_ADVANCE and code not in range(
        SELF_PLACED_MARKS, 0x1AB0
    ):
        return 0
    exact, blocks = table("bold" if bold else "regular")
    if code >= 0x1F000:
        return UNKNOWN
    return exact.get(code) or blocks.get(code - code % BLOCK) or UNKNOWN


def width(text: str, size: float, *, bold: bool = False) -> float:
    """Return how wide ``text`` is on one line, in points, at ``size`` points."""
    return sum(advance(character, bold=bold) for character in text) * size / EM * SAFETY


def pitch(text: str, size: float) -> float:
    """Return the distance of lines of ``text`` in points, by the height of its scripts."""
    factor = 1.55 if TALLEST.search(text) else 1.38 if TALL.search(text) else 1.24
    return round(size * factor, 1)


def atoms(text: str) -> Iterator[str]:
    """Cut ``text`` where lines may end: after words with their spaces, and CJK signs."""
    piece = ""
    for character in text:
        breaks = piece and (
            (piece[-1] == " " and character != " ")
            or (CJK.match(piece[-1]) and character not in NOT_FIRST + " ")
            or (CJK.match(character) and character not in NOT_FIRST)
        )
        if breaks:
            yield piece
            piece = ""
        piece += character
    if piece:
        yield piece


def wrap(text: str, size: float, limit: float, *, bold: bool = False) -> list[str]:
    """Return ``text`` in lines of at most ``limit`` points; words longer than a line are cut."""
    room = usable(text, size, limit)
    lines: list[str] = []
    line = ""
    for atom in atoms(text):
        if width((line + atom).rstrip(), size, bold=bold) <= room:
            line += atom
            continue
        if line:
            lines.append(line.rstrip())
        *whole, line = chopped(atom, size, room, bold=bold)
        lines += whole
    return [*lines, line.rstrip()] if line or not lines else lines


def usable(text: str, size: float, limit: float) -> float:
    """Return the safe part of ``limit``: renderers move signs that may not start a line."""
    slack = 4 * size if BY_DICTIONARY.search(text) else size if CJK.search(text) else 0.0
    return min(limit, max(limit - slack, 2 * size))


def chopped(atom: str, size: float, limit: float, *, bold: bool) -> list[str]:
    """Return ``atom`` in pieces that are no wider than ``limit`` (at least a character each)."""
    pieces: list[str] = []
    piece, used = "", 0.0
    for character in atom:
        wide = width(character, size, bold=bold)
        if piece and used + wide > limit and character != " ":
            pieces.append(piece)
            piece, used = "", 0.0
        piece, used = piece + character, used + wide
    return [*pieces, piece]


def height(text: str, size: float, limit: float, *, bold: bool) -> float:
    """Return how high ``text`` is in points, in lines of ``limit`` points."""
    return len(wrap(text, size, limit, bold=bold)) * pitch(text, size)


def clip(text: str, size: float, limit: float, lines: int, *, bold: bool = False) -> str:
    """Cut ``text`` to ``lines`` lines of ``limit`` points, with … where it was cut."""
    broken = wrap(text, size, limit, bold=bold)
    if len(broken) <= lines:
        return text
    kept = " ".join(broken[:lines]) if " " in text else "".join(broken[:lines])
    while kept and len(wrap(kept + "…", size, limit, bold=bold)) > lines:
        kept = kept[:-1]
    return kept.rstrip(" ,;:") + "…"
