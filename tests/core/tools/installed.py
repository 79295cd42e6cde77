"""Install tools as pip does: a package with an entry point."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from django.conf import settings

from core.tools import phrases, registry

EXAMPLE = settings.BASE_DIR / "docs" / "example_tool"


@contextmanager
def installed(folder: Path, *, points: dict[str, str], code: str = "") -> Iterator[None]:
    """Install a package with the module ``latchkey_scratch`` and the example's on the path."""
    (folder / "latchkey_scratch.py").write_text(code, encoding="utf-8")
    info = folder / "latchkey_scratch-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: latchkey-scratch\nVersion: 1.0\n")
    lines = [f"{name} = {value}" for name, value in points.items()]
    (info / "entry_points.txt").write_text("\n".join(["[latchkey.tools]", *lines, ""]))
    registry.installed.cache_clear()
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(folder))
        patch.syspath_prepend(str(EXAMPLE))
        yield
    registry.installed.cache_clear()
    phrases.forget_added()
    for name in ("latchkey_scratch", "latchkey_example_tool"):
        sys.modules.pop(name, None)
