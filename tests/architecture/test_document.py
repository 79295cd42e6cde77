"""docs/architecture.md: the figure of the import contracts, and files and packages that exist."""

import re

from tests import ROOT
from tests.architecture import contracts, document, figure

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


def test_every_package_has_its_line() -> None:
    """A row of a table that begins with the package's name."""
    text = document.FILE.read_text()
    for layers in contracts.layers():
        names = [name for floor in layers.floors for name in floor]
        prefix = f"{layers.container}." if layers.container else ""
        rows = [name for name in names if f"\n| `{prefix}{name}` |" not in text]
        assert rows == [], layers.container
