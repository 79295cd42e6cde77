"""Rows of CSV files as programs write them."""

from pathlib import Path

import pytest

from core.documents.reader import rows_of_csv


def lines_of(folder: Path, content: str, *, encoding: str = "utf-8") -> list[str]:
    """Return the rows that are read of a file with this content."""
    path = folder / "a.csv"
    path.write_bytes(content.encode(encoding))
    return "\n".join(text for _, text in rows_of_csv(path)).split("\n")


def test_a_doubled_quote_far_below_the_head_moves_no_cell(tmp_path: Path) -> None:
    head = "id,remark,city\n" + '1,"fine, so far",Oslo\n' * 300
    found = lines_of(tmp_path, head + '2,"said ""no"", twice",Bergen\n')
    assert found[-1] == '2 | said "no", twice | Bergen'


@pytest.mark.parametrize(
    ("content", "second"),
    [
        ("Name, first name;Sum\nDoe, Jo;1\nRoe, Al;2\n", "Doe, Jo | 1"),
        ("1,5;2,5\n3,5;4,5\n", "3,5 | 4,5"),
        ("a\tb, c\nd\te, f\n", "d | e, f"),
        ("a,b\nc,d\n", "c | d"),
        ('sep=;\nx;"y\nz"\n', "x | y"),
        ("one column\nand, a comma\nand no other\n", "and | a comma"),
    ],
)
def test_cells_are_divided_where_all_rows_are(content: str, second: str, tmp_path: Path) -> None:
    assert lines_of(tmp_path, content)[1] == second


def test_line_ends_of_all_systems_are_read(tmp_path: Path) -> None:
    for end in ("\n", "\r\n", "\r"):
        found = lines_of(tmp_path, end.join(("a;b", "1;2", '3;"4', '5"', "")))
        assert found == ["a | b", "1 | 2", "3 | 4", "5"]


def test_excel_s_unicode_text_is_read(tmp_path: Path) -> None:
    assert lines_of(tmp_path, "\ufeffGröße\tStadt\n5\tKöln\n", encoding="utf-16-le") == [
        "Größe | Stadt",
        "5 | Köln",
    ]
