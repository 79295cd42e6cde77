"""The parts of a backup [X41] [X42] [X43]."""

import errno
import fcntl
import json
import os
import shutil
import sqlite3
import stat
import sys
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from django.conf import settings
from django.db import OperationalError

from core.database import copies, schema_version, transactions
from core.files import storage
from core.lib import disk
from core.models import Backup
from gateway_project import command_line, databases, environment, home
from gateway_project.backups import (
    backing_up,
    keeping,
    making,
    manifest,
    restoring,
    scheduled,
    sealed,
)
from gateway_project.backups.manifest import BackupError, Manifest, Stored
from gateway_project.processes import preflight
from gateway_project.processes.preflight import StartError

START = datetime(2026, 3, 2, 3, tzinfo=UTC)  # a Monday
NAMED = START.strftime(manifest.NAME)


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a home of its own, with keys."""
    monkeypatch.setenv("GATEWAY_HOME", str(tmp_path / "home"))
    home.ensure()
    return tmp_path / "home"


def empty(root: Path, at: datetime, files: list[Stored] | None = None) -> Path:
    folder = root / at.strftime(manifest.NAME)
    folder.mkdir(parents=True)
    found = Manifest(at.isoformat(), "1", "sqlite", {}, {}, "", files or [], has_secrets=False)
    manifest.write(folder, found)
    return folder


def test_x41_the_newest_and_one_of_each_week_stay(tmp_path: Path) -> None:
    days = [empty(tmp_path, START + timedelta(days=day)) for day in range(30)]
    gone = keeping.surplus(manifest.all_in(tmp_path), newest=3, weeks=3)
    keeping.thin_out(tmp_path, gone)
    left = [each.name[5:10] for each in manifest.all_in(tmp_path)]
    assert left == ["03-31", "03-30", "03-29", "03-22"]
    assert len(gone) == len(days) - 4
    assert keeping.surplus(manifest.all_in(tmp_path), newest=3, weeks=3) == []


def test_x41_a_content_goes_with_the_last_backup_that_names_it(here: Path, tmp_path: Path) -> None:
    root = tmp_path / "backups"
    (here / "files" / "ab").mkdir(parents=True)
    (here / "files" / "ab" / "one").write_bytes(b"both")
    (both,) = making.store_files(root)
    empty(root, START, [both])
    (here / "files" / "ab" / "two").write_bytes(b"new")
    found = list(making.store_files(root))
    empty(root, START + timedelta(days=1), found)
    assert len(list((root / manifest.CONTENTS).glob("??/*"))) == 2
    keeping.thin_out(root, manifest.all_in(root)[1:])
    for each in found:
        assert manifest.content(root, each.sha256).exists()
    empty(root, START + timedelta(days=2), [both])
    keeping.thin_out(root, manifest.all_in(root)[1:])
    (left,) = (root / manifest.CONTENTS).glob("??/*")
    assert left.read_bytes() == b"both"


def test_x41_a_backup_that_somebody_has_renamed_stays_whole(here: Path, tmp_path: Path) -> None:
    """``…Z-before-the-move`` is to be kept, and one that is being copied has no manifest yet."""
    root = tmp_path / "backups"
    (here / "files" / "ab").mkdir(parents=True)
    (here / "files" / "ab" / "one").write_bytes(b"old")
    old = empty(root, START, list(making.store_files(root)))
    renamed = old.rename(old.with_name(f"{old.name}-before-the-move"))
    copied = root / f"{NAMED}.copy"
    copied.mkdir()
    newer = empty(root, START + timedelta(days=30))
    every = manifest.all_in(root)
    assert every == [newer, renamed]
    keeping.thin_out(root, keeping.surplus(every, newest=1, weeks=0))
    assert renamed.exists()
    assert copied.exists()
    for each in manifest.read(renamed).files:
        assert manifest.content(root, each.sha256).exists()


def test_x41_other_things_stay_in_the_folder_of_the_backups(tmp_path: Path) -> None:
    """An owner names a disk that holds other things too, with `--to` or BACKUP_FOLDER."""
    foreign = [
        tmp_path / "2024 photos" / "beach.jpg",
        tmp_path / "2048-game" / manifest.MANIFEST,
        tmp_path / "2026-02-30T03-00-00Z" / "of-no-day",
        tmp_path / manifest.CONTENTS / "ab" / "letter.odt",
        tmp_path / manifest.CONTENTS / "cd" / ("e" * 64) / "in-a-folder",
    ]
    for path in foreign:
        path.parent.mkdir(parents=True)
        path.write_text("mine")
    left = tmp_path / "2026-03-01T03-00-00Z" / manifest.DATABASE
    left.parent.mkdir()
    left.write_text("of a backup that was being removed")
    made = empty(tmp_path, START)
    assert manifest.all_in(tmp_path) == [made]
    keeping.thin_out(tmp_path, keeping.surplus(manifest.all_in(tmp_path), newest=1, weeks=1))
    assert [path for path in foreign if not path.exists()] == []
    assert not left.parent.exists()


def test_x41_a_damaged_content_is_stored_again(here: Path, tmp_path: Path) -> None:
    """[X43] Else no backup would pass its check any more."""
    root = tmp_path / "backups"
    (here / "files" / "ab").mkdir(parents=True)
    (here / "files" / "ab" / "one").write_bytes(b"whole")
    [found] = making.store_files(root)
    for damage in (b"whale", b""):
        manifest.content(root, found.sha256).write_bytes(damage)
        assert list(making.store_files(root)) == [found]
        assert manifest.content(root, found.sha256).read_bytes() == b"whole"


def test_x41_a_file_that_grows_while_it_is_stored_is_kept_as_it_was_copied(
    here: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """[X43] An upload, or the result of a long task, between its digest and its copy."""
    root, path = tmp_path / "backups", here / "files" / "ab" / "upload"
    path.parent.mkdir(parents=True)
    path.write_bytes(b"first ")
    copyfile = shutil.copyfile

    def after_it_has_grown(source: Path, target: Path) -> None:
        if source == path:
            path.write_bytes(path.read_bytes() + b"more ")
        copyfile(source, target)

    monkeypatch.setattr(shutil, "copyfile", after_it_has_grown)
    [found] = making.store_files(root)
    restoring.bring_files(empty(root, START, [found]), manifest.read(root / NAMED), tmp_path / "b")
    brought = (tmp_path / "b" / "files" / "ab" / "upload").read_bytes()
    assert (brought, found.size) == (b"first more ", len(brought))


def test_x42_keys_are_opened_with_the_passphrase_alone(here: Path, tmp_path: Path) -> None:
    target = tmp_path / "secrets.sealed"
    sealed.seal(target, "correct horse")
    assert home.read_secret("secret_key") not in target.read_text()
    assert sealed.opened(target, "correct horse") == {
        name: home.read_secret(name) for name in home.SECRET_NAMES
    }
    with pytest.raises(BackupError, match="passphrase"):
        sealed.opened(target, "wrong")
    target.write_text("{}")
    with pytest.raises(BackupError, match="damaged"):
        sealed.opened(target, "correct horse")


def test_x43_the_database_of_a_check_is_a_copy_where_files_name_the_live_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """``DATABASE_URL_FILE`` comes before ``DATABASE_URL``. An update migrates the copy."""
    (tmp_path / "live").write_text("live")
    env = restoring.scratch_env(tmp_path, "sqlite:////copy")
    for name in ("DATABASE_URL", "SECRET_KEY", "GATEWAY_ENCRYPTION_KEYS"):
        monkeypatch.setenv(f"{name}_FILE", str(tmp_path / "live"))
    for name, value in env.items():
        monkeypatch.setenv(name, value)
    assert environment.text("DATABASE_URL") == "sqlite:////copy"
    assert environment.text("SECRET_KEY") == settings.SECRET_KEY
    keys = environment.words("GATEWAY_ENCRYPTION_KEYS")
    assert keys == settings.GATEWAY_ENCRYPTION_KEYS


def test_x43_a_copy_is_checked_in_a_folder_of_any_name(tmp_path: Path) -> None:
    """Also with characters that mean something in an address."""
    copied = tmp_path / "C# 100%41 für?" / "database"
    copied.parent.mkdir()
    with closing(sqlite3.connect(copied)) as opened:
        opened.execute("CREATE TABLE one (id)")
    assert copies.count_rows(copied, check=True) == {"one": 0}
    url = restoring.scratch_env(copied.parent, databases.of_file(copied))["DATABASE_URL"]
    assert databases.settings_of(url, home=tmp_path)["NAME"] == str(copied)


def test_x47_the_script_of_a_skill_can_be_run_after_a_restore(here: Path, tmp_path: Path) -> None:
    """By its owner alone; a file that is no program stays none."""
    skill = here / "skills" / "count"
    skill.mkdir(parents=True)
    (skill / "count.sh").write_text("#!/bin/sh\n")
    (skill / "count.sh").chmod(0o755)
    (skill / "SKILL.md").write_text("---")
    backup = empty(tmp_path / "backups", START, list(making.store_files(tmp_path / "backups")))
    restoring.bring_files(backup, manifest.read(backup), tmp_path / "restored")
    brought = tmp_path / "restored" / "skills" / "count"
    modes = {each.name: stat.S_IMODE(each.stat().st_mode) for each in brought.iterdir()}
    assert modes == {"count.sh": 0o700, "SKILL.md": 0o600}
    assert (backup / manifest.MANIFEST).read_text().count("is_executable") == 1


def test_x43_a_manifest_names_no_file_outside(tmp_path: Path) -> None:
    base = tmp_path / "home"
    base.mkdir()
    outside = [Stored("../escaped", "0" * 64, 1), Stored("/etc/escaped", "0" * 64, 1)]
    for each in outside:
        folder = empty(tmp_path / "backups" / each.path[0].replace("/", "r"), START, [each])
        with pytest.raises(BackupError, match="outside"):
            restoring.bring_files(folder, manifest.read(folder), base)


def test_x47_files_are_brought_back_to_another_disk(here: Path, tmp_path: Path) -> None:
    """A link leads there from the empty home, as where several machines share the files. Its
    content is backed up: no backup belongs there."""
    disk = tmp_path / "disk"
    (disk / "ab").mkdir(parents=True)
    (disk / "ab" / "upload").write_bytes(b"all of it")
    (here / "files").symlink_to(disk)
    backup = empty(tmp_path / "backups", START, list(making.store_files(tmp_path / "backups")))
    (disk / "ab" / "upload").unlink()
    restoring.bring_files(backup, manifest.read(backup), here)
    assert (disk / "ab" / "upload").read_bytes() == b"all of it"
    with (
        pytest.raises(BackupError, match="backed up itself"),
        making.one_at_a_time(disk / "backups"),
    ):
        pass


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"format": 1}', '{"format": 9}'])
def test_x43_a_damaged_manifest_is_said_in_a_sentence(tmp_path: Path, text: str) -> None:
    (tmp_path / manifest.MANIFEST).write_text(text)
    with pytest.raises(BackupError):
        manifest.read(tmp_path)


@pytest.mark.parametrize(
    "made_at",
    ["", "x", 7, "2026-13-01T00:00:00+00:00", "2026-02-01T00:00:00", "0001-01-01T00:00:00+14:00"],
)
def test_x43_a_wrong_time_in_a_manifest_is_found_before_anything_is_restored(
    tmp_path: Path, made_at: object
) -> None:
    """Else all is brought back, and the home does not start."""
    folder = empty(tmp_path, START, [])
    path = folder / manifest.MANIFEST
    path.write_text(json.dumps({**json.loads(path.read_text()), "made_at": made_at}))
    with pytest.raises(BackupError, match="damaged"):
        manifest.read(folder)


def test_x43_two_backups_at_once_are_refused(tmp_path: Path) -> None:
    with (
        making.one_at_a_time(tmp_path),
        pytest.raises(BackupError, match="Another"),
        making.one_at_a_time(tmp_path),
    ):
        pass


def test_x40_the_remains_of_a_kill_are_no_backup(tmp_path: Path) -> None:
    folder = empty(tmp_path, START)
    folder.rename(tmp_path / f"{manifest.PARTIAL}{folder.name}")
    assert manifest.all_in(tmp_path) == []


def test_x43_a_folder_that_is_backed_up_holds_no_backups(here: Path) -> None:
    with (
        pytest.raises(BackupError, match="backed up itself"),
        making.one_at_a_time(here / "files" / "backups"),
    ):
        pass


def test_x43_a_disk_without_locks_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As some shares of NFS; in one sentence, not by a traceback."""

    def refuse(*_: object) -> None:
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr(fcntl, "flock", refuse)
    with (
        pytest.raises(BackupError, match=f"{tmp_path} cannot be used: No locks available"),
        making.one_at_a_time(tmp_path),
    ):
        pass
    with pytest.raises(StartError, match="No locks available"):
        preflight.check_home(tmp_path)


