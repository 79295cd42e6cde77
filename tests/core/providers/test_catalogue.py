"""The snapshot of providers, models and assistants, read by several threads."""

import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from django.db import connections
from pytest_django import Settings

from core.database.transactions import atomic_write
from core.models import Assistant, AssistantVersion, LanguageModel, ModelProvider
from core.providers import catalogue
from tests.threads import at_once

pytestmark = pytest.mark.django_db(transaction=True)
SECONDS = 20


@pytest.fixture
def aside() -> Iterator[Callable[..., threading.Thread]]:
    """Return ``aside(call)``, which calls it in a thread with a connection of its own."""
    begun: list[threading.Thread] = []

    def start(call: Callable[[], Any]) -> threading.Thread:
        def work() -> None:
            try:
                call()
            finally:
                connections.close_all()

        begun.append(threading.Thread(target=work, daemon=True))
        begun[-1].start()
        return begun[-1]

    yield start
    for thread in begun:
        thread.join(SECONDS)


def test_a_changed_snapshot_is_read_while_another_thread_writes(
    aside: Callable[..., threading.Thread],
) -> None:
    """A message is accepted inside a transaction, which asks for the snapshot too: a thread that
    reads it must not wait for that transaction, or each would wait for the other.
    """
    catalogue.current()
    Assistant.objects.create(name="Coder", slug="coder")
    read: list[str] = []
    with atomic_write():
        Assistant.objects.filter(pk=0).update(name="x")  # the transaction has written
        reader = aside(
            lambda: read.extend(each.slug for each in catalogue.current().assistants.values())
        )
        reader.join(SECONDS)
        assert read == ["assistant", "coder"]
        assert len(catalogue.current().assistants) == 2


def test_an_environment_is_stored_by_one_thread_while_another_one_waits_to_store_it(
    aside: Callable[..., threading.Thread], settings: Settings
) -> None:
    """As after a start with other settings: the first message comes while a page is read."""
    catalogue.current()
    settings.LLM_CONTEXT_TOKENS = 12_345
    entered = threading.Event()
    found: list[int] = []

    def read() -> None:
        entered.set()
        found.extend(each.context_tokens for each in catalogue.current().models.values())

    with atomic_write():
        Assistant.objects.filter(pk=0).update(name="x")
        reader = aside(read)
        assert entered.wait(SECONDS)
        reader.join(0.3)  # it waits for this transaction, if it has come that far
        assert [each.context_tokens for each in catalogue.current().models.values()] == [12_345]
    reader.join(SECONDS)
    assert found == [12_345]


def test_threads_that_find_an_empty_database_make_its_rows_once() -> None:
    ModelProvider.objects.all().delete()
    Assistant.objects.all().delete()
    found = at_once(8, lambda: [*catalogue.current().assistants])
    assert len({tuple(each) for each in found}) == 1
    assert AssistantVersion.objects.count() == LanguageModel.objects.count() == 1


def test_a_snapshot_has_the_rows_of_its_version(monkeypatch: pytest.MonkeyPatch) -> None:
    """A change that commits while the rows are read is in the snapshot, not half of it."""
    catalogue.current()
    Assistant.objects.create(name="First", slug="first")
    plain = catalogue.read
    calls: list[int] = []

    def slow(number: int) -> catalogue.Catalogue:
        made = plain(number)
        if not calls:
            Assistant.objects.create(name="Second", slug="second")
        calls.append(number)
        return made

    monkeypatch.setattr(catalogue, "read", slow)
    known = catalogue.current()
    assert [each.slug for each in known.assistants.values()] == ["assistant", "first", "second"]
    assert known.version == catalogue.version()
    assert len(calls) == 2
