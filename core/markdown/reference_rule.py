"""Rules for the parser of pages: footnotes, definitions of links, and indices that look like links
([T2]).

A footnote is ``[^1]`` in a text, and ``[^1]: …``, which is the note itself. Those with names, as
``[^note]``, stay as they are written, since CommonMark has none ([T3]).
"""

import re
from collections import Counter
from collections.abc import Collection, Iterable
from typing import NamedTuple

from markdown_it import MarkdownIt
from markdown_it.rules_block import StateBlock, reference
from markdown_it.rules_core import StateCore
from markdown_it.rules_inline import StateInline

from .words import index_end

# One that can be opened; `[INFO]: main.py` is text, and so is a footnote.
ADDRESS = re.compile(r"\[(?!\^)[^\]]{1,1000}\]:\s*<?(?:https?://|mailto:|/files/)", re.IGNORECASE)

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


def plugin(parser: MarkdownIt) -> None:
    """Let a parser follow them: ``MarkdownIt().use(plugin)``."""
    parser.block.ruler.at("reference", definition)
    parser.core.ruler.before("inline", "footnotes", collect)
    parser.inline.ruler.before("link", "footnote", bracket)


def definition(state: StateBlock, start: int, end: int, silent: bool) -> bool:  # noqa: FBT001
    """Read the definition of a link that leads somewhere; any other line is shown."""
    found = ADDRESS.match(state.src, state.bMarks[start] + state.tShift[start])
    return found is not None and reference(state, start, end, silent)


def collect(state: StateCore) -> None:
    if "[^" in state.src:
        texts = (token.content for token in state.tokens if token.type == "inline")
        state.env["footnotes"] = numbers(texts)


def bracket(state: StateInline, silent: bool) -> bool:  # noqa: FBT001 - the library's
    """Show the mark of a footnote raised, and an index as text."""
    if state.src[state.pos] != "[":
        return False
    end = index_end(state.src, state.pos)
    mark = mark_at(state.src, state.pos, state.env.get("footnotes", ()))
    if not end and (mark is None or mark.end > state.posMax):
        return False
    if silent:  # within the text of a link: a bracket, as links do not stand in links
        state.pos += 1
    elif mark is not None:
        raised(state, mark)
        state.pos = mark.end
    else:
        state.append_pending(state.src[state.pos : end])
        state.pos = end
    return True


def raised(state: StateInline, mark: Footnote) -> None:
    if mark.is_note and state.tokens and state.tokens[-1].type == "softbreak":
        state.tokens[-1].type = "hardbreak"
    state.push("sup_open", "sup", 1)
    state.push("text", "", 0).content = mark.number
    state.push("sup_close", "sup", -1)
    if mark.is_note:
        state.append_pending(" ")


def numbers(blocks: Iterable[str]) -> frozenset[str]:
    """Return the numbers of footnotes with a mark and a note in ``blocks``, texts without code."""
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
