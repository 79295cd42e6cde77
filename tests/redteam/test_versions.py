"""Workers and a database of different versions: no process works on tables of another schema."""

import asyncio
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from typing import Any

import pytest
from django.db import connection
from django.db.migrations.recorder import MigrationRecorder
from django.utils import timezone

from channels_app.asgi.builtin_accounts import builtin_account
from channels_app.intake import inbound
from channels_app.ops import health
from channels_app.ops.doctor import examination, work
from channels_app.worker.runner import Runner
from core.conversations import events, inbox, runs
from core.database import schema_version, transactions
from core.jobs_worker.starter import Starter
from core.models import Job, Run, User
from tests.channels_app.client import people, query
from tests.channels_app.running import runner
from tests.gateways import Gateway
from tests.servers import wait_until

__all__ = ["runner"]
NEWER = "9999_of_tomorrow"
SECONDS = 240.0


@contextmanager
def migrated_by_newer_code() -> Iterator[None]:
    """Yield the database as a later version of the code leaves it."""
    recorder = MigrationRecorder(connection)
    recorder.record_applied("core", NEWER)
    try:
        yield
    finally:
        recorder.record_unapplied("core", NEWER)


@contextmanager
def older_than_the_code() -> Iterator[None]:
    """Yield the database before ``migrate``: the effects of core's newest migrations exist, but are
    not recorded."""
    recorder = MigrationRecorder(connection)
    names = [name for app, name in recorder.applied_migrations() if app == "core"]
    for name in names:
        recorder.record_unapplied("core", name)
    try:
        yield
    finally:
        for name in sorted(names):
            recorder.record_applied("core", name)


WRONG = [(migrated_by_newer_code, "newer code"), (older_than_the_code, "manage.py migrate")]


def ask(name: str) -> Run:
    """Create a run that waits for a worker."""
    user = User.objects.get_or_create(username="ada")[0]
    receipt = inbound.receive_personal(
        user=user,
        draft=inbox.Draft(account=builtin_account("http"), text=name),
        session_id="",
        now=timezone.now(),
    )
    assert receipt.run is not None
    return receipt.run


def is_told(words: str) -> bool:
    """Return whether a worker says why it waits."""
    return words in " ".join(runs.idle_workers("runs"))


def state(run: Run) -> str:
    """Return the state of the run."""
    return str(Run.objects.values_list("state", flat=True).get(id=run.id))


@pytest.mark.parametrize(("wrong", "words"), WRONG)
def test_rc10_a_worker_of_another_version_claims_nothing_until_they_fit(
    wrong: Callable[[], AbstractContextManager[None]], words: str, runner: Runner
) -> None:
    """[RC10] It says why, and goes on by itself."""
    wait_until(lambda: runs.workers_alive("runs") == 1, seconds=SECONDS, what="a heartbeat")
    with wrong():
        wait_until(partial(is_told, words), seconds=SECONDS, what="the refusal")
        run = ask("while outdated")
        runner.submit("run", run.id)  # woken and swept for
        asyncio.run_coroutine_threadsafe(runner._sweep(), runner.loop).result(SECONDS)
        assert words in runner.outdated
        assert runs.workers_alive("runs") == 0
        assert state(run) == "queued"
        assert runner.held == {}
    wait_until(lambda: state(run) == "succeeded", seconds=SECONDS, what="the answer")
    wait_until(lambda: runs.workers_alive("runs") == 1, seconds=SECONDS, what="work")


