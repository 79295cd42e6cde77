"""Cells of workbooks as their reader sees them."""

import time
from datetime import datetime
from pathlib import Path

import openpyxl
import pytest

from core.documents import excel
from core.documents.reader import rows_of_xlsx
from tests.core.jobs_worker import papers


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


EMPTY_TEXT = b'<c r="B1" s="0" t="str"><f aca="false">IF(A1&gt;9,"much","")</f><v></v></c>'
OTHER_SUM = b'<c r="C1"><f>A1*2</f><v></v></c>'


@pytest.mark.parametrize(
    ("others", "shown", "is_read_twice"), [(b"", "5", False), (OTHER_SUM, "5 |  | =A1*2", True)]
)
def test_a_formula_whose_value_is_an_empty_text_is_an_empty_cell(
    others: bytes, shown: str, is_read_twice: bool, tmp_path: Path
) -> None:
    """As Excel and LibreOffice write =IF(A1>9,"much","")."""
    book = openpyxl.Workbook()
    book.active.append([5])
    book.save(tmp_path / "a.xlsx")
    sheet = (
        b'<worksheet xmlns="http://schemas.openxmlformats.org/spreadsheetml/2006/main"><sheetData>'
        b'<row r="1"><c r="A1"><v>5</v></c>'
        + EMPTY_TEXT
        + others
        + b"</row></sheetData></worksheet>"
    )
    papers.rewritten(tmp_path / "a.xlsx", name="xl/worksheets/sheet1.xml", content=sheet)
    ((_, text),) = rows_of_xlsx(tmp_path / "a.xlsx")
    assert text == shown
    assert excel.has_uncomputed(tmp_path / "a.xlsx") is is_read_twice


@pytest.mark.parametrize(
    "cell", [b"<c ><f/>", b'<c r="A1"><f>1</f>', b"<c ><f/><v>", b"<c ><f/><v"]
)
def test_a_cell_full_of_white_space_costs_no_time(cell: bytes) -> None:
    """A block of it, which is packed into a thousandth."""
    start = time.process_time()
    assert excel.UNCOMPUTED.search(cell + b" " * 40_000) is None
    assert not excel.signs_of("[$-" * 40_000)[0]
    assert time.process_time() - start < 0.5
