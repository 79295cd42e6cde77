"""[L1] Text always fits: in any deck, every box holds its text, by measurement."""

from pathlib import Path
from typing import get_args

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pptx import Presentation

from core.plugins.html_slides.html_file import document
from core.plugins.ppt_generation.pptx_file import save
from core.plugins.slides import deck as d
from core.plugins.slides import layout
from core.plugins.slides.deck import Deck, Point
from core.plugins.slides.fit import whole
from core.plugins.slides.grids import PAD_X
from core.plugins.slides.measure import wrap
from core.plugins.slides.page import Grid, Page, Plot, Text, foot_texts
from core.plugins.slides.theme import HEIGHT, WIDTH
from tests.core.plugins.decks import DECKS

NASTY = (
    "W" * 500,
    "数据分散在各家医院，" * 40,
    "الطاقة الشمسية أرخص مصادر الكهرباء " * 20,
    "👩‍👩‍👧‍👦🏳️‍🌈" * 60,
    "a\x00b\x0bc\x1b[31m\ufffe\uffff",
    "lone \ud800 and \udfff surrogates",
    "\u202eright to left override\u202c <script>&amp;",
    "e" + "\u0301" * 200,
    "ที่นี่มีข้อความยาวโดยไม่มีช่องว่าง" * 15,
    "नवीकरणीय ऊर्जा स्रोत " * 20,
    "",
    " ",
)
TEXTS = st.one_of(
    st.sampled_from(NASTY),
    st.text(st.characters(), max_size=120),
    st.text(st.characters(), max_size=20),
)
POINTS = st.lists(st.builds(Point, text=TEXTS, lead=TEXTS), min_size=1, max_size=7)
NUMBERS = st.floats(-1e9, 1e9, allow_nan=False).map(lambda value: round(value, 2))


@st.composite
def charts(draw: st.DrawFn) -> d.Chart:
    """Generate charts of any names and numbers."""
    count = draw(st.integers(3, 6))
    series = [
        d.Series(draw(TEXTS), draw(st.lists(NUMBERS, min_size=count, max_size=count)))
        for _number in range(draw(st.integers(1, 3)))
    ]
    kind: d.ChartKind = draw(st.sampled_from(get_args(d.ChartKind)))
    names = [draw(TEXTS) for _at in range(count)]
    return d.Chart(kind, names, series, draw(st.sampled_from(["", "%", "$", "TWh"])))


@st.composite
def tables(draw: st.DrawFn) -> d.TableSlide:
    """Generate tables of any words."""
    count = draw(st.integers(2, 6))
    row = st.lists(TEXTS, min_size=count, max_size=count)
    return d.TableSlide(draw(TEXTS), draw(row), draw(st.lists(row, min_size=1, max_size=12)))


SLIDES = st.one_of(
    st.builds(d.TitleSlide, TEXTS, TEXTS, TEXTS),
    st.builds(d.ContentsSlide, TEXTS, st.lists(TEXTS, min_size=1, max_size=8)),
    st.builds(d.SectionSlide, TEXTS, st.integers(1, 12)),
    st.builds(d.BulletsSlide, TEXTS, POINTS, TEXTS, TEXTS),
    st.builds(d.ColumnsSlide, TEXTS, st.tuples(TEXTS, TEXTS), st.tuples(POINTS, POINTS)),
    tables(),
    st.builds(d.ChartSlide, TEXTS, charts(), st.lists(st.builds(Point, TEXTS), max_size=2)),
    st.builds(d.QuoteSlide, TEXTS, TEXTS),
    st.builds(d.ClosingSlide, TEXTS, POINTS),
)
ANY_DECK = st.builds(
    Deck, TEXTS, st.sampled_from(["en-US", "zh-CN", "ar-SA"]), st.lists(SLIDES, max_size=3)
)
PATIENT = (HealthCheck.too_slow, HealthCheck.function_scoped_fixture, HealthCheck.data_too_large)


