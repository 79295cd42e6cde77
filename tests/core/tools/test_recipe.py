"""[V24] The tool of docs/tools.md, with its test, works as it stands there."""

import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from django.conf import settings

from core.tools import registry
from tests.core.tools.installed import installed

ROOT = Path(settings.BASE_DIR)
DOCUMENT = (ROOT / "docs" / "tools.md").read_text(encoding="utf-8")


def block(name: str) -> str:
    """Return the fenced block after the name of a file."""
    found = re.search(rf"(?ms)^`{re.escape(name)}`.*?```\w+\n(.*?)```", DOCUMENT)
    assert found is not None
    return found[1]


@pytest.mark.unmeasured
def test_v24_the_package_of_the_document_is_tested_as_the_document_says(tmp_path: Path) -> None:
    """With its own command, in the folder of the gateway."""
    package = tmp_path / "latchkey-dice"
    package.mkdir()
    for name in ("latchkey_dice.py", "pyproject.toml", "test_latchkey_dice.py"):
        (package / name).write_text(block(name), encoding="utf-8")
    found = re.search(r"(?m)^\.venv/bin/python (-m pytest .*) \.\./latchkey-dice$", DOCUMENT)
    assert found is not None
    done = subprocess.run(
        [sys.executable, *found[1].split(), "-p", "no:cacheprovider", str(package)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=200,
        check=False,
    )
    assert done.returncode == 0, done.stdout
    assert "1 passed" in done.stdout


def test_v22_the_entry_point_of_the_document_offers_it(tmp_path: Path) -> None:
    points = tomllib.loads(block("pyproject.toml"))["project"]["entry-points"]
    assert list(points) == [registry.GROUP]
    code = block("latchkey_dice.py").replace("latchkey_dice", "latchkey_scratch")
    with installed(
        tmp_path,
        points={
            name: value.replace("latchkey_dice", "latchkey_scratch")
            for name, value in points[registry.GROUP].items()
        },
        code=code,
    ):
        (tool,) = registry.installed().found.values()
        properties = registry.schema(tool)["function"]["parameters"]["properties"]
        assert (tool.name, [*properties]) == ("roll_dice", ["sides", "count"])
