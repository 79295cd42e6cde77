"""Bring a backup back: into a scratch home to check it, or into an empty one to go on with it."""

import json
import os
import shutil
import subprocess
import tempfile
from datetime import datetime
from pathlib import Path

from django.conf import settings
from django.db import connection
from django.utils import timezone

from channels_app.ops import restored
from channels_app.ops.doctor import examination
from channels_app.ops.restored import Held
from core.database import copies, schema_version
from core.database.copies import CopyError
from core.files import storage
from core.lib import child
from gateway_project import command_line, databases, environment, home, installation
from gateway_project.backups import making, manifest, sealed
from gateway_project.backups.manifest import BackupError, Manifest
from gateway_project.processes import preflight
from gateway_project.processes.preflight import StartError

DOCTOR_SECONDS = 300
# Ids of the doctor's errors that say that nothing runs there, or what the work of the moment is: it
# goes on where the copy is from.
OF_THE_MOMENT = frozenset(
    {"not-ready", "schedules", "dead-deliveries", "channel", "model", "clock"}
)


def verify(folder: Path) -> Manifest:
    """Check a backup by bringing it back into a scratch folder beside it; return its manifest.
    Under the lock of the backups. Raises BackupError.
    """
    found = manifest.read(folder)
    root = folder.parent
    with tempfile.TemporaryDirectory(prefix=f"{manifest.PARTIAL}check-", dir=root) as scratch:
        try:
            copied = Path(scratch) / manifest.DATABASE
            bring_database(folder, found, copied)
            bring_files(folder, found, Path(scratch))
            if found.vendor == "sqlite":
                if (rows := copies.count_rows(copied, check=True)) != found.rows:
                    raise BackupError(f"{folder}: the tables have other rows than noted: {rows}.")
                examine(Path(scratch), found, databases.of_file(copied))
            elif why_only_read(found):
                copies.read_through(copied)
            else:
                with copies.tried(copied) as name:
                    url = databases.beside(environment.text("DATABASE_URL"), name)
                    examine(Path(scratch), found, url)
        except CopyError as error:
            raise BackupError(str(error)) from error
        except OSError as error:
            raise BackupError(f"{folder} cannot be read: {error.strerror or error}.") from error
    return found


def why_only_read(found: Manifest) -> str:
    """Return why the archive of a backup is read through and not restored; empty when it is."""
    if found.vendor == "sqlite":
        return ""
    is_server = connection.vendor != "sqlite"
    return copies.why_not_tried() if is_server else "DATABASE_URL names no server"


def examine(scratch: Path, found: Manifest, url: str) -> None:
    """Run the doctor on what was brought back, with the database at ``url``. Raises BackupError for
    an error that this installation has not itself: no process runs there, and it takes space.

    Not on a backup of an older version.
    """
    if found.migrations != schema_version.own():
        return
    try:
        done = subprocess.run(
            # Killed, it leaves no process in the folder that the next check removes.
            child.command(*command_line.command("doctor", "--json")),
            cwd=settings.BASE_DIR,
            env=os.environ | scratch_env(scratch, url),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=DOCTOR_SECONDS,
            check=False,
        )
        found_there = errors(json.loads(done.stdout))
        said = {(each["id"], each["what"]) for each in found_there if each["id"] != "disk"}
    except (ValueError, subprocess.TimeoutExpired) as error:
        raise BackupError("The doctor could not look at what was brought back.") from error
    own = {(each.id, each.what) for each in examination.examine(now=timezone.now())}
    if new := sorted(said - own):
        raise BackupError(f"The doctor says of what was brought back: {new[0][1]}")


def scratch_env(scratch: Path, url: str) -> dict[str, str]:
    """Return the settings of a home in ``scratch``, with the database ``url`` and our keys."""
    given = {
        "GATEWAY_HOME": str(scratch),
        "DATABASE_URL": url,
        "SECRET_KEY": settings.SECRET_KEY,
        "GATEWAY_ENCRYPTION_KEYS": ",".join(settings.GATEWAY_ENCRYPTION_KEYS),
    }
    return given | {f"{name}_FILE": "" for name in given}  # a file would come before the value


def errors(findings: list[dict[str, str]]) -> list[dict[str, str]]:
    """Return the errors of the doctor that are of a copy, or of a gateway that does not run."""
    return [
        each for each in findings if each["level"] == "error" and each["id"] not in OF_THE_MOMENT
    ]


def bring_database(folder: Path, found: Manifest, target: Path) -> None:
    """Copy the database of a backup. Raises BackupError when it is damaged, OSError."""
    if bring(folder / manifest.DATABASE, target) != found.database:
        raise BackupError(f"{folder} is damaged: its database has changed.")


