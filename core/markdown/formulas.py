"""LaTeX in Markdown: kept unchanged, with any stars and underscores it has."""

import re

# `$5 and $6` are prices: a formula has no space inside its dollars and no digit behind them.
_FORMULA = re.compile(r"\$\$[^$]{1,2000}+\$\$|\$(?=[^\s$])[^$\n]{0,500}+(?<!\s)\$(?![\d$])")
_LATEX = re.compile(r"\\[a-zA-Z]|[\^_={}]")
# `n`, `n + 1`, `x, y`: for renderers of formulas; as text they read the same without the signs.
_LETTERS = re.compile(r"\s*+-?[A-Za-z](?:\s*[-+*/<>,]\s*-?(?:[A-Za-z]|\d{1,9}))*+!?\s*+")
_LIMIT = 1000  # characters of a formula in brackets


def dollar_end(src: str, at: int, *, letters: bool = False) -> int:
    """Return the end of the formula that begins with the dollar at ``at``, or 0.

    ``letters``: one without any LaTeX counts, too, when it is of single letters.
    """
    found = _FORMULA.match(src, at)
    if found is None:
        return 0
    width = 2 if src.startswith("$$", at) else 1
    return found.end() if _is_one(src, at + width, found.end() - width, letters) else 0


def bracketed_end(src: str, at: int, *, letters: bool = False) -> int:
    """Return the end of the formula that begins with the ``\\(`` or ``\\[`` at ``at``, or 0."""
    closer = "\\)" if src[at + 1] == "(" else "\\]"
    end = src.find(closer, at + 2, at + _LIMIT)
    return end + 2 if end >= 0 and _is_one(src, at + 2, end, letters) else 0


def _is_one(src: str, start: int, end: int, letters: bool) -> bool:  # noqa: FBT001
    if _LATEX.search(src, start, end):
        return True
    return letters and _LETTERS.fullmatch(src, start, end) is not None
