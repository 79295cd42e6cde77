"""The steps of one update, in their order."""

import os
import shlex
import shutil
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from django.db import DatabaseError, connection, connections

from core import VERSION
from core.database.copies import CopyError
from core.lib.text import counted
from gateway_project import databases, home
from gateway_project.backups import backing_up, making, manifest, restoring
from gateway_project.backups.manifest import BackupError
from gateway_project.processes import holding, preflight
from gateway_project.processes.preflight import StartError
from gateway_project.updates import clone, gateway, way_back
from gateway_project.updates.clone import Target, UpdateError
from gateway_project.updates.gateway import Errors

Say = Callable[[str], object]
UNCHANGED = "Nothing was changed"


def update(to: str, *, now: datetime, wait: int, say: Say) -> bool:
    """Replace this installation's code; return False when there is nothing newer. ``wait``: the
    seconds that the gateway may take to get ready again.

    Raises UpdateError: the old version goes on, unless the text says otherwise.
    """
    folder = home.directory()
    check_owner(folder)
    try:
        preflight.check_home(folder)
    except StartError as error:
        raise UpdateError(str(error)) from error
    file = holding.lock(folder)
    if file is None:
        raise UpdateError("Another update of this installation runs.")
    with file:
        if holding.way_back(folder).exists():
            raise UpdateError("An update was cut off: start the gateway, which mends that.")
        target = clone.find(to)
        if target is None:
            return False
        changes = counted(len(clone.changes(target)), "change")
        say(f"version {VERSION} -> {target.version}, {changes}")
        try:
            before = prepare(folder, target, now=now, say=say)
        except (UpdateError, BackupError, DatabaseError, OSError) as error:
            raise UpdateError(f"{UNCHANGED}: {error}") from error
        finally:
            connections.close_all()
        held = carry_out(folder, target, before, say=say)
    if held is not None:
        look_after(folder, target, before, held, wait=wait, say=say)
    return True


def check_owner(folder: Path) -> None:
    """Raise UpdateError for another user: files of another one would stop the gateway later."""
    if folder.stat().st_uid != os.getuid():
        raise UpdateError(f"Run this as the user that owns {folder}.")


def prepare(folder: Path, target: Target, *, now: datetime, say: Say) -> Errors:
    """Make a backup and try the new code on it, while the gateway runs; return the errors that the
    doctor of the old code finds. Raises UpdateError, BackupError, DatabaseError, OSError.
    """
    if others := gateway.of_other_machines():
        raise UpdateError(
            f"Workers of other machines use this database ({others[0]}): docs/deploy.md says "
            "how several machines are updated."
        )
    if alone := gateway.without_up(folder):
        raise UpdateError(
            f"A worker runs without `up` ({alone[0]}): stop the processes of this machine first."
        )
    made = backing_up.back_up(making.default_root(), now=now, store=backing_up.note)
    say(f"backup {made.folder}, checked")
    before = gateway.errors(clone.python(), home.BASE_DIR, {}, running=True)
    code = preflight.run_folder(folder) / "new-code"
    with clone.beside(target, code) as python:
        if connection.vendor == "sqlite":
            rehearse(python, code, made.folder, before)
            say("the new version has migrated a copy of the database, and its doctor agrees")
        else:
            say("PostgreSQL: the new version is not tried on a copy")
    return before


def rehearse(python: Path, code: Path, backup: Path, before: Errors) -> None:
    """Let the new code migrate a copy of the database, and examine it. Raises UpdateError."""
    with new_home() as scratch:
        copied = scratch / "gateway.sqlite3"
        shutil.copyfile(backup / manifest.DATABASE, copied)
        env = restoring.scratch_env(scratch, databases.of_file(copied))
        for name in making.KEPT_FOLDERS:
            if (home.directory() / name).exists():
                (scratch / name).symlink_to(home.directory() / name)
        try:
            migrated_and_well(python, code, env, before)
        except UpdateError as error:
            raise UpdateError(f"on a copy of the database, {error}") from error


