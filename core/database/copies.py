"""Copies of the whole database while it is in use, and what is in them."""

import os
import shutil
import sqlite3
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from pathlib import Path

from django.db import Error, connection
from django.db.backends.postgresql.client import DatabaseClient

PAGES_A_STEP = 2000  # of 4 KiB; between two steps writers go on
SECONDS_BETWEEN_STEPS = 0.005
PROGRAM_SECONDS = 6 * 3600
MOST_TRIED_BYTES = 2 * 1024**3


class CopyError(Exception):
    """The database could not be copied, checked or filled; the text says why, without secrets."""


def is_empty() -> bool:
    """Return whether the database of this installation has no tables yet."""
    if connection.vendor == "sqlite":
        return not Path(connection.settings_dict["NAME"]).exists()
    return not connection.introspection.table_names()


def copy(target: Path) -> None:
    """Copy the database into ``target``: a database of SQLite, or an archive of ``pg_dump``.

    It is the state of one moment, not before the call. Raises CopyError.
    """
    if connection.vendor == "sqlite":
        copy_sqlite(Path(connection.settings_dict["NAME"]), target)
    else:
        run_connected(
            "pg_dump", "--format=custom", "--no-owner", "--no-privileges", f"--file={target}"
        )


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


def count_rows(copied: Path, *, check: bool = False) -> dict[str, int]:
    """Return the number of rows by table of a copy of SQLite; ``check``: after every page was read.

    Raises CopyError if it is damaged, as far as was read.
    """
    try:
        with closing(sqlite3.connect(f"{copied.absolute().as_uri()}?mode=ro", uri=True)) as opened:
            said = opened.execute("PRAGMA integrity_check(3)").fetchall() if check else [("ok",)]
            if said != [("ok",)]:
                raise CopyError(f"The copy of the database is damaged: {said[0][0]}.")
            return {
                name: opened.execute(f'SELECT count(*) FROM "{name}"').fetchone()[0]  # noqa: S608 - its own table
                for name in tables(opened)
            }
    except sqlite3.Error as error:
        raise CopyError(f"The copy of the database cannot be read: {error}.") from error


def tables(opened: sqlite3.Connection) -> list[str]:
    """Return the names of the tables with rows of their own."""
    rows = opened.execute(
        "SELECT name FROM sqlite_master WHERE type = 'table' AND sql NOT LIKE 'CREATE VIRTUAL%'"
    )
    names = sorted(row[0] for row in rows)
    return [name for name in names if not name.startswith(("sqlite_", "core_search"))]


def read_through(archive: Path) -> None:
    """Read a whole archive of ``pg_dump``. Raises CopyError when it is damaged."""
    run("pg_restore", "--file=/dev/null", str(archive))


def why_not_tried() -> str:
    """Return why no archive is restored in a database beside this one; empty when one can be."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT rolcreatedb OR rolsuper FROM pg_roles WHERE rolname = current_user")
        [may_create] = cursor.fetchone() or (False,)
        cursor.execute("SELECT pg_database_size(current_database())")
        [size] = cursor.fetchone()
    if not may_create:
        return "the role may not create a database"
    # The disk of the server has to take it, and cannot be looked at from here.
    return "it is larger than 2 GB" if size > MOST_TRIED_BYTES else ""


@contextmanager
def tried(archive: Path) -> Iterator[str]:
    """Restore an archive into a scratch database on the server of this installation; yield its
    name. It is dropped in the end, and that of a process that was killed before. Under a lock.

    Raises CopyError.
    """
    name = f"{connection.settings_dict['NAME'][:40]}_backup_check"
    quoted = connection.ops.quote_name(name)
    try:
        with connection.cursor() as cursor:
            cursor.execute(f"DROP DATABASE IF EXISTS {quoted} WITH (FORCE)")
            cursor.execute(f"CREATE DATABASE {quoted}")
        try:
            fill(archive, database=name)
            yield name
        finally:
            with connection.cursor() as cursor:
                cursor.execute(f"DROP DATABASE IF EXISTS {quoted} WITH (FORCE)")
    except Error as error:
        raise CopyError(f"The archive could not be restored beside: {error}.") from error


def empty() -> None:
    """Remove every table of the database on a server, for :func:`fill`. Raises DatabaseError."""
    names = connection.introspection.table_names()
    if names:
        quoted = ", ".join(map(connection.ops.quote_name, names))
        with connection.cursor() as cursor:
            cursor.execute(f"DROP TABLE {quoted} CASCADE")


def fill(copied: Path, *, database: str = "") -> None:
    """Fill the empty database, or another one of its server, from an archive. Raises CopyError."""
    # The comment of an extension is for its owner to change, who may be a superuser.
    left_out = ("--no-owner", "--no-privileges", "--no-comments")
    options = (*left_out, "--exit-on-error", "--single-transaction")
    run_connected("pg_restore", *options, str(copied), database=database)


def run_connected(program: str, *arguments: str, database: str = "") -> None:
    """Run a program of PostgreSQL on this database, or on ``database``. Raises CopyError."""
    given = connection.settings_dict
    if database:
        given = {**given, "NAME": database}
    # As `dbshell` does: no password in a command line.
    (_, *place), secrets = DatabaseClient.settings_to_cmd_args_env(given, ["--dbname"])
    run(program, *place, *arguments, secrets={**parameters(given["OPTIONS"]), **(secrets or {})})


def parameters(options: Mapping[str, object]) -> dict[str, str]:
    """Return libpq's parameters as environment variables: ``dbshell`` passes few of them on."""
    from psycopg import pq  # noqa: PLC0415 - 9 MB that a worker on SQLite does without

    known = {each.keyword.decode(): each.envvar for each in pq.Conninfo.get_defaults()}
    names = {name: found.decode() for name in options if (found := known.get(name))}
    return {variable: str(options[name]) for name, variable in names.items()}


def run(program: str, *arguments: str, secrets: Mapping[str, str] | None = None) -> None:
    """Run a program of PostgreSQL; ``secrets``: additions to its environment. Raises CopyError."""
    found = shutil.which(program)
    if found is None:
        raise CopyError(f"{program} is missing: install PostgreSQL's client programs.")
    try:
        done = subprocess.run(
            [found, *arguments],
            env={**os.environ, **(secrets or {})},
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
