"""The import contracts of pyproject.toml as data."""

import tomllib
from dataclasses import dataclass
from functools import cache
from typing import Any

from tests import ROOT


@dataclass(frozen=True)
class Layers:
    """A contract of layers: its container ("" for the root) and its floors, the highest first."""

    container: str
    floors: list[list[str]]
    # Whether the modules of a floor may import each other.
    open_floors: list[bool]


@cache
def every() -> list[dict[str, Any]]:
    """Return the contracts of pyproject.toml."""
    tool = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]
    contracts: list[dict[str, Any]] = tool["importlinter"]["contracts"]
    return contracts


def layers() -> list[Layers]:
    """Return the contracts of type ``layers``."""
    found = []
    for contract in every():
        if contract["type"] == "layers":
            lines = contract["layers"]
            floors = [line.replace(":", "|").split("|") for line in lines]
            names = [[name.strip() for name in floor] for floor in floors]
            container = contract.get("containers", [""])[0]
            found.append(Layers(container, names, [":" in line for line in lines]))
    return found


def forbidden(name: str) -> dict[str, Any]:
    """Return the contract with this name."""
    return next(contract for contract in every() if contract["name"] == name)
