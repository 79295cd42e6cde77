"""Texts of a script that are outside of the catalogue: literals that look like words for people."""

import re
from collections.abc import Iterator
from dataclasses import dataclass

# Pieces of code, the longest first; a regular expression stands where no
# division can.
PIECE = re.compile(
    r"""(?P<comment>//[^\n]*|/\*.*?\*/)
    |(?P<text>"(?:[^"\\\n]|\\.)*")
    |(?P<template>`(?:[^`\\]|\\.)*`)
    |(?P<regex>(?<=[(,=:\[!&|?{};\n ])/(?![/* ])
        (?:[^/\\\n\[]|\\.|\[(?:[^\]\\\n]|\\.)*\])+/[a-z]*)""",
    re.VERBOSE | re.DOTALL,
)
HOLE = re.compile(r"\$\{(?:[^{}]|\{[^{}]*\})*\}")
# Two words in a row, or one with a capital letter and small ones.
SENTENCE = re.compile(r"[^\W\d_]{2,}[,:;]? [^\W\d_]{2,}|^[A-Z][a-z]+[….:]*$|…")
SELECTOR = re.compile(r"^[#.\[]|^[a-z]+[.\[#]|^:")
# The beginning of a call whose literals are in the catalogue.
MARKED = re.compile(r"\bn?gettext\(\s*(?:\"(?:[^\"\\]|\\.)*\",\s*)?$")
# Names of events, keys, headers and states, and what only developers read.
NAMES = {
    "Accept", "ArrowDown", "ArrowUp", "Content-Type", "End", "Enter", "Escape", "Files", "Home",
    "Latchkey", "Notification", "Tab", "too large", "(pointer: coarse)",
    "noopener noreferrer nofollow", "input, textarea, [contenteditable]",
    "(prefers-reduced-motion: reduce)",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Literal:
    """A literal: its text without quotes and holes, and the code before it."""

    text: str
    before: str


def outside(source: str) -> Iterator[str]:
    """Yield each literal of a script that people would read, and that is not in the catalogue."""
    for each in literals(source):
        text = each.text.strip()
        is_words = SENTENCE.search(text) and not SELECTOR.search(text)
        if is_words and text not in NAMES and not MARKED.search(each.before):
            yield text


def literals(source: str) -> Iterator[Literal]:
    for found in PIECE.finditer(source):
        if found["text"]:
            yield Literal(found["text"][1:-1], source[max(0, found.start() - 300) : found.start()])
        elif found["template"]:
            inside = found["template"][1:-1]
            yield Literal(HOLE.sub("", inside), "")
            for hole in HOLE.findall(inside):
                yield from literals(hole[2:-1])
