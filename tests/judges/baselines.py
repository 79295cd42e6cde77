"""The numbers of ``baselines.toml``, which may only fall."""

import tomllib
from pathlib import Path
from typing import Any

FILE = Path(__file__).parent / "baselines.toml"
UNUSED = 0.1  # of a number that changes with every edit


def check(name: str, found: int, *, exact: bool = True, detail: str = "") -> None:
    """Compare what was found with the baseline ``table.key``, of any depth; fail where it is more,
    and where the baseline is larger than needed. ``exact``: no tenth of it may be unused.
    """
    place: Any = tomllib.loads(FILE.read_text(encoding="utf-8"))
    for key in name.split("."):
        place = place[key]
    allowed = int(place)
    assert found <= allowed, f"{name}: {found} found, {allowed} allowed.\n{detail}"
    least = allowed if exact else allowed * (1 - UNUSED)
    assert found >= least, f"{name}: {found} found: lower the baseline of {allowed} in {FILE.name}."
