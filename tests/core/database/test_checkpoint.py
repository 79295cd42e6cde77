"""SQLite's WAL is checkpointed beside the work, not by a thread that commits."""

import shutil
import sqlite3
from pathlib import Path

import pytest
from django.db import connection

from channels_app.worker import runner
from core.database import transactions
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
def test_the_worker_does_it_again_and_again(
    monkeypatch: pytest.MonkeyPatch, transactional_db: None
) -> None:
    done: list[int] = []
    monkeypatch.setattr(runner, "CHECKPOINT_SECONDS", 0.01)
    monkeypatch.setattr(runner, "checkpoint", lambda: done.append(1))
    working = runner.Runner()
    working.start()
    try:
        wait_until(lambda: len(done) > 2, seconds=30)
    finally:
        working.stop()
    transactions.close_pool()