def test_x43_folders_are_not_synced_where_the_disk_cannot(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As a shared folder of a virtual machine: each backup there failed. A file has to be."""

    def refuse(_: int) -> None:
        raise OSError(errno.EINVAL, "Invalid argument")

    monkeypatch.setattr(os, "fsync", refuse)
    disk.sync(tmp_path)
    (tmp_path / "file").touch()
    with pytest.raises(OSError, match="Invalid argument"):
        disk.sync(tmp_path / "file")


def test_x43_a_file_that_cannot_be_read_is_named(
    here: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The owner can mend that one only."""
    path = here / "skills" / "other"
    path.parent.mkdir()
    path.write_bytes(b"of root")

    def refuse(given: Path) -> str:
        raise PermissionError(errno.EACCES, "Permission denied", str(given))

    monkeypatch.setattr(copies, "copy", Path.touch)
    monkeypatch.setattr(copies, "count_rows", lambda _: {})
    monkeypatch.setattr(schema_version, "applied", dict)
    digest_of = storage.digest_of
    monkeypatch.setattr(
        storage, "digest_of", lambda given: (refuse if given == path else digest_of)(given)
    )
    (tmp_path / "backups").mkdir()
    with pytest.raises(BackupError, match=rf"Permission denied \({path}\)"):
        making.make(tmp_path / "backups", passphrase="", now=START)


def never(_: object) -> None:
    pytest.fail("it is stored")


def test_x50_a_backup_that_fails_its_check_is_removed(
    here: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And no older one goes for it; nothing is stored."""
    root = tmp_path / "backups"
    older = empty(root, START)

    def make(root: Path, *, now: datetime, **_: object) -> Path:
        made = empty(root, now)
        return made.rename(root / f"{manifest.PARTIAL}{made.name}")

    monkeypatch.setattr(making, "make", make)
    with pytest.raises(BackupError, match=r"is damaged|cannot be read"):
        backing_up.back_up(root, now=START + timedelta(days=1), store=never)
    assert manifest.all_in(root) == [older]
    assert not list(root.glob(f"{manifest.PARTIAL}*"))


def test_x50_a_backup_that_finds_the_disk_full_does_not_leave_it_full(
    here: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its database and the contents of files go; those that an older one names stay."""
    root = tmp_path / "backups"
    (here / "files" / "ab").mkdir(parents=True)
    (here / "files" / "ab" / "one").write_bytes(b"both")
    older = empty(root, START, list(making.store_files(root)))
    (here / "files" / "ab" / "two").write_bytes(b"new")
    kept = {*manifest.contents(root)}

    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(copies, "copy", Path.touch)
    monkeypatch.setattr(schema_version, "applied", dict)
    monkeypatch.setattr(copies, "count_rows", lambda _: {})
    monkeypatch.setattr(manifest, "write", full)
    with pytest.raises(BackupError, match="No space left on device"):
        backing_up.back_up(root, now=START + timedelta(days=1), store=never)
    assert {each for each in root.iterdir() if each.name not in {".lock", "files"}} == {older}
    assert {*manifest.contents(root)} == kept


def test_x49_a_backup_that_is_being_made_goes_on_while_the_database_is_away(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else its process would be left alone, and another one begin beside it."""
    done = tmp_path / "done"
    code = f"import pathlib, time; time.sleep(0.1); pathlib.Path({str(done)!r}).touch()"

    def away() -> datetime:
        raise OperationalError("the server closed the connection")

    monkeypatch.setattr(transactions, "now", away)
    monkeypatch.setattr(scheduled, "RENEW_SECONDS", 0.02)
    monkeypatch.setattr(command_line, "command", lambda *_: [sys.executable, "-S", "-c", code])
    scheduled.make(Backup(pk=1))
    assert done.exists()
