"""Lay slides out as pages: everything measured and placed, split where too long."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import assert_never

from core.lib.languages import LANGUAGES
from core.plugins.slides import deck as d
from core.plugins.slides.deck import Deck, Point
from core.plugins.slides.fit import Fitted, fit, heading, points_height, spread
from core.plugins.slides.grids import grids
from core.plugins.slides.measure import clip, height, pitch
from core.plugins.slides.page import Anchor, Element, Page, Plot, Role, Text
from core.plugins.slides.theme import BOXES, INNER, MARGIN, WIDTH, Box, Layout, Shape, mirror_shape
from core.plugins.slides.words import AFTER, BEFORE, chart_alt

BODY_TOP, BODY_ROOM = 138.0, 338.0
BODY_SIZES = (26, 24, 22, 20, 18, 16)
COLUMN_SIZES = (22, 20, 18, 16, 14)
CARD_SIZES = (22, 21, 20, 19, 18, 17, 16, 15, 14)
ASIDE_SIZES = (18, 17, 16, 15, 14, 13)
TITLE_SIZES = (32, 30, 28, 26, 24)
CARD_GAP = 20.0
MARK = 26.0
CARD_LEAST = 230.0
Draft = tuple[Layout, str, list[Element], str]


@dataclass(frozen=True, slots=True)
class CardSizes:
    """Letters of the lead and the text, the lead's height, and the card's (points)."""

    lead: float
    text: float
    under: float
    high: float


def pages(deck: Deck) -> list[Page]:
    """Return all pages of a deck, numbered from 1."""
    rtl = LANGUAGES[deck.language].rtl
    drafts = [draft for slide in deck.slides for draft in drafts_of(slide)]
    made = [
        Page(layout, title, tuple(elements), notes, deck.title, number, rtl)
        for number, (layout, title, elements, notes) in enumerate(drafts, start=1)
    ]
    if not rtl:
        return made
    return [replace(page, elements=tuple(map(flip, page.elements))) for page in made]


def drafts_of(slide: d.Slide) -> list[Draft]:
    """Return the pages of one slide: more than one where its text needs them."""
    match slide:
        case d.TitleSlide():
            return [title_page(slide)]
        case d.ContentsSlide():
            return list(contents_pages(slide))
        case d.SectionSlide():
            return [section_page(slide)]
        case d.BulletsSlide():
            return list(bullets_pages(slide))
        case d.ColumnsSlide():
            return list(columns_pages(slide))
        case d.TableSlide():
            return list(table_pages(slide))
        case d.ChartSlide():
            return list(chart_pages(slide))
        case d.QuoteSlide():
            return [quote_page(slide)]
        case d.ClosingSlide():
            return list(closing_pages(slide))
        case _:
            assert_never(slide)


def flip(element: Element) -> Element:
    """Return an element of a page for a script that runs from right to left."""
    match element:
        case Shape():
            return mirror_shape(element)
        case Text() | Plot():
            return replace(element, x=WIDTH - element.x - element.w)
    return replace(element, x=WIDTH - element.x - sum(element.widths))


def one(text: str) -> tuple[Point, ...]:
    """Return a text as the one paragraph of a box."""
    return (Point(text),)


def headed(
    role: Role, words: str, box: Box, within: tuple[float, float], sizes: Sequence[float],
    *, colour: str = "ink", bold: bool = True, anchor: Anchor = "top",
) -> Text:  # fmt: skip
    """Return ``words`` at the largest of ``sizes`` at which they fit ``within`` (width, height)."""
    text, size, line = heading(words, *within, sizes)
    return Text(role, *box, one(text), size, line, colour=colour, bold=bold, anchor=anchor)


def lined(
    role: Role, words: str, box: Box, size: float, *, colour: str = "ink", bold: bool = False
) -> Text:
    return Text(role, *box, one(words), size, pitch(words, size), colour=colour, bold=bold)


def head(title: str, section: str) -> list[Element]:
    """Return the head of a content page: its title, and the section's name."""
    title_box = headed("title", title, BOXES["content"][0], (INNER, 72), TITLE_SIZES)
    if not section:
        return [title_box]
    name = clip(section, 12, INNER, 1, bold=True)
    box = (MARGIN, 30, INNER, 20)
    return [title_box, lined("eyebrow", name, box, 12, colour="muted", bold=True)]


