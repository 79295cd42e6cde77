"""The example plugin of the documentation, installed as by pip: a package and its entry point."""

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from django.conf import settings

from tests.core.tools.installed import clear_caches

FOLDER = settings.BASE_DIR / "docs" / "example_plugin"


@pytest.fixture
def example_plugin(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """Install the plugin; return its id."""
    info = tmp_path / "latchkey_example_plugin-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(
        "Metadata-Version: 2.1\nName: latchkey-example-plugin\nVersion: 1.0\n"
    )
    (info / "entry_points.txt").write_text(
        "[latchkey.plugins]\nbars = latchkey_example_plugin:PLUGIN\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.syspath_prepend(str(FOLDER))
    clear_caches()
    yield "example-bars"
    clear_caches()
    sys.modules.pop("latchkey_example_plugin", None)
