"""The text of Word's and PowerPoint's paragraphs and tables, with what python-docx and python-pptx
leave out: tracked insertions, content controls, fields, text boxes, formulas, raised numbers. Pure.
ECMA-376 part 1, chapters 17, 21 and 22.
"""

import re
from collections.abc import Callable, Iterator
from typing import Any


def named(prefix: str, *names: str) -> frozenset[str]:
    """Return the names of elements in a namespace."""
    return frozenset(f"{prefix}{name}" for name in names)


WORD = "{http://schemas.openxmlformats.org/wordprocessingml/2006/main}"
MATH = "{http://schemas.openxmlformats.org/officeDocument/2006/math}"
DRAWING = "{http://schemas.openxmlformats.org/drawingml/2006/main}"
COMPATIBLE = "{http://schemas.openxmlformats.org/markup-compatibility/2006}"
PARAGRAPH, TABLE, ROW, CELL = f"{WORD}p", f"{WORD}tbl", f"{WORD}tr", f"{WORD}tc"
WRAPPERS = named(WORD, "sdt", "sdtContent", "customXml", "ins", "moveTo")
TEXTS = {f"{WORD}t", f"{MATH}t", f"{DRAWING}t"}
RUNS = {f"{WORD}r", f"{DRAWING}r"}
SIGNS = {
    f"{WORD}tab": "\t",
    f"{WORD}br": "\n",
    f"{WORD}cr": "\n",
    f"{WORD}noBreakHyphen": "-",
    f"{DRAWING}br": "\n",
}
# Properties, deleted text, and the same once more for older programs.
UNSEEN = named(WORD, "pPr", "rPr", "sdtPr", "del", "moveFrom") | named(COMPATIBLE, "Fallback")
# Signs of the font Symbol, from A and from a on, and the usual ones of it and of Wingdings.
SYMBOL_LETTERS = {
    "A": "ΑΒΧΔΕΦΓΗΙϑΚΛΜΝΟΠΘΡΣΤΥςΩΞΨΖ",
    "a": "αβχδεφγηιϕκλμνοπθρστυϖωξψζ",
}
SYMBOLS = {
    "symbol": {0xA3: "≤", 0xA5: "∞", 0xAE: "→", 0xB0: "°", 0xB1: "±", 0xB3: "≥", 0xB4: "×",
               0xB7: "•", 0xB8: "÷", 0xB9: "≠", 0xBB: "≈", 0xD6: "√", 0xD7: "⋅", 0xE5: "∑",
               **{ord(first) + at: sign for first, signs in SYMBOL_LETTERS.items()
                  for at, sign in enumerate(signs)}},
    "wingdings": {0x6F: "☐", 0x71: "☐", 0xA8: "☐", 0xFB: "✗", 0xFC: "✓", 0xFD: "☒", 0xFE: "☑",
                  0xE0: "→", 0xA7: "▪", 0xD8: "➢"},
    "wingdings 2": {0x4F: "✗", 0x50: "✓", 0x51: "☒", 0x52: "☑", 0xA3: "☐"},
}  # fmt: skip
RAISED_NUMBER = re.compile(r"[+−–-]?\d+(?:[.,/]\d+)*")


def inside(parent: Any, *tags: str) -> Iterator[Any]:
    """Yield the elements of these tags, also in content controls and tracked changes."""
    for child in parent:
        if child.tag in tags:
            yield child
        elif child.tag in WRAPPERS:
            yield from inside(child, *tags)


def rows_of(table: Any) -> list[str]:
    """Return the rows of a table, with those of tables in its cells."""
    return [
        " | ".join("\n".join(lines_of(cell)).strip() for cell in inside(row, CELL))
        for row in inside(table, ROW)
    ]


def lines_of(cell: Any) -> Iterator[str]:
    """Yield the paragraphs of a cell, and the rows of tables in it."""
    for block in inside(cell, PARAGRAPH, TABLE):
        yield from rows_of(block) if block.tag == TABLE else (text_of(block),)


