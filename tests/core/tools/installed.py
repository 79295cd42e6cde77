"""Install tools, plugins and channels as pip does: a package with entry points."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from django.conf import settings

from channels_app import registry as channels
from core.plugins import registry as plugins
from core.tools import phrases, registry

EXAMPLE = settings.BASE_DIR / "docs" / "example_tool"


@contextmanager
def installed(
    folder: Path, *, points: dict[str, str], code: str = "", group: str = registry.GROUP
) -> Iterator[None]:
    """Install a package with the module ``latchkey_scratch`` and the example's on the path."""
    (folder / "latchkey_scratch.py").write_text(code, encoding="utf-8")
    info = folder / "latchkey_scratch-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: latchkey-scratch\nVersion: 1.0\n")
    lines = [f"{name} = {value}" for name, value in points.items()]
    (info / "entry_points.txt").write_text("\n".join([f"[{group}]", *lines, ""]))
    # A worker that has just begun may be reading what is installed, and would keep it.
    registry.every()
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(folder))
        patch.syspath_prepend(str(EXAMPLE))
        clear_caches()
        yield
    clear_caches()
    phrases._added.clear()
    phrases.patterns.cache_clear()
    for name in ("latchkey_scratch", "latchkey_example_tool"):
        sys.modules.pop(name, None)


def clear_caches() -> None:
    for cached in (registry.installed, plugins.installed, plugins.every, channels.installed):
        cached.cache_clear()
