"""Alternative text for figures."""

from collections.abc import Sequence

from core.plugins.slides.deck import Chart

KINDS = {"column": "Column chart", "bar": "Bar chart", "line": "Line chart", "pie": "Pie chart"}
MOST = 900
BILLION = 1e9
# Units that stand before and after each number; all others stand once, above the chart.
BEFORE, AFTER = frozenset("$€£¥"), frozenset("%‰")


def chart_alt(title: str, chart: Chart) -> str:
    """Return a chart in a sentence: kind, title and all values."""
    rows = []
    unit = chart.unit if chart.unit in {"", "%"} else f" {chart.unit}"
    for series in chart.series:
        values = ", ".join(
            f"{category} {amount(value)}{unit}"
            for category, value in zip(chart.categories, series.values, strict=True)
        )
        rows.append(f"{series.name}: {values}" if series.name else values)
    return f"{KINDS[chart.kind]}: {title}. {'; '.join(rows)}"[:MOST]


def table_alt(title: str, header: Sequence[str], rows: int) -> str:
    named = ", ".join(cell for cell in header if cell)
    return f"Table: {title}. {rows} rows{': ' + named if named else ''}"[:MOST]


def amount(value: float) -> str:
    """Return a number as short as it is exact; no powers of ten below 10^15."""
    return f"{value:,.0f}" if BILLION <= abs(value) < BILLION * 1e6 else f"{value:,.10g}"


def brief(value: float) -> str:
    """Format a large number with its scale, as every language writes it."""
    if abs(value) < BILLION:
        return amount(value)
    billions = value / BILLION
    return f"{billions:,.0f} × 10⁹" if abs(billions) >= 1000 else f"{billions:.4g} × 10⁹"
