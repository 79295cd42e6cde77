"""The command `update` in a small clone, without a gateway [X15] [X16] [X17] [X18] [X19]."""

import errno
import os
import shutil
import socket
import stat
import subprocess
from io import StringIO
from pathlib import Path

import pytest
from django.core.management import CommandError, call_command
from django.core.management.base import OutputWrapper
from django.db import connection, connections

from core.conversations import runs
from core.database import copies
from core.database.copies import CopyError
from core.lib import disk
from core.models import Backup, Skill
from gateway_project.processes import holding, preflight
from gateway_project.updates import clone, gateway, updating, way_back
from gateway_project.updates.clone import UpdateError
from tests.gateway_project.updates.small import NEW_PACKAGES, NEWER, Small, finding, sql
from tests.settings import TEST_DATABASE

ON_SQLITE = TEST_DATABASE == "sqlite"


def update(*arguments: str) -> str:
    """Return what the command says."""
    out = StringIO()
    call_command("update", *arguments, stdout=out)
    return out.getvalue()


def refused(*arguments: str) -> str:
    """Return why the command fails."""
    with pytest.raises(CommandError) as caught:
        update(*arguments)
    return str(caught.value)


def left_nothing(folder: Path) -> bool:
    """Return whether nothing of an update is left in a home, but for its backup."""
    names = {each.name for each in (folder / "run").iterdir()}
    return names <= {"update.lock", "up.lock", "before-update.database"}


def test_x15_the_changes_that_would_come(small: Small) -> None:
    """[X15] `--check` changes nothing."""
    assert "This is the newest version." in update("--check")
    small.commit("First", NEWER)
    small.commit("Second", {"manage.py": "# newer\n"})
    assert update("--check") == "Version 0.2.0:\n  Second\n  First\n"
    assert small.is_old()


def test_x15_an_update_goes_on_when_its_reader_has_gone(
    small: Small, monkeypatch: pytest.MonkeyPatch
) -> None:
    """[X15] As of ``| head``: it ended with “Broken pipe” when the new code was in place, and
    nothing looked whether the gateway works.
    """

    def unread(*_: object, **__: object) -> None:
        raise BrokenPipeError(errno.EPIPE, "Broken pipe")

    monkeypatch.setattr(OutputWrapper, "write", unread)
    update("--check")
    assert small.is_old()


def test_x19_refusals_of_the_clone_are_said_by_the_command(small: Small) -> None:
    """[X19]"""
    (small.code / "manage.py").write_text("# mine")
    for arguments in ((), ("--check",)):
        assert refused(*arguments) == "Files of the clone were changed: M manage.py."


def test_x15_nothing_newer(small: Small) -> None:
    """[X15]"""
    assert update() == "This is the newest version.\n"
    assert small.is_old()


def test_x19_two_updates_at_once(small: Small, own_home: Path) -> None:
    """[X19]"""
    small.commit("New", NEWER)
    file = holding.lock(own_home)
    assert file is not None
    with file:
        assert refused() == "Another update of this installation runs."
    assert small.is_old()


def test_x18_an_update_that_was_cut_off_is_mended_first(small: Small, own_home: Path) -> None:
    """[X18]"""
    small.commit("New", NEWER)
    holding.way_back(own_home).touch()
    assert refused() == "An update was cut off: start the gateway, which mends that."
    assert small.is_old()


def test_x19_a_home_that_is_not_whole(small: Small, own_home: Path) -> None:
    """[X19] A restore was begun and not finished."""
    small.commit("New", NEWER)
    preflight.restoring_mark(own_home).touch()
    assert "was not finished" in refused()
    assert small.is_old()


@pytest.mark.skipif(os.getuid() != 0, reason="only the superuser can be another one")
def test_x19_another_user_than_the_owner(small: Small, own_home: Path) -> None:
    """[X19]"""
    small.commit("New", NEWER)
    os.chown(own_home, 12345, -1)
    assert refused() == f"Run this as the user that owns {own_home}."
    assert small.is_old()


def test_x19_workers_of_other_machines(small: Small, installed: Path) -> None:
    """[X19] Before anything is done."""
    small.commit("New", NEWER)
    runs.heard_from(worker="elsewhere:1:2", queue="runs")
    said = refused()
    assert "Nothing was changed: Workers of other machines use this database (elsewhere:" in said
    assert not Backup.objects.exists()
    assert left_nothing(installed)
    assert small.is_old()


def test_x19_workers_of_this_machine_without_up(small: Small, installed: Path) -> None:
    """[X19] Of units of their own: they would accept messages while the database is replaced. One
    that has ended is none, nor are those of a gateway that can be stopped."""
    small.commit("New", NEWER)
    host = socket.gethostname()
    runs.heard_from(worker=f"{host}:{2**22 + 1}:1", queue="runs")
    assert gateway.without_up(installed) == []
    runs.heard_from(worker=f"long:{host}:{os.getpid()}", queue="long")
    said = refused()
    assert f"Nothing was changed: A worker runs without `up` (long:{host}:{os.getpid()})" in said
    assert not Backup.objects.exists()
    assert small.is_old()
    with preflight.lock(installed):
        assert gateway.without_up(installed) == []


