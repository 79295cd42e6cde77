"""A file is on the disk before anything says that it is stored."""

import os
from pathlib import Path

import pytest

from core.files import storage
from core.jobs_worker import work
from core.models import StoredFile, User
from core.plugins.base import Artifact

pytestmark = pytest.mark.django_db


@pytest.fixture
def synced(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Return the inodes that are written to the disk; no row may stand there before."""
    found: list[int] = []
    sync = os.fsync

    def noting(descriptor: int) -> None:
        assert not StoredFile.objects.exists()
        sync(descriptor)
        found.append(os.fstat(descriptor).st_ino)

    monkeypatch.setattr(os, "fsync", noting)
    return found


def inodes(path: Path) -> list[int]:
    """Return those of a file and of the folders that lead to it from that of all files."""
    parents = path.relative_to(storage.folder()).parents
    return [each.stat().st_ino for each in (path, *(storage.folder() / each for each in parents))]


def test_an_upload_outlasts_a_power_cut(synced: list[int]) -> None:
    """Its sender was told that it is accepted."""
    ada = User.objects.create(username="ada")
    kept = storage.keep(user=ada, name="a.txt", content=b"words")
    assert synced == inodes(storage.path_of(kept))
    synced.clear()
    StoredFile.objects.all().delete()
    path = storage.new_path()
    path.write_bytes(b"words")
    storage.receive(path=path, user=ada, name="a.txt")
    assert synced == inodes(path)


def test_the_file_of_a_long_task_outlasts_a_power_cut(synced: list[int]) -> None:
    folder = storage.folder() / "jobs" / "1" / "1"
    folder.mkdir(parents=True)
    path = folder / "deck.pptx"
    path.write_bytes(b"PK")
    work.kept(Artifact(path=path, name="deck.pptx", mime="application/zip"), folder)
    assert synced == inodes(path)
