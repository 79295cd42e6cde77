"""Every attack in docs/security.md has a test that carries its id, and every id is in the document.

``python -m tests.redteam.test_ids`` prints which test is which attack's.
"""

import ast
import re
import sys
from collections import defaultdict
from collections.abc import Iterator

from tests import ROOT

TESTS = ROOT / "tests"
DOCUMENT = ROOT / "docs" / "security.md"
# Contracts have ids of the same form: here they count only as "redteam C3".
SHARED = re.compile(r"[MC]\d+")


def documented() -> list[str]:
    """The ids in the document's table of attacks, in its order."""
    text = DOCUMENT.read_text().split("## Attacks")[1].split("\n## ")[0]
    return re.findall(r"^\| ([A-Z]+\d+) \|", text, re.MULTILINE)


def every_test() -> Iterator[tuple[str, str, str]]:
    """(file, name, docstring) of every test."""
    for path in sorted(TESTS.rglob("test_*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            if not isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
                continue
            if node.name.startswith("test_"):
                place = path.relative_to(TESTS).as_posix()
                yield place, node.name, ast.get_docstring(node) or ""


def ids_of(name: str, docstring: str) -> set[str]:
    """The ids that a test carries, in its name (``test_w5_w7_…``) or its docstring (``[W5]``)."""
    plain = set(re.findall(r"\b([A-Z]+\d+)\b", docstring))
    for part in name.split("_")[1:]:
        if not re.fullmatch(r"[a-z]+\d+", part):
            break
        plain.add(part.upper())
    named = set(re.findall(r"redteam ([A-Z]+\d+)", docstring, re.IGNORECASE))
    return {each for each in plain if not SHARED.fullmatch(each)} | named


def found() -> dict[str, list[str]]:
    """The tests of each id."""
    every: dict[str, list[str]] = defaultdict(list)
    for place, name, docstring in every_test():
        for each in ids_of(name, docstring):
            every[each].append(f"{place}::{name}")
    return every


def test_every_documented_attack_has_a_test() -> None:
    ids = documented()
    assert len(ids) > 95
    assert len(ids) == len(set(ids))
    tested = found()
    assert [each for each in ids if each not in tested] == []


def test_an_id_is_read_from_names_and_docstrings() -> None:
    assert ids_of("test_w5_w10_the_same", "[I8] and [C3]") == {"W5", "W10", "I8"}
    assert ids_of("test_c3_x", "[redteam C3]") == {"C3"}
    assert ids_of("test_the_w5_thing", "") == set()


if __name__ == "__main__":
    for identifier, places in sorted(found().items()):
        sys.stdout.write(f"{identifier}: {', '.join(places)}\n")
