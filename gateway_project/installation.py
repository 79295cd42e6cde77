"""Prepare an installation before its processes start: tables, static files, an owner."""

import hashlib
from contextlib import AbstractContextManager
from pathlib import Path

from django.conf import settings
from django.contrib.auth.hashers import make_password
from django.contrib.staticfiles.finders import get_finders
from django.core.management import CommandError, call_command
from django.db import connection
from django.db.migrations.exceptions import InconsistentMigrationHistory
from django.db.migrations.executor import MigrationExecutor

from core import VERSION
from core.database import schema_version
from core.models import User
from gateway_project.processes import console
from gateway_project.processes.preflight import StartError, waited_lock

OWNER = "owner"


def one_at_a_time() -> AbstractContextManager[None]:
    """Serialise starters on one home."""
    return waited_lock(settings.GATEWAY_HOME, "prepare")


def migrate() -> int:
    """Apply migrations; return how many. Raises StartError for a database that stays unusable."""
    executor = MigrationExecutor(connection)
    check_usable(executor)
    plan = executor.migration_plan(executor.loader.graph.leaf_nodes())
    if plan:
        try:
            call_command("migrate", interactive=False, verbosity=0)
        except CommandError as error:
            raise StartError(str(error)) from error
    return len(plan)


def check_usable(executor: MigrationExecutor) -> None:
    """Raise StartError for a database of other migrations, or of newer code."""
    try:
        executor.loader.check_consistent_history(connection)
    except InconsistentMigrationHistory as error:
        raise StartError(
            f"this database was made by code that this version ({VERSION}) cannot upgrade: {error} "
            "Go on with the code that made it, or restore a copy that this version has made "
            "(docs/deploy.md)."
        ) from error
    if newer := schema_version.newer():
        raise StartError(newer)


def failed_migration(error: Exception) -> str:
    """Describe a failed migration: which one, why, and the resulting state."""
    executor = MigrationExecutor(connection)
    plan = executor.migration_plan(executor.loader.graph.leaf_nodes())
    name = f"{plan[0][0].app_label}.{plan[0][0].name}" if plan else "after the last one"
    return (
        f"The migration {name} failed: {console.reason(error)}. Nothing of it was kept, the ones "
        "before it were. `manage.py migrate --traceback` shows the whole error; docs/deploy.md "
        "says how to go back."
    )


def collect_static() -> bool:
    """Collect static files when those of the apps, or the collected ones, have changed; return
    whether it did.

    From an empty folder: `collectstatic` skips a file that is older than its copy, which the file
    of a newer package may be. A power cut may leave collected files empty.
    """
    stamp, now = settings.STATIC_ROOT / ".collected", fingerprint()
    if stamp.exists() and stamp.read_text() == f"{now} {collected()}":
        return False
    call_command("collectstatic", interactive=False, clear=True, verbosity=0)
    stamp.write_text(f"{now} {collected()}")
    return True


def fingerprint() -> str:
    """Return a digest over path, size and time of every static file of every app."""
    digest = hashlib.sha256(settings.STORAGES["staticfiles"]["BACKEND"].encode())
    for finder in get_finders():
        for name, storage in finder.list([]):
            status = Path(storage.path(name)).stat()
            digest.update(f"{name}\0{status.st_size}\0{status.st_mtime_ns}\n".encode())
    return digest.hexdigest()


def collected() -> str:
    """Return a digest over path and size of every collected file."""
    digest = hashlib.sha256()
    for path in sorted(settings.STATIC_ROOT.rglob("*")):
        if path.is_file() and path.name != ".collected":
            name = path.relative_to(settings.STATIC_ROOT)
            digest.update(f"{name}\0{path.stat().st_size}\n".encode())
    return digest.hexdigest()


def ensure_owner() -> tuple[User | None, bool]:
    """Return the first active owner, and whether it was just created.

    ``None`` when all owners were deactivated: that was a decision, so no new one is created.
    """
    owners = User.objects.filter(is_owner=True).order_by("id")
    if owners.exists():
        return owners.filter(is_active=True).first(), False
    owner, _ = User.objects.update_or_create(
        username=OWNER,
        defaults={
            "is_owner": True,
            "is_staff": True,
            "is_superuser": True,
            "is_active": True,
            "only_listed": True,
            "display_name": "Owner",
            "password": make_password(None),  # unusable: the owner signs in by a link
        },
    )
    return owner, True
