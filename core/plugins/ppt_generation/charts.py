"""Native charts and tables: they can be edited, and their numbers are in the file."""

import re
from typing import Any

from pptx.chart.chart import Chart as NativeChart
from pptx.chart.data import CategoryChartData
from pptx.chart.series import LineSeries
from pptx.dml.color import RGBColor
from pptx.enum.chart import (
    XL_CHART_TYPE,
    XL_LABEL_POSITION,
    XL_LEGEND_POSITION,
    XL_MARKER_STYLE,
    XL_TICK_LABEL_POSITION,
)
from pptx.enum.dml import MSO_THEME_COLOR
from pptx.oxml import parse_xml
from pptx.slide import Slide
from pptx.util import Pt

from core.plugins.ppt_generation.drawing import NAMESPACES, SLOTS, alignment, emu, fill, run
from core.plugins.slides.deck import Chart, Point
from core.plugins.slides.grids import PAD_X
from core.plugins.slides.page import Grid, Plot, Text
from core.plugins.slides.texts import writable
from core.plugins.slides.theme import CHART_COLOURS, COLOURS, PIE_COLOURS
from core.plugins.slides.words import AFTER, BEFORE, BILLION

TYPES = {
    "column": XL_CHART_TYPE.COLUMN_CLUSTERED,
    "bar": XL_CHART_TYPE.BAR_CLUSTERED,
    "line": XL_CHART_TYPE.LINE_MARKERS,
    "pie": XL_CHART_TYPE.DOUGHNUT,
}
LABEL_LIMIT = 28
LEAST_ROUNDED = 0.05
ACTIVE = re.compile(r"\{?=|(?:https?|ftps?|mailto|internal|external|file):")
MOST_LABELLED = 12
NO_STYLE = "{2D5ABB26-0587-4C30-8999-92F81FD0307C}"


def add_chart(slide: Slide, plot: Plot, *, rtl: bool) -> None:
    """Add ``plot`` as a native chart with a description."""
    chart = plot.chart
    data = CategoryChartData(number_format=number_format(chart))
    data.categories = [inert(short(category)) for category in chart.categories]
    for series in chart.series:
        data.add_series(inert(short(series.name)), series.values)
    place = (emu(plot.x), emu(plot.y), emu(plot.w), emu(plot.h))
    added = slide.shapes.add_chart(TYPES[chart.kind], *place, data)
    added.element.nvGraphicFramePr.cNvPr.set("descr", writable(plot.alt))
    dress(added.chart, chart, rtl=rtl)


def short(label: str) -> str:
    """Return a label that fits a chart."""
    clean = " ".join(writable(label).split())
    return clean if len(clean) <= LABEL_LIMIT else clean[: LABEL_LIMIT - 1] + "…"


def inert(label: str) -> str:
    """Return ``label`` as a cell that a spreadsheet does not evaluate.

    A chart's numbers are in a workbook of their own, whose writer would turn such texts into
    formulas and links.
    """
    return f"'{label}" if ACTIVE.match(label) else label


def number_format(chart: Chart) -> str:
    """Return Excel's format for the values, with their unit."""
    values = [value for series in chart.series for value in series.values]
    most = max(map(abs, values), default=0)
    if 0 < most < LEAST_ROUNDED:
        digits = "General"  # else they all read 0.0
    elif most >= BILLION:
        digits = '#,##0.0#,,," × 10⁹"'  # each comma at the end is three digits less
    else:
        digits = "#,##0" if all(value == int(value) for value in values) else "#,##0.0#"
    if chart.unit in BEFORE:
        return f'"{chart.unit}"{digits}'
    return f'{digits}"{chart.unit}"' if chart.unit in AFTER else digits


def dress(native: NativeChart, chart: Chart, *, rtl: bool) -> None:
    """Apply our look: few lines, the theme's colours, values where they fit."""
    native.has_title = False
    native.font.size = Pt(13)
    native.font.color.rgb = RGBColor.from_string(COLOURS["ink"])
    several = len(chart.series) > 1 or chart.kind == "pie"
    native.has_legend = several
    if several and native.legend is not None:
        native.legend.position = XL_LEGEND_POSITION.BOTTOM
        native.legend.include_in_layout = False
        native.legend.font.size = Pt(13)
    if chart.kind == "pie":
        dress_pie(native, chart)
    else:
        dress_axes(native, chart, rtl=rtl)
        dress_series(native, chart)


def accent(colour: str) -> MSO_THEME_COLOR:
    """Return a colour of the theme as python-pptx names it."""
    found: MSO_THEME_COLOR = MSO_THEME_COLOR.from_xml(SLOTS[colour])
    return found


def dress_pie(native: NativeChart, chart: Chart) -> None:
    """Give each part its own colour and a label with its share."""
    plot = native.plots[0]
    for at, name in enumerate(PIE_COLOURS[: len(chart.categories)]):
        point = plot.series[0].points[at]
        point.format.fill.solid()
        point.format.fill.fore_color.theme_color = accent(name)
        point.format.line.color.rgb = RGBColor.from_string(COLOURS["paper"])
        point.format.line.width = Pt(2)
    label(plot, chart, size=13)
    for hole in native.element.xpath(".//c:holeSize"):
        hole.set("val", "58")


