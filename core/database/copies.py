"""Copies of the whole database while it is in use, and what is in them."""

import os
import shutil
import sqlite3
import subprocess
from contextlib import closing
from pathlib import Path
from typing import Any

from django.db import connection

PAGES_A_STEP = 2000  # of 4 KiB; between two steps writers go on
SECONDS_BETWEEN_STEPS = 0.005
PROGRAM_SECONDS = 6 * 3600


class CopyError(Exception):
    """The database could not be copied, checked or filled; the text says why, without secrets."""


def is_sqlite() -> bool:
    return connection.vendor == "sqlite"


def copy(target: Path) -> None:
    """Copy the database into ``target``: a database of SQLite, or an archive of ``pg_dump``.

    It is the state of one moment, not before the call. Raises CopyError.
    """
    if is_sqlite():
        copy_sqlite(Path(connection.settings_dict["NAME"]), target)
    else:
        run("pg_dump", "--format=custom", "--no-owner", "--no-privileges", f"--file={target}")


def copy_sqlite(source: Path, target: Path) -> None:
    """Copy one database of SQLite with its online backup API.

    In one transaction of reading: a copy that is made in several, as by ``sqlite3``'s own
    ``pages``, begins anew whenever another process writes, and never ends beside a busy gateway.
    """
    try:
        with (
            closing(sqlite3.connect(source, timeout=20)) as old,
            closing(sqlite3.connect(target)) as new,
        ):
            old.isolation_level = None
            old.execute("PRAGMA query_only = on")
            old.execute("BEGIN")
            old.execute("SELECT count(*) FROM sqlite_master").fetchone()
            old.backup(new, pages=PAGES_A_STEP, sleep=SECONDS_BETWEEN_STEPS)
            new.execute("PRAGMA journal_mode=DELETE")
    except sqlite3.Error as error:
        raise CopyError(f"The database could not be copied: {error}.") from error


def check(copied: Path) -> dict[str, int]:
    """Return the number of rows by table of a copy of SQLite. Raises CopyError if it is damaged."""
    try:
        with closing(sqlite3.connect(f"file:{copied}?mode=ro", uri=True)) as opened:
            found = [row[0] for row in opened.execute("PRAGMA integrity_check(3)")]
            if found != ["ok"]:
                raise CopyError(f"The copy of the database is damaged: {found[0]}.")
            return {name: count(opened, name) for name in tables(opened)}
    except sqlite3.Error as error:
        raise CopyError(f"The copy of the database cannot be read: {error}.") from error


def tables(opened: sqlite3.Connection) -> list[str]:
    """Return the names of the tables with rows of their own."""
    rows = opened.execute(
        "SELECT name FROM sqlite_master WHERE type = 'table' AND sql NOT LIKE 'CREATE VIRTUAL%'"
    )
    names = sorted(row[0] for row in rows)
    return [name for name in names if not name.startswith(("sqlite_", "core_search"))]


def count(opened: sqlite3.Connection, name: str) -> int:
    number: int = opened.execute(f'SELECT count(*) FROM "{name}"').fetchone()[0]  # noqa: S608 - its own table
    return number


def read_through(archive: Path) -> None:
    """Read a whole archive of ``pg_dump``. Raises CopyError when it is damaged."""
    run("pg_restore", "--file=/dev/null", str(archive), connects=False)


def fill(copied: Path) -> None:
    """Fill the empty database of this installation from an archive. Raises CopyError."""
    if connection.introspection.table_names():
        raise CopyError("The database is not empty. Restore into a new one (DATABASE_URL).")
    connection.close()
    run(
        "pg_restore",
        "--no-owner",
        "--no-privileges",
        "--exit-on-error",
        "--single-transaction",
        f"--dbname={connection.settings_dict['NAME']}",
        str(copied),
    )


def run(program: str, *arguments: str, connects: bool = True) -> None:
    """Run a program of PostgreSQL on this installation's database. Raises CopyError."""
    found = shutil.which(program)
    if found is None:
        raise CopyError(f"{program} is missing: install PostgreSQL's client programs.")
    environment = os.environ | (parameters(connection.settings_dict) if connects else {})
    try:
        done = subprocess.run(
            [found, *arguments],
            env=environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=PROGRAM_SECONDS,
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        raise CopyError(
            f"{program} has not ended after {PROGRAM_SECONDS // 3600} hours."
        ) from error
    if done.returncode:
        said = " ".join(done.stderr.split()) or "no reason given"
        raise CopyError(f"{program} failed: {said[:500]}")


def parameters(given: dict[str, Any]) -> dict[str, str]:
    """Return libpq's environment for a database of the settings: no password in a command line."""
    own = {
        "PGHOST": given["HOST"],
        "PGPORT": given["PORT"],
        "PGUSER": given["USER"],
        "PGPASSWORD": given["PASSWORD"],
        "PGDATABASE": given["NAME"],
        "PGSSLMODE": given["OPTIONS"].get("sslmode"),
        "PGSSLROOTCERT": given["OPTIONS"].get("sslrootcert"),
    }
    return {name: str(value) for name, value in own.items() if value}
