"""Files, and names in folders, that outlast a power cut."""

import errno
import os
from pathlib import Path

# Of a folder, where a disk knows nothing of that: shared folders of virtual machines, for example.
NOT_FOR_FOLDERS = (errno.EINVAL, errno.EBADF)

FULL = (errno.ENOSPC, errno.EDQUOT)


def sync(path: Path) -> None:
    """Write a file, or the names in a folder, to the disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    except OSError as error:
        if not (error.errno in NOT_FOR_FOLDERS and path.is_dir()):
            raise
    finally:
        os.close(descriptor)


def write(path: Path, text: str) -> None:
    """Write a file that its user alone may read, to the disk."""
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "w", encoding="utf-8") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())


def sync_within(folder: Path, path: Path) -> None:
    """Write a file to the disk, with the names that lead to it from a folder."""
    sync(path)
    for each in path.parents:
        sync(each)
        if each == folder:
            return
