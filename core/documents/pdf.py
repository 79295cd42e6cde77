"""The text of a page of a PDF as it reads, from the characters that PDFium finds."""

import ctypes
import re
import unicodedata
from collections.abc import Iterator, Sequence
from typing import Any

from pypdfium2 import raw

from core.documents.encodings import paired

COMMENTS = frozenset(
    {
        raw.FPDF_ANNOT_TEXT,
        raw.FPDF_ANNOT_HIGHLIGHT,
        raw.FPDF_ANNOT_UNDERLINE,
        raw.FPDF_ANNOT_SQUIGGLY,
        raw.FPDF_ANNOT_STRIKEOUT,
        raw.FPDF_ANNOT_CARET,
    }
)
# Fields of a form, and texts and stamps that a viewer has put on a page: they are drawn on it.
DRAWN = frozenset({raw.FPDF_ANNOT_WIDGET, raw.FPDF_ANNOT_FREETEXT, raw.FPDF_ANNOT_STAMP})
# PDFium's sign for a hyphen at the end of a line, with which it joins the lines.
LINE_HYPHEN = "\x02"
RIGHT_TO_LEFT = re.compile("[\u0590-\u08ff\ufb1d-\ufdff\ufe70-\ufefc]+")
# The halves of a character beyond U+FFFF, which PDFium turns around in a line from right to left.
HALVES = re.compile("[\ud800-\udbff][\udc00-\udfff]|([\udc00-\udfff])([\ud800-\udbff])")
# Ligatures and forms of letters, which are no letters of their own.
FORMS = re.compile("[\ufb00-\ufb06\ufb50-\ufdff\ufe70-\ufefc]+")


def text_of(words: Any) -> str:
    """Return the text of a page, whose text page is ``words``."""
    text = words.get_text_bounded()
    if RIGHT_TO_LEFT.search(text):
        text = paired(HALVES.sub(in_order, "".join(turned(words))))
    text = FORMS.sub(lambda found: unicodedata.normalize("NFKC", found[0]), text)
    return text.replace("\ufffe", LINE_HYPHEN).replace(LINE_HYPHEN, "-\n")


def in_order(halves: re.Match[str]) -> str:
    """Return a character of HALVES with its first half first."""
    return halves[0] if halves[1] is None else halves[2] + halves[1]


def turned(words: Any) -> Iterator[str]:
    """Yield the text of a page with the letters of all words in the order of reading.

    PDFium leaves the words of some programs, such as Chrome's print to PDF, in the order of the
    page where they run from right to left.
    """
    text = "".join(chr(raw.FPDFText_GetUnicode(words, at)) for at in range(words.count_chars()))
    last = 0
    for found in RIGHT_TO_LEFT.finditer(text):
        start, end = found.span()
        yield text[last:start]
        last = end
        places = [middle(words, at) for at in range(start, end)]
        across, along = places[-1][0] - places[0][0], places[-1][1] - places[0][1]
        letters: Sequence[int] = range(end - start)
        if across > abs(along):  # one sign may stand for two letters, which keep their order
            letters = sorted(letters, key=lambda at: -places[at][0])
        yield "".join(found[0][at] for at in letters)
    yield text[last:]


def middle(words: Any, at: int) -> tuple[float, float]:
    """Return the place of a character on its page, from the left and from below."""
    left, bottom, right, top = words.get_charbox(at)
    return (left + right) / 2, (bottom + top) / 2


def annotations_of(page: Any) -> Iterator[tuple[Any, int]]:
    """Yield the annotations of a page, each open until the next one, with their kinds."""
    for at in range(raw.FPDFPage_GetAnnotCount(page)):
        annotation = raw.FPDFPage_GetAnnot(page, at)
        yield annotation, raw.FPDFAnnot_GetSubtype(annotation)
        raw.FPDFPage_CloseAnnot(annotation)


def filled(page: Any, document: Any, number: int) -> Any:
    """Return a page of a PDF with the texts of its form and those that a viewer has put on it."""
    if DRAWN.isdisjoint([kind for _annotation, kind in annotations_of(page)]):
        return page
    raw.FPDFPage_Flatten(page, raw.FLAT_NORMALDISPLAY)
    page.close()
    return document[number]  # a page that is open already does not show it


def comments_of(page: Any) -> list[str]:
    """Return the comments of a page, with their authors; not those that are drawn on it."""
    found = []
    for annotation, kind in annotations_of(page):
        if kind in COMMENTS:
            author, said = (value_of(annotation, key) for key in (b"T", b"Contents"))
            if said:
                found.append(": ".join(filter(None, ("[comment] " + author, said))))
    return found


def value_of(annotation: Any, key: bytes) -> str:
    """Return a text of an annotation; "" for none."""
    size = raw.FPDFAnnot_GetStringValue(annotation, key, None, 0)
    buffer = ctypes.create_string_buffer(size)
    place = ctypes.cast(buffer, ctypes.POINTER(raw.FPDF_WCHAR))
    raw.FPDFAnnot_GetStringValue(annotation, key, place, size)
    return buffer.raw[: max(0, size - 2)].decode("utf-16-le", "replace").strip()


def has_picture(page: Any) -> bool:
    kinds = (raw.FPDF_PAGEOBJ_IMAGE,)
    return next(iter(page.get_objects(filter=kinds, max_depth=3)), None) is not None
