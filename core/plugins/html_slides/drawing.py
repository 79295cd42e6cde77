"""Charts as SVG text, in points. Every word is measured and escaped."""

import math
from collections.abc import Iterator, Sequence
from html import escape

from core.plugins.slides.deck import Chart
from core.plugins.slides.measure import clip, width
from core.plugins.slides.page import Plot
from core.plugins.slides.texts import writable
from core.plugins.slides.theme import CHART_COLOURS, COLOURS, PIE_COLOURS
from core.plugins.slides.words import AFTER, BEFORE, brief

LETTER = 13.0
LEGEND = 28.0
INK, MUTED, LINE = COLOURS["ink"], COLOURS["muted"], COLOURS["line"]


def svg(plot: Plot, *, rtl: bool) -> str:
    """Return the chart of ``plot`` as one ``<svg>`` with its description as label."""
    drawn = "".join(parts(plot.chart, plot.w, plot.h, rtl=rtl))
    return (
        f'<svg viewBox="0 0 {plot.w:g} {plot.h:g}" role="img" direction="ltr" '
        f'aria-label="{escape(writable(plot.alt))}">{drawn}</svg>'
    )


def parts(chart: Chart, w: float, h: float, *, rtl: bool) -> Iterator[str]:
    """Return all elements of a chart of ``w`` × ``h`` points."""
    if chart.kind == "pie":
        yield from pie(chart, w, h)
        return
    names = [series.name for series in chart.series]
    several = len(chart.series) > 1
    room = h - (LEGEND if several else 0)
    if chart.kind == "bar":
        yield from bars(chart, w, room, rtl=rtl)
    else:
        yield from upright(chart, w, room, rtl=rtl)
    if several:
        yield from legend(names, CHART_COLOURS, w, h)


def words(
    text: str, x: float, y: float, *, anchor: str = "middle", fill: str = INK, bold: bool = False
) -> str:
    """Return a word at a place."""
    weight = ' font-weight="700"' if bold else ""
    return (
        f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" font-size="{LETTER:g}" '
        f'fill="#{fill}"{weight}>{escape(writable(text))}</text>'
    )


def rect(x: float, y: float, w: float, h: float, colour: str) -> str:
    return (
        f'<rect x="{x:.1f}" y="{y:.1f}" width="{w:.1f}" height="{h:.1f}" '
        f'fill="#{COLOURS[colour]}"/>'
    )


def rule(x: float, y: float, to_x: float, to_y: float, colour: str) -> str:
    return (
        f'<line x1="{x:.1f}" y1="{y:.1f}" x2="{to_x:.1f}" y2="{to_y:.1f}" stroke="#{colour}" '
        'stroke-width="1"/>'
    )


def valued(value: float, unit: str) -> str:
    """Format a value with the unit that is written at each number."""
    if unit in BEFORE:
        return unit + brief(value)
    return brief(value) + (unit if unit in AFTER else "")


def span(chart: Chart) -> tuple[float, float, float]:
    """Return the lowest and highest value of the axis, and its step: round numbers, 0 included."""
    values = [value for series in chart.series for value in series.values]
    low, high = min(0.0, *values), max(0.0, *values)
    if high == low:
        return 0.0, 1.0, 1.0
    rough = (high - low) / 5
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(power * times for times in (1, 2, 2.5, 5, 10) if power * times >= rough)
    return math.floor(low / step) * step, math.ceil(high / step) * step, step


def upright(chart: Chart, w: float, h: float, *, rtl: bool) -> Iterator[str]:
    """Draw columns or lines, the categories below them."""
    low, high, step = span(chart)
    axis = chart.kind == "line" and len(chart.series) > 1
    marks = [low + step * at for at in range(round((high - low) / step) + 1)]
    left = max(width(valued(mark, chart.unit), LETTER) for mark in marks) + 10 if axis else 6.0
    top, bottom = 24.0, h - 26
    scale = (bottom - top) / (high - low)
    slot = (w - left - 6) / len(chart.categories)
    centres = [left + slot * (at + 0.5) for at in range(len(chart.categories))]
    if rtl:
        centres = [w - x for x in centres]
    for mark in marks if axis else ():
        y = bottom - (mark - low) * scale
        yield rule(left, y, w - 6, y, LINE) if not rtl else rule(6, y, w - left, y, LINE)
        edge, anchor = (w - left + 6, "start") if rtl else (left - 6, "end")
        yield words(valued(mark, chart.unit), edge, y + 4, anchor=anchor, fill=MUTED)
    zero = bottom + low * scale
    yield rule(min(centres) - slot / 2, zero, max(centres) + slot / 2, zero, MUTED)
    draw = lines if chart.kind == "line" else columns
    yield from draw(chart, centres, slot, zero, scale)
    for category, x in zip(chart.categories, centres, strict=True):
        yield words(clip(category, LETTER, slot - 6, 1), x, h - 6)


def columns(
    chart: Chart, centres: Sequence[float], slot: float, zero: float, scale: float
) -> Iterator[str]:
    """Yield one column per value, its number on top where it fits."""
    wide = min(slot * 0.72 / len(chart.series), 64.0)
    for number, series in enumerate(chart.series):
        for x, value in zip(centres, series.values, strict=True):
            left = x + (number - len(chart.series) / 2) * wide
            high = abs(value) * scale
            yield rect(left, zero - max(0.0, value) * scale, wide - 2, high, CHART_COLOURS[number])
            label = valued(value, chart.unit)
            if width(label, LETTER, bold=True) <= max(wide, slot / len(chart.series)):
                y = zero - value * scale - 6 if value >= 0 else zero + high + 14
                yield words(label, left + wide / 2 - 1, y, bold=True)


