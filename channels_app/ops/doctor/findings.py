"""Findings of the doctor."""

from dataclasses import asdict, dataclass
from typing import Literal

Level = Literal["error", "warning"]


@dataclass(frozen=True, slots=True)
class Finding:
    """One problem. ``id`` is stable, for scripts; texts never contain a secret."""

    level: Level
    id: str
    what: str
    fix: str

    def as_dict(self) -> dict[str, str]:
        return asdict(self)


def error(id_: str, what: str, fix: str) -> Finding:
    """Make a finding for unauthorised access or for a part that does not work."""
    return Finding("error", id_, what, fix)


def warning(id_: str, what: str, fix: str) -> Finding:
    """Make a finding for a weakness or a coming failure."""
    return Finding("warning", id_, what, fix)
