"""Rows of the printed table, and the sizes and the peer that the environment names."""

import os
from collections.abc import Sequence
from dataclasses import dataclass

from tests.benchmarks import machine
from tests.benchmarks.clients import Chat

PEOPLE = 32


@dataclass(frozen=True)
class Size:
    """How much is asked of each part."""

    rounds: int = 3
    seconds: float = 4.0
    idle: int = 10_000
    updates: int = 80  # a bot may speak 30 times a second: more take long to answer
    waves: int = 4
    users: int = PEOPLE


@dataclass(frozen=True)
class Row:
    """One line of the table; ``goal`` as the product states it."""

    what: str
    value: str
    goal: str = ""


def size() -> Size:
    """Return the sizes that the environment asks for."""
    return Size(
        rounds=int(os.environ.get("ROUNDS", "3")),
        seconds=float(os.environ.get("SECONDS", "4")),
        idle=int(os.environ.get("IDLE", "10000")),
    )


def peer() -> Chat | None:
    """Return the server to compare with, if the environment names one."""
    url = os.environ.get("PEER", "")
    if not url:
        return None
    return Chat(url, os.environ.get("PEER_KEY", ""), os.environ.get("PEER_MODEL", "stub"))


def line(row: Row) -> str:
    """Return a row as text."""
    goal = f"   [{row.goal}]" if row.goal else ""
    return f"{row.what:<78} {row.value}{goal}\n"


def compared(ours: float, floor: float) -> str:
    """Format two times in seconds as ms, with their ratio."""
    return f"{ours * 1000:.1f} / {floor * 1000:.1f} ms = {ours / floor:.2f} ×"


def spread(values: Sequence[float]) -> str:
    """Return the median of some ms, with the least and the most."""
    return f"{machine.median(values):.1f} ms ({min(values):.0f} to {max(values):.0f})"