def dress_axes(native: NativeChart, chart: Chart, *, rtl: bool) -> None:
    """Draw thin grid lines, or none where each value is labelled."""
    values, names = native.value_axis, native.category_axis
    values.has_major_gridlines = not labelled(chart)
    values.visible = not labelled(chart)
    values.format.line.fill.background()
    if values.has_major_gridlines:
        values.major_gridlines.format.line.color.rgb = RGBColor.from_string(COLOURS["line"])
    names.format.line.color.rgb = RGBColor.from_string(COLOURS["muted"])
    names.tick_labels.font.size = Pt(13)
    names.has_major_gridlines = False
    if any(value < 0 for series in chart.series for value in series.values):
        names.tick_label_position = XL_TICK_LABEL_POSITION.LOW  # else they lie on the bars
    # Bars read from above; a script from right to left starts on the right.
    names.reverse_order = chart.kind == "bar" or rtl
    values.reverse_order = chart.kind == "bar" and rtl


def dress_series(native: NativeChart, chart: Chart) -> None:
    """Apply a colour per series, and values where they fit."""
    plot = native.plots[0]
    if chart.kind != "line":
        plot.gap_width = 55
        plot.overlap = -8
    for series, name in zip(plot.series, CHART_COLOURS, strict=False):
        if isinstance(series, LineSeries):
            series.smooth = False
            series.format.line.width = Pt(3)
            series.format.line.color.theme_color = accent(name)
            series.marker.style = XL_MARKER_STYLE.CIRCLE
            series.marker.size = 8
            series.marker.format.fill.solid()
            series.marker.format.fill.fore_color.theme_color = accent(name)
            series.marker.format.line.fill.background()
        else:
            series.format.fill.solid()
            series.format.fill.fore_color.theme_color = accent(name)
            series.invert_if_negative = False
    if labelled(chart):
        label(plot, chart, size=12)


def labelled(chart: Chart) -> bool:
    """Return whether a value fits at each mark."""
    count = len(chart.categories) * len(chart.series)
    if len(chart.series) == 1:
        return True
    return chart.kind != "line" and count <= MOST_LABELLED


def label(plot: Any, chart: Chart, *, size: float) -> None:
    """Label each mark with its value."""
    plot.has_data_labels = True
    labels = plot.data_labels
    labels.show_value = True
    labels.number_format = number_format(chart)
    labels.number_format_is_linked = False
    labels.font.size = Pt(size)
    labels.font.bold = True
    if chart.kind == "line":
        labels.position = XL_LABEL_POSITION.ABOVE
    elif chart.kind == "pie":
        labels.font.color.rgb = RGBColor.from_string(COLOURS["white"])
    else:
        labels.position = XL_LABEL_POSITION.OUTSIDE_END


def add_table(slide: Slide, grid: Grid, *, named: bool, language: str, rtl: bool) -> None:
    """Add ``grid`` as a native table with a description; ``named``: its first row is a header."""
    place = (emu(grid.x), emu(grid.y), emu(sum(grid.widths)), emu(sum(grid.heights)))
    added = slide.shapes.add_table(len(grid.rows), len(grid.widths), *place)
    added.element.nvGraphicFramePr.cNvPr.set("descr", writable(grid.alt))
    table = added.table
    table.first_row, table.horz_banding = named, False
    native = added.element.graphic.graphicData.tbl
    for style in native.tblPr.xpath("./a:tableStyleId"):
        style.text = NO_STYLE
    order = list(range(len(grid.widths)))[:: -1 if rtl else 1]
    for at, column in enumerate(order):
        table.columns[at].width = emu(grid.widths[column])
    for down, row in enumerate(grid.rows):
        table.rows[down].height = emu(grid.heights[down])
        header = named and down == 0
        cells = native.tr_lst[down].tc_lst
        for at, column in enumerate(order):
            words = cell_text(row[column], grid, numeric=grid.numeric[column], header=header)
            write_cell(cells[at], words, header=header, language=language, rtl=rtl)


def cell_text(words: str, grid: Grid, *, numeric: bool, header: bool) -> Text:
    return Text(
        "text", 0, 0, 0, 0, (Point(words),), grid.size, grid.pitch,
        colour="white" if header else "ink", bold=header, align="end" if numeric else "start",
    )  # fmt: skip


def write_cell(cell: Any, text: Text, *, header: bool, language: str, rtl: bool) -> None:
    """Write the words, background and rule of one cell."""
    spacing = f'<a:lnSpc><a:spcPts val="{round(text.pitch * 100)}"/></a:lnSpc>'
    side = alignment(text.align, rtl=rtl, number=text.align == "end" and not header)
    words = run(text.paragraphs[0].text, text, language, bold=text.bold)
    body = parse_xml(
        f"<a:txBody {NAMESPACES}><a:bodyPr/><a:lstStyle/><a:p>"
        f"<a:pPr {side}>{spacing}<a:buNone/></a:pPr>{words}</a:p>"
        "</a:txBody>"
    )
    none = "".join(f"<a:{side}><a:noFill/></a:{side}>" for side in ("lnL", "lnR", "lnT"))
    rule = f'<a:lnB w="9525">{fill("line")}</a:lnB>'
    ground = fill("night") if header else "<a:noFill/>"
    properties = parse_xml(
        f'<a:tcPr {NAMESPACES} marL="{emu(PAD_X)}" marR="{emu(PAD_X)}" marT="{emu(4)}" '
        f'marB="{emu(4)}" anchor="ctr">{none}{rule}{ground}</a:tcPr>'
    )
    for old in list(cell):
        cell.remove(old)
    cell.append(body)
    cell.append(properties)
