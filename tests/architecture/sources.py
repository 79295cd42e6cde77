"""The repository as text and as syntax trees, read once a process."""

import ast
import gc
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path

from tests import ROOT

PACKAGES = ("allowlist", "channels_app", "core", "gateway_project")
COMMENT = re.compile(r"(?:^|\s)# (.*)$", re.MULTILINE)

Named = ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef


def named_in(node: ast.AST) -> Iterator[Named]:
    """Yield the classes and functions below a node; expressions, which hold none, are passed
    over."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.expr):
            continue
        if isinstance(child, Named):
            yield child
        yield from named_in(child)


@dataclass(frozen=True)
class Source:
    """One Python file: its path from the root, its text and its tree."""

    path: str
    text: str
    tree: ast.Module

    @property
    def module(self) -> str:
        """Return its dotted name."""
        return self.path.removesuffix(".py").removesuffix("/__init__").replace("/", ".")

    @cached_property
    def named(self) -> list[Named]:
        """Return every class and function in it, those of blocks and functions too."""
        return list(named_in(self.tree))

    def docstrings(self) -> list[str]:
        """Return every docstring, the module's first."""
        nodes = (self.tree, *self.named)
        return [docstring for node in nodes if (docstring := ast.get_docstring(node))]

    def prose(self) -> str:
        """Return its docstrings and comments."""
        return "\n\n".join([*self.docstrings(), *COMMENT.findall(self.text)])


def python_files(top: str) -> list[Path]:
    """Return the Python files below ``top``, without migrations."""
    found = (ROOT / top).rglob("*.py")
    return sorted(path for path in found if "migrations" not in path.parts)


@cache
def read(top: str) -> list[Source]:
    """Return every Python file below ``top``, without migrations."""
    # A tree is many small objects; garbage collection would take two thirds of the time.
    collecting = gc.isenabled()
    gc.disable()
    try:
        return [
            Source(path.relative_to(ROOT).as_posix(), text := path.read_text(), ast.parse(text))
            for path in python_files(top)
        ]
    finally:
        if collecting:
            gc.enable()


def production() -> list[Source]:
    """Return every Python file of the product."""
    return [source for top in PACKAGES for source in read(top)]


def every() -> list[Source]:
    """Return every Python file of the product, of the tests and of the examples in docs."""
    return [source for top in (*PACKAGES, "tests", "docs") for source in read(top)]


def documents() -> list[tuple[str, str]]:
    """Yield path and text of the README and of every document below docs."""
    found = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]
    return [(path.relative_to(ROOT).as_posix(), path.read_text()) for path in found]