def test_rc10_a_worker_that_starts_on_an_old_database_takes_nothing_before_migrate(
    transactional_db: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """[RC10] Not even what waits already when it starts."""
    run = ask("before")
    with older_than_the_code():
        made = Runner()
        monkeypatch.setattr(made, "_look_for_work", unexpected)
        made.start()
        wait_until(lambda: bool(runs.idle_workers("runs")), seconds=SECONDS, what="the refusal")
        made.stop()
        events.close_writer()
        transactions.close_pool()
        assert "manage.py migrate" in made.outdated
    assert state(run) == "queued"


async def unexpected() -> None:
    """Raise: an outdated worker never calls this."""
    raise AssertionError("an outdated worker looked for work")


@pytest.mark.parametrize(("wrong", "words"), WRONG)
def test_rc10_a_long_worker_leaves_its_job_in_the_queue(
    wrong: Callable[[], AbstractContextManager[None]],
    words: str,
    transactional_db: None,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """[RC10]"""
    job = Job.objects.create(run=ask("long"), tool_call_id="c", tool="run_skill")
    with wrong():
        made = Starter()
        made.start()
        wait_until(lambda: bool(runs.idle_workers("long")), seconds=SECONDS, what="the refusal")
        made.stop()
    job.refresh_from_db()
    assert (job.state, job.attempt) == (Run.State.QUEUED, 0)
    assert words in caplog.text


@pytest.mark.parametrize(("wrong", "words"), WRONG)
def test_rc10_readyz_and_the_doctor_of_an_outdated_process_say_so(
    wrong: Callable[[], AbstractContextManager[None]], words: str, transactional_db: None
) -> None:
    """[RC10]"""
    assert schema_version.problem() == ""
    with wrong():
        assert any(words in each for each in health.problems_now())
        found = {each.id for each in examination.examine(now=timezone.now())}
        assert found & {"outdated", "migrations"}
        assert "not-ready" not in found  # tables that we do not know are not read


def test_rc10_an_old_worker_beside_a_new_one_is_named_and_stops_no_other(db: None) -> None:
    """[RC10] During a rolling update the gateway stays ready; the owner is told."""
    runs.heard_from(worker="new", queue="runs")
    runs.heard_from(worker="old", queue="runs", problem="it is of yesterday.")
    runs.heard_from(worker="l", queue="long")
    assert not any("worker" in each for each in health.problems_now())
    found = [each.what for each in work.running() if each.id == "outdated"]
    assert found == ["A runs worker takes no work: it is of yesterday."]


def test_rc10_files_of_a_deployment_do_not_affect_a_running_process(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """[RC10] The disk is read once, when Django starts."""
    known = schema_version.own()
    assert set(known) == {"core", "allowlist", "channels_app"}
    assert min(known.values()) >= 2
    monkeypatch.setattr(schema_version, "newest", lambda _: 9999)
    assert schema_version.own() == known


@pytest.mark.slow
@pytest.mark.on("postgres")
def test_rc10_running_processes_wait_for_their_version(gateway: Gateway) -> None:
    """[RC10] The same with real workers: nothing is lost, and it is all said."""
    ada = people(gateway, number=1)[0]
    assert ada.say("hello").status == 200
    record = "from django.db.migrations.recorder import MigrationRecorder as R; "
    record += "from django.db import connection as c; R(c).record_"
    gateway.manage("shell", "-v0", "-c", f"{record}applied('core', '{NEWER}')")
    waits = (
        "SELECT count(*), max(seen_at) FROM core_workerheartbeat WHERE problem LIKE '%newer code%'"
    )
    wait_until(lambda: query(gateway, waits)[0][0] == 2, seconds=SECONDS, what="both workers")
    assert ada.get("/readyz").status == 503
    assert "newer code" in ada.get("/readyz").raw.decode()
    assert "takes no more work" in gateway.log("runs")
    # The web process knows within seconds: it refuses messages that no worker can take.
    soon: dict[str, Any] = {"async": True}
    wait_until(lambda: ada.say("again", **soon).status == 503, seconds=SECONDS, what="a refusal")
    refused = ada.say("again", **soon)
    assert refused.headers["retry-after"] == "30"
    assert refused.body["error"].startswith("The gateway is being updated")
    waiting = query(gateway, "SELECT count(*) FROM core_run WHERE state = 'queued'")[0][0]
    gateway.manage("shell", "-v0", "-c", f"{record}unapplied('core', '{NEWER}')")
    wait_until(lambda: ada.say("again").status == 200, seconds=SECONDS, what="an answer")
    done = "SELECT count(*) FROM core_run WHERE state = 'succeeded'"
    wait_until(
        lambda: query(gateway, done)[0][0] == waiting + 2, seconds=SECONDS, what="all answers"
    )
    wait_until(lambda: ada.get("/readyz").status == 200, seconds=SECONDS, what="both workers")
