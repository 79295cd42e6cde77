"""Whether this process and the database are of one version: the newest migration of each app.

A process knows what lay on its disk when it started, so that a deployment which changes the files
under it makes it outdated, not new. Numbers are compared, not names: a migration that was squashed
or renamed leaves its row behind.
"""

from collections.abc import Iterable
from functools import cache
from pathlib import Path

from django.apps import apps
from django.conf import settings
from django.db import DEFAULT_DB_ALIAS, DatabaseError, connections
from django.db.migrations.recorder import MigrationRecorder

from core import VERSION
from core.database import driver

Newest = dict[str, int]
APPLIED = "SELECT app, name FROM django_migrations"
# Plain statements: older or newer code may know neither the table nor its columns.
MIGRATED_BY = "SELECT version FROM core_installation WHERE id = 1"
NOTE_VERSION = """INSERT INTO core_installation (id, version, files_mark) VALUES (1, %s, '')
    ON CONFLICT (id) DO UPDATE SET version = excluded.version"""


@cache
def own() -> Newest:
    """Return the newest migration of each of our apps on disk; first read when Django starts."""
    folders = {each.label: Path(each.path) for each in apps.get_app_configs()}
    return {
        label: newest(path.stem for path in (folder / "migrations").glob("*.py"))
        for label, folder in folders.items()
        if label in settings.OWN_APPS and (folder / "migrations").is_dir()
    }


def newest(names: Iterable[str]) -> int:
    """Return the highest number that begins a name; 0 when there is none."""
    return max((int(name[:4]) for name in names if name[:4].isdigit()), default=0)


def applied(using: str = DEFAULT_DB_ALIAS) -> Newest:
    """Return the newest migration of each of our apps in a database. Raises DatabaseError."""
    try:
        # Without checking that the table exists, which takes ten times as long.
        rows: Iterable[tuple[str, str]] = driver.fetch(connections[using], APPLIED, ())
    except DatabaseError:
        rows = MigrationRecorder(connections[using]).applied_migrations()
    return {label: newest(name for app, name in rows if app == label) for label in own()}


def newer() -> str:
    """Return why this code must not use the database: newer code has migrated it; else "".

    Raises DatabaseError.
    """
    there = applied()
    for label, mine in own().items():
        if there[label] > mine:
            return (
                f"The database was migrated by newer code{belonging()} ({label} "
                f"{there[label]:04d}, known here up to {mine:04d}; this is version {VERSION}): "
                "restart this process with the new code."
            )
    return ""


def older() -> str:
    """Return why this code cannot use the database yet: it needs a migration; else "".

    Raises DatabaseError.
    """
    there = applied()
    for label, mine in own().items():
        if there[label] < mine:
            return (
                f"The database is older than the code ({label} {there[label]:04d}, needed "
                f"{mine:04d}): run `manage.py migrate`."
            )
    return ""


def problem() -> str:
    """Return why this process and the database do not fit, for the owner; empty when they do.

    Raises DatabaseError.
    """
    there, mine = applied(), own()
    if there == mine:
        return ""
    return newer() or older()


def belonging() -> str:
    """Return `` of version …``, read from the database; empty when it has no record of it."""
    try:
        rows = driver.fetch(connections[DEFAULT_DB_ALIAS], MIGRATED_BY, ())
    except DatabaseError:
        return ""
    return f" of version {rows[0][0]}" if rows and rows[0][0] else ""


def note_version() -> None:
    """Write down that this code has migrated the database. Raises DatabaseError."""
    driver.execute(connections[DEFAULT_DB_ALIAS], NOTE_VERSION, [VERSION])
