"""[L1] Numbers are found in the source, and read as they were written."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.plugins.slides import figures


@pytest.mark.parametrize(
    ("cell", "value", "unit"),
    [
        ("1,234.5 TWh", 1234.5, "TWh"),
        ("1.234,5 €", 1234.5, "€"),
        ("12,5 %", 12.5, "%"),
        ("0,125", 0.125, ""),
        ("1,400", 1400, ""),
        ("1 400", 1400, ""),
        ("-3.2", -3.2, ""),
        ("−3", -3, ""),
        ("$5", 5, "$"),
        ("١٢٫٥ ٪", 12.5, "%"),
        ("４２％", 42, "%"),
    ],
)
def test_a_number_is_read_with_its_unit(cell: str, value: float, unit: str) -> None:
    """Thousands and decimals in either manner."""
    assert figures.number(cell) == (value, unit)


@pytest.mark.parametrize(
    ("text", "rates", "values"),
    [
        (
            "What the euro cost in dollars, as of this year:",
            ("1.085", "1.092", "1.101"),
            (1.085, 1.101),
        ),
        ("Sold in the shop and on the road:", ("1,085", "1,092", "1,101"), (1085, 1101)),
        (
            "Was der Liter in diesem Jahr und im letzten kostete:",
            ("1,789", "1,654", "1,7"),
            (1.789, 1.7),
        ),
        ("Die Zahl der Gäste und der Nächte:", ("1.789", "1.654", "2.001"), (1789, 2001)),
        ("", ("1.789", "1.654", "12.345.678"), (1789, 12345678)),
        ("", ("1.789", "1.654", "0.123"), (1.789, 0.123)),
    ],
)
def test_three_decimals_are_not_thousands(
    text: str, rates: tuple[str, ...], values: tuple[float, float]
) -> None:
    """The other numbers of the table tell it, else the language of the text."""
    rows = "\n".join(f"| {month} | {rate} |" for month, rate in zip("abc", rates, strict=True))
    (figure,) = figures.find([("", f"{text}\n\n| x | y |\n|---|---|\n{rows}\n")])
    assert figure.chart is not None
    found = figure.chart.series[0].values
    assert (found[0], found[-1]) == values


@pytest.mark.parametrize(
    ("reference", "value"), [("sheet Gäste rows 1-4", 1.789), ("section Balance sheet 2024", 1789)]
)
def test_only_cells_of_a_workbook_have_a_point_in_every_language(
    reference: str, value: float
) -> None:
    """Not those of a page that speaks of a sheet."""
    rows = "\n".join(f"{each} | {number}" for each, number in (("a", "1.789"), ("b", "1.654")))
    text = f"Die Zahl der Gäste und der Nächte:\n\nx | y\n{rows}\nc | 2.001\n"
    (figure,) = figures.find([(reference, text)])
    assert figure.chart is not None
    assert figure.chart.series[0].values[0] == value


@pytest.mark.parametrize("cell", ["", "n/a", "12 to 15", "page 3", "1-2-3", "§4"])
def test_invalid_numbers_are_none(cell: str) -> None:
    """Not guessed."""
    assert figures.number(cell) is None


def test_sentences_with_a_series_of_years_become_a_line() -> None:
    """Inline numbers."""
    text = "In 2019 it made 12 TWh, in 2020 15 TWh, in 2021 18 TWh and in 2022 25 TWh."
    (figure,) = figures.find([("page 2", text)])
    assert figure.chart is not None
    assert (figure.chart.kind, figure.chart.unit) == ("line", "TWh")
    assert list(figure.chart.series[0].values) == [12, 15, 18, 25]


def test_mixed_units_make_no_chart() -> None:
    """Kilograms and percent have no common axis."""
    (figure,) = figures.find([("", "| a | b |\n|---|---|\n| x | 3 kg |\n| y | 4 % |\n| z | 5 m |")])
    assert figure.chart is None


@given(st.text(alphabet=st.sampled_from("|-:\t\n 12,.%ab“”—'é中م"), max_size=400))
def test_any_text_can_be_searched(text: str) -> None:
    """Never raises."""
    for figure in figures.find([("", text)]):
        assert all(len(row) == len(figure.header) for row in figure.rows)
    figures.quote(text)


@pytest.mark.parametrize(
    ("reference", "heading"),
    [
        ("sheet Sales rows 1-4", "Sales"),
        ("sheet Tabelle1 rows 1-4", ""),
        ("report.xlsx, sheet Our sales rows 51-90", "Our sales"),
        ("section Costs", "Costs"),
        ("rows 1-4", ""),
        ("page 3", ""),
        ("a.pdf, page 3", ""),
    ],
)
def test_a_figure_is_named_after_its_section_or_sheet(reference: str, heading: str) -> None:
    """Not after the place of its rows."""
    (figure,) = figures.find([(reference, "Month | Sales\nJan | 5\nFeb | 7\nMar | 9")])
    assert figure.heading == heading
