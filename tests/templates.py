"""Migrated, empty databases and static files to copy into gateways. To make them takes
seconds, a copy none.

``make test`` names one folder for all of its test processes (``TEST_TEMPLATES``): the first that
asks makes the file or the cluster. A test process of its own has a folder of its own.
"""

import fcntl
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from gateway_project.processes import listener
from tests import settings
from tests.gateways import Gateway
from tests.servers import Postgres

NAME = "template_gateway"


def shared() -> Path | None:
    """Return the folder of the run; None in a test process of its own."""
    folder = os.environ.get("TEST_TEMPLATES")
    return Path(folder) if folder else None


@contextmanager
def alone(folder: Path, name: str) -> Iterator[None]:
    """Wait until no other process is in such a block of ``name``."""
    with (folder / f"{name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def sqlite(folder: Path) -> Path:
    """Return the file of a migrated SQLite database in ``folder``."""
    made = folder / "migrated.sqlite3"
    with alone(folder, "sqlite"):
        if not made.exists():
            (folder / "home").mkdir(exist_ok=True)
            making = folder / "making.sqlite3"
            gateway = Gateway(folder=folder, database_url=f"sqlite:///{making}")
            gateway.manage("migrate", "--verbosity", "0")
            making.rename(made)
    return made


def postgres(folder: Path) -> Path:
    """Return the folder of a PostgreSQL that is stopped and has the database ``NAME``, migrated."""
    made = folder / "postgres"
    with alone(folder, "postgres"):
        if not made.exists():
            server = Postgres(
                folder=folder / "making",
                port=listener.free_port(),
                password=settings.POSTGRES_PASSWORD,
            )
            server.start()
            migrate(server, folder)
            server.stop()
            server.folder.rename(made)
    return made


def collect_static(gateway: Gateway) -> None:
    """Put the static files into the home of a gateway: ``collectstatic`` runs once, and costs as
    much as starting the gateway.
    """
    folder = shared() or settings.TEST_HOME
    made = folder / "collected"
    with alone(folder, "static"):
        if not made.exists():
            making = folder / "collecting"
            shutil.rmtree(making, ignore_errors=True)  # of a run that was killed
            making.mkdir()
            maker = Gateway(folder=making, database_url=gateway.database_url)
            maker.manage("collectstatic", "--noinput", "--verbosity", "0")
            (making / "home" / "static").rename(made)
    shutil.copytree(made, gateway.folder / "home" / "static", dirs_exist_ok=True)


def migrate(server: Postgres, folder: Path) -> None:
    """Make the database ``NAME``. ``folder``: of the gateway that migrates it."""
    server.execute(f"CREATE DATABASE {NAME}")
    (folder / "home").mkdir(exist_ok=True)
    Gateway(folder=folder, database_url=server.url(NAME)).manage("migrate", "--verbosity", "0")