def title_page(slide: d.TitleSlide) -> Draft:
    """Lay out the title page: a big title on the left, the tiles on the right."""
    box, under = BOXES["title"]
    sizes: Sequence[float] = (50, 46, 42, 38, 34, 30, 26, 22)
    elements: list[Element] = [
        Shape("rect", MARGIN, 64, 56, 9, "coral"),
        headed("title", slide.title, box, (465, 230), sizes, colour="white", anchor="bottom"),
    ]
    if slide.subtitle:
        sizes = (20, 18, 16, 14)
        elements.append(
            headed("subtitle", slide.subtitle, under, (465, 84), sizes, colour="mist", bold=False)
        )
    return "title", slide.title, elements, slide.notes


def contents_pages(slide: d.ContentsSlide) -> Iterator[Draft]:
    """Yield the sections, numbered, beside a dark panel with the heading."""
    box, body = BOXES["contents"]
    title_box = headed("title", slide.title, box, (220, 160), (34, 30, 26, 22, 18), colour="white")
    entries = [Point(entry) for entry in slide.entries]
    first = 1
    for part in spread(entries, 500 - 44, 400, (28, 26, 24, 22, 20, 18, 16)):
        airy = replace(part, gap=min(26.0, gap_between(part)))
        points = replace(listed(airy, body, indent=44), mark="number", anchor="middle", first=first)
        first += len(points.paragraphs)
        yield "contents", slide.title, [title_box, points], ""


def gap_between(part: Fitted) -> float:
    """Return the gap that spreads few entries over a box 400 points high, without filling it."""
    used = points_height(part.points, part.size, 456)
    return part.gap + max(0.0, 400 - used) / (len(part.points) + 1)


def section_page(slide: d.SectionSlide) -> Draft:
    """Lay out a section page: a large number, and the section's title."""
    number, box = f"{slide.number:02d}", BOXES["section"][0]
    elements: list[Element] = [
        lined("number", number, (MARGIN, 96, 300, 120), 96, colour="mustard", bold=True),
        headed("title", slide.title, box, (705, 150), (44, 40, 36, 32, 28, 24), colour="white"),
    ]
    return "section", slide.title, elements, ""


def listed(part: Fitted, box: Box, *, indent: float = MARK, colour: str = "ink") -> Text:
    """Return a box with fitted points, a square before each."""
    return Text(
        "body", *box, part.points, part.size, part.pitch, part.gap, colour,
        mark="square", indent=indent,
    )  # fmt: skip


def several(layout: Layout, slide: d.Body, bodies: Sequence[Sequence[Element]]) -> Iterator[Draft]:
    """Yield the pages of a slide, one a body."""
    for at, body in enumerate(bodies, start=1):
        title = slide.title if len(bodies) == 1 else f"{slide.title} ({at}/{len(bodies)})"
        yield layout, title, [*head(title, slide.section), *body], slide.notes if at == 1 else ""


def bullets_pages(slide: d.BulletsSlide) -> Iterator[Draft]:
    """Lay out points as cards where they are few and have leads, else as a list."""
    if (cards := card_row(slide.points)) is not None:
        return several("content", slide, [cards])
    parts = spread(slide.points, INNER - MARK - 40, BODY_ROOM, BODY_SIZES)
    box = (MARGIN, BODY_TOP, INNER - 40, BODY_ROOM + 4)
    bodies = [[listed(part, box)] for part in parts]
    return several("content", slide, bodies)


def card_row(points: Sequence[Point]) -> list[Element] | None:
    """Lay out two to four points as cards side by side, where all have a lead and fit."""
    count = len(points)
    if count not in {2, 3, 4} or not all(point.lead and point.text for point in points):
        return None
    wide = (INNER - CARD_GAP * (count - 1)) / count
    inner = wide - 40
    tops = [heading(point.lead, inner, 58, (22, 21, 20, 19, 18, 17, 16)) for point in points]
    if any(top != point.lead for (top, _size, _line), point in zip(tops, points, strict=True)):
        return None
    top_size = min(size for _text, size, _line in tops)
    under = max(height(point.lead, top_size, inner, bold=True) for point in points)
    texts = [fit(one(point.text), inner, 252 - under, CARD_SIZES) for point in points]
    if None in texts:
        return None
    size = min(part.size for part in texts if part)
    most = max(points_height(one(point.text), size, inner) for point in points)
    sizes = CardSizes(top_size, size, under, max(CARD_LEAST, 66 + under + 10 + most + 26))
    elements: list[Element] = []
    for at, point in enumerate(points):
        elements += card(point, at, MARGIN + at * (wide + CARD_GAP), wide, sizes)
    return elements