def bring_files(folder: Path, found: Manifest, base: Path) -> None:
    """Copy the files of a backup below ``base``. Raises BackupError for a damaged one, OSError."""
    for each in found.files:
        # A folder of the home may be a link to another disk.
        target = base / each.path
        if ".." in target.parts or not target.is_relative_to(base):
            raise BackupError(f"{folder} is damaged: it names a file outside of the home.")
        target.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        source = manifest.content(folder.parent, each.sha256)
        if not source.exists():
            raise BackupError(f"{folder} is damaged: {each.path} is missing.")
        if bring(source, target) != each.sha256:
            raise BackupError(f"{folder} is damaged: {each.path} has changed.")
        if each.is_executable:
            target.chmod(0o700)


def bring(source: Path, target: Path) -> str:
    """Copy one file, for this user alone; return the digest of the copy. Raises OSError."""
    shutil.copyfile(source, target)
    target.chmod(0o600)
    return storage.digest_of(target)


def restore(folder: Path, *, passphrase: str, now: datetime) -> Held:
    """Bring a backup back into this empty home and hold what was open; return what is held.

    Raises BackupError; a home in which that happens half-way does not start.
    """
    manifest.check_finished(folder)
    found = manifest.read(folder)
    check_fits(found)
    keys = keys_of(folder, found, passphrase)
    base = home.directory()
    try:
        preflight.check_home(base)
        with preflight.lock(base):
            check_empty(base)
            mark = preflight.restoring_mark(base)
            mark.write_text(str(folder), encoding="utf-8")
            bring_files(folder, found, base)
            for name, value in keys.items():
                home.replace_keys(name, value.split())
            fill(folder, found, base)
            held = restored.hold(made_at=found.moment, now=now)
            # After a power cut it must not be gone before all that was brought back is there.
            os.sync()
            mark.unlink()
    except (StartError, CopyError) as error:
        raise BackupError(str(error)) from error
    except OSError as error:
        raise BackupError(
            f"The backup could not be restored: {error.strerror or error}."
        ) from error
    return held


def fill(folder: Path, found: Manifest, base: Path) -> None:
    """Bring the database back, and to this version. Raises BackupError, CopyError, StartError,
    OSError.
    """
    if connection.vendor == "sqlite":
        bring_database(folder, found, Path(connection.settings_dict["NAME"]))
    else:
        copied = base / ".restored"
        bring_database(folder, found, copied)
        copies.fill(copied)
        copied.unlink()
    installation.migrate()


def keys_of(folder: Path, found: Manifest, passphrase: str) -> dict[str, str]:
    """Return the keys of a backup; none where it has none. Raises BackupError."""
    if not found.has_secrets:
        return {}
    if not passphrase:
        raise BackupError(
            "The keys of this backup need its passphrase: set BACKUP_PASSPHRASE, or "
            "BACKUP_PASSPHRASE_FILE to a file with it."
        )
    return sealed.opened(folder / manifest.SEALED, passphrase)


def check_fits(found: Manifest) -> None:
    """Raise BackupError for a backup of newer code, or of the other kind of database."""
    vendor = connection.vendor
    if found.vendor != vendor:
        raise BackupError(f"This is a backup of {found.vendor}, and DATABASE_URL names {vendor}.")
    own = schema_version.own()
    if any(number > own.get(label, number) for label, number in found.migrations.items()):
        raise BackupError(
            f"This backup was made by newer code (version {found.version}): restore it with that."
        )


def check_empty(base: Path) -> None:
    """Raise BackupError unless this home has no conversations and no files yet."""
    taken = [base / name for name in making.KEPT_FOLDERS if has_files(base / name)]
    if not copies.is_empty():
        if connection.vendor != "sqlite":
            raise BackupError("The database is not empty. Restore into a new one (DATABASE_URL).")
        taken.append(Path(connection.settings_dict["NAME"]))
    if connection.vendor == "sqlite":
        # SQLite would write the log of a database that was moved away into the one that comes.
        logs = [Path(f"{connection.settings_dict['NAME']}{end}") for end in ("-wal", "-journal")]
        taken += [path for path in logs if path.exists()]
    if taken:
        raise BackupError(
            f"{taken[0]} is there already: a backup is restored into an empty GATEWAY_HOME. Move "
            "the old one aside, or name another."
        )


def has_files(folder: Path) -> bool:
    """Return whether a folder has anything; one that is a disk of its own has a folder for fsck."""
    return any(each.name != "lost+found" for each in folder.glob("*"))
