"""An installation of a test's own, whose database may be copied, replaced and removed."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from django.db import connection, connections
from pytest_django import Settings

from core.conversations import events
from gateway_project import databases, home
from tests.conftest import DatabaseMaker
from tests.gateway_project.backups.pairs import programs


@pytest.fixture
def own_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, settings: Settings) -> Path:
    """Return a home with keys, for this process and those that it starts."""
    folder = tmp_path / "home"
    monkeypatch.setenv("GATEWAY_HOME", str(folder))
    monkeypatch.setenv("DJANGO_SETTINGS_MODULE", "gateway_project.settings")
    monkeypatch.setenv("PYTHONPATH", str(home.BASE_DIR))
    monkeypatch.setenv("PATH", f"{programs()}:{os.environ['PATH']}")
    settings.GATEWAY_HOME = folder
    settings.BACKUP_FOLDER = settings.BACKUP_PASSPHRASE = ""
    home.ensure()
    (folder / "run").mkdir()
    return folder


@pytest.fixture
def installed(
    own_home: Path, transactional_db: None, new_database: DatabaseMaker
) -> Iterator[Path]:
    """Return a home whose database is migrated, empty, and used by this test alone."""
    del transactional_db
    with using(new_database(), own_home):
        yield own_home


@contextmanager
def using(url: str, folder: Path) -> Iterator[None]:
    """Make ``url`` the database of this process and of those that it starts."""
    connections.close_all()
    name = databases.settings_of(url, home=folder)["NAME"]
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(connection.settings_dict, "NAME", name)
        patch.setenv("DATABASE_URL", url)
        yield
        events.close_writer()
        connections.close_all()
