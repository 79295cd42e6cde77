"""The blocks of a Markdown text: markdown-it-py with its rules chosen by the first character.

markdown-it-py asks every rule about every line; most lines are paragraphs. Here the first
character decides which of its rules can apply at all, and paragraphs, headings and tables become
one token each instead of three or more. Containers, fences, HTML blocks and link definitions are
the library's.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable
from typing import cast

from markdown_it import MarkdownIt
from markdown_it.common.utils import normalizeReference
from markdown_it.parser_block import ParserBlock
from markdown_it.rules_block import blockquote, code, fence, hr, html_block, list_block, reference
from markdown_it.rules_block.state_block import StateBlock
from markdown_it.token import Token

from . import links

# The library's rules and states take positional flags.
_SILENT, _FOR_GOOD = True, False
_LAST_BREAK = False

Rule = Callable[[StateBlock, int, int, bool], bool]

# Two levels are one list; deeper text is read as paragraphs, so that nothing is lost and the
# recursion of the parser stays far below Python's limit.
_MAX_LEVEL = 24
_DELIMITER = re.compile(r"(?:\||:|-(?![ \t]))[|:\- \t]+\Z")
_COLUMN = re.compile(r":?-+:?\Z")
_PIPE = re.compile(r"(?<!\\)\|")
# "[INFO]: main.py" is a log line, not the definition of a link to "main.py".
_NO_ADDRESS = re.compile(r"[^/:#@]+\Z")
_MAX_DOUBTS = 50
_FEW_LINES = 2  # of a message that may be an ordinary one
# `>= 5`, `>_<`, `>w<`, `>:(`; `> 5 people` (`> 1. x` is a list in a quote) and `+ 5 EUR`.
_NO_QUOTE = re.compile(r">=|>(?:[^\w\s<]{1,3}|_|\w)<|>[:;=]['-]?[()\[\]/\\|DPpoO3](?!\w)")
_PROMPT = re.compile(r">>> \w")
_COMPARISON = re.compile(r">[ \t]*[-+]?\d(?!\d{0,8}[.)][ \t])")
_SUM = re.compile(r"\+[ \t]+\d")


class Definitions:
    """The link reference definitions of one document."""

    __slots__ = ("_known",)

    def __init__(self, known: dict[str, dict[str, str]]) -> None:
        self._known = known

    def __bool__(self) -> bool:
        return bool(self._known)

    def find(self, label: str) -> str | None:
        """Return the address of a label, or None."""
        if not self._known:
            return None
        entry = self._known.get(normalizeReference(label))
        return entry["href"] if entry else None


class _Parser(MarkdownIt):
    """Addresses stay as they were written."""

    def normalizeLink(self, url: str) -> str:  # noqa: N802 - the library's name
        return url

    def validateLink(self, url: str) -> bool:  # noqa: N802
        return links.allowed(url)


def _definition(state: StateBlock, start: int, end: int, silent: bool) -> bool:  # noqa: FBT001
    known = state.env.get("references", {})
    if state.src.startswith("[^", state.bMarks[start] + state.tShift[start]):
        return False  # a footnote is text
    before = len(known)
    if not reference(state, start, end, silent):
        return False
    if len(known := state.env["references"]) > before:
        label, entry = next(reversed(known.items()))
        if _NO_ADDRESS.match(entry["href"]) and not _used(state, start):
            del known[label]
            state.line = start
            return False
    return True


def _used(state: StateBlock, start: int) -> bool:
    """Return whether the label defined at this line is used; above a limit, assume so."""
    known: dict[str, bool] = state.env.setdefault("used", {})
    line = _line(state, start).lower()
    label = line[: line.find("]") + 1]
    if label not in known:
        source = state.src.lower() if len(known) < _MAX_DOUBTS else ""
        known[label] = not source or source.count(label) > source.count(f"{label}:")
    return known[label]


def _heading(state: StateBlock, start: int, _end: int, silent: bool) -> bool:  # noqa: FBT001
    pos = state.bMarks[start] + state.tShift[start]
    line = state.src[pos : state.eMarks[start]]
    content = line.lstrip("#")
    size = len(line) - len(content)
    if size > 6 or not content or content[0] not in " \t":
        return False  # more than six, a hashtag, or signs with nothing behind them
    if silent:
        return True
    content = content.strip(" \t")
    bare = content.rstrip("#")
    if not bare or bare[-1] in " \t":
        content = bare.rstrip(" \t")
    state.line = start + 1
    _leaf(state, "heading", content, start).size = size
    return True


def _leaf(state: StateBlock, kind: str, content: str, start: int) -> Leaf:
    token = cast("Leaf", state.push(kind, "", 0))
    token.content = content
    token.map = [start, state.line]
    return token


def _quote(state: StateBlock, start: int, end: int, silent: bool) -> bool:  # noqa: FBT001
    """Parse a quote, unless the sign is one of comparison, of a shell, or part of a face."""
    pos = state.bMarks[start] + state.tShift[start]
    if state.sCount[start] - state.blkIndent >= 4 or _NO_QUOTE.match(state.src, pos):
        return False
    if state.level == 0 and _is_sign(state, start, end):
        return False
    return blockquote(state, start, end, silent)


def _is_sign(state: StateBlock, start: int, end: int) -> bool:
    """Return whether the ``>`` of this line is a sign: ``>> ok``, ``> 5 people``, ``>>> x = 1``."""
    line = _line(state, start)
    beside = [_line(state, at) for at in (start - 1, start + 1) if 0 <= at < end]
    quoted = [other for other in beside if other.startswith(">")]
    if _PROMPT.match(line):
        return all(other.startswith(">>>") for other in quoted)
    few = state.lineMax <= _FEW_LINES and not quoted
    return few and (line.startswith(">>") or _COMPARISON.match(line) is not None)


def _list(state: StateBlock, start: int, end: int, silent: bool) -> bool:  # noqa: FBT001
    """Parse a list, unless the sign is that of a sum: ``+ 5 EUR``."""
    pos = state.bMarks[start] + state.tShift[start]
    return not _SUM.match(state.src, pos) and list_block(state, start, end, silent)


_RULES: dict[str, tuple[Rule, ...]] = {
    "`": (fence,),
    "~": (fence,),
    ">": (_quote,),
    "_": (hr,),
    "<": (html_block,),
    "#": (_heading,),
    "*": (hr, list_block),
    "-": (hr, list_block),
    "+": (_list,),
    **dict.fromkeys("0123456789", (list_block,)),
}
_STARTS = {**_RULES, "[": (_definition,)}


def _interrupts(state: StateBlock, line: int, end: int, char: str) -> bool:
    """Return whether this line ends a paragraph before it."""
    return any(rule(state, line, end, _SILENT) for rule in _RULES.get(char, ()))


def _paragraph(state: StateBlock, start: int, end: int) -> None:
    """Parse a paragraph, or a heading that is underlined."""
    parent, state.parentType = state.parentType, "paragraph"
    line, underlined = start + 1, False
    while line < state.lineMax and not state.isEmpty(line):
        indent = state.sCount[line]
        if indent - state.blkIndent <= 3:
            pos = state.bMarks[line] + state.tShift[line]
            char = state.src[pos]
            if char in "-=" and line < end and indent >= state.blkIndent:
                underlined = not state.src[pos : state.eMarks[line]].rstrip(" \t").strip(char)
                if underlined:
                    break
            if indent >= 0 and (
                (char in _RULES and _interrupts(state, line, state.lineMax, char))
                or _table_starts(state, line, state.lineMax)
            ):
                break
        line += 1
    content = state.getLines(start, line, state.blkIndent, _LAST_BREAK).strip(" \t\n")
    state.line = line + underlined
    leaf = _leaf(state, "heading" if underlined else "paragraph", content, start)
    if underlined:
        leaf.size = 1 if char == "=" else 2
    state.parentType = parent


def _cells(line: str) -> list[str]:
    cells = [cell.replace("\\|", "|") for cell in _PIPE.split(line)]
    if cells and not cells[0]:
        cells.pop(0)
    if cells and not cells[-1]:
        cells.pop()
    return [cell.strip(" \t") for cell in cells]


def _line(state: StateBlock, line: int) -> str:
    return str(state.src[state.bMarks[line] + state.tShift[line] : state.eMarks[line]])


def _table_starts(state: StateBlock, start: int, end: int) -> list[str] | None:
    """Return the alignment row's cells if a table begins at this line."""
    line = start + 1
    pos = state.bMarks[line] + state.tShift[line]
    if pos >= state.eMarks[line] or state.src[pos] not in "|-:" or line >= end:
        return None
    if state.sCount[line] < state.blkIndent or state.is_code_block(line):
        return None
    row = _line(state, line)
    header = _line(state, start)
    if "|" not in header or not _DELIMITER.match(row) or state.is_code_block(start):
        return None
    columns = _cells(row.strip(" \t"))
    if not columns or not all(_COLUMN.match(column) for column in columns):
        return None
    return columns if len(_cells(header.strip(" \t"))) == len(columns) else None


