"""The snapshot is read and written while others write: nobody waits for somebody who waits."""

import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TypeVar

import pytest
from django.db import connections

from core.database.transactions import atomic_write
from core.models import Assistant, LanguageModel, ModelProvider
from core.providers import catalogue
from core.providers.catalogue import Kept
from tests.threads import at_once

pytestmark = pytest.mark.django_db(transaction=True)
SECONDS = 60
T = TypeVar("T")


def in_thread(pool: ThreadPoolExecutor, call: Callable[[], T]) -> Future[T]:
    """Call it in a thread with a connection of its own."""

    def work() -> T:
        try:
            return call()
        finally:
            connections.close_all()

    return pool.submit(work)


def test_a_changed_snapshot_is_read_while_another_thread_writes() -> None:
    kept = Kept()
    before = kept.get()
    with ThreadPoolExecutor(1) as pool:
        with atomic_write():
            catalogue.changed()
        with atomic_write():
            # On SQLite this thread has the only place of a writer, and keeps it until the other
            # has read.
            found = in_thread(pool, kept.get).result(SECONDS)
            assert found.version > before.version
            assert kept.get() is found


def test_a_writer_does_not_wait_for_a_thread_that_waits_for_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The first two threads of a process: one writes the environment, one has begun to write."""
    kept = Kept()
    begun = threading.Event()
    write = catalogue.write_environment

    def noted() -> None:
        begun.set()
        write()

    with ThreadPoolExecutor(1) as pool:
        with atomic_write():
            monkeypatch.setattr(catalogue, "write_environment", noted)
            other = in_thread(pool, kept.get)
            assert begun.wait(SECONDS)
            monkeypatch.setattr(catalogue, "write_environment", write)
            mine = kept.get().version
        assert other.result(SECONDS).version >= mine


def test_the_environment_is_written_once_by_many_at_the_same_time() -> None:
    Assistant.objects.all().delete()
    ModelProvider.objects.all().delete()
    kept = [Kept() for _ in range(4)]
    found = at_once(4, lambda: kept.pop().get())
    assert len({each.default for each in found}) == 1
    assert ModelProvider.objects.filter(from_environment=True).count() == 1
    assert LanguageModel.objects.count() == 1
    assert Assistant.objects.get().versions.count() == 1
    assert Assistant.objects.get().chain.count() == 1
