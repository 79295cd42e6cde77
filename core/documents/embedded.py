"""Texts of Office documents that are in parts of their own: notes, comments, headers, charts and
diagrams. ECMA-376 part 1, chapters 17 and 21.
"""

from collections.abc import Iterator
from typing import Any

from lxml import etree

from core.documents import numbering, word
from core.documents.word import DRAWING, WORD

CHART = "{http://schemas.openxmlformats.org/drawingml/2006/chart}"
DIAGRAM = "{http://schemas.openxmlformats.org/drawingml/2006/diagram}"
RELATION = "{http://schemas.openxmlformats.org/officeDocument/2006/relationships}"
# Elements that stand for a part, with the attribute that names it.
DRAWN = {f"{CHART}chart": f"{RELATION}id", f"{DIAGRAM}relIds": f"{RELATION}dm"}
NOTES = ("footnote", "endnote", "comment")
MARGINS = ("header", "footer")
MOST_POINTS = 500  # of a chart

Pair = tuple[str, str]


def parsed(content: bytes) -> Any:
    """Return the root of an XML part; an empty one for a broken part: the rest can be read."""
    parser = etree.XMLParser(resolve_entities=False, no_network=True, recover=True)
    root = etree.fromstring(content or b"<none/>", parser)
    return etree.Element("none") if root is None else root


def parts_of(owner: Any, kind: str) -> Iterator[Any]:
    """Yield the roots of the parts of a ``kind`` ("footnotes", "header") that ``owner`` names."""
    for relation in owner.rels.values():
        if not relation.is_external and relation.reltype.rpartition("/")[2] == kind:
            yield root_of(relation.target_part)


def root_of(part: Any) -> Any:
    """Return the root of an XML part, as python-docx has parsed it, or parsed here."""
    found = getattr(part, "element", None)
    return parsed(part.blob) if found is None else found


def beside(document: Any) -> list[Pair]:
    """Put into the text of a Word document the numbers of its lists, a mark for each note and
    comment, and the numbers of each chart; return the notes and comments, and what stands at the
    edge of the pages.
    """
    body, owner = document.element.body, document.part
    counter = numbering.counter_of(parts_of(owner, "numbering"), parts_of(owner, "styles"))
    numbering.write_numbers(body, counter)
    for element in list(body.iter(*DRAWN)):
        write(element, "\n".join(["", *lines_of(element, owner)]))
    found = [notes(owner, body, kind) for kind in NOTES]
    for kind in MARGINS:
        texts = ("\n".join(word.lines_of(root)).strip() for root in parts_of(owner, kind))
        found.append((f"page {kind}", "\n".join(dict.fromkeys(texts))))
    return [pair for pair in found if pair[1].strip()]


def notes(owner: Any, body: Any, kind: str) -> Pair:
    """Number the notes of a ``kind`` as a reader sees them: in the order of the text."""
    known = {note.get(f"{WORD}id"): note for root in parts_of(owner, f"{kind}s") for note in root}
    lines: list[str] = []
    for reference in list(body.iter(f"{WORD}{kind}Reference")):
        note = known.get(reference.get(f"{WORD}id"))
        if note is not None:
            mark = f"[{kind} {len(lines) + 1}]"
            author = note.get(f"{WORD}author", "")
            said = "\n".join(word.lines_of(note)).strip()
            lines.append(" ".join(filter(None, (mark, f"{author}:" if author else "", said))))
            write(reference, mark)
    return f"{kind}s", "\n".join(lines)


def write(element: Any, text: str) -> None:
    """Put ``text`` in place of an element, as a text of Word's."""
    element.tag, element.text = f"{WORD}t", text


def lines_of(element: Any, owner: Any) -> list[str]:
    """Return the texts of the chart or diagram for which an element of ``owner`` stands."""
    relation = owner.rels.get(element.get(DRAWN[element.tag]))
    if relation is None or relation.is_external:
        return []
    root = root_of(relation.target_part)
    if element.tag == f"{CHART}chart":
        return chart_lines(root)
    return [text for each in root.iter(f"{DRAWING}p") if (text := word.text_of(each).strip())]


def chart_lines(root: Any) -> list[str]:
    """Return a chart as a table: its categories against its series."""
    title = "".join(
        each.text or ""
        for found in root.iterfind(f"{CHART}chart/{CHART}title")
        for each in found.iter(f"{DRAWING}t")
    )
    series = list(root.iter(f"{CHART}ser"))
    names = [" ".join(points(each, "tx").values()) for each in series]
    categories = points(series[0], "cat", "xVal") if series else {}
    columns = [points(each, "val", "yVal") for each in series]
    places = sorted({place for each in (categories, *columns) for place in each})[:MOST_POINTS]
    rows = [
        " | ".join((categories.get(place, ""), *(each.get(place, "") for each in columns)))
        for place in places
    ]
    head = [" | ".join(("", *names))] if any(names) else []
    return [f"Chart: {title}".rstrip(": "), *head, *rows]


def points(series: Any, *names: str) -> dict[int, str]:
    """Return the values of a part of a series, by their places."""
    return {
        place: point.findtext(f"{CHART}v") or ""
        for name in names
        for found in series.iterfind(f"{CHART}{name}")
        for point in reversed(list(found.iter(f"{CHART}pt")))  # of several levels the first
        if (place := numbering.whole(point.get("idx", "0"), -1)) >= 0
    }
