"""A claim does not wait for SQLite's disk; an accepted message does."""

from collections.abc import Iterator
from contextlib import suppress

import pytest
from django.db import OperationalError, connection

from channels_app.worker import claim_runs
from core.conversations import jobs, runs
from core.database import driver, transactions
from core.models import Job, Run, User
from tests.core.conftest import Say

pytestmark = [
    pytest.mark.django_db(transaction=True),
    pytest.mark.skipif("connection.vendor != 'sqlite'", reason="PostgreSQL waits for its disk"),
]
NORMAL, FULL = 1, 2


def level() -> int:
    """Return how much the commits of this thread wait for: ``PRAGMA synchronous``."""
    found = driver.fetch(connection, "PRAGMA synchronous", ())
    return int(found[0][0])


@pytest.fixture
def said() -> Iterator[list[str]]:
    """Return the statements of this thread, as SQLite gets them."""
    connection.ensure_connection()
    statements: list[str] = []
    connection.connection.set_trace_callback(statements.append)
    yield statements
    if connection.connection is not None:
        connection.connection.set_trace_callback(None)


def test_only_the_block_is_not_waited_for() -> None:
    with transactions.unsynced_write():
        User.objects.create(username="ada")
        assert level() == NORMAL
    assert level() == FULL
    assert User.objects.filter(username="ada").exists()


def test_after_an_error_commits_wait_again() -> None:
    with suppress(ValueError), transactions.unsynced_write():
        User.objects.create(username="ada")
        raise ValueError
    assert level() == FULL
    assert not User.objects.exists()


def test_inside_a_transaction_it_is_a_part_of_it(said: list[str]) -> None:
    with transactions.atomic_write():
        with suppress(ValueError), transactions.unsynced_write():
            User.objects.create(username="ada")
            raise ValueError
        User.objects.create(username="grace")
    assert [user.username for user in User.objects.all()] == ["grace"]
    assert not [each for each in said if "synchronous" in each]


def test_a_connection_that_cannot_be_told_to_wait_is_closed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def execute(*given: object) -> None:
        if given[1] == "PRAGMA synchronous=FULL":
            raise OperationalError("disk I/O error")
        real(*given)  # type: ignore[arg-type]

    real = driver.execute
    with monkeypatch.context() as patch:
        patch.setattr(driver, "execute", execute)
        with pytest.raises(OperationalError), transactions.unsynced_write():
            User.objects.create(username="ada")
    assert level() == FULL


KEPT = ["PRAGMA synchronous=NORMAL", "BEGIN IMMEDIATE", "COMMIT", "PRAGMA synchronous=FULL"]


def told(said: list[str]) -> list[str]:
    """Return the beginnings, ends and settings among statements."""
    return [each for each in said if each.startswith(("PRAGMA", "BEGIN", "COMMIT"))]


def test_runs_are_claimed_and_kept_unsynced_and_messages_accepted_synced(
    say: Say, said: list[str]
) -> None:
    run = say("hello")
    assert "BEGIN IMMEDIATE" in told(said)
    assert not [each for each in said if "synchronous" in each]
    said.clear()
    assert claim_runs.claim([run.id], "w")
    assert told(said) == KEPT
    said.clear()
    assert runs.keep(held={run.id: 1}, worker="w") == (set(), set())
    assert told(said) == KEPT


def test_signs_of_life_are_unsynced(said: list[str]) -> None:
    """They are all that an idle gateway writes, each few seconds."""
    runs.heard_from(worker="w", queue="runs")
    assert told(said) == KEPT


def test_jobs_are_kept_unsynced(say: Say, said: list[str]) -> None:
    job = Job.objects.create(run=say("1"), tool_call_id="c", tool="t", state=Run.State.RUNNING)
    said.clear()
    assert jobs.keep(job=job)
    assert told(said) == KEPT