def text_of(element: Any) -> str:
    """Return the text of a paragraph as it reads with all tracked changes."""
    return "".join(pieces_of(element))


def pieces_of(element: Any) -> Iterator[str]:
    for child in element:
        if child.tag in TEXTS:
            yield child.text or ""
        elif child.tag in SIGNS:
            yield SIGNS[child.tag]
        elif child.tag in FORMULAS:
            yield FORMULAS[child.tag](child)
        elif child.tag == f"{WORD}sym":
            yield symbol(child)
        elif child.tag not in UNSEEN:
            if child.tag == PARAGRAPH:  # of a text box
                yield "\n"
            if child.tag in RUNS and is_raised_number(child):
                yield "^"  # else 10 to the sixth is 106
            yield from pieces_of(child)


def is_raised_number(run: Any) -> bool:
    """Return whether a run is a number above the line: an exponent, or the mark of a note."""
    text = "".join(child.text or "" for child in run if child.tag in TEXTS)
    return RAISED_NUMBER.fullmatch(text) is not None and is_raised(run)


def is_raised(run: Any) -> bool:
    word = run.find(f"{WORD}rPr/{WORD}vertAlign")
    drawn = run.find(f"{DRAWING}rPr")
    baseline = "" if drawn is None else drawn.get("baseline", "")
    return (word is not None and word.get(f"{WORD}val") == "superscript") or (
        baseline.strip("%0123456789") == "" and baseline.strip("0%") != ""
    )


def symbol(element: Any) -> str:
    """Return the character of a sign of a symbol font; nothing for one that is not known."""
    try:
        code = int(element.get(f"{WORD}char", ""), 16)
    except ValueError:
        return ""
    font = element.get(f"{WORD}font", "").casefold()
    if font in SYMBOLS:
        return SYMBOLS[font].get(code & 0xFF, "")
    return chr(code) if 0 <= code < 0xE000 and chr(code).isprintable() else ""


def part(element: Any, name: str) -> str:
    """Return the text of a part of a formula; "" for one that it has not."""
    found = element.find(f"{MATH}{name}")
    return "" if found is None else text_of(found)


def grouped(text: str) -> str:
    """Return a text that is an operand: in brackets, unless it is one number or one word."""
    return text if text.isalnum() else f"({text})"


def raised(base: str, below: str, above: str) -> str:
    """Return a base with its index and its exponent."""
    return base + (f"_{grouped(below)}" if below else "") + (f"^{grouped(above)}" if above else "")


def scripted(element: Any) -> str:
    return raised(part(element, "e"), part(element, "sub"), part(element, "sup"))


def fraction(element: Any) -> str:
    return f"{grouped(part(element, 'num'))}/{grouped(part(element, 'den'))}"


def root(element: Any) -> str:
    return f"{part(element, 'deg')}√({part(element, 'e')})"


def sign_in(element: Any, path: str, otherwise: str) -> str:
    """Return a sign among the properties of a part of a formula, which may be an empty one."""
    found = element.find("/".join(f"{MATH}{name}" for name in path.split("/")))
    return otherwise if found is None else found.get(f"{MATH}val", "")


def large(element: Any) -> str:
    """Return a sum, a product or an integral with its bounds."""
    sign = sign_in(element, "naryPr/chr", "∫")
    return f"{raised(sign, part(element, 'sub'), part(element, 'sup'))} {part(element, 'e')}"


def bracketed(element: Any) -> str:
    first = sign_in(element, "dPr/begChr", "(")
    last = sign_in(element, "dPr/endChr", ")")
    between = sign_in(element, "dPr/sepChr", "|")
    return first + between.join(map(text_of, element.findall(f"{MATH}e"))) + last


FORMULAS: dict[str, Callable[[Any], str]] = {
    f"{MATH}{name}": write
    for names, write in (
        ("sSup sSub sSubSup", scripted),
        ("f", fraction),
        ("rad", root),
        ("nary", large),
        ("d", bracketed),
    )
    for name in names.split()
}
