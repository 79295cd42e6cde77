"""[L1] A real .pptx: read back as another program would."""

import re
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pptx import Presentation
from pptx.enum.chart import XL_CHART_TYPE, XL_TICK_LABEL_POSITION
from pptx.util import Pt

from core.plugins.ppt_generation.pptx_file import save
from core.plugins.slides import layout
from core.plugins.slides.deck import (
    BulletsSlide,
    Chart,
    ChartSlide,
    ContentsSlide,
    Deck,
    Point,
    Series,
    TableSlide,
)
from tests.core.plugins.decks import ARABIC, CHINESE, DECKS, ENGLISH


def opened(deck: Deck, folder: Path) -> Any:
    """Return ``deck`` written and read again by python-pptx."""
    path = folder / "deck.pptx"
    save(layout.pages(deck), title=deck.title, language=deck.language, path=path)
    return Presentation(str(path))


@pytest.fixture(scope="module")
def english(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """Return the English deck as a file that was read again."""
    return opened(ENGLISH, tmp_path_factory.mktemp("deck"))


def shapes(file: Any) -> Iterator[Any]:
    """Return all shapes of all slides."""
    for slide in file.slides:
        yield from slide.shapes


def test_the_slides_are_16_to_9(english: Any) -> None:
    """960 × 540 points, and nothing of the library's 4:3 template is left."""
    assert "type" not in english.element.xpath("./p:sldSz")[0].attrib
    names = {str(part.partname) for part in english.part.package.iter_parts()}
    assert not any("thumbnail" in name or "printer" in name for name in names)
    assert (english.slide_width, english.slide_height) == (Pt(960), Pt(540))


def test_every_slide_has_a_title_that_a_screen_reader_finds(english: Any) -> None:
    """Title placeholders, not mere boxes."""
    titles = [slide.shapes.title.text_frame.text for slide in english.slides]
    assert titles[0] == "Renewable energy in Europe"
    assert titles[4] == "Solar is catching up with coal"
    assert all(titles)


def test_texts_stand_in_the_layouts_placeholders(english: Any) -> None:
    """So the outline view shows them and another theme can move them."""
    (body,) = [
        shape for shape in english.slides[9].placeholders if shape.placeholder_format.idx == 1
    ]
    assert body.text_frame.paragraphs[2].text == "Meters that tell a car when power is cheap."


def test_each_kind_of_slide_has_its_layout_in_our_theme(english: Any, tmp_path: Path) -> None:
    """A designed theme of our own."""
    names = [slide.slide_layout.name for slide in english.slides]
    assert names[:4] == ["Title", "Contents", "Section", "Title and text"]
    assert names[-2:] == ["Quote", "Closing"]
    assert len(english.slide_layouts) == 7
    english.save(str(tmp_path / "again.pptx"))
    with zipfile.ZipFile(tmp_path / "again.pptx") as archive:
        theme = archive.read("ppt/theme/theme1.xml").decode()
    assert 'name="Latchkey"' in theme
    assert 'val="E2583E"' in theme


def test_the_speakers_notes_are_in_the_file(english: Any) -> None:
    """[L1] notes."""
    assert english.slides[0].notes_slide.notes_text_frame.text == "Welcome everybody."
    assert english.slides[3].notes_slide.notes_text_frame.text == "Say the three names."


def test_pages_are_numbered_by_fields(english: Any) -> None:
    """So that they stay right when slides are moved; none on the title."""
    for number, slide in enumerate(english.slides, start=1):
        fields = slide.element.xpath(".//a:fld[@type='slidenum']//a:t")
        assert len(fields) == (number > 1)


def test_charts_are_native_and_hold_the_numbers(english: Any) -> None:
    """[L1] a chart where the source has numbers."""
    line, pie = [shape.chart for shape in shapes(english) if shape.has_chart]
    assert line.chart_type == XL_CHART_TYPE.LINE_MARKERS
    assert list(line.plots[0].categories) == ["2018", "2019", "2020", "2021", "2022", "2023"]
    assert list(line.plots[0].series[0].values) == [120, 132, 145, 164, 205, 246]
    assert pie.chart_type == XL_CHART_TYPE.DOUGHNUT
    assert list(pie.plots[0].series[0].values) == [18, 9, 12, 23, 38]


def test_tables_are_native_with_a_header_row(english: Any) -> None:
    """[L1] a table."""
    (table,) = [shape.table for shape in shapes(english) if shape.has_table]
    assert table.first_row
    assert table.cell(0, 0).text == "Source"
    assert [cell.text for cell in table.rows[5].cells] == ["Nuclear", "7,900", "11", "16.5"]


def test_figures_have_alt_text_and_adornment_is_marked_as_such(english: Any) -> None:
    """Screen readers get a description of each picture."""
    figures = [shape for shape in shapes(english) if shape.has_chart or shape.has_table]
    alts = [figure.element.nvGraphicFramePr.cNvPr.get("descr") for figure in figures]
    assert alts[0].startswith("Line chart: Solar is catching up with coal. Solar: 2018 120 TWh")
    assert alts[2].startswith("Table: Costs of a new plant. 5 rows: Source, Euro per kW")
    for shape in shapes(english):
        if not (shape.has_text_frame and shape.text_frame.text) and shape not in figures:
            decorative = "decorative" in repr([node.tag for node in shape.element.iter()])
            assert decorative or shape.has_chart or shape.has_table


def test_arabic_runs_from_right_to_left(tmp_path: Path) -> None:
    """rtl, right-aligned, mirrored, first column on the right."""
    file = opened(ARABIC, tmp_path)
    for paragraph in file.slides[6].element.xpath(".//a:p[a:r]/a:pPr"):
        assert paragraph.get("rtl") == "1"
    title = file.slides[6].shapes.title
    assert title.text_frame.paragraphs[0]._p.pPr.get("algn") == "r"
    (table,) = [shape.table for shape in shapes(file) if shape.has_table]
    assert [cell.text for cell in table.rows[1].cells] == ["1", "600", "محطة شمسية"]
    (chart,) = [shape for shape in shapes(file) if shape.has_chart]
    assert chart.left > Pt(300)
    assert chart.chart.category_axis.reverse_order


def test_bars_of_arabic_begin_on_the_right(tmp_path: Path) -> None:
    chart = ChartSlide("رسم", Chart("bar", ["السعودية", "مصر"], [Series("", [10, 5])], "%"))
    file = opened(Deck("ع", "ar-SA", [chart]), tmp_path)
    (found,) = [shape.chart for shape in shapes(file) if shape.has_chart]
    assert found.value_axis.reverse_order


def test_numbers_of_a_table_run_from_left_to_right_in_every_script(tmp_path: Path) -> None:
    """A minus sign behind its number is another number; the words beside it stay as they are."""
    rows = [["رياح", "-1,400"], ["غاز", "900"]]
    file = opened(Deck("ع", "ar-SA", [TableSlide("جدول", ["المصدر", "يورو"], rows)]), tmp_path)
    (table,) = [shape.table for shape in shapes(file) if shape.has_table]
    sides = [
        [(side.get("rtl"), side.get("algn")) for side in row._tr.xpath(".//a:pPr")]
        for row in table.rows
    ]
    assert sides == [[("1", "l"), ("1", "r")], [("0", "l"), ("1", "r")], [("0", "l"), ("1", "r")]]


def test_names_of_bars_below_nought_stand_beside_them_and_small_values_are_not_nought(
    tmp_path: Path,
) -> None:
    """[L1] a chart that can be read."""
    charts = [
        ChartSlide("a", Chart("bar", ["x", "y"], [Series("", [-0.0012, 0.004])])),
        ChartSlide("b", Chart("bar", ["x", "y"], [Series("", [1.25, 4])])),
        ChartSlide("c", Chart("bar", ["x", "y"], [Series("", [27_360_935_000_000, 4e9])], "$")),
    ]
    file = opened(Deck("n", "en-US", charts), tmp_path)
    small, usual, huge = [shape.chart for shape in shapes(file) if shape.has_chart]
    assert small.category_axis.tick_label_position == XL_TICK_LABEL_POSITION.LOW
    assert usual.category_axis.tick_label_position == XL_TICK_LABEL_POSITION.NEXT_TO_AXIS
    formats = [chart.plots[0].data_labels.number_format for chart in (small, usual, huge)]
    assert formats == ["General", "#,##0.0#", '"$"#,##0.0#,,," × 10⁹"']


def test_contents_on_two_pages_are_numbered_on(tmp_path: Path) -> None:
    """[L1] Found by looking at a deck of twenty sections."""
    entries = [f"Section {at} about something of note" for at in range(1, 21)]
    file = opened(Deck("n", "en-US", [ContentsSlide("Contents", entries)]), tmp_path)
    starts = [
        {each.get("startAt") for each in slide.element.xpath(".//a:buAutoNum")}
        for slide in file.slides
    ]
    first = len(file.slides[0].element.xpath(".//a:buAutoNum"))
    assert starts == [{"1"}, {str(first + 1)}]


def test_chinese_has_its_own_face_and_language(tmp_path: Path) -> None:
    """The right signs for the language, and spelling checked in it."""
    file = opened(CHINESE, tmp_path)
    runs = file.slides[3].element.xpath(".//a:rPr")
    assert {run.get("lang") for run in runs} == {"zh-CN"}
    with zipfile.ZipFile(tmp_path / "deck.pptx") as archive:
        assert '<a:ea typeface="Microsoft YaHei"/>' in archive.read("ppt/theme/theme1.xml").decode()


@pytest.mark.parametrize("name", DECKS)
def test_every_part_is_well_formed_and_no_shape_number_is_used_twice(
    tmp_path: Path, name: str
) -> None:
    """PowerPoint repairs files whose ids repeat."""
    file = opened(DECKS[name], tmp_path)
    for part in (*file.slides, *file.slide_layouts, file.slide_master):
        ids = part.element.xpath(".//p:cNvPr/@id")
        assert len(ids) == len(set(ids))


def test_hostile_text_stays_text(tmp_path: Path) -> None:
    """Markup and control characters of a model."""
    text = "</a:t><evil/>&amp; \x00\x0b\ud800 <b>"
    file = opened(Deck(text, "en-US", [BulletsSlide(text, [Point(text, text)])]), tmp_path)
    shown = file.slides[0].shapes.title.text_frame.text
    assert re.sub(r"\s+", " ", shown) == "</a:t><evil/>&amp; \ufffd <b>"
    assert file.slides[0].element.xpath(".//*[local-name()='evil']") == []
