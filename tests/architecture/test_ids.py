"""Every id in code, tests and documents has an entry, and every entry has a test.

Contracts stand in docs/contracts.md, attacks (ids that begin with ``R``) in docs/security.md,
decisions in docs/decisions. ``python -m tests.architecture.test_ids`` prints the tests of each id.
"""

import ast
import re
import sys
from collections import defaultdict
from collections.abc import Iterator
from functools import cache

from tests import ROOT
from tests.architecture import sources

CONTRACTS = ROOT / "docs" / "contracts.md"
SECURITY = ROOT / "docs" / "security.md"
ROW = re.compile(r"^\| ([A-Z]+\d+) \|", re.MULTILINE)
# Contracts: one letter of the tables' own. Attacks: R and the letters of a group.
ID = re.compile(r"(?<![\w/%.#-])([ACDHLMST]\d{1,2}|R(?:WS|DOC|LOG|[WIOMFXQC])\d{1,2})(?![\w.]*\w)")
# Numbers of lists that are not in the repository.
FOREIGN = re.compile(r"\bissue #?\d+\b|\b[A-Z]\d+\.\d+\b")
DECISION = re.compile(r"\bdecisions? (\d{3})\b", re.IGNORECASE)


def contracts() -> list[str]:
    """Return the ids of docs/contracts.md, in its order."""
    return ROW.findall(CONTRACTS.read_text())


def attacks() -> list[str]:
    """Return the ids in the table of attacks of docs/security.md, in its order."""
    return ROW.findall(SECURITY.read_text().split("## Attacks")[1].split("\n## ")[0])


def documented() -> set[str]:
    """Return all ids that have an entry."""
    return {*contracts(), *attacks()}


@cache
def prose_of_all() -> list[tuple[str, str]]:
    """Yield path and prose of every Python file and every document of ours."""
    return [(each.path, each.prose()) for each in sources.every()] + sources.documents()


def ids_of_name(name: str) -> set[str]:
    """Return the ids at the head of a test's name: ``test_rw5_a9_…`` -> RW5, A9."""
    found = set()
    for part in name.split("_")[1:]:
        if not re.fullmatch(r"[a-z]+\d+", part):
            break
        found.add(part.upper())
    return found


@cache
def every_test() -> list[tuple[str, str, str]]:
    """Yield file, name and docstring of every test."""
    return [
        (source.path, node.name, ast.get_docstring(node) or "")
        for source in sources.read("tests")
        if "/test_" in source.path
        for node in source.named
        if node.name.startswith("test_")
    ]


def id_to_tests() -> dict[str, list[str]]:
    """Return the tests of each id."""
    found: dict[str, list[str]] = defaultdict(list)
    for path, name, docstring in every_test():
        for each in ids_of_name(name) | set(ID.findall(docstring)):
            found[each].append(f"{path}::{name}")
    return found


def uses() -> Iterator[tuple[str, str]]:
    """Yield path and id of every id in prose and in tests' names."""
    for path, text in prose_of_all():
        for each in ID.findall(text):
            yield path, each
    for path, name, _ in every_test():
        for each in ids_of_name(name):
            yield path, each


def test_every_id_has_one_entry_and_every_entry_a_test() -> None:
    entries = contracts() + attacks()
    assert len(attacks()) > 95
    assert len(contracts()) > 45
    assert len(entries) == len(set(entries))
    in_tests = id_to_tests()
    assert [each for each in entries if each not in in_tests] == []


def test_no_id_is_used_without_an_entry() -> None:
    known = documented()
    assert sorted({use for use in uses() if use[1] not in known}) == []


def test_no_number_of_a_list_outside_the_repository_is_named() -> None:
    found = [(path, each) for path, text in prose_of_all() for each in FOREIGN.findall(text)]
    assert found == []


def test_every_decision_that_is_named_exists() -> None:
    numbers = {path.name[:3] for path in (ROOT / "docs" / "decisions").glob("[0-9]*.md")}
    named = {(path, each) for path, text in prose_of_all() for each in DECISION.findall(text)}
    assert sorted(use for use in named if use[1] not in numbers) == []


def test_ids_are_read_from_names_and_prose() -> None:
    assert ids_of_name("test_rw5_a10_the_same") == {"RW5", "A10"}
    assert ids_of_name("test_the_rw5_thing") == set()
    assert ID.findall("[A5][M2], RDOC11: (C8) `%C3`, D3D, /A0, H2O, UTF-8, S105b, A4.") == [
        "A5", "M2", "RDOC11", "C8", "A4",
    ]  # fmt: skip


if __name__ == "__main__":
    for identifier, places in sorted(id_to_tests().items()):
        sys.stdout.write(f"{identifier}: {', '.join(places)}\n")
