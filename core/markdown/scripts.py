"""Superscripts and subscripts in the characters that Unicode has for them."""

from __future__ import annotations

_SUPERSCRIPTS = str.maketrans(
    "0123456789+-−=()abcdefghijklmnoprstuvwxyzABDEGHIJKLMNOPRTUVWβγδθφχ",
    "⁰¹²³⁴⁵⁶⁷⁸⁹⁺⁻⁻⁼⁽⁾ᵃᵇᶜᵈᵉᶠᵍʰⁱʲᵏˡᵐⁿᵒᵖʳˢᵗᵘᵛʷˣʸᶻᴬᴮᴰᴱᴳᴴᴵᴶᴷᴸᴹᴺᴼᴾᴿᵀᵁⱽᵂᵝᵞᵟᶿᵠᵡ",
)
_SUBSCRIPTS = str.maketrans(
    "0123456789+-−=()aehijklmnoprstuvxβγρφχ",
    "₀₁₂₃₄₅₆₇₈₉₊₋₋₌₍₎ₐₑₕᵢⱼₖₗₘₙₒₚᵣₛₜᵤᵥₓᵦᵧᵨᵩᵪ",
)
_TABLES = {"sup": (_SUPERSCRIPTS, "^"), "sub": (_SUBSCRIPTS, "_")}
_UNCHANGED = frozenset(" \u00a0®™†‡°′")


def shifted_letters(text: str, kind: str) -> str | None:
    """The text raised (``sup``) or lowered (``sub``), or None where Unicode has no such letter."""
    table, _ = _TABLES[kind]
    if all(ord(char) in table or char in _UNCHANGED for char in text):
        return text.translate(table)
    return None


def sign(text: str, kind: str) -> tuple[str, str]:
    """What is written around a text that cannot be raised or lowered: ``^6``, ``^(a/b)``."""
    mark = _TABLES[kind][1]
    short = len(text) == 1 or text.isdecimal() or text[0] in "(["
    return (mark, "") if short else (f"{mark}(", ")")


def written(text: str, kind: str) -> str:
    """The text raised or lowered, with a sign where there are no such letters."""
    found = shifted_letters(text, kind)
    if found is not None:
        return found
    before, after = sign(text, kind)
    return f"{before}{text}{after}"