@contextmanager
def new_home() -> Iterator[Path]:
    """Yield a temporary folder for the trial; remove that of a killed one. Raises OSError."""
    folder = preflight.run_folder(home.directory()) / "new-home"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(mode=0o700)
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def migrated_and_well(python: Path, code: Path, env: dict[str, str], before: Errors) -> None:
    """Migrate with the code in a folder, and ask its doctor. Raises UpdateError for what fails,
    and for an error that was not there before.
    """
    done = gateway.manage(python, code, env, "migrate", "--verbosity", "0")
    if done.returncode:
        raise UpdateError(clone.last_lines(done.stderr or done.stdout))
    found = gateway.errors(python, code, env, running=False)
    if new := gateway.new_errors(found, before):
        raise UpdateError(f"its doctor says: {' '.join(new)}")


@dataclass(frozen=True, slots=True)
class Held:
    """The gateway that waits for the end of an update: the ``pid`` of its supervisor, and how far
    its work was (``gateway.newest``)."""

    pid: int
    newest: dict[str, object]


def carry_out(folder: Path, target: Target, before: Errors, *, say: Say) -> Held | None:
    """Replace the code while nothing runs; return the gateway that waits to go on, if one does.

    Raises UpdateError; the old version is back then.
    """
    with gateway.stopped(folder) as pid:
        say("the gateway is stopped" if pid else "no gateway runs")
        try:
            held = Held(pid, gateway.newest()) if pid else None
            clone.keep_environment(target)
            way_back.write(folder, version=VERSION, lines=clone.lines_back(target))
        except (CopyError, OSError, UpdateError) as error:
            holding.way_back(folder).unlink(missing_ok=True)
            raise UpdateError(f"{UNCHANGED}: {error}") from error
        try:
            clone.replace(target)
            migrated_and_well(clone.python(), home.BASE_DIR, {}, before)
        except UpdateError as error:
            way_back.go(folder)
            raise UpdateError(f"The old version is back: {error}") from error
        way_back.keep(folder)
        say(f"version {target.version} is in place")
        return held


def look_after(
    folder: Path, target: Target, before: Errors, held: Held, *, wait: int, say: Say
) -> None:
    """Wait until the gateway of the new version works, at most ``wait`` seconds; bring the old one
    back when it does not, unless the new one has worked for somebody.

    Raises UpdateError.
    """
    is_well = False

    def is_decided() -> bool:
        nonlocal is_well
        if gateway.is_ready(folder):
            is_well = has_no_new_error(before)
        return is_well or gateway.is_failing(folder, held.pid)

    gateway.comes(is_decided, seconds=wait)
    if is_well:
        say("the gateway works again")
        return
    script = way_back.put_aside(folder)
    try:
        refuse_after_work(held)
        if not gateway.is_settled(folder, held.pid):
            raise UpdateError("it is still starting, and stays.")
        file = holding.lock(folder)
        if file is None:
            raise UpdateError("another update of this installation runs.")
        with file, gateway.stopped(folder) as pid:
            refuse_after_work(held)
            way_back.take_again(folder)
            way_back.go(folder)
    except UpdateError as error:
        if not script.exists():  # the way back has begun, and the error names its script
            raise
        raise UpdateError(
            f"Version {target.version} does not work well: {error} `sh "
            f"{shlex.quote(str(script))}` brings the old version back, when nothing runs."
        ) from error
    more = "" if pid else " No gateway ran in that moment: start it, if no service does."
    raise UpdateError(
        f"The old version is back: {target.version} did not get ready; see the log of the "
        f"gateway.{more}"
    )


def has_no_new_error(before: Errors) -> bool:
    """Return whether the doctor of the new version finds no error that was not there before."""
    try:
        found = gateway.errors(clone.python(), home.BASE_DIR, {}, running=True)
    except (UpdateError, subprocess.TimeoutExpired):
        return False
    return not gateway.new_errors(found, before)


def refuse_after_work(held: Held) -> None:
    """Raise UpdateError when the new version has accepted or begun something for somebody: the old
    database does not know it, and would do it again or never.
    """
    if held.newest != gateway.newest():
        raise UpdateError(
            "it has worked for people meanwhile, and stays. `manage.py doctor` says more. The old "
            "version would not know of that work."
        )
