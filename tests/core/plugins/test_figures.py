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
