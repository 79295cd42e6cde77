"""`backup` and `restore` as a person runs them, and what they refuse [X40] to [X44] [X47] [X50]."""

import json
import os
import re
import shutil
import sqlite3
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from datetime import UTC, datetime, timedelta
from io import StringIO
from pathlib import Path

import psycopg
import pytest
from django.core.management import CommandError, call_command
from django.db import connection, connections
from django.utils import timezone
from pytest_django import Settings

from channels_app.owner import backups
from core.database import copies, transactions
from core.files import storage
from core.models import (
    Backup,
    ChannelAccount,
    Delivery,
    Installation,
    Occurrence,
    Run,
    Schedule,
    StoredFile,
    User,
)
from gateway_project import home
from gateway_project.backups import making, manifest, scheduled, sealed
from gateway_project.backups.manifest import BackupError
from gateway_project.processes import preflight
from tests.core.conftest import Say, account, say, session, user, woken
from tests.gateway_project.backups.pairs import PASSPHRASE, empty_url
from tests.gateway_project.conftest import using
from tests.servers import Postgres, open_broker
from tests.settings import TEST_DATABASE

__all__ = ["account", "say", "session", "user", "woken"]
MADE_AT = datetime(2026, 3, 2, 3, tzinfo=UTC)
ON_SQLITE = TEST_DATABASE == "sqlite"


def said(*arguments: str) -> str:
    """Return what a command prints."""
    out = StringIO()
    call_command(*arguments, stdout=out)
    return out.getvalue()


def refused(*arguments: str) -> str:
    """Return why a command fails."""
    with pytest.raises(CommandError) as caught:
        said(*arguments)
    return str(caught.value)


@pytest.fixture
def backup(installed: Path, say: Say, user: User, woken: object) -> Path:
    """Return a backup with a file and an open question. It has no keys and is not checked."""
    del woken
    storage.keep(user=user, name="notes.txt", content=b"Milk, bread.")
    storage.adopt_folder()
    say("Is it open?")
    (installed / "backups").mkdir()
    return made(installed / "backups", MADE_AT)


def made(root: Path, now: datetime, passphrase: str = "") -> Path:
    """Make a backup without a check, which takes a process."""
    return making.finish(making.make(root, passphrase=passphrase, now=now))


@pytest.fixture
def with_keys(backup: Path) -> Path:
    """Return such a backup with keys."""
    shutil.rmtree(backup)
    return made(backup.parent, MADE_AT, PASSPHRASE)


@pytest.fixture
def elsewhere(
    backup: Path,
    postgres: Postgres | None,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    settings: Settings,
) -> Iterator[Path]:
    """Return an empty home with an empty database, in a process that has made its backup."""
    del backup
    folder = tmp_path / "elsewhere" / "home"
    monkeypatch.setenv("GATEWAY_HOME", str(folder))
    settings.GATEWAY_HOME = folder
    settings.BACKUP_PASSPHRASE = PASSPHRASE
    home.ensure()
    with using(empty_url(folder.parent, postgres), folder):
        yield folder


def test_x40_a_backup_is_made_checked_and_listed(
    backup: Path, installed: Path, settings: Settings
) -> None:
    """[X41] Its doctor looks at it; an older one that no rule keeps is removed and named."""
    settings.BACKUP_KEEP, settings.BACKUP_KEEP_WEEKS = 1, 0
    text = said("backup")
    [now] = manifest.all_in(installed / "backups")
    assert now != backup
    assert not backup.exists()
    first, checked, keys, removed = text.splitlines()
    assert first == str(now)
    found = manifest.read(now)
    rows = f"{sum(found.rows.values())} rows, " if ON_SQLITE else ""
    size = sum(each.size for each in found.files)
    assert checked == f"checked: {rows}2 files ({size} bytes), without keys"
    assert keys.startswith("Without BACKUP_PASSPHRASE the keys are left out")
    assert removed == f"removed by the rule: {backup.name}"
    stored = Backup.objects.get()
    assert (stored.name, stored.state, stored.files) == (now.name, Backup.State.GOOD, 2)


