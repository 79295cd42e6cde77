"""Where an export is written: a folder, or an archive of the same files."""

import os
import zipfile
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import IO, Protocol


class Target(Protocol):
    """Takes files, one after the other."""

    def opened(self, name: str) -> AbstractContextManager[IO[bytes]]:
        """Open a new file, whose name may have folders, for writing."""
        ...


class Folder:
    """A folder that is not there yet, or empty; for this user alone."""

    def __init__(self, path: Path) -> None:
        self.path = path
        path.mkdir(parents=True, exist_ok=True, mode=0o700)

    @contextmanager
    def opened(self, name: str) -> Iterator[IO[bytes]]:
        path = self.path / name
        path.parent.mkdir(exist_ok=True, mode=0o700)
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(descriptor, "wb") as file:
            yield file


class Archive:
    """A zip archive."""

    def __init__(self, archive: zipfile.ZipFile) -> None:
        self.archive = archive

    def opened(self, name: str) -> AbstractContextManager[IO[bytes]]:
        return self.archive.open(name, "w", force_zip64=True)
