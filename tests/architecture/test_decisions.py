"""The index of decisions names each of them, with the title, status and date of its own file."""

import re
from functools import cache
from pathlib import Path
from typing import NamedTuple

import pytest

from tests import ROOT

FOLDER = ROOT / "docs" / "decisions"
MOVED = "moved to docs/performance/"
STATUS = re.compile(r"accepted|(partly )?superseded by \d{3}(, \d{3})*|" + re.escape(MOVED))
ROW = re.compile(
    r"^\| \[(?P<number>\d{3})\]\((?P<link>[^)]+)\) \| (?P<date>\d{4}-\d\d-\d\d) "
    r"\| (?P<title>[^|]+) \| (?P<status>[^|]+) \| (?P<line>[^|]+) \|$",
    re.MULTILINE,
)
# As code and documents name a decision: "decisions/117", "decision 117", "decisions 117, 135".
NAMED = re.compile(r"decisions?[ /](\d{3}(?:(?:, | and | to )\d{3})*)")


class Row(NamedTuple):
    """A row of the index; ``path`` is the target of its link."""

    number: str
    path: Path
    date: str
    title: str
    status: str


@cache
def rows() -> list[Row]:
    """Return the rows of the index, in its order."""
    text = (FOLDER / "README.md").read_text(encoding="utf-8")
    return [
        Row(
            found["number"],
            (FOLDER / found["link"]).resolve(),
            found["date"],
            found["title"].strip(),
            found["status"].strip(),
        )
        for found in ROW.finditer(text)
    ]


def files() -> list[Path]:
    """Return the files of all decisions."""
    return sorted(path for path in FOLDER.glob("*.md") if path.name != "README.md")


def test_each_row_has_a_file_and_each_file_a_row() -> None:
    numbers = [row.number for row in rows()]
    assert numbers == sorted(set(numbers))
    kept = {row.path for row in rows() if row.status != MOVED}
    assert kept == set(files())
    assert [row.number for row in rows() if not row.path.is_file()] == []


@pytest.mark.parametrize("row", rows(), ids=lambda row: row.number)
def test_a_file_says_the_title_status_and_date_of_its_row(row: Row) -> None:
    lines = row.path.read_text(encoding="utf-8").splitlines()
    if row.status == MOVED:
        assert lines[0] == f"# {row.title}"
        assert f"number {row.number}" in lines[2]
        return
    assert row.path.name.startswith(f"{row.number}-")
    assert lines[0] == f"# {row.number}. {row.title}"
    assert lines[2] == f"Status: {row.status}. Date: {row.date}."
    assert STATUS.fullmatch(row.status)


def test_superseding_decisions_are_later_and_in_the_index() -> None:
    numbers = {row.number for row in rows()}
    for row in rows():
        by = re.findall(r"\d{3}", row.status)
        assert set(by) <= numbers, f"{row.number} names a decision that is not there: {by}"
        assert all(each > row.number for each in by), row.number


def test_decisions_that_code_and_documents_name_are_in_the_index() -> None:
    numbers = {row.number for row in rows()}
    places = [ROOT / "README.md", ROOT / "CHANGELOG.md", ROOT / "pyproject.toml"]
    places += (ROOT / "docs").rglob("*.md")
    for package in ("allowlist", "channels_app", "core", "gateway_project", "tests"):
        places += (ROOT / package).rglob("*.py")
        places += (ROOT / package).rglob("*.toml")
    missing = [
        f"{path.relative_to(ROOT)}: {number}"
        for path in places
        if path != Path(__file__)
        for found in NAMED.findall(path.read_text(encoding="utf-8"))
        for number in re.findall(r"\d{3}", found)
        if number not in numbers
    ]
    assert missing == []
