"""docs/architecture.md: figure and tables made from the code, and files that exist."""

import re

from tests import ROOT
from tests.architecture import document, figure

NAMED = re.compile(r"`((?:core|channels_app|allowlist|gateway_project|docs|tests)/[\w/.-]+)`")
PATTERN = re.compile(r"\bN{3}\b|…")  # a name that stands for many


def test_the_figure_is_the_one_of_the_import_contracts() -> None:
    """``python -m tests.architecture`` writes it."""
    assert document.parts()["figure"] == document.fenced(figure.mermaid(), "mermaid")


def test_every_file_that_the_documents_name_exists() -> None:
    for name in ("docs/architecture.md", "CONTRIBUTING.md", "tests/architecture/where.md"):
        named = set(NAMED.findall((ROOT / name).read_text()))
        assert named, name
        assert (
            sorted(
                path for path in named if not (ROOT / path).exists() and not PATTERN.search(path)
            )
            == []
        ), name


def test_the_tables_are_made_of_the_docstrings_of_the_packages() -> None:
    """``python -m tests.architecture`` writes them."""
    parts = document.parts()
    for name, table in document.tables().items():
        assert parts[name] == table, name
        assert "|  |" not in table, name
