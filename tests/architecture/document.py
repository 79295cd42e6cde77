"""The parts of docs/architecture.md that are made from the code.

Each stands between ``<!-- made: NAME -->`` and ``<!-- end -->``.
"""

import ast
import re
from collections.abc import Mapping
from pathlib import Path

from tests import ROOT
from tests.architecture import contracts

FILE = ROOT / "docs" / "architecture.md"
PART = re.compile(r"(<!-- made: (?P<name>[\w. ]+) -->\n)(?P<text>.*?)(<!-- end -->)", re.DOTALL)


def parts() -> dict[str, str]:
    """Return the text of each part, by its name."""
    return {found["name"]: found["text"] for found in PART.finditer(FILE.read_text())}


def write(texts: Mapping[str, str]) -> None:
    """Replace parts. Raises KeyError for one that the document does not have."""
    if unknown := texts.keys() - parts().keys():
        raise KeyError(*unknown)

    def made(found: re.Match[str]) -> str:
        text = texts.get(found["name"], found["text"])
        return f"{found[1]}{text}{found[4]}"

    FILE.write_text(PART.sub(made, FILE.read_text()))


def fenced(lines: str, language: str = "text") -> str:
    """Return a fenced block."""
    return f"```{language}\n{lines}\n```\n"


def tables() -> dict[str, str]:
    """Return a table of the packages in each container, by the name of its part."""
    return {
        f"packages in {layers.container}" if layers.container else "packages": table(layers)
        for layers in contracts.layers()
    }


def table(layers: contracts.Layers) -> str:
    """Return a row for each package or module: its name, and what it says it is for."""
    prefix = f"{layers.container}." if layers.container else ""
    head = f"| in `{layers.container}` " if prefix else "| package "
    names = [f"{prefix}{name}" for floor in layers.floors for name in floor]
    rows = [f"| `{name}` | {purpose(name)} |" for name in names]
    return "\n".join([f"{head}| what it is for |", "|---|---|", *rows, ""])


def purpose(module: str) -> str:
    """Return the first paragraph of a module's docstring as Markdown."""
    path = ROOT.joinpath(*module.split("."))
    source = path / "__init__.py" if path.is_dir() else path.with_suffix(".py")
    said = ast.get_docstring(ast.parse(source.read_text(encoding="utf-8"))) or ""
    return " ".join(said.split("\n\n")[0].split()).replace("``", "`")


def files(modules: list[str]) -> str:
    """Return the files of modules, a line each."""
    paths = []
    for module in modules:
        path = Path(*module.split("."))
        package = (ROOT / path / "__init__.py").exists()
        paths.append((path / "__init__.py" if package else path.with_suffix(".py")).as_posix())
    return fenced("\n".join(paths))