def assert_fits(page: Page) -> None:
    """Assert that every box is on the page and holds its lines."""
    for element in page.elements:
        match element:
            case Text():
                inside = element.w - element.indent
                lines = sum(
                    len(wrap(whole(p), element.size, inside, bold=element.bold))
                    for p in element.paragraphs
                )
                gaps = element.gap * (len(element.paragraphs) - 1)
                assert lines * element.pitch + gaps <= element.h + 0.5, element
                assert_inside(element.x, element.y, element.w, element.h)
            case Grid():
                assert_inside(element.x, element.y, sum(element.widths), sum(element.heights))
                for row, high in zip(element.rows, element.heights, strict=True):
                    for cell, wide in zip(row, element.widths, strict=True):
                        lines = len(wrap(cell, element.size, wide - 2 * PAD_X, bold=True))
                        assert lines * element.pitch <= high + 0.5, cell
            case Plot():
                assert_inside(element.x, element.y, element.w, element.h)


def assert_inside(x: float, y: float, w: float, h: float) -> None:
    """Assert that a box is on the page."""
    assert x >= -0.01
    assert y >= 0
    assert x + w <= WIDTH + 0.01
    assert y + h <= HEIGHT + 0.01


@settings(max_examples=80, suppress_health_check=PATIENT)
@given(ANY_DECK)
def test_every_text_of_any_deck_fits_its_box(deck: Deck) -> None:
    """[L1]"""
    for page in layout.pages(deck):
        assert_fits(page)


@settings(max_examples=25, suppress_health_check=PATIENT)
@given(ANY_DECK)
def test_any_deck_becomes_both_files(tmp_path: Path, deck: Deck) -> None:
    """No text can break a file: controls, surrogates, markup."""
    pages = layout.pages(deck)
    save(pages, title=deck.title, language=deck.language, path=tmp_path / "any.pptx")
    assert len(Presentation(str(tmp_path / "any.pptx")).slides) == len(pages)
    html = document(pages, title=deck.title, language=deck.language)
    assert html.encode().count(b'<section class="slide"') == len(pages)


def test_the_footer_of_every_page_is_one_line() -> None:
    """That of the contents has less space than others."""
    slides: list[d.Slide] = [
        d.ContentsSlide("Contents", ["One", "Two"]),
        d.BulletsSlide("One", [Point("a")]),
    ]
    for page in layout.pages(Deck("A practical guide for all of us " * 5, "en-US", slides)):
        for text in foot_texts(page.layout, page.footer, "2", rtl=page.rtl):
            assert len(wrap(text.paragraphs[0].text, text.size, text.w)) == 1


@pytest.mark.parametrize("name", DECKS)
def test_the_decks_of_the_pictures_fit(name: str) -> None:
    """English, Chinese, Arabic."""
    for page in layout.pages(DECKS[name]):
        assert_fits(page)


def test_too_many_points_go_on_further_slides_and_none_is_lost() -> None:
    """Split, not shrunk to nothing."""
    points = [Point(f"Point {at} says more than one line holds. " * 3) for at in range(30)]
    pages = layout.pages(Deck("Deck", "en-US", [d.BulletsSlide("Long", points)]))
    count = len(pages)
    assert [page.title for page in pages] == [f"Long ({at}/{count})" for at in range(1, count + 1)]
    boxes = [element for page in pages for element in page.elements if isinstance(element, Text)]
    bodies = [box for box in boxes if box.role == "body"]
    assert [point for box in bodies for point in box.paragraphs] == points
    assert min(box.size for box in bodies) >= 16


def test_a_long_table_repeats_its_header_on_each_page() -> None:
    """[L1]"""
    rows = [[f"Row {at}", "with words " * 6, str(at)] for at in range(40)]
    pages = layout.pages(Deck("Deck", "en-US", [d.TableSlide("Table", ["A", "B", "C"], rows)]))
    grids = [element for page in pages for element in page.elements if isinstance(element, Grid)]
    assert len(grids) > 1
    assert all(list(grid.rows[0]) == ["A", "B", "C"] for grid in grids)
    assert [row[0] for grid in grids for row in grid.rows[1:]] == [row[0] for row in rows]
