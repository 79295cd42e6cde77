"""Superscripts and subscripts in Unicode characters."""

_SUPERSCRIPTS = str.maketrans(
    "0123456789+-−=()abcdefghijklmnoprstuvwxyzABDEGHIJKLMNOPRTUVWβγδθφχ",
    "⁰¹²³⁴⁵⁶⁷⁸⁹⁺⁻⁻⁼⁽⁾ᵃᵇᶜᵈᵉᶠᵍʰⁱʲᵏˡᵐⁿᵒᵖʳˢᵗᵘᵛʷˣʸᶻᴬᴮᴰᴱᴳᴴᴵᴶᴷᴸᴹᴺᴼᴾᴿᵀᵁⱽᵂᵝᵞᵟᶿᵠᵡ",
)
_SUBSCRIPTS = str.maketrans(
    "0123456789+-−=()aehijklmnoprstuvxβγρφχ",
    "₀₁₂₃₄₅₆₇₈₉₊₋₋₌₍₎ₐₑₕᵢⱼₖₗₘₙₒₚᵣₛₜᵤᵥₓᵦᵧᵨᵩᵪ",
)
_TABLES = {"sup": (_SUPERSCRIPTS, "^"), "sub": (_SUBSCRIPTS, "_")}
_LONGEST = 8  # characters
_TERM_ENDS = (")", "]", "}", "|")
_UNCHANGED = frozenset(" \u00a0®™†‡°′")


def shifted_letters(text: str, kind: str) -> str | None:
    """Return the text raised (``sup``) or lowered (``sub``), or None where Unicode has no such
    letter.

    A longer text is small print, which is better read as it is.
    """
    table, _ = _TABLES[kind]
    if len(text) <= _LONGEST and all(ord(char) in table or char in _UNCHANGED for char in text):
        return text.translate(table)
    return None


def signs(text: str, kind: str, before: str) -> tuple[str, str]:
    """Return the signs around a text that has no raised or lowered form: ``^6``, ``^(a/b)``.

    ``before`` is the character before it; no sign where that is not a term.
    """
    if not (before.isalnum() or before in _TERM_ENDS):
        return "", ""
    mark = _TABLES[kind][1]
    short = len(text) == 1 or text.isdecimal() or text[0] in "(["
    return (mark, "") if short else (f"{mark}(", ")")


def written(text: str, kind: str) -> str:
    """Return the text raised or lowered, with a sign where there are no such letters."""
    found = shifted_letters(text, kind)
    if found is not None:
        return found
    before, after = signs(text, kind, ")")
    return f"{before}{text}{after}"
