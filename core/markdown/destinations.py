"""The part of a link behind its text: ``(address "title")``."""

import re

from . import links

_DESTINATION = re.compile(r"\(\s*+(?:<((?:[^<>\n\\]|\\.)*+)>)?")
_PLAIN_DESTINATION = re.compile(r"(?:[^\s()\\\x00-\x1f\x7f]|\\[^\s]|\\(?=\s))++")
_TITLE = re.compile(
    r"\s++(?:\"[^\"\\]*+(?:\\.[^\"\\]*+)*+\"|'[^'\\]*+(?:\\.[^'\\]*+)*+'"
    r"|\([^()\\]*+(?:\\.[^()\\]*+)*+\))",
    re.DOTALL,
)
_END = re.compile(r"\s*+\)")
_MAX_PARENTHESES = 32


def destination(src: str, at: int) -> tuple[str, int] | None:
    """Parse ``(address "title")`` at this position; return the address and the end, or None."""
    found = _DESTINATION.match(src, at)
    if found is None:
        return None
    pos = found.end()
    raw = found.group(1)
    if raw is None:
        end = _plain(src, pos)
        if end < 0:
            return None
        raw, pos = src[pos:end], end
    title = _TITLE.match(src, pos)
    closing = _END.match(src, title.end() if title else pos)
    if closing is None:
        return None
    address = links.unescape(raw)
    return (address, closing.end()) if links.allowed(address) else None


def _plain(src: str, pos: int) -> int:
    """Return the end of an address without angle brackets; -1 if its parentheses do not balance."""
    depth = 0
    if src[pos : pos + 1] == "<":
        return -1
    while True:
        found = _PLAIN_DESTINATION.match(src, pos)
        pos = found.end() if found else pos
        following = src[pos : pos + 1]
        if following == "(" and depth < _MAX_PARENTHESES:
            depth += 1
        elif following == ")" and depth:
            depth -= 1
        else:
            return -1 if depth else pos
        pos += 1