def test_x41_a_backup_stays_though_older_ones_have_later_names(
    backup: Path, installed: Path, settings: Settings
) -> None:
    """[X40] The clock was ahead when they were made, and is right now."""
    settings.BACKUP_KEEP, settings.BACKUP_KEEP_WEEKS = 1, 0
    backup.rename(backup.with_name("2036-03-02T03-00-00Z"))
    text = said("backup")
    made_now = installed / "backups" / Backup.objects.get().name
    assert text.startswith(f"{made_now}\n")
    assert manifest.all_in(installed / "backups") == [made_now]


def test_x41_an_older_backup_that_is_damaged_stops_no_new_one(backup: Path) -> None:
    """Its contents are not known: all stay until it falls out by the rule."""
    (backup / manifest.MANIFEST).write_text("{")
    before = {*manifest.contents(backup.parent)}
    assert before
    said("backup")
    assert before <= {*manifest.contents(backup.parent)}


def test_x41_a_second_backup_in_the_same_second_is_refused(backup: Path) -> None:
    """[X41] It would replace the first."""
    with pytest.raises(BackupError, match="is there already"):
        made(backup.parent, MADE_AT)
    assert manifest.all_in(backup.parent) == [backup]


def test_x40_the_remains_of_a_kill_are_removed_by_the_next(backup: Path) -> None:
    """[X40]"""
    left = backup.rename(backup.with_name(f"{manifest.PARTIAL}{backup.name}"))
    assert refused("backup", "--verify", str(left)).endswith("it was not finished and checked.")
    made(backup.parent, MADE_AT + timedelta(days=1))
    assert not left.exists()


def content_of(backup: Path) -> Path:
    """Return the stored content of the file of the person."""
    [found] = [each for each in manifest.read(backup).files if each.size == len(b"Milk, bread.")]
    return manifest.content(backup.parent, found.sha256)


def change(backup: Path, **values: object) -> None:
    """Change the manifest of a backup."""
    path = backup / manifest.MANIFEST
    path.write_text(json.dumps(json.loads(path.read_text()) | values))


def changed_database(backup: Path) -> None:
    with (backup / manifest.DATABASE).open("r+b") as file:
        file.seek(-1, os.SEEK_END)
        file.write(b"?")


def cut_database(backup: Path) -> None:
    """Its digest was noted after that."""
    os.truncate(backup / manifest.DATABASE, 5000)
    change(backup, database=storage.digest_of(backup / manifest.DATABASE))


def no_database(backup: Path) -> None:
    (backup / manifest.DATABASE).unlink()


def changed_content(backup: Path) -> None:
    content_of(backup).write_bytes(b"Milk, cream.")


def no_content(backup: Path) -> None:
    content_of(backup).unlink()


def no_manifest(backup: Path) -> None:
    (backup / manifest.MANIFEST).unlink()


def hidden_manifest(backup: Path) -> None:
    """As of another user's backup, which root reads all the same."""
    (backup / manifest.MANIFEST).unlink()
    (backup / manifest.MANIFEST).mkdir()


@pytest.mark.parametrize(
    ("damage", "words"),
    [
        (changed_database, "is damaged: its database has changed"),
        (cut_database, "cannot be read: database disk image" if ON_SQLITE else "pg_restore failed"),
        (no_database, "cannot be read: No such file"),
        (changed_content, "is damaged: files/.* has changed"),
        (no_content, "is damaged: files/.* is missing"),
        (no_manifest, "is no backup: it has no manifest.json"),
        (hidden_manifest, "manifest.json cannot be read: Is a directory"),
    ],
)
def test_x43_damage_is_found_by_a_check(
    backup: Path, damage: Callable[[Path], None], words: str
) -> None:
    """[X43] In one sentence; no scratch folder is left."""
    damage(backup)
    assert re.search(words, refused("backup", "--verify", str(backup)))
    assert not list(backup.parent.glob(f"{manifest.PARTIAL}*"))


@pytest.mark.skipif(not ON_SQLITE, reason="an archive is only read")
def test_x43_other_rows_than_were_noted_are_found(backup: Path) -> None:
    """[X43]"""
    rows = manifest.read(backup).rows
    assert rows["core_user"] == 1
    change(backup, rows=rows | {"core_user": 2})
    assert "the tables have other rows than noted" in refused("backup", "--verify", str(backup))


def test_x43_the_doctor_looks_at_a_copy_that_is_brought_back(backup: Path) -> None:
    """[X43] All files are lost that its database names, the manifest too."""
    change(backup, files=[])
    words = refused("backup", "--verify", str(backup))
    assert words.startswith("The doctor says of what was brought back: ")
    assert "files" in words


