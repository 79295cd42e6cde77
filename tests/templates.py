"""Migrated, empty databases to copy: a migration takes seconds, a copy none.

``make test`` names one folder for all of its test processes (``TEST_TEMPLATES``): the first that
asks makes the file. A test process of its own has a folder of its own.
"""

import fcntl
import os
from pathlib import Path

from tests.gateways import Gateway

VARIABLE = "TEST_TEMPLATES"


def shared() -> Path | None:
    """Return the folder of the run; None in a test process of its own."""
    folder = os.environ.get(VARIABLE)
    return Path(folder) if folder else None


def sqlite(folder: Path) -> Path:
    """Return the file of a migrated SQLite database in ``folder``."""
    made = folder / "migrated.sqlite3"
    with (folder / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not made.exists():
            (folder / "home").mkdir()
            making = folder / "making.sqlite3"
            gateway = Gateway(folder=folder, database_url=f"sqlite:///{making}")
            gateway.manage("migrate", "--verbosity", "0")
            making.rename(made)
    return made