def put_in_place(folder: Path) -> list[str]:
    """Put the newest version in place, return what is said. Raises UpdateError."""
    said: list[str] = []
    target = clone.find("")
    assert target is not None
    updating.carry_out(folder, target, [], say=said.append)
    return said


def test_x15_a_good_version_is_in_place_without_a_gateway(small: Small, installed: Path) -> None:
    """[X15] The script that brings the old one back is put aside."""
    small.commit("New", NEW_PACKAGES)
    assert put_in_place(installed) == ["no gateway runs", "version 0.2.0 is in place"]
    assert (small.version(), small.packages()) == ("0.2.0", "2")
    assert not holding.way_back(installed).exists()
    assert not holding.go_back(installed)
    assert way_back.put_aside(installed).exists()
    assert update() == "This is the newest version.\n"


def test_x16_a_version_that_fails_on_a_copy(small: Small, installed: Path) -> None:
    """[X16] Nothing has changed; PostgreSQL has no copy: there the old version comes back. The copy
    of an update that was killed goes."""
    if ON_SQLITE:
        (installed / "run" / "new-home").mkdir()
        (installed / "run" / "new-home" / "gateway.sqlite3").touch()
    small.commit("New", {**NEWER, "migrate.sh": "echo line; echo a reason; exit 1"})
    expected = "Nothing was changed: on a copy of the database, a reason"
    assert refused() == (expected if ON_SQLITE else "The old version is back: a reason")
    assert small.is_old()
    assert left_nothing(installed)


def test_x17_a_failure_in_place_leaves_the_old_version(small: Small, installed: Path) -> None:
    """[X17] Although its database was changed."""
    Skill.objects.create(name="old")
    fails = sql("DELETE FROM core_skill") + "echo a reason >&2\nexit 1\n"
    small.commit("New", {**NEW_PACKAGES, "migrate.sh": fails})
    with pytest.raises(UpdateError, match="The old version is back: a reason"):
        put_in_place(installed)
    assert small.is_old()
    assert [each.name for each in Skill.objects.all()] == ["old"]
    assert left_nothing(installed)


@pytest.mark.parametrize(
    ("files", "said"),
    [
        ({"doctor.json": finding("new", "This is new.")}, "its doctor says: This is new."),
        ({"doctor.json": finding("known", "Another one.", "This was known.")}, "Another one."),
        ({"doctor.json": "Traceback:\nno doctor today"}, "its doctor failed: no doctor today"),
        ({"migrate.sh": "exit 1"}, "it gave no reason"),
    ],
)
def test_x16_a_version_is_tried_with_its_own_code(
    small: Small, files: dict[str, str], said: str
) -> None:
    """[X16] [X17] Errors that were there before are none of the new version, nor that nothing runs
    while it is tried: reminders become due meanwhile."""
    code = small.origin
    small.commit("New", {**NEWER, "doctor.json": finding("not-ready", "Nothing runs.")})
    updating.migrated_and_well(clone.python(), code, {}, [])
    small.commit("Late", {"doctor.json": finding("schedules", "One reminder waits.")})
    updating.migrated_and_well(clone.python(), code, {}, [])
    small.commit("Known", {"doctor.json": finding("known", "This is known.")})
    updating.migrated_and_well(clone.python(), code, {}, [("known", "This was known.")])
    small.commit("Worse", files)
    with pytest.raises(UpdateError, match=said):
        updating.migrated_and_well(clone.python(), code, {}, [("known", "This was known.")])


def test_x16_a_backup_that_fails_changes_nothing(small: Small, installed: Path) -> None:
    """[X16] Its folder's place is taken."""
    small.commit("New", NEWER)
    (installed / "backups").touch()
    assert refused().startswith(f"Nothing was changed: {installed}/backups cannot be used")
    assert small.is_old()
    assert left_nothing(installed)


def test_x17_a_way_back_that_cannot_be_written_changes_nothing(
    small: Small, installed: Path
) -> None:
    """[X17] The code is replaced only after it is on the disk."""
    small.commit("New", NEWER)
    way_back.database_before(installed).mkdir()
    with pytest.raises(UpdateError, match="Nothing was changed: "):
        put_in_place(installed)
    assert small.is_old()
    assert not holding.way_back(installed).exists()


