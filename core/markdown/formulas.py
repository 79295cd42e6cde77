"""LaTeX in Markdown: kept as it is, whatever stars and underscores it has."""

from __future__ import annotations

import re

# `$5 and $6` are prices: a formula has no space inside its dollars and no digit behind them.
_FORMULA = re.compile(r"\$\$[^$]{1,2000}+\$\$|\$(?=[^\s$])[^$\n]{0,500}+(?<!\s)\$(?![\d$])")
_LATEX = re.compile(r"\\[a-zA-Z]|[\^_={}]")
_LIMIT = 1000  # characters of a formula in brackets


def dollar_end(src: str, at: int) -> int:
    """Where the formula that begins with the dollar at ``at`` ends, or 0."""
    found = _FORMULA.match(src, at)
    return found.end() if found and _LATEX.search(found.group()) else 0


def bracketed_end(src: str, at: int) -> int:
    """Where the formula that begins with the ``\\\\(`` or ``\\\\[`` at ``at`` ends, or 0."""
    closer = "\\)" if src[at + 1] == "(" else "\\]"
    end = src.find(closer, at + 2, at + _LIMIT)
    return end + 2 if end >= 0 and _LATEX.search(src, at + 2, end) else 0
