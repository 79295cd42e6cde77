"""What an examination gives."""

from dataclasses import asdict, dataclass
from typing import Literal

Level = Literal["error", "warning"]


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that is wrong. ``id`` is stable, for scripts; no text ever holds a secret."""

    level: Level
    id: str
    what: str
    fix: str

    def as_dict(self) -> dict[str, str]:
        """For JSON."""
        return asdict(self)


def error(id_: str, what: str, fix: str) -> Finding:
    """Somebody can get in who must not, or something does not work."""
    return Finding("error", id_, what, fix)


def warning(id_: str, what: str, fix: str) -> Finding:
    """Weaker than it could be, or soon broken."""
    return Finding("warning", id_, what, fix)
