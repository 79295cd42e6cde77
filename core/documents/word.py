"""The text of Word's paragraphs and tables, with what python-docx leaves out: tracked insertions,
content controls, fields, text boxes. Pure. ECMA-376 part 1, chapter 17.
"""

from collections.abc import Iterator
from typing import Any


def named(prefix: str, *names: str) -> frozenset[str]:
    """Return the names of elements in a namespace."""
    return frozenset(f"{prefix}{name}" for name in names)


WORD = "{http://schemas.openxmlformats.org/wordprocessingml/2006/main}"
MATH = "{http://schemas.openxmlformats.org/officeDocument/2006/math}"
COMPATIBLE = "{http://schemas.openxmlformats.org/markup-compatibility/2006}"
PARAGRAPH, TABLE, ROW, CELL = f"{WORD}p", f"{WORD}tbl", f"{WORD}tr", f"{WORD}tc"
WRAPPERS = named(WORD, "sdt", "sdtContent", "customXml", "ins", "moveTo")
TEXTS = {f"{WORD}t", f"{MATH}t"}
SIGNS = {f"{WORD}tab": "\t", f"{WORD}br": "\n", f"{WORD}cr": "\n", f"{WORD}noBreakHyphen": "-"}
# Properties, deleted text, and the same once more for older programs.
UNSEEN = named(WORD, "pPr", "rPr", "sdtPr", "del", "moveFrom") | named(COMPATIBLE, "Fallback")


def inside(parent: Any, *tags: str) -> Iterator[Any]:
    """Yield the elements of these tags in ``parent``, also those of its content controls and of
    tracked changes.
    """
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
    """Yield the text of an element, piece by piece."""
    for child in element:
        if child.tag in TEXTS:
            yield child.text or ""
        elif child.tag in SIGNS:
            yield SIGNS[child.tag]
        elif child.tag not in UNSEEN:
            if child.tag == PARAGRAPH:  # of a text box
                yield "\n"
            yield from pieces_of(child)
