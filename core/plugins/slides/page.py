"""A page: a slide with all positions, independent of a file format."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from core.plugins.slides.deck import Chart, Point
from core.plugins.slides.measure import clip
from core.plugins.slides.theme import (
    FOOT_HEIGHT,
    FOOT_SIZE,
    FOOT_Y,
    NUMBER_WIDTH,
    WIDTH,
    Layout,
    Shape,
    foot,
)

Role = Literal["title", "subtitle", "body", "text", "eyebrow", "number"]
Align = Literal["start", "center", "end"]
Anchor = Literal["top", "middle", "bottom"]


@dataclass(frozen=True, slots=True)
class Text:
    """A box of paragraphs, measured to fit. Points; ``pitch`` is the distance of its lines.

    ``mark``: before each paragraph: nothing, a square, or its number from ``first`` on.
    """

    role: Role
    x: float
    y: float
    w: float
    h: float
    paragraphs: Sequence[Point]
    size: float
    pitch: float
    gap: float = 0
    colour: str = "ink"
    bold: bool = False
    align: Align = "start"
    anchor: Anchor = "top"
    mark: Literal["", "square", "number"] = ""
    indent: float = 0
    first: int = 1


@dataclass(frozen=True, slots=True)
class Grid:
    """A table; ``named``: its first row is a header. Widths and heights in points."""

    x: float
    y: float
    widths: Sequence[float]
    heights: Sequence[float]
    rows: Sequence[Sequence[str]]
    numeric: Sequence[bool]
    size: float
    pitch: float
    alt: str
    named: bool


@dataclass(frozen=True, slots=True)
class Plot:
    """A chart in its box, with its alternative text."""

    x: float
    y: float
    w: float
    h: float
    chart: Chart
    alt: str


Element = Text | Grid | Plot | Shape


@dataclass(frozen=True, slots=True)
class Page:
    """One page. ``elements`` from the back to the front, without the layout's own decor."""

    layout: Layout
    title: str
    elements: Sequence[Element]
    notes: str
    footer: str
    number: int
    rtl: bool


def foot_texts(layout: Layout, footer: str, number: str, *, rtl: bool) -> list[Text]:
    """Return the footer and the page number of a layout; nothing for one without."""
    place = foot(layout)
    if place is None:
        return []
    number_side: Align = "start" if place.number_x < place.x else "end"
    words = clip(footer, FOOT_SIZE, place.w, 1)
    boxes: tuple[tuple[float, float, str, Align, bool], ...] = (
        (place.x, place.w, words, "start", False),
        (place.number_x, NUMBER_WIDTH, number, number_side, True),
    )
    return [
        Text(
            "eyebrow", WIDTH - x - w if rtl else x, FOOT_Y, w, FOOT_HEIGHT, (Point(words),),
            FOOT_SIZE, FOOT_HEIGHT, colour=place.colour, bold=bold, align=side, anchor="middle",
        )
        for x, w, words, side, bold in boxes
    ]  # fmt: skip
