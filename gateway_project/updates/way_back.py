"""The script that brings the version before an update back: its code, environment and database."""

import os
import shlex
import shutil
from collections.abc import Sequence
from pathlib import Path

from django.db import connection, connections

from core.database import copies
from core.database.copies import CopyError
from core.lib import disk
from gateway_project import command_line, databases, home
from gateway_project.processes import holding, preflight
from gateway_project.processes.preflight import StartError, run_folder
from gateway_project.updates.clone import UpdateError

# Hidden arguments of the command (management/commands/update.py).
DATABASE = "--database-back"


def database_before(folder: Path) -> Path:
    """Return the copy of the database that the last update made."""
    return run_folder(folder) / "before-update.database"


def put_aside(folder: Path) -> Path:
    """Return where the script of an update that succeeded is."""
    return run_folder(folder) / "undo-update.sh"


def write(folder: Path, *, version: str, lines: Sequence[str]) -> None:
    """Copy the database and write the script, to the disk. Nothing may run on this home.

    ``lines``: those for the code. Raises CopyError, OSError.
    """
    put_aside(folder).unlink(missing_ok=True)
    copied = database_before(folder)
    copied.unlink(missing_ok=True)
    try:
        copies.copy(copied)
    except CopyError:
        copied.unlink(missing_ok=True)  # it may have filled the disk
        raise
    copied.chmod(0o600)
    connections.close_all()
    disk.sync(copied)
    script = holding.way_back(folder)
    scratch = script.with_suffix(".new")
    place = databases.place(connection.settings_dict)
    command = shlex.join(command_line.command("update", DATABASE, str(copied), place))
    text = [
        "#!/bin/sh",
        f"# Brings Latchkey {version} back, with its database of the moment before the update.",
        "# The gateway must not run. It needs its settings, and can be run again.",
        "set -e",
        # By hand, where the system has flock(1): a gateway that runs has the lock of its home.
        f'[ -n "${holding.IS_HELD}" ] || ! command -v flock >/dev/null || flock -n '
        f"{shlex.quote(str(preflight.lock_file(folder)))} true || {{",
        "    echo 'Stop the gateway first.' >&2",
        "    exit 1",
        "}",
        *lines,
        f"GATEWAY_HOME={shlex.quote(str(home.directory()))} {command}",
        # After a power cut it must neither be missing too soon, nor run again and remove what came
        # since.
        "sync",
        f"rm -f {shlex.quote(str(script))} {shlex.quote(str(put_aside(folder)))}",
        "sync",
        f"rm -f {shlex.quote(str(copied))}",
        f'[ -n "${holding.IS_HELD}" ] || echo "Latchkey {version} is back. Start the gateway."',
        "",
    ]
    scratch.write_text("\n".join(text), encoding="utf-8")
    scratch.chmod(0o700)
    disk.sync(scratch)
    scratch.replace(script)
    disk.sync(script.parent)


def go(folder: Path) -> None:
    """Run the script. Raises UpdateError when it fails; it is there to be run again then."""
    try:
        holding.run_way_back(folder)
    except StartError as error:
        raise UpdateError(str(error)) from error


def keep(folder: Path) -> None:
    """Put the script aside, on the disk after the new code: the update has succeeded."""
    os.sync()
    holding.way_back(folder).replace(put_aside(folder))
    disk.sync(run_folder(folder))


def take_again(folder: Path) -> None:
    """Take the script that was put aside."""
    put_aside(folder).replace(holding.way_back(folder))
    disk.sync(run_folder(folder))


def bring_database(copied: Path, place: str) -> None:
    """Replace the database of this installation by a copy of the one at ``place``.

    Raises CopyError, also when the settings name another database, and OSError.
    """
    here = databases.place(connection.settings_dict)
    if place != here:
        raise CopyError(
            f"This is a copy of the database {place}, and DATABASE_URL names {here}: run it with "
            "the settings of the gateway."
        )
    if connection.vendor != "sqlite":
        copies.empty()
        copies.fill(copied)
        return
    connections.close_all()
    database = Path(connection.settings_dict["NAME"]).resolve()
    scratch = database.with_name(f".{database.name}.back")
    put(copied, scratch)
    # The log belongs to the database that goes: with another one it would damage it.
    for suffix in ("-wal", "-shm"):
        Path(f"{database}{suffix}").unlink(missing_ok=True)
    scratch.replace(database)
    scratch.unlink(missing_ok=True)  # where both were one file: rename(2) keeps them
    disk.sync(database.parent)


def put(copied: Path, target: Path) -> None:
    """Give a copy another name, which needs no space: a failure may have filled the disk. On
    another disk, or where files have one name only, copy it. Raises OSError.
    """
    target.unlink(missing_ok=True)
    try:
        target.hardlink_to(copied)
    except OSError:
        try:
            shutil.copyfile(copied, target)
        except OSError:
            target.unlink(missing_ok=True)
            raise
        target.chmod(0o600)
    disk.sync(target)
