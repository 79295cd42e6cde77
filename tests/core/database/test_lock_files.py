"""The lock files that queue the writing processes on SQLite."""

import os
from pathlib import Path

import pytest
from django.db import connection

from core.database import transactions


@pytest.mark.skipif(connection.vendor != "sqlite", reason="PostgreSQL has no lock files")
def test_a_lock_file_that_cannot_be_opened_hinders_no_write(
    transactional_db: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As one that a command of root has made; SQLite's own lock is what counts."""
    name = str(tmp_path / "database")
    Path(f"{name}.turn").mkdir()  # root, as tests may be, opens any file
    with monkeypatch.context() as here:
        here.setitem(connection.settings_dict, "NAME", name)
        with transactions.writer_lock():
            pass
    os.close(transactions._lock_files.pop(f"{name}.gate"))
