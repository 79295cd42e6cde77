"""docs/settings.md: every setting has its row and its default there, and every row its setting."""

import ast
import re
from typing import Any

import pytest

from tests import ROOT
from tests.architecture import sources

DOCUMENT = ROOT / "docs" / "settings.md"
SETTINGS = ROOT / "gateway_project" / "settings.py"
# Set by the gateway itself for its processes.
INTERNAL = {"GATEWAY_PROCESS", "LLM_IS_EMBEDDED"}
UNITS = {"": 1, "KiB": 2**10, "MiB": 2**20}
NUMBER = re.compile(r"`?([\d,]+)`?(?: (KiB|MiB))?(?:;.*)?")


def read_settings() -> dict[str, str | int | None]:
    """Return each variable with its default as the document writes it; None where that is a text
    of any kind.
    """
    found: dict[str, str | int | None] = {}
    tree = ast.parse(SETTINGS.read_text(encoding="utf-8"))
    for call in (node for node in ast.walk(tree) if isinstance(node, ast.Call)):
        is_read = re.fullmatch(r"env\.\w+", ast.unparse(call.func)) and call.args
        if is_read and isinstance(call.args[0], ast.Constant):
            found[str(call.args[0].value)] = default_of(call)
    return found


def default_of(call: ast.Call) -> str | int | None:
    """Return the default of one variable."""
    kind = ast.unparse(call.func)
    if kind in {"env.number", "env.port"}:
        value = call.args[1]
        return int(eval(ast.unparse(value.body if isinstance(value, ast.IfExp) else value)))  # noqa: S307 - our own source
    if kind == "env.switch":
        return "on" if ast.unparse(call.keywords[0].value) == "True" else "off"
    if kind == "env.choice":
        return str(ast.literal_eval(call.args[1]))
    return None


def rows() -> dict[str, str]:
    """Return the names of the document's tables, each with its default as it is written."""
    found: dict[str, str] = {}
    tables = DOCUMENT.read_text(encoding="utf-8").split("\n## A scripted model")[0]
    for line in re.findall(r"^\| (`[A-Z].*)\|$", tables, re.MULTILINE):
        first, default, _ = line.split(" | ", 2)
        names = re.findall(r"`([A-Z_]+)`", first)
        defaults = default.split(", ") if len(names) > 1 else [default]
        if len(defaults) == 1:
            defaults *= len(names)
        found |= dict(zip(names, defaults, strict=True))
    return found


def as_default(written: str) -> Any:
    """Return a number where one is written, else the text without backticks."""
    found = NUMBER.fullmatch(written)
    if found is None:
        return written.strip("`")
    return int(found[1].replace(",", "")) * UNITS[found[2] or ""]


def test_every_setting_has_a_row_with_its_default() -> None:
    documented = rows()
    known = {name: each for name, each in read_settings().items() if name not in INTERNAL}
    assert len(known) > 100
    assert known.keys() - documented.keys() == set()
    wrong = {
        name: (documented[name], default)
        for name, default in known.items()
        if default is not None and as_default(documented[name]) != default
    }
    assert wrong == {}


@pytest.mark.unmeasured
def test_every_row_names_a_setting_that_is_read() -> None:
    code = "\n".join(each.text for each in sources.production())
    unread = [name for name in rows() if f'"{name}"' not in code]
    assert [name for name in unread if not name.startswith("OTEL_")] == []
