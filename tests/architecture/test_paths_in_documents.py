"""Links, paths, dotted names and commands in README, CONTRIBUTING and docs/ exist.

Of documents of the past only the links are checked: CHANGELOG, superseded decisions and dated
reports of measurements.
"""

import ast
import re
from functools import cache
from pathlib import Path

import pytest
from django.core.management import get_commands

from tests import ROOT

PACKAGES = ("allowlist", "channels_app", "core", "gateway_project", "tests")
LINK = re.compile(r"\]\(([^)\s]+)\)")
CODE = re.compile(r"^```.*?^```$|`[^`\n]+`", re.MULTILINE | re.DOTALL)
# "core/lib/text.py", "tests/redteam", "docs/http.md"; with a star it is a pattern.
PATH = re.compile(rf"(?<![\w/.<-])(?:{'|'.join((*PACKAGES, 'docs', 'templates'))})/[\w./*-]*[\w*]")
DOTTED = re.compile(rf"(?<![\w/.@-])(?:{'|'.join(PACKAGES)})(?:\.\w+)+")
# Celery's names of tasks, which stay what they were when modules move; ids of Django's checks.
NO_MODULES = re.compile(r"core\.(runs\.wake\w*|long\.work)|\w+\.[EW]\d{3}")
REMARK = re.compile(r"\s{2,}#.*")  # behind a command of a shell
COMMAND = re.compile(r"manage\.py (\w+)")
# Those of Django itself that are not listed by ``get_commands``.
BUILT_IN = {"help", "version", *get_commands()}
TARGET = re.compile(r"(?<![\w-])make (\w+)(?=`|$|\s{2,}#)", re.MULTILINE)
DATED = re.compile(r"\d{4}-\d\d-\d\d-.*\.md")
SUPERSEDED = re.compile(r"^Status: (partly )?superseded", re.MULTILINE)


def is_current(path: Path) -> bool:
    """Return whether a document describes the present, not the past."""
    if DATED.fullmatch(path.name) or path.name == "CHANGELOG.md":
        return False
    head = path.read_text(encoding="utf-8")[:400]
    return path.parent.name != "decisions" or not SUPERSEDED.search(head)


def documents() -> list[Path]:
    """Return the documents whose paths are checked."""
    found = [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")]
    return sorted(path for path in found if is_current(path))


def everything() -> list[Path]:
    """Return all documents, those of the past too."""
    return sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")])


def name_of(path: Path) -> str:
    """Return a document's path, as the id of a test."""
    return path.relative_to(ROOT).as_posix()


def anchors(path: Path) -> set[str]:
    """Return the anchors that GitHub makes of a document's headings."""
    headings = re.findall(r"^#+ (.+)$", path.read_text(encoding="utf-8"), re.MULTILINE)
    plain = (re.sub(r"[^\w\- ]", "", heading.strip().lower()) for heading in headings)
    return {heading.replace(" ", "-") for heading in plain}


@pytest.mark.parametrize("document", everything(), ids=name_of)
def test_links_between_documents_lead_somewhere(document: Path) -> None:
    broken = []
    for link in LINK.findall(CODE.sub("", document.read_text(encoding="utf-8"))):
        place, _, anchor = link.partition("#")
        if re.match(r"\w+:", link) or (not place and not anchor):
            continue
        target = (document.parent / place).resolve() if place else document
        if not target.exists() or (anchor and anchor not in anchors(target)):
            broken.append(link)
    assert broken == []


def test_the_readme_leads_to_every_document() -> None:
    """To those of a folder by its README."""
    linked = set(LINK.findall((ROOT / "README.md").read_text(encoding="utf-8")))
    folders = [path.parent for path in (ROOT / "docs").rglob("README.md")]
    alone = [path for path in (ROOT / "docs").rglob("*.md") if path.parent not in folders]
    named = {path.relative_to(ROOT).as_posix() for path in alone}
    named |= {f"{folder.relative_to(ROOT).as_posix()}/README.md" for folder in folders}
    assert named - {link.partition("#")[0] for link in linked} == set()


@pytest.mark.parametrize("document", documents(), ids=name_of)
def test_paths_exist(document: Path) -> None:
    text = document.read_text(encoding="utf-8")
    assert [path for path in PATH.findall(text) if not exists(path)] == []


def exists(path: str) -> bool:
    """Return whether a path or pattern exists in the repository; NNN is a placeholder."""
    return "NNN" in path or any(ROOT.glob(path))


@cache
def names_in(path: Path) -> frozenset[str]:
    """Return the names that a module defines or imports at its top level."""
    found: set[str] = set()
    for node in ast.parse(path.read_text(encoding="utf-8")).body:
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            found.add(node.name)
        elif isinstance(node, (ast.Import, ast.ImportFrom)):
            found |= {alias.asname or alias.name.partition(".")[0] for alias in node.names}
        elif isinstance(node, (ast.Assign, ast.AnnAssign)):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            found |= {target.id for target in targets if isinstance(target, ast.Name)}
    return frozenset(found)


def is_there(dotted: str) -> bool:
    """Return whether a dotted name is a module, or a name at a module's top level."""
    place = ROOT
    parts = dotted.split(".")
    for at, part in enumerate(parts):
        if (place / part).is_dir():
            place /= part
            continue
        if (place / f"{part}.py").is_file():
            rest = parts[at + 1 :]
            return not rest or rest[0] in names_in(place / f"{part}.py")
        initial = place / "__init__.py"
        return initial.is_file() and part in names_in(initial)
    return True


@pytest.mark.parametrize("document", documents(), ids=name_of)
def test_dotted_names_exist(document: Path) -> None:
    text = document.read_text(encoding="utf-8")
    named = [each for each in DOTTED.findall(text) if not NO_MODULES.fullmatch(each)]
    # "core.models.py" and the like are files, not names.
    assert [each for each in named if not each.endswith(".py") and not is_there(each)] == []


@pytest.mark.parametrize("document", documents(), ids=name_of)
def test_management_commands_exist(document: Path) -> None:
    text = REMARK.sub("", document.read_text(encoding="utf-8"))
    assert set(COMMAND.findall(text)) - BUILT_IN == set()


@pytest.mark.parametrize("document", documents(), ids=name_of)
def test_make_targets_exist(document: Path) -> None:
    targets = set(re.findall(r"^(\w+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    assert set(TARGET.findall(document.read_text(encoding="utf-8"))) <= targets
