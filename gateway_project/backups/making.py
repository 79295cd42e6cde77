"""Make a backup while the gateway runs."""

import fcntl
import shutil
import stat
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import TextIO

from django.conf import settings
from django.db import connection

from core import VERSION
from core.database import copies, schema_version
from core.database.copies import CopyError
from core.files import storage
from core.lib import disk
from gateway_project import home
from gateway_project.backups import manifest, sealed
from gateway_project.backups.manifest import BackupError, Manifest, Stored

# Below GATEWAY_HOME; everything else there is made again at the next start.
KEPT_FOLDERS = ("files", "skills")
LOOK_SECONDS = 1.0


def default_root() -> Path:
    """Return the folder of the backups unless another one is named in a command."""
    return Path(settings.BACKUP_FOLDER or home.directory() / "backups").resolve()


def make(root: Path, *, passphrase: str, now: datetime) -> Path:
    """Make a backup in ``root``; return its folder, which is none of a backup until ``finish``.
    Without a passphrase it has no keys.

    Under the lock of ``root``. Leftovers of a kill are removed. Raises BackupError.
    """
    try:
        remove_unfinished(root)
        return write_parts(root, passphrase=passphrase, now=now.astimezone(UTC))
    except CopyError as error:
        raise BackupError(str(error)) from error
    except OSError as error:
        where = f" ({error.filename})" if error.filename else ""
        raise BackupError(
            f"The backup could not be written: {error.strerror or error}{where}."
        ) from error


def remove_unfinished(root: Path) -> None:
    """Remove what has not become a backup; contents of files stay. Raises OSError."""
    for left in root.glob(f"{manifest.PARTIAL}*"):
        shutil.rmtree(left)


def finish(partial: Path) -> Path:
    """Give a backup that was checked its name; return it. Raises BackupError."""
    target = partial.with_name(partial.name.removeprefix(manifest.PARTIAL))
    try:
        partial.rename(target)
        disk.sync(target.parent)
    except OSError as error:
        raise BackupError(f"The backup could not be named: {error.strerror or error}.") from error
    return target


@contextmanager
def one_at_a_time(root: Path, *, wait_seconds: float = 0) -> Iterator[None]:
    """Hold the lock of the backups in ``root``, a folder that is made if it is missing.

    Raises BackupError when another process has it so long, or the folder is part of what is backed
    up.
    """
    if any(root.is_relative_to((home.directory() / name).resolve()) for name in KEPT_FOLDERS):
        raise BackupError(f"{root} is backed up itself: name another folder.")
    try:
        root.mkdir(parents=True, exist_ok=True, mode=0o700)
        file = (root / ".lock").open("w")
    except OSError as error:
        raise BackupError(f"{root} cannot be used: {error.strerror or error}.") from error
    deadline = time.monotonic() + wait_seconds
    with file:
        while not try_lock(file, root):
            if time.monotonic() >= deadline:
                raise BackupError("Another backup is being made or checked.")
            time.sleep(LOOK_SECONDS)
        yield


def try_lock(file: TextIO, root: Path) -> bool:
    """Lock a file of ``root`` until it is closed; return whether no other process has it. Raises
    BackupError on a disk without locks, as some shares of NFS.
    """
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError as error:
        raise BackupError(f"{root} cannot be used: {error.strerror or error}.") from error
    return True


def write_parts(root: Path, *, passphrase: str, now: datetime) -> Path:
    """Write the parts to the disk, under another name."""
    name = now.strftime(manifest.NAME)
    partial = root / f"{manifest.PARTIAL}{name}"
    if (root / name).exists():
        raise BackupError(f"{root / name} is there already.")
    partial.mkdir(mode=0o700)
    database = partial / manifest.DATABASE
    copies.copy(database)
    database.chmod(0o600)
    disk.sync(database)
    if passphrase:
        sealed.seal(partial / manifest.SEALED, passphrase)
        disk.sync(partial / manifest.SEALED)
    found = Manifest(
        made_at=now.isoformat(),
        version=VERSION,
        vendor=connection.vendor,
        migrations=schema_version.applied(),
        rows=copies.count_rows(database) if connection.vendor == "sqlite" else {},
        database=storage.digest_of(database),
        files=list(store_files(root)),
        has_secrets=bool(passphrase),
    )
    manifest.write(partial, found)
    disk.sync(partial)
    return partial


def store_files(root: Path) -> Iterator[Stored]:
    """Store the content of every file that belongs to the installation, and yield it.

    After the database was copied: all files that it names are there. One that was removed meanwhile
    (revoked, or of a deleted conversation) is left out.
    """
    base = home.directory()
    for folder in KEPT_FOLDERS:
        for path in sorted((base / folder).rglob("*")):
            if path.is_symlink() or not path.is_file():
                continue
            try:
                yield store_file(root, path, str(path.relative_to(base)))
            except FileNotFoundError:
                continue


def store_file(root: Path, path: Path, name: str) -> Stored:
    """Store the content of one file unless it is there, undamaged. Raises OSError.

    The file may grow meanwhile: its content is what was copied.
    """
    digest = storage.digest_of(path)
    target = manifest.content(root, digest)
    if not target.exists() or storage.digest_of(target) != digest:
        target.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        scratch = target.with_name(f".{digest}")
        shutil.copyfile(path, scratch)
        scratch.chmod(0o600)
        disk.sync(scratch)
        digest = storage.digest_of(scratch)
        target = manifest.content(root, digest)
        target.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        scratch.replace(target)
        disk.sync(target.parent)
    is_executable = bool(path.stat().st_mode & stat.S_IXUSR)
    return Stored(name, digest, target.stat().st_size, is_executable)
