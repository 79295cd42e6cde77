"""SQLite's WAL is checkpointed beside the work, not by a thread that commits."""

import shutil
import sqlite3
from pathlib import Path

import pytest
from django.db import connection

from channels_app.worker import runner
from core.database import transactions
from core.database.sqlite_options import LOG_BYTES
from core.models import User
from tests.servers import wait_until

pytestmark = pytest.mark.django_db(transaction=True)


def in_file(folder: Path) -> bool:
    """Return whether the user is in the database file itself, not only in the WAL."""
    copy = folder / "copy.sqlite3"
    shutil.copyfile(str(connection.settings_dict["NAME"]), copy)
    found = sqlite3.connect(copy)
    try:
        return bool(found.execute("SELECT 1 FROM core_user WHERE username = 'ada'").fetchall())
    finally:
        found.close()


on_sqlite = pytest.mark.skipif(
    "connection.vendor != 'sqlite'", reason="PostgreSQL does this itself"
)


@on_sqlite
def test_a_commit_leaves_its_rows_in_the_log_and_a_checkpoint_moves_them(tmp_path: Path) -> None:
    transactions.checkpoint()
    User.objects.create(username="ada")
    assert not in_file(tmp_path)
    transactions.checkpoint()
    assert in_file(tmp_path)


@on_sqlite
def test_a_long_log_is_short_again_when_it_begins_anew() -> None:
    """Its file keeps no more than what is looked for: else it would be long for ever."""
    transactions.checkpoint()
    User.objects.create(username="ada")
    assert not transactions.is_log_long()
    User.objects.create(username="grace", display_name="a", password="x" * LOG_BYTES)
    assert transactions.is_log_long()
    transactions.checkpoint()
    User.objects.create(username="linus")
    assert not transactions.is_log_long()


@on_sqlite
def test_a_database_without_a_log_has_no_long_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(connection.settings_dict, "NAME", "/nowhere/gateway.sqlite3")
    assert not transactions.is_log_long()


@on_sqlite
@pytest.mark.parametrize(
    ("seconds", "is_long", "is_repeated"),
    [(0.01, False, True), (3600.0, True, True), (3600.0, False, False)],
)
def test_the_worker_does_it_seldom_or_each_time_that_it_finds_the_log_long(
    monkeypatch: pytest.MonkeyPatch,
    transactional_db: None,
    seconds: float,
    is_long: bool,
    is_repeated: bool,
) -> None:
    done, looked = list[int](), list[int]()

    def look() -> bool:
        looked.append(1)
        return is_long

    monkeypatch.setattr(runner, "CHECKPOINT_SECONDS", seconds)
    monkeypatch.setattr(runner, "LOG_SECONDS", 0.01)
    monkeypatch.setattr(runner, "is_log_long", look)
    monkeypatch.setattr(runner, "checkpoint", lambda: done.append(1))
    working = runner.Runner()
    working.start()
    try:
        wait_until(lambda: len(looked) > 9)
        wait_until(lambda: len(done) > 2 or not is_repeated)
    finally:
        working.stop()
    transactions.close_pool()
    assert is_repeated or len(done) == 1