def lines(
    chart: Chart, centres: Sequence[float], slot: float, zero: float, scale: float
) -> Iterator[str]:
    """Yield one line a series; its numbers only where it is alone."""
    for series, colour in zip(chart.series, CHART_COLOURS, strict=False):
        dots = [(x, zero - value * scale) for x, value in zip(centres, series.values, strict=True)]
        path = " ".join(f"{x:.1f},{y:.1f}" for x, y in dots)
        yield (
            f'<polyline points="{path}" fill="none" stroke="#{COLOURS[colour]}" stroke-width="3" '
            'stroke-linejoin="round"/>'
        )
        for (x, y), value in zip(dots, series.values, strict=True):
            yield f'<circle cx="{x:.1f}" cy="{y:.1f}" r="4.5" fill="#{COLOURS[colour]}"/>'
            label = valued(value, chart.unit)
            if len(chart.series) == 1 and width(label, LETTER, bold=True) <= slot:
                yield words(label, x, y - 10, bold=True)


def bars(chart: Chart, w: float, h: float, *, rtl: bool) -> Iterator[str]:
    """Draw bars from the top down, long names beside them."""
    low, high, _step = span(chart)
    names = min(w * 0.4, max(width(name, LETTER) for name in chart.categories) + 12)
    numbers = max(
        width(valued(value, chart.unit), LETTER, bold=True)
        for series in chart.series
        for value in series.values
    )
    scale = (w - names - numbers - 16) / (high - low)
    zero = names - low * scale
    slot = h / len(chart.categories)
    thick = min(slot * 0.7 / len(chart.series), 34.0)
    for at, name in enumerate(chart.categories):
        middle = slot * (at + 0.5)
        x, anchor = (w - names + 10, "start") if rtl else (names - 10, "end")
        yield words(clip(name, LETTER, names - 12, 1), x, middle + 4, anchor=anchor)
        for number, series in enumerate(chart.series):
            value = series.values[at]
            long = abs(value) * scale
            left = zero + min(0.0, value) * scale
            y = middle + (number - len(chart.series) / 2) * thick
            yield rect(w - left - long if rtl else left, y, long, thick - 2, CHART_COLOURS[number])
            end, side = (w - left - long - 6, "end") if rtl else (left + long + 6, "start")
            yield words(valued(value, chart.unit), end, y + thick / 2 + 4, anchor=side, bold=True)


def pie(chart: Chart, w: float, h: float) -> Iterator[str]:
    """Yield a ring whose parts carry their numbers."""
    values = chart.series[0].values
    total = sum(values) or 1.0
    radius = min(w, h - LEGEND) / 2 - 6
    x, y = w / 2, (h - LEGEND) / 2
    angle = -math.pi / 2
    for value, colour in zip(values, PIE_COLOURS, strict=False):
        turn = min(value / total, 0.9999) * 2 * math.pi
        yield wedge(x, y, radius, angle, turn, colour)
        if value / total >= 0.05:
            middle = angle + turn / 2
            at_x, at_y = x + math.cos(middle) * radius * 0.79, y + math.sin(middle) * radius * 0.79
            yield words(valued(value, chart.unit), at_x, at_y + 4, fill=COLOURS["white"], bold=True)
        angle += turn
    yield from legend(chart.categories, PIE_COLOURS, w, h)


def wedge(x: float, y: float, radius: float, angle: float, turn: float, colour: str) -> str:
    """Return a part of a ring, from ``angle`` on, ``turn`` wide (radians)."""
    inner = radius * 0.58
    large = int(turn > math.pi)
    (ax, ay), (bx, by) = (
        (x + math.cos(at) * radius, y + math.sin(at) * radius) for at in (angle, angle + turn)
    )
    (cx, cy), (dx, dy) = (
        (x + math.cos(at) * inner, y + math.sin(at) * inner) for at in (angle + turn, angle)
    )
    return (
        f'<path d="M{ax:.1f} {ay:.1f}A{radius:.1f} {radius:.1f} 0 {large} 1 {bx:.1f} {by:.1f}'
        f'L{cx:.1f} {cy:.1f}A{inner:.1f} {inner:.1f} 0 {large} 0 {dx:.1f} {dy:.1f}Z" '
        f'fill="#{COLOURS[colour]}" stroke="#{COLOURS["paper"]}" stroke-width="2"/>'
    )


def legend(names: Sequence[str], colours: Sequence[str], w: float, h: float) -> Iterator[str]:
    """Draw the legend of the colours, in one line below."""
    most = w / len(names) - 30
    labels = [clip(name, LETTER, most, 1) for name in names]
    wides = [width(label, LETTER) + 34 for label in labels]
    x = max(0.0, (w - sum(wides)) / 2)
    for label, wide, colour in zip(labels, wides, colours, strict=False):
        yield rect(x, h - 16, 11, 11, colour)
        yield words(label, x + 17, h - 6, anchor="start")
        x += wide
