"""Cells of workbooks as their reader sees them."""

from datetime import datetime
from pathlib import Path

import openpyxl

from core.documents.reader import rows_of_xlsx


def lines_of(book: openpyxl.Workbook, folder: Path) -> list[str]:
    """Return the rows that are read of a workbook."""
    book.save(folder / "a.xlsx")
    return "\n".join(text for _, text in rows_of_xlsx(folder / "a.xlsx")).split("\n")


def test_cells_keep_the_signs_of_their_formats(tmp_path: Path) -> None:
    book = openpyxl.Workbook()
    sheet = book.active
    day = datetime(2026, 3, 5)  # noqa: DTZ001 - a workbook has no zones
    cells: tuple[tuple[object, str, str], ...] = (
        (day, "d. mmm yyyy", "2026-03-05"),
        (day.replace(hour=7), "dd.mm.yyyy hh:mm", "2026-03-05 07:00:00"),
        (0.125, "0.0%", "12.5%"),
        (0.07, "0%", "7%"),
        (1200, '#,##0.00 "€"', "1200 €"),
        (99.5, "[$CHF-807] #,##0.00", "99.5 CHF"),
        (-3, '_("$"* #,##0.00_);_("$"* (#,##0.00)', "-3 $"),
        (0.1 + 0.2, "General", "0.3"),
        (True, "General", "True"),
        (7, "[$-409]#,##0", "7"),
    )
    for row, (value, form, _shown) in enumerate(cells, 1):
        sheet.cell(row, 1, value).number_format = form
    assert lines_of(book, tmp_path) == [shown for _value, _form, shown in cells]


def test_a_formula_that_no_program_has_computed_is_shown(tmp_path: Path) -> None:
    book = openpyxl.Workbook()
    book.active.append(["Rent", 900])
    book.active.append(["Power", 80])
    book.active.append(["Sum", "=SUM(B1:B2)"])
    assert lines_of(book, tmp_path) == ["Rent | 900", "Power | 80", "Sum | =SUM(B1:B2)"]