def test_x43_reminders_that_have_become_due_since_the_copy_are_no_damage(
    backup: Path, user: User, account: ChannelAccount
) -> None:
    """[X43] The gateway goes on: reminders happen, and messages are given up or dismissed, while
    the files of a large backup are copied and checked. In the copy nothing happens."""
    schedule = Schedule.objects.create(
        user=user, kind=Schedule.Kind.TEXT, text="Tea", start="2026-01-01T00:00:00", time_zone="UTC"
    )
    due = timezone.now() - timedelta(minutes=3)
    waiting = Occurrence.objects.create(schedule=schedule, nominal_at=due, look_at=due)
    Delivery.objects.create(account=account, target={}, payload={}, state=Delivery.State.DEAD)
    later = made(backup.parent, MADE_AT + timedelta(days=1))
    Occurrence.objects.filter(pk=waiting.pk).update(state=Occurrence.State.FIRED, look_at=None)
    Delivery.objects.all().delete()
    assert said("backup", "--verify", str(later)).startswith("checked: ")


def test_x43_a_broker_of_another_program_is_no_damage(
    backup: Path, tmp_path: Path, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    """[X43] Before the first start, as after a restore, the usual port may be that of another
    program, which needs no password."""
    monkeypatch.delenv("REDIS_URL", raising=False)
    with open_broker(tmp_path / "open") as port:
        settings.REDIS_URL, settings.REDIS_IS_EMBEDDED = f"redis://127.0.0.1:{port}/0", True
        assert said("backup", "--verify", str(backup)).startswith("checked: ")


@pytest.mark.skipif(ON_SQLITE, reason="its copy is always brought back")
def test_x43_an_archive_is_restored_beside_where_the_role_may_create_a_database(
    backup: Path, postgres: Postgres | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """[X43] Nothing is left of it, nor of one that was killed; else it is said that it was read.
    A file names the server, as with secrets of containers.
    """
    assert postgres is not None
    (tmp_path / "url").write_text(os.environ["DATABASE_URL"])
    monkeypatch.setenv("DATABASE_URL_FILE", str(tmp_path / "url"))
    monkeypatch.delenv("DATABASE_URL")
    names = "SELECT datname FROM pg_database WHERE datname LIKE '%_backup_check'"
    scratch = f"{connection.settings_dict['NAME'][:40]}_backup_check"
    postgres.execute(f'CREATE DATABASE "{scratch}"')
    fill, seen = copies.fill, list[str]()

    def fills(archive: Path, *, database: str = "") -> None:
        fill(archive, database=database)
        with connection.cursor() as cursor:
            cursor.execute(names)
            seen.extend(row[0] for row in cursor.fetchall())

    monkeypatch.setattr(copies, "fill", fills)
    assert "not restored" not in said("backup", "--verify", str(backup))
    assert seen == [scratch]
    with connection.cursor() as cursor:
        cursor.execute(names)
        assert cursor.fetchall() == []
    for limit, words in ((-1, "it is larger than 2 GB"), (copies.MOST_TRIED_BYTES, "the role may")):
        monkeypatch.setattr(copies, "MOST_TRIED_BYTES", limit)
        if limit > 0:
            with connection.cursor() as cursor:
                cursor.execute(
                    "CREATE ROLE plain LOGIN; GRANT ALL ON ALL TABLES IN SCHEMA public TO plain"
                )
                cursor.execute("SET ROLE plain")
        assert f"was read through, not restored: {words}" in said("backup", "--verify", str(backup))
    assert seen == [scratch]
    with connection.cursor() as cursor:
        cursor.execute("RESET ROLE; DROP OWNED BY plain; DROP ROLE plain")


def test_x43_two_at_once(backup: Path) -> None:
    """[X43]"""
    with making.one_at_a_time(backup.parent):
        assert "Another backup is being made or checked" in refused("backup")
        assert "Another backup" in refused("backup", "--verify", str(backup))
    assert "cannot be used" in refused("backup", "--to", str(backup / manifest.MANIFEST / "x"))


def test_x47_a_restore_brings_everything_back_and_holds_open_questions(
    with_keys: Path, elsewhere: Path
) -> None:
    """[X42] [X44] Rows, files and keys. The files are on a disk of their own."""
    (elsewhere / "files" / "lost+found").mkdir(parents=True)
    keys = home.read_secret("encryption_key")
    words = said("restore", str(with_keys))
    assert words.startswith(f"Restored {with_keys.name}. Held for the owner")
    assert "revoke again what was revoked since" in words
    assert "1 question and 0 messages." in words
    assert User.objects.get().username == "ada"
    file = StoredFile.objects.get()
    assert storage.read(file) == b"Milk, bread."
    assert storage.path_of(file).is_relative_to(elsewhere)
    assert Run.objects.get().state == Run.State.HELD
    assert Installation.objects.get().restored_from == MADE_AT
    assert home.read_secret("encryption_key") != keys
    assert sealed.opened(with_keys / manifest.SEALED, PASSPHRASE)["encryption_key"] == (
        home.read_secret("encryption_key")
    )
    assert preflight.unfinished_restore(elsewhere) == ""
    said("audit_verify")
    again = refused("restore", str(with_keys))
    assert ("is there already" in again) if ON_SQLITE else ("is not empty" in again)


@pytest.mark.skipif(ON_SQLITE, reason="it has no server")
def test_x40_a_server_that_parameters_name_is_backed_up(
    installed: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """[X40] As for a socket: ``postgres:///latchkey?host=/run/postgresql&port=5433``."""
    given = connection.settings_dict
    place = {"host": given["HOST"], "port": given["PORT"], "user": given["USER"]}
    monkeypatch.setitem(given, "OPTIONS", {**given["OPTIONS"], **place})
    for name in ("HOST", "PORT", "USER"):
        monkeypatch.setitem(given, name, "")
    copies.copy(tmp_path / "archive")
    copies.read_through(tmp_path / "archive")


@pytest.mark.skipif(ON_SQLITE, reason="it has no extensions")
def test_x47_an_archive_is_restored_beside_an_extension_of_a_superuser(
    installed: Path, postgres: Postgres | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """[X47] As docs/deploy.md has ``pg_trgm`` made, where the role may not: its comment is not
    the role's to change.
    """
    assert postgres is not None
    postgres.execute("CREATE ROLE plain LOGIN PASSWORD 'plain'")
    postgres.execute("CREATE DATABASE of_plain OWNER plain")
    with psycopg.connect(postgres.url("of_plain")) as there:
        there.execute("CREATE EXTENSION vector")
    with connection.cursor() as cursor:
        cursor.execute("CREATE EXTENSION vector")
    copies.copy(tmp_path / "archive")
    with monkeypatch.context() as patch:
        patch.setitem(connection.settings_dict, "USER", "plain")
        patch.setitem(connection.settings_dict, "PASSWORD", "plain")
        copies.fill(tmp_path / "archive", database="of_plain")
    with psycopg.connect(postgres.url("of_plain")) as there:
        assert there.execute("SELECT count(*) FROM core_user").fetchone() == (0,)
    postgres.execute("DROP DATABASE of_plain")
    postgres.execute("DROP ROLE plain")


def test_x47_a_restore_is_over_when_all_of_it_is_on_the_disk(
    with_keys: Path, elsewhere: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """[X47] Else a power cut left a home that starts with empty files."""
    marked: list[bool] = []
    sync = os.sync

    def noting() -> None:
        sync()
        marked.append(preflight.restoring_mark(elsewhere).exists())

    monkeypatch.setattr(os, "sync", noting)
    assert said("restore", str(with_keys)).startswith("Restored")
    assert marked == [True]
    assert not preflight.restoring_mark(elsewhere).exists()


def test_x47_a_restore_that_fails_half_way_does_not_start(backup: Path, elsewhere: Path) -> None:
    """[X47] Neither `up` nor another restore."""
    no_content(backup)
    assert "is missing" in refused("restore", str(backup))
    assert "was not finished" in preflight.unfinished_restore(elsewhere)
    assert "was not finished" in refused("restore", str(backup))


def with_a_file(home: Path, _: Path) -> None:
    (home / "files").mkdir()
    (home / "files" / "one").touch()


def of_newer_code(_: Path, backup: Path) -> None:
    change(backup, migrations={"core": 9999}, version="9.9")


def of_another_database(_: Path, backup: Path) -> None:
    change(backup, vendor="another")


def not_finished(_: Path, backup: Path) -> None:
    backup.rename(backup.with_name(f"{manifest.PARTIAL}{backup.name}"))


@pytest.mark.skipif(not ON_SQLITE, reason="a server keeps its own log")
def test_x47_no_backup_is_restored_beside_the_log_of_another_database(
    backup: Path, elsewhere: Path, tmp_path: Path
) -> None:
    """[X47] The gateway was killed, and the owner moved its database away without the log: SQLite
    would write that into the one that is brought back.
    """
    log = Path(f"{elsewhere}/gateway.sqlite3-wal")
    with closing(sqlite3.connect(tmp_path / "old")) as old:
        old.executescript("PRAGMA journal_mode = WAL; CREATE TABLE theirs (id)")
        shutil.copyfile(tmp_path / "old-wal", log)
    content = log.read_bytes()
    assert f"{log.name} is there already" in refused("restore", str(backup))
    assert log.read_bytes() == content


@pytest.mark.parametrize(
    ("spoil", "words"),
    [
        (with_a_file, "is there already: a backup is restored into an empty GATEWAY_HOME"),
        (of_newer_code, r"made by newer code \(version 9.9\)"),
        (of_another_database, "This is a backup of another, and DATABASE_URL names"),
        (not_finished, "is no backup"),
    ],
)
def test_x47_a_restore_that_is_refused_changes_nothing(
    backup: Path, elsewhere: Path, spoil: Callable[[Path, Path], None], words: str
) -> None:
    """[X47]"""
    spoil(elsewhere, backup)
    assert re.search(words, refused("restore", str(backup)))
    assert copies.is_empty()
    assert preflight.unfinished_restore(elsewhere) == ""


def test_x47_nothing_is_restored_beside_a_gateway(backup: Path, elsewhere: Path) -> None:
    """[X47]"""
    preflight.check_home(elsewhere)
    with preflight.lock(elsewhere):
        assert "another gateway" in refused("restore", str(backup))
    assert copies.is_empty()


@pytest.mark.parametrize(
    ("passphrase", "words"),
    [("", "set BACKUP_PASSPHRASE"), ("wrong", "does not open the keys")],
)
def test_x42_a_restore_without_its_passphrase(
    with_keys: Path, elsewhere: Path, settings: Settings, passphrase: str, words: str
) -> None:
    """[X42] Nothing has changed."""
    settings.BACKUP_PASSPHRASE = passphrase
    assert words in refused("restore", str(with_keys))
    assert copies.is_empty()
    assert preflight.unfinished_restore(elsewhere) == ""


def test_x50_a_process_that_makes_no_backup_says_why(installed: Path) -> None:
    """[X49] [X50] The folder's place is taken."""
    (installed / "backups").touch()
    assert backups.ask(cause=Backup.Cause.ADMIN, now=timezone.now())
    taken = backups.take(now=timezone.now())
    assert taken is not None
    connections.close_all()
    scheduled.make(taken)
    stored = Backup.objects.get()
    assert stored.state == Backup.State.FAILED
    assert f"{installed}/backups cannot be used" in stored.error


@pytest.mark.django_db
def test_x49_a_machine_whose_clock_is_ahead_takes_no_backup_from_another(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """[X49] The clock of the database counts: each would take it from the other."""
    moment = timezone.now()
    monkeypatch.setattr(transactions, "now", lambda: moment)
    assert backups.ask(cause=Backup.Cause.ADMIN, now=moment)
    taken = scheduled.take()
    assert taken is not None
    monkeypatch.setattr(timezone, "now", lambda: moment + timedelta(minutes=5))
    assert scheduled.take() is None
    assert backups.renew(taken, now=moment)


def test_x49_a_backup_that_was_asked_for_waits_for_another_one(
    backup: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """[X43] [X50] An owner makes or checks one, or a worker that was frozen goes on: no failure,
    of which the owners were told, and a backup.
    """
    monkeypatch.setattr(os, "nice", int)  # of the process of this test
    assert backups.ask(cause=Backup.Cause.ADMIN, now=timezone.now())
    taken = backups.take(now=timezone.now())
    assert taken is not None
    with ExitStack() as another:
        another.enter_context(making.one_at_a_time(backup.parent))
        monkeypatch.setattr(time, "sleep", lambda _: another.close())
        said("backup", "--row", str(taken.pk))
    assert Backup.objects.get().state == Backup.State.GOOD
    assert len(manifest.all_in(backup.parent)) == 2