def _table(state: StateBlock, start: int, end: int) -> bool:
    columns = _table_starts(state, start, end)
    if columns is None:
        return False
    parent, state.parentType = state.parentType, "table"
    rows = [_cells(_line(state, start).strip(" \t"))]
    line = start + 2
    while line < end and state.sCount[line] >= state.blkIndent and not state.isEmpty(line):
        text = _line(state, line).strip(" \t")
        if state.is_code_block(line) or _interrupts(state, line, end, text[0]):
            break
        rows.append(_cells(text)[: len(columns)])
        line += 1
    state.line = line
    state.parentType = parent
    token = _leaf(state, "table", "", start)
    token.rows, token.aligns = rows, columns
    return True


class Leaf:
    """A token with only the fields that are read: the library's has a dozen to fill."""

    attrs: dict[str, int] = {}
    map: list[int] = [0, 0]
    content = info = markup = ""
    rows: list[list[str]] = []  # of a table, cells as they are written
    aligns: list[str] = []
    size = 0  # of a heading, 1 (the largest) to 6
    hidden = False

    def __init__(self, kind: str, level: int) -> None:
        self.type, self.level = kind, level


class _State(StateBlock):
    """The block parser's state, with lighter tokens."""

    # The library only ever sets what a leaf has, and reads its level and type.
    def push(self, ttype: str, tag: str, nesting: int) -> Leaf:  # type: ignore[override]
        """Add a token; opening ones deepen the level."""
        if nesting < 0:
            self.level -= 1
        token = Leaf(ttype, self.level)
        if nesting > 0:
            self.level += 1
        self.tokens.append(cast("Token", token))
        return token


