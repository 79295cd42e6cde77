"""Checks before a start, each with a fix."""

import fcntl
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TextIO

from gateway_project import home

MINIMUM_FREE_BYTES = 200 * 1024 * 1024


class StartError(Exception):
    """The gateway cannot start; the text gives the reason and a fix."""


def run_folder(folder: Path) -> Path:
    """Return the folder of a running gateway's state: lock, ports, pids."""
    return folder / "run"


def make_run_folder(folder: Path) -> None:
    """Make that folder unless it is there, for this user alone, whatever the umask: the next start
    runs a script that an update left there. Raises OSError.
    """
    run_folder(folder).mkdir(parents=True, exist_ok=True, mode=0o700)
    with suppress(OSError):  # another user made it, or the share has no modes
        run_folder(folder).chmod(0o700)


def restoring_mark(folder: Path) -> Path:
    """Return the file that is there while a backup is being restored into this home."""
    return run_folder(folder) / "restoring"


def unfinished_restore(folder: Path) -> str:
    """Return why this home must not start: a restore was begun and not finished, and the gateway
    could answer twice. Empty when there is no such reason.
    """
    if not restoring_mark(folder).exists():
        return ""
    return (
        f"a restore into GATEWAY_HOME {folder} was not finished. Remove that folder (and the "
        "new database, if it is on a server), and run `manage.py restore` again."
    )


def check_home(folder: Path) -> None:
    """Create ``folder`` if missing. Raises ``StartError`` when it cannot be written or has no
    locks, or is full, and where nothing can be written for a moment: SQLite would say that the disk
    has failed.
    """
    try:
        make_run_folder(folder)
        probe = run_folder(folder) / f".probe.{os.getpid()}"
        with probe.open("wb") as file:
            file.write(b"x" * 4096)
            fcntl.flock(file, fcntl.LOCK_EX)  # some shares of NFS have no locks
        probe.unlink()
        free = shutil.disk_usage(folder).free
    except OSError as error:
        raise StartError(home.explain(error)) from error
    if free < MINIMUM_FREE_BYTES:
        raise StartError(
            f"only {free // 2**20} MB are free where GATEWAY_HOME is ({folder}); the gateway needs "
            f"{MINIMUM_FREE_BYTES // 2**20} MB. Free some space or set GATEWAY_HOME elsewhere."
        )
    try:
        tempfile.gettempdir()
    except FileNotFoundError as error:
        raise StartError(
            "no folder for temporary files can be written (/tmp, /var/tmp): make one writable, "
            "free its disk, or name another one in TMPDIR."
        ) from error
    if unfinished := unfinished_restore(folder):
        raise StartError(unfinished)


@contextmanager
def waited_lock(folder: Path, name: str) -> Iterator[None]:
    """Wait for the lock ``name`` of this home, and hold it; it ends with the process."""
    make_run_folder(folder)
    with (run_folder(folder) / f"{name}.lock").open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def lock_file(folder: Path) -> Path:
    """Return the file that a gateway locks while it runs on this home."""
    return run_folder(folder) / "up.lock"


def lock(folder: Path) -> TextIO:
    """Lock this home until the result is closed. Raises StartError if another gateway has it, or
    another user made the file.
    """
    try:
        file = lock_file(folder).open("a+", encoding="utf-8")
    except OSError as error:
        raise StartError(
            f"{lock_file(folder)} cannot be opened ({error.strerror or error}): a gateway was "
            "started here as another user. When none runs, give all of GATEWAY_HOME to this user "
            "(chown -R)."
        ) from error
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        file.seek(0)
        holder = file.read().strip() or "unknown"
        file.close()
        raise StartError(
            f"another gateway (pid {holder}) runs on GATEWAY_HOME {folder}. Stop it first, "
            "or give this one its own GATEWAY_HOME and GATEWAY_PORT."
        ) from error
    file.truncate(0)
    file.write(str(os.getpid()))
    file.flush()
    return file
