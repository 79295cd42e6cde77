"""A deck as content, without layout."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

ChartKind = Literal["column", "bar", "line", "pie"]


@dataclass(frozen=True, slots=True)
class Point:
    """One point of a list: a short ``lead`` (may be empty) and its ``text`` (may be empty)."""

    text: str
    lead: str = ""


@dataclass(frozen=True, slots=True)
class Series:
    """One row of numbers of a chart, as many as the chart has categories."""

    name: str
    values: Sequence[float]


@dataclass(frozen=True, slots=True)
class Chart:
    """Numbers of the source as a chart. ``unit`` ("%", "TWh") may be empty."""

    kind: ChartKind
    categories: Sequence[str]
    series: Sequence[Series]
    unit: str = ""


@dataclass(frozen=True, slots=True)
class TitleSlide:
    title: str
    subtitle: str = ""
    notes: str = ""


@dataclass(frozen=True, slots=True)
class ContentsSlide:
    """The sections of the deck, numbered."""

    title: str
    entries: Sequence[str]


@dataclass(frozen=True, slots=True)
class SectionSlide:
    """The start of section ``number`` (from 1)."""

    title: str
    number: int


@dataclass(frozen=True, slots=True)
class BulletsSlide:
    title: str
    points: Sequence[Point]
    section: str = ""
    notes: str = ""


@dataclass(frozen=True, slots=True)
class ColumnsSlide:
    """Two lists beside each other, each with a heading."""

    title: str
    headings: tuple[str, str]
    columns: tuple[Sequence[Point], Sequence[Point]]
    section: str = ""
    notes: str = ""


@dataclass(frozen=True, slots=True)
class TableSlide:
    """A table; every row has as many cells as ``header``."""

    title: str
    header: Sequence[str]
    rows: Sequence[Sequence[str]]
    section: str = ""
    notes: str = ""


@dataclass(frozen=True, slots=True)
class ChartSlide:
    """A chart with its key message."""

    title: str
    chart: Chart
    points: Sequence[Point] = ()
    section: str = ""
    notes: str = ""


@dataclass(frozen=True, slots=True)
class QuoteSlide:
    """A literal quotation of the source; ``by`` may be empty."""

    quote: str
    by: str = ""


@dataclass(frozen=True, slots=True)
class ClosingSlide:
    """The last slide: conclusions."""

    title: str
    points: Sequence[Point] = ()
    notes: str = ""


Body = BulletsSlide | ColumnsSlide | TableSlide | ChartSlide
Slide = TitleSlide | ContentsSlide | SectionSlide | Body | QuoteSlide | ClosingSlide


def points_of(slide: Slide) -> list[Point]:
    match slide:
        case BulletsSlide() | ChartSlide() | ClosingSlide():
            return list(slide.points)
        case ColumnsSlide():
            return [*slide.columns[0], *slide.columns[1]]
    return []


@dataclass(frozen=True, slots=True)
class Deck:
    """A whole presentation in one ``language`` (a BCP 47 tag)."""

    title: str
    language: str
    slides: Sequence[Slide]
