"""The content of a backup: ``manifest.json``, the last file that is written."""

import json
import re
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

from core.lib import disk

MANIFEST, DATABASE, SEALED = "manifest.json", "database", "secrets.sealed"
CONTENTS = "files"
PARTIAL = ".partial-"
NAME = "%Y-%m-%dT%H-%M-%SZ"
FORMAT = 1
STORED = re.compile(r"\.?[0-9a-f]{64}")  # with a dot while it is written


class BackupError(Exception):
    """A backup cannot be made, read or restored; the text says why, and what to do."""


@dataclass(frozen=True, slots=True)
class Stored:
    """A file below GATEWAY_HOME: path, SHA-256, and whether it is a program (of a skill)."""

    path: str
    sha256: str
    size: int
    is_executable: bool = False

    def as_json(self) -> dict[str, str | int]:
        """Return what is written; older versions know no programs."""
        found: dict[str, str | int] = asdict(self)
        if not self.is_executable:
            del found["is_executable"]
        return found


@dataclass(frozen=True, slots=True)
class Manifest:
    """``vendor``: sqlite or postgresql. ``migrations``: app -> number of the newest one. ``rows``:
    table -> number; of SQLite only. ``database``: SHA-256 of that file. ``made_at``: UTC, before
    the copy began.
    """

    made_at: str
    version: str
    vendor: str
    migrations: dict[str, int]
    rows: dict[str, int]
    database: str
    files: list[Stored]
    has_secrets: bool
    format: int = FORMAT

    @property
    def moment(self) -> datetime:
        return datetime.fromisoformat(self.made_at)


def write(folder: Path, manifest: Manifest) -> None:
    """Write the manifest of a backup, to the disk."""
    data = {**asdict(manifest), "files": [each.as_json() for each in manifest.files]}
    disk.write(folder / MANIFEST, json.dumps(data, indent=1))


def read(folder: Path) -> Manifest:
    """Return the manifest of a backup. Raises BackupError."""
    try:
        data = json.loads((folder / MANIFEST).read_text(encoding="utf-8"))
        if data["format"] != FORMAT:
            raise BackupError(f"{folder} was made by a newer version: format {data['format']}.")
        found = Manifest(**{**data, "files": [Stored(**each) for each in data["files"]]})
        if found.moment.utcoffset() != timedelta(0):
            raise ValueError(found.made_at)
        return found
    except (FileNotFoundError, NotADirectoryError) as error:
        raise BackupError(f"{folder} is no backup: it has no {MANIFEST}.") from error
    except OSError as error:
        raise BackupError(f"{folder / MANIFEST} cannot be read: {error.strerror}.") from error
    except (ValueError, KeyError, TypeError) as error:
        raise BackupError(f"{folder} is damaged: {MANIFEST} cannot be understood.") from error


def check_finished(folder: Path) -> None:
    """Raise BackupError for what was left by a process that was killed before its check ended."""
    if folder.name.startswith(PARTIAL):
        raise BackupError(f"{folder} is no backup: it was not finished and checked.")


def all_in(root: Path) -> list[Path]:
    """Return the folders of the whole backups, the newest first."""
    return sorted((each for each in named(root) if (each / MANIFEST).exists()), reverse=True)


def named(root: Path) -> Iterator[Path]:
    """Yield the folders with the name of a backup: the folder of an owner may hold others too."""
    for folder in root.glob("2*"):
        try:
            made_at(folder)
        except ValueError:
            continue
        yield folder


def made_at(folder: Path) -> datetime:
    """Return the time in a backup's name (UTC). Raises ValueError for another name."""
    return datetime.strptime(folder.name[:20], NAME).replace(tzinfo=UTC)


def is_renamed(folder: Path) -> bool:
    """Return whether somebody has given a backup, or a copy of it, a name of their own."""
    return folder.name != made_at(folder).strftime(NAME)


def content(root: Path, sha256: str) -> Path:
    """Return the place of a content."""
    return root / CONTENTS / sha256[:2] / sha256


def contents(root: Path) -> Iterator[Path]:
    """Yield the files with the name of a content, and what a kill left of one."""
    for path in (root / CONTENTS).glob("??/*"):
        if STORED.fullmatch(path.name) and path.is_file():
            yield path
