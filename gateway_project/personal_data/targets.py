"""Where an export is written: a folder, or an archive of the same files."""

import shutil
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

    def copy(self, source: Path, name: str) -> None:
        """Copy a file of the disk. Raises OSError when it cannot be read."""
        ...


class Folder:
    """A folder that is not there yet, or empty; for this user alone."""

    def __init__(self, path: Path) -> None:
        self.path = path
        path.mkdir(parents=True, exist_ok=True, mode=0o700)

    @contextmanager
    def opened(self, name: str) -> Iterator[IO[bytes]]:
        with self.place(name).open("xb") as file:
            yield file

    def copy(self, source: Path, name: str) -> None:
        shutil.copyfile(source, self.place(name))

    def place(self, name: str) -> Path:
        """Return the path of a file, whose folder is there."""
        path = self.path / name
        path.parent.mkdir(exist_ok=True, mode=0o700)
        path.touch(mode=0o600, exist_ok=False)
        path.unlink()
        return path


class Archive:
    """A zip archive."""

    def __init__(self, archive: zipfile.ZipFile) -> None:
        self.archive = archive

    def opened(self, name: str) -> AbstractContextManager[IO[bytes]]:
        return self.archive.open(name, "w", force_zip64=True)

    def copy(self, source: Path, name: str) -> None:
        with source.open("rb") as file, self.opened(name) as copied:
            shutil.copyfileobj(file, copied)
