"""A worker that froze inside a transaction blocks its own row, and no sweep of others ([RC8])."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import timedelta

import pytest
from django.db import DatabaseError, connection, transaction
from django.db.models.functions import Now

from core.conversations import events, jobs, runs
from core.database import transactions
from core.models import Job, Run, Schedule
from tests.core.conftest import Say
from tests.core.conversations.test_fences import OK, pair
from tests.servers import wait_until
from tests.settings import TEST_DATABASE

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("woken")]
SECONDS = 20
# Where one writer locks all, the others wait until it ends; they would wait longer than this.
WRITER_SECONDS = 1.0


@contextmanager
def frozen(model: type[Run | Job | Schedule], row_id: int) -> Iterator[None]:
    """Hold a row's lock in an open transaction."""
    holds, may_go = threading.Event(), threading.Event()

    def hold() -> None:
        # Raises where the server ended the session.
        with suppress(DatabaseError), transaction.atomic():
            list(model.objects.select_for_update(no_key=True).filter(id=row_id))
            session = connection.connection
            holds.set()
            may_go.wait(SECONDS if is_locked() else WRITER_SECONDS)
        connection.close()
        session.close()  # Django only drops a connection that it cannot roll back

    thread = threading.Thread(target=hold)
    thread.start()
    assert holds.wait(SECONDS)
    try:
        yield
    finally:
        may_go.set()
        thread.join(SECONDS)


def in_time() -> None:
    """Make statements that wait for a lock fail, where the database locks rows."""
    if connection.vendor == "postgresql":
        with connection.cursor() as cursor:
            cursor.execute("SET lock_timeout = '1s'")


def is_locked() -> bool:
    """Return whether this database locks rows; SQLite has one writer at a time."""
    return connection.vendor == "postgresql"


def test_rc8_the_sweep_passes_over_a_run_whose_worker_froze(pair: tuple[Run, Run]) -> None:
    """[RC8] The others are recovered now, that one when it is released."""
    for run in pair:
        assert runs.claim(run_ids=[run.id], worker="w")
    Run.objects.update(lease_until=Now() - timedelta(seconds=1))
    first, second = pair
    in_time()
    with frozen(Run, first.id):
        assert runs.recover() == ([second.id] if is_locked() else [first.id, second.id])
    assert runs.recover() == [first.id, second.id]


def test_rc8_no_worker_takes_a_run_while_its_writer_ends_it(pair: tuple[Run, Run]) -> None:
    """[RC8] The writer read the attempt and holds the row until its transaction ends.

    SQLite allows no other writer meanwhile.
    """
    run = runs.claim(run_ids=[pair[0].id], worker="w").get(pair[0].id)
    assert run is not None
    Run.objects.update(lease_until=Now() - timedelta(seconds=1))
    swept: list[list[int]] = []

    def sweep() -> None:
        in_time()
        swept.append(runs.recover())
        connection.close()

    def finish(seq: int) -> None:
        if is_locked():
            thread = threading.Thread(target=sweep)
            thread.start()
            thread.join(SECONDS)
        runs.settle(run=run, outcome=OK, last_seq=seq)

    events.write_batch([(events.log_of(run=run, seq=0), [], finish)])
    assert swept == ([[pair[1].id]] if is_locked() else [])
    assert Run.objects.get(id=run.id).state == Run.State.SUCCEEDED


def test_rc8_the_sweep_passes_over_a_job_whose_process_froze(say: Say) -> None:
    """[RC8] [L2]"""
    run = say("1")
    past = Now() - timedelta(seconds=1)
    first, second = (
        Job.objects.create(run=run, tool_call_id=call, tool="t", state=Run.State.RUNNING)
        for call in "ab"
    )
    Job.objects.update(lease_until=past)
    in_time()
    with frozen(Job, first.id):
        assert jobs.recover() == ([second.id] if is_locked() else [first.id, second.id])
    assert jobs.recover() == ([first.id] if is_locked() else [])


__all__ = ["pair"]


@pytest.mark.skipif(TEST_DATABASE == "sqlite", reason="SQLite has no sessions")
def test_rc8_a_run_whose_worker_froze_inside_a_transaction_is_free_after_a_time(
    pair: tuple[Run, Run], monkeypatch: pytest.MonkeyPatch
) -> None:
    """[RC8] The server ends the session."""
    monkeypatch.setattr(transactions, "IDLE_TRANSACTION_SECONDS", 1)
    first, _ = pair
    assert runs.claim(run_ids=[first.id], worker="w")
    Run.objects.update(lease_until=Now() - timedelta(seconds=1))
    with frozen(Run, first.id):
        wait_until(lambda: first.id in runs.recover(), seconds=SECONDS / 2)