def test_x17_a_copy_that_fills_the_disk_does_not_leave_it_full(
    small: Small, installed: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """[X17] The gateway goes on with what was free before."""

    def full(target: Path) -> None:
        target.write_bytes(b"half of it")
        raise CopyError("The database could not be copied: database or disk is full.")

    small.commit("New", NEWER)
    monkeypatch.setattr(copies, "copy", full)
    with pytest.raises(UpdateError, match=r"Nothing was changed: .* disk is full"):
        put_in_place(installed)
    assert not way_back.database_before(installed).exists()
    assert small.is_old()


def test_x18_an_update_that_has_ended_stays_so_after_a_power_cut(
    small: Small, installed: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """[X18] The new code is on the disk before its way back is put aside; else the next start would
    bring the old database back, without what came since. So it is with the way back.
    """
    synced: list[tuple[object, bool]] = []
    sync = disk.sync

    def noting(path: Path | None = None) -> None:
        synced.append((path, holding.way_back(installed).exists()))
        if path is not None:
            sync(path)

    small.commit("New", NEWER)
    monkeypatch.setattr(disk, "sync", noting)
    monkeypatch.setattr(os, "sync", noting)
    put_in_place(installed)
    assert synced[-2:] == [(None, True), (installed / "run", False)]
    *_, before, removal, after, _copied, _told = (
        way_back.put_aside(installed).read_text().splitlines()
    )
    assert removal.startswith("rm -f ")
    assert (before, after) == ("sync", "sync")


def test_x17_the_way_back_needs_the_database_of_the_gateway(small: Small, installed: Path) -> None:
    """[X17] By hand, without the settings of a unit, it would fill another database and be gone."""
    small.commit("New", NEWER)
    put_in_place(installed)
    script = way_back.put_aside(installed)
    env = {name: value for name, value in os.environ.items() if name != "DATABASE_URL"}
    command = ["/bin/sh", str(script)]
    done = subprocess.run(command, env=env, capture_output=True, text=True, check=False)
    assert done.returncode
    assert "run it with the settings of the gateway" in done.stderr
    assert not (installed / "gateway.sqlite3").exists()
    subprocess.run(["/bin/sh", str(script)], check=True)
    assert small.is_old()
    assert not script.exists()
    assert not way_back.database_before(installed).exists()


@pytest.mark.skipif(shutil.which("flock") is None, reason="it has to be believed there")
def test_x17_the_way_back_by_hand_refuses_a_gateway_that_runs(
    small: Small, installed: Path
) -> None:
    """[X17] It would take the database from under its processes."""
    small.commit("New", NEWER)
    put_in_place(installed)
    command = ["/bin/sh", str(way_back.put_aside(installed))]
    with preflight.lock(installed):
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (1, "Stop the gateway first.\n")
    assert small.version() == "0.2.0"
    subprocess.run(command, check=True)
    assert small.is_old()


@pytest.mark.skipif(not ON_SQLITE, reason="a server has its files elsewhere")
@pytest.mark.parametrize("folder", ["", "elsewhere"])
def test_x17_the_way_back_needs_no_space(
    small: Small, installed: Path, monkeypatch: pytest.MonkeyPatch, folder: str
) -> None:
    """[X17] The new version may have filled the disk. So it is where the database has another
    place, to which a symbolic link leads; and it can be cut off and run again."""
    given = Path(connection.settings_dict["NAME"])
    if folder:
        (installed / folder).mkdir()
        connection.close()
        given.rename(installed / folder / "moved")
        given.symlink_to(installed / folder / "moved")
    database = given.resolve()
    Skill.objects.create(name="old")
    way_back.write(installed, version="0.1", lines=[])
    Skill.objects.all().delete()
    connections.close_all()
    Path(f"{database}-wal").write_bytes(b"of the new version")

    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(shutil, "copyfile", full)
    copied = way_back.database_before(installed)
    for _ in range(2):
        way_back.bring_database(copied, str(given))
        assert not database.with_name(f".{database.name}.back").exists()
    assert [each.name for each in Skill.objects.all()] == ["old"]
    assert given.resolve() == database
    assert stat.S_IMODE(database.stat().st_mode) == 0o600


@pytest.mark.skipif(not ON_SQLITE, reason="a server has its files elsewhere")
def test_x17_a_way_back_to_another_disk_that_is_full_leaves_nothing(
    small: Small, installed: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """[X17] Files have no second name there; half a copy would keep it full."""
    way_back.write(installed, version="0.1", lines=[])
    copied, given = way_back.database_before(installed), connection.settings_dict["NAME"]
    database = Path(given).resolve()

    def elsewhere(*_: object) -> None:
        raise OSError(errno.EXDEV, "Invalid cross-device link")

    def full(_: Path, target: Path) -> None:
        target.write_bytes(b"half of it")
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "link", elsewhere)
    with monkeypatch.context() as patched:
        patched.setattr(shutil, "copyfile", full)
        with pytest.raises(OSError, match="No space left"):
            way_back.bring_database(copied, given)
    assert not database.with_name(f".{database.name}.back").exists()
    way_back.bring_database(copied, given)
    assert database.read_bytes() == copied.read_bytes()