def card(point: Point, at: int, x: float, wide: float, sizes: CardSizes) -> list[Element]:
    """Return one card: a bar in a colour of its own, its number, the lead, the text."""
    colour = ("coral", "teal", "mustard", "plum")[at]
    left, inner, top = x + 20, wide - 40, BODY_TOP + 4
    number = one(f"{at + 1:02d}")
    rest = 66 + sizes.under + 10
    lead = (left, top + 66, inner, sizes.under + 2)
    text = (left, top + rest, inner, sizes.high - rest - 4)
    return [
        Shape("rect", x, top, wide, sizes.high, "white"),
        Shape("rect", x, top, wide, 6, colour),
        Text("number", left, top + 24, inner, 32, number, 20, 26, colour="muted", bold=True),
        lined("text", point.lead, lead, sizes.lead, bold=True),
        lined("text", point.text, text, sizes.text),
    ]


def columns_pages(slide: d.ColumnsSlide) -> Iterator[Draft]:
    """Lay out two lists, each under its heading and a rule of its colour."""
    wide = (INNER - 44) / 2
    parts = [spread(points, wide - MARK, BODY_ROOM - 52, COLUMN_SIZES) for points in slide.columns]
    bodies: list[list[Element]] = []
    for at in range(max(map(len, parts))):
        body: list[Element] = []
        for column, colour in ((0, "coral"), (1, "teal")):
            x = MARGIN + column * (wide + 44)
            top, under = (x, BODY_TOP + 14, wide, 32), (x, BODY_TOP + 56, wide, BODY_ROOM - 48)
            body.append(Shape("rect", x, BODY_TOP, wide, 4, colour))
            body.append(headed("text", slide.headings[column], top, (wide, 30), (20, 18, 16, 14)))
            if at < len(parts[column]):
                body.append(listed(parts[column][at], under))
        bodies.append(body)
    return several("content", slide, bodies)


def table_pages(slide: d.TableSlide) -> Iterator[Draft]:
    """Lay out the table, its rows on as many pages as they need."""
    made = grids(slide.header, slide.rows, slide.title, top=BODY_TOP, room=BODY_ROOM)
    return several("figure", slide, [[grid] for grid in made])


def chart_pages(slide: d.ChartSlide) -> Iterator[Draft]:
    """Lay out the chart with its key message."""
    parts = spread(slide.points, 236 - 18, BODY_ROOM - 8, ASIDE_SIZES) if slide.points else []
    wide = 570.0 if parts else INNER
    alt = chart_alt(slide.title, slide.chart)
    body: list[Element] = []
    top = BODY_TOP + 4
    if slide.chart.unit and slide.chart.unit not in BEFORE | AFTER:
        unit = clip(slide.chart.unit, 13, wide, 1)
        line = pitch(unit, 13)
        body.append(lined("text", unit, (MARGIN, top, wide, line + 2), 13, colour="muted"))
        top += line + 6
    body.append(Plot(MARGIN, top, wide, BODY_TOP + BODY_ROOM + 10 - top, slide.chart, alt))
    if parts:
        body.append(Shape("rect", 654, BODY_TOP + 8, 2, BODY_ROOM - 8, "line"))
        body.append(listed(parts[0], (672, BODY_TOP + 8, 236, BODY_ROOM - 4), indent=18))
    return several("figure", slide, [body])


def quote_page(slide: d.QuoteSlide) -> Draft:
    box, under = BOXES["quote"]
    sizes = (36, 34, 32, 30, 28, 26, 24, 22, 20, 18)
    quote = headed(
        "title", slide.quote, box, (740, 270), sizes, colour="white", bold=False, anchor="middle"
    )
    elements: list[Element] = [
        Shape("quarter", 92, 72, 34, 34, "mustard", 2),
        Shape("quarter", 132, 72, 34, 34, "mustard", 2),
        quote,
    ]
    if slide.by:
        by = clip("— " + slide.by, 18, 740, 1)
        elements.append(lined("subtitle", by, under, 18, colour="mustard"))
    return "quote", slide.quote, elements, ""


def closing_pages(slide: d.ClosingSlide) -> Iterator[Draft]:
    box, body = BOXES["closing"]
    title_box = headed("title", slide.title, box, (705, 100), (40, 36, 32, 28, 24), colour="white")
    parts = spread(slide.points, 705 - MARK, 250, (24, 22, 20, 18, 16)) if slide.points else [None]
    for part in parts:
        elements: list[Element] = [Shape("rect", MARGIN, 56, 56, 9, "coral"), title_box]
        if part is not None:
            elements.append(listed(part, body, colour="white"))
        yield "closing", slide.title, elements, slide.notes
