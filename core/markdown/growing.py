"""The displayable part of an unfinished text.

Converts Markdown cut at any point into well-formed Markdown: open constructs are closed, ambiguous
ends are held back. The reader sees no marker that becomes a style, and few changes of displayed
text.
"""

import re

from .blocks import Definitions
from .inline import Scanner
from .words import apostrophe

_FENCE = re.compile(r"(?:[ \t>]|[-*+][ \t]|\d{1,9}[.)][ \t])*+(`{3,}|~{3,})(.*)\Z")
_ROW = re.compile(r"[ \t>]*\|")
_DELIMITERS = re.compile(r"[ \t>]*+\|?[ \t]*+:?-++:?[ \t]*+(?:\|[ \t]*+:?-*+:?[ \t]*+)*+\Z")
# An ambiguous last line: markers, a number, a box, the head of an alert.
_MARKERS = re.compile(
    r"[ \t>]*+(?:[-*+]|\d{1,9}[.)])?[ \t]*+"
    r"(?:[-*+_=#>~`: \t]*+|\d{1,9}[.)]?|\[[ xX]?\]?[ \t]*+|\[![A-Za-z]*+\]?)\Z"
)
_NEW_SEGMENT = re.compile(r"[ \t>]*(?:[-*+][ \t]|\d{1,9}[.)][ \t]|#{1,6}[ \t]|\Z)")
# The part held back at the end of a line, from its first character on.
_HELD = (
    re.compile(r"<!--(?:(?!-->).)*\Z", re.DOTALL),
    re.compile(r"<(?:/?[A-Za-z][A-Za-z0-9-]{0,15}(?:\s[^<>]{0,400})?|[/!]?|[a-z]+:[^<>\s]*)\Z"),
    re.compile(r"&[#a-zA-Z0-9]{0,12}\Z"),
    re.compile(r"\$\$?(?=[^\s\d$])(?:[^$\n]{0,12}|[^$\n]*[\\^_{][^$\n]*)\$?\Z"),
    re.compile(r"\\[(\[](?:(?!\\[)\]]).){0,400}\\?\Z", re.DOTALL),
    re.compile(r"\[\^?\d{0,3}\]?\Z"),
    re.compile(r"(?<![\w*])__\w{0,30}\Z"),
    re.compile(r"\[!\[[^\[\]]{0,400}+(?:\](?:\([^()\s]*(?:\)(?:\](?:\([^()\s]*)?)?)?)?)?\Z"),
    re.compile(r"!(?:\[[^\[\]]{0,400}+(?:\](?:\([^()\n]*)?)?)\Z"),
)
_TEXT = r"((?:[^\[\]\\]|\\.){0,400}+)"
_LINK = re.compile(
    rf"\[{_TEXT}\](?:\([^()\n]*(?:\([^()\n]*\)[^()\n]*)*(?:\([^()\n]*)?|\[[^\[\]\n]*)?\Z"
)
_OPEN_LINK = re.compile(rf"(?<!\])\[{_TEXT}\Z")
_TRAILING = re.compile(r"(?:[*_~|\\]|(?<=\s)[-+#>=])+\Z")
_TICKS = re.compile(r"`+")
_SETTLED = 6  # lines of a table: with its first rows, the widths of its columns change
_MOST_HELD = 20  # of them at the end of a text
_FAR = 400  # characters: markup open for longer is no marker


def live_view(source: str) -> str:
    """Return the Markdown to render of an unfinished text."""
    lines = source.replace("\r\n", "\n").replace("\r", "\n").split("\n")
    end = _fenced_end(lines)
    if end >= 0:
        return _until(lines, end)
    table = _table(lines)
    if table >= 0:
        return _until(lines, table)
    if _MARKERS.match(lines[-1]):
        lines.pop()
    if not lines or not lines[-1].strip(" \t>"):
        return _until(lines, len(lines))
    start = _segment(lines)
    done = _closed("\n".join(lines[start:]))
    return _until([*lines[:start], done], start + 1)


def _until(lines: list[str], end: int) -> str:
    return "\n".join(lines[:end]).rstrip()


def _fenced_end(lines: list[str]) -> int:
    """Return the line up to which a text that ends with a fence is shown, or -1."""
    opened, fence, last = -1, "", len(lines) - 1
    for number, line in enumerate(lines):
        found = _FENCE.match(line) if "```" in line or "~~~" in line else None
        if found is None:
            continue
        if opened < 0:
            if found[1][0] == "~" or "`" not in found[2]:
                opened, fence = number, found[1]
        elif found[1].startswith(fence) and not found[2].strip():
            if number == last:
                return len(lines)
            opened = -1
    if opened < 0:
        return -1
    return last if last > opened + 1 else opened


def _table(lines: list[str]) -> int:
    """Return the line up to which a text that ends with a table is shown, or -1 for another."""
    end = len(lines) if lines[-1].strip() else len(lines) - 1
    first = end - 1 if not _ROW.match(lines[end - 1]) and _MARKERS.match(lines[end - 1]) else end
    while first > 0 and _ROW.match(lines[first - 1]):
        first -= 1
    rows = lines[first:end]
    if not rows or not _ROW.match(rows[0]) or (len(rows) > 2 and not _DELIMITERS.match(rows[1])):
        return -1
    whole = end if end < len(lines) else end - 1
    return whole if whole - first > _SETTLED else first


def _segment(lines: list[str]) -> int:
    """Return the line at which the segment with the last line begins."""
    start = len(lines) - 1
    while start > 0 and not _NEW_SEGMENT.match(lines[start]) and lines[start - 1].strip(" \t>"):
        start -= 1
    return start


def _closed(text: str) -> str:
    """Return inline text with open constructs closed, and ambiguous ends held back."""
    text, ticks = _code(text)
    if not ticks:
        text = _without_end(text)
    scanner = Scanner(text + ticks, Definitions({}))
    return f"{text}{ticks}{scanner.closers(_FAR)}"


def _code(text: str) -> tuple[str, str]:
    """Return the text, and the backticks that close the code at its end."""
    opened: re.Match[str] | None = None
    for found in _TICKS.finditer(text):
        if opened is None:
            if not apostrophe(text, found.start()) and not _is_escaped(text, found.start()):
                opened = found
        elif found.group() == opened.group():
            opened = None
    if opened is None or len(text) - opened.start() > _FAR:
        return text, ""
    code = text[opened.end() :].rstrip("`*_~ \n")
    if not code.strip():
        return text[: opened.start()], ""
    return text[: opened.end()] + code, opened.group()


def _is_escaped(text: str, at: int) -> bool:
    slashes = 0
    while slashes < min(at, _FAR) and text[at - 1 - slashes] == "\\":
        slashes += 1
    return slashes % 2 == 1


def _without_end(text: str) -> str:
    """Return the text without an end that may become a tag, a link, a formula or a marker."""
    head, tail = text[: -2 * _FAR], text[-2 * _FAR :]
    for _ in range(_MOST_HELD):
        size = len(tail)
        for held in _HELD:
            found = held.search(tail, max(0, len(tail) - _FAR))
            if found is not None:
                tail = tail[: found.start()]
        for link in (_LINK, _OPEN_LINK):
            found = link.search(tail)
            if found is not None:
                tail = tail[: found.start()] + found[1]
        tail = _TRAILING.sub("", tail.rstrip(" \t"))
        if len(tail) == size:
            break
    return head + tail