class _Blocks(ParserBlock):
    """The block parser: which rule may take the next lines."""

    def tokenize(self, state: StateBlock, startLine: int, endLine: int) -> None:  # noqa: N803
        """Read the lines of one container."""
        line = startLine
        empty_lines = False
        while line < endLine:
            state.line = line = state.skipEmptyLines(line)
            if line >= endLine or state.sCount[line] < state.blkIndent:
                break
            self._block(state, line, endLine)
            # The list rule of the library asks whether the last block was tight.
            state.tight = not empty_lines
            line = state.line
            if state.isEmpty(line - 1):
                empty_lines = True
            if line < endLine and state.isEmpty(line):
                empty_lines = True
                line += 1
                state.line = line

    def _block(self, state: StateBlock, line: int, end: int) -> None:
        if _table(state, line, end):
            return
        if state.is_code_block(line):
            code(state, line, end, _FOR_GOOD)
            return
        pos = state.bMarks[line] + state.tShift[line]
        rules = _STARTS.get(state.src[pos], ())
        if state.level >= _MAX_LEVEL:
            rules = tuple(rule for rule in rules if rule not in (_quote, _list, list_block))
        for rule in rules:
            if rule(state, line, end, _FOR_GOOD):
                return
        _paragraph(state, line, end)


@functools.cache
def _parser() -> MarkdownIt:
    parser = _Parser("commonmark", {"html": True, "maxNesting": 10 * _MAX_LEVEL})
    parser.block = _Blocks()
    parser.block.ruler.enableOnly(
        [
            "code",
            "fence",
            "blockquote",
            "hr",
            "list",
            "reference",
            "html_block",
            "heading",
            "paragraph",
        ]
    )
    return parser


def read_blocks(source: str) -> tuple[list[Leaf], Definitions]:
    """Return the block tokens of a text (lines end in ``\\n``) and its link definitions.

    Leaves are ``paragraph``, ``heading`` and ``table`` (one token each, the latter with ``rows``
    and ``aligns``) and markdown-it-py's ``fence``, ``code_block``, ``html_block``,
    ``hr``; containers are its ``blockquote``, ``bullet_list``, ``ordered_list`` and ``list_item``
    pairs. Every leaf has its source lines in ``map``.
    """
    env: dict[str, dict[str, dict[str, str]]] = {}
    tokens: list[Leaf] = []
    if source:
        parser = _parser()
        state = _State(source, parser, env, cast("list[Token]", tokens))
        parser.block.tokenize(state, 0, state.lineMax)
    return tokens, Definitions(env.get("references", {}))
