"""The ports of the embedded servers: chosen once and stored, so that a restart reuses them."""

import json
from collections.abc import Sequence
from pathlib import Path

from gateway_project.processes import listener
from gateway_project.processes.preflight import run_folder


def path(home: Path) -> Path:
    return run_folder(home) / "ports.json"


def choose(*, home: Path, names: Sequence[str]) -> dict[str, int]:
    """Return a port for each name: the stored one while it is free, else a new one."""
    kept = read(home)
    ports: dict[str, int] = {}
    for name in names:
        port = kept.get(name, 0)
        ports[name] = port if port and listener.is_free(port) else listener.free_port()
    if ports != kept:
        path(home).write_text(json.dumps(kept | ports), encoding="utf-8")
    return ports


def read(home: Path) -> dict[str, int]:
    """Return the stored ports; a missing or damaged file holds none."""
    try:
        data = json.loads(path(home).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    if not isinstance(data, dict):
        return {}
    return {name: port for name, port in data.items() if isinstance(port, int)}
