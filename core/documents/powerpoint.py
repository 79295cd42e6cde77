"""The text of a slide, in the order of its elements, also of those that python-pptx does not know.

PowerPoint puts a text box with a formula, whole, into an alternative for newer programs. ECMA-376
part 1, chapters 19 and 21.
"""

from collections.abc import Iterator
from typing import Any

from core.documents import embedded, word
from core.documents.word import DRAWING

SHOWS = "{http://schemas.openxmlformats.org/presentationml/2006/main}"
PARAGRAPH, ROW, CELL = f"{DRAWING}p", f"{DRAWING}tr", f"{DRAWING}tc"


def lines_of(element: Any, owner: Any) -> Iterator[str]:
    """Yield the text in an element of a slide: paragraphs, rows, charts and diagrams."""
    for child in element:
        if child.tag == PARAGRAPH:
            yield word.text_of(child)
        elif child.tag == ROW:
            cells = child.iterchildren(CELL)
            yield " | ".join("\n".join(lines_of(cell, owner)).strip() for cell in cells)
        elif child.tag in embedded.DRAWN:
            yield from embedded.lines_of(child, owner)
        elif child.tag not in word.UNSEEN:
            yield from lines_of(child, owner)


def comments_of(owner: Any) -> Iterator[str]:
    """Yield the comments of a slide, whose part is ``owner``."""
    for root in embedded.parts_of(owner, "comments"):
        for comment in root:
            said = (each.text or "" for each in comment.iter(f"{DRAWING}t", f"{SHOWS}text"))
            if text := " ".join(said).strip():
                yield f"[comment] {text}"
