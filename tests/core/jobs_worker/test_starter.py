"""[L2] The thread that starts jobs and watches their processes, which here do nothing."""

import os
import resource
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

import psutil
import pytest
from django.db import DatabaseError

from core.conversations import jobs, runs
from core.database import schema_version, transactions
from core.jobs_worker import process, starter
from core.jobs_worker.process import ENDED_WELL, FAILED, NOT_NOW, OUT_OF_MEMORY
from core.jobs_worker.work import TOO_MUCH_MEMORY
from core.models import Job, Run
from core.signals import wakeups
from tests.gateway_project.processes.ups import is_living, living
from tests.servers import wait_until

pytestmark = pytest.mark.django_db(transaction=True)


@dataclass
class Machine:
    """A starter whose jobs are ``pretend``; each has a file with the pids of its processes."""

    folder: Path
    run: Run

    def ask(self, call: str) -> Job:
        """Queue a job; nothing is woken."""
        return Job.objects.create(run=self.run, tool_call_id=call, tool="t")

    def has_begun(self, job: Job, attempt: int = 1) -> bool:
        """Return whether the processes of a job have written their file."""
        return (self.folder / f"{job.id}-{attempt}").exists()

    def pids(self, job: Job, attempt: int = 1) -> list[int]:
        """Return the pids of a job's processes, once they are there."""
        wait_until(lambda: self.has_begun(job, attempt), what=f"{job} to begin")
        return [int(pid) for pid in (self.folder / f"{job.id}-{attempt}").read_text().split()]

    def processes(self, job: Job, attempt: int = 1) -> list[psutil.Process]:
        """Return the processes of a job, once they are there."""
        return [psutil.Process(pid) for pid in self.pids(job, attempt)]

    def end(self, code: int) -> None:
        """Let all processes of jobs end with an exit code."""
        (self.folder / "end").write_text(str(code))


@pytest.fixture
def machine(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Machine:
    monkeypatch.setattr(starter, "MODULE", "tests.core.jobs_worker.pretend")
    for name in ("WATCH_SECONDS", "LOOK_SECONDS"):
        monkeypatch.setattr(starter, name, 0.05)
    monkeypatch.setattr(wakeups, "send", lambda *_, **__: None)
    monkeypatch.setenv("PRETEND", str(tmp_path))
    return Machine(tmp_path, run)


@pytest.fixture
def started() -> Iterator[starter.Starter]:
    made = starter.Starter()
    made.start()
    yield made
    made.stop()


def comes(job: Job, **expected: Any) -> None:
    """Wait until a job's row has these values."""
    wait_until(
        lambda: Job.objects.filter(id=job.id, **expected).exists(),
        what=lambda: f"{expected}, not {Job.objects.filter(id=job.id).values()}",
    )


def is_alive(pid: int) -> bool:
    with suppress(psutil.NoSuchProcess):
        return is_living(psutil.Process(pid))
    return False


def are_gone(processes: list[psutil.Process]) -> bool:
    return not living(processes)


def test_l2_places_are_filled_without_wake_ups_and_again_when_a_job_ends(
    machine: Machine, started: starter.Starter, settings: Any
) -> None:
    """[L2] Also where a machine that is full takes the wake-up of a job, which another one does."""
    settings.LONG_WORKERS, settings.RUN_LEASE_SECONDS = 1, 600
    first, second = machine.ask("a"), machine.ask("b")
    processes = machine.processes(first)
    jobs.finish(job=Job.objects.get(id=first.id), result={}, made=[])
    started.wake()
    comes(second, state="queued", attempt=0)
    other = starter.Starter()
    other.start()
    machine.processes(second)
    third = machine.ask("c")
    processes[0].kill()
    machine.processes(third)
    other.stop()
    assert runs.workers_alive("long") == 1


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        (ENDED_WELL, {"state": "running", "attempt": 1}),
        (FAILED, {"attempt": 2}),
        (OUT_OF_MEMORY, {"state": "failed", "error": TOO_MUCH_MEMORY}),
    ],
)
def test_l2_the_end_of_a_process_ends_those_that_it_started(
    machine: Machine, started: starter.Starter, code: int, expected: dict[str, Any]
) -> None:
    """[L2] As those of a skill's script. A job that crashed is begun again at once."""
    job = machine.ask("a")
    processes = machine.processes(job)
    machine.end(code)
    wait_until(lambda: are_gone(processes), what="the end of the processes")
    comes(job, **expected)


def cancelled(run: Run) -> None:
    runs.request_cancel(run=run)


def taken_over(run: Run) -> None:
    Job.objects.filter(run=run).update(attempt=7)


@pytest.mark.parametrize("lose", [cancelled, taken_over])
def test_l2_a_job_that_is_not_wanted_any_more_is_killed(
    machine: Machine, started: starter.Starter, lose: Callable[[Run], None]
) -> None:
    """[L2] [C9] With all that it started; nothing of another attempt's row changes."""
    job = machine.ask("a")
    processes = machine.processes(job)
    lose(machine.run)
    wait_until(lambda: are_gone(processes), what="the end of the processes")
    assert Job.objects.get().state == "running"


def finished(job: Job) -> None:
    jobs.finish(job=job, result={}, made=[])


def failed(job: Job) -> None:
    jobs.fail(job=job, error="no paper")


@pytest.mark.parametrize(("end", "state"), [(finished, "succeeded"), (failed, "failed")])
def test_l2_a_process_that_hangs_after_its_job_is_killed_soon(
    machine: Machine,
    started: starter.Starter,
    settings: Any,
    end: Callable[[Job], None],
    state: str,
) -> None:
    """[L2] As where a thread of its plugin does not end: its place is needed, its row stays."""
    settings.RUN_LEASE_SECONDS = 1
    job = machine.ask("a")
    processes = machine.processes(job)
    end(Job.objects.get())
    wait_until(lambda: are_gone(processes), what="the end of the processes")
    assert (Job.objects.get().state, Job.objects.get().attempt) == (state, 1)


def test_l2_a_plugin_that_exits_the_interpreter_has_crashed(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    """[L2] Its job is begun again at once: with exit code 0 it would wait for the end of a lease."""

    async def exits(_job: Job) -> None:
        raise SystemExit(0)

    monkeypatch.setattr(process, "limit_memory", lambda: None)
    monkeypatch.setattr(process, "perform_and_close", exits)
    job = Job.objects.create(run=run, tool_call_id="a", tool="t")
    jobs.claim(job_id=job.id)
    assert process.work(job_id=job.id, attempt=1) == FAILED


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere there is no such limit")
def test_l2_a_lower_limit_of_memory_of_its_worker_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    """[L2] As of systemd's LimitAS: to raise it is refused, and every job failed."""
    limits: list[tuple[int, int]] = []
    monkeypatch.setattr(resource, "getrlimit", lambda _: (1000, 1000))
    monkeypatch.setattr(resource, "setrlimit", lambda _, given: limits.append(given))
    process.limit_memory()
    assert limits == [(1000, 1000)]


def test_l2_a_kill_of_processes_that_have_just_ended_is_no_error(
    machine: Machine, started: starter.Starter, monkeypatch: pytest.MonkeyPatch
) -> None:
    """[L2] macOS refuses it, where Linux knows no such process: the job would wait for its lease."""

    def refused(*_: int) -> None:
        raise PermissionError

    job = machine.ask("a")
    processes = machine.processes(job)
    with monkeypatch.context() as patch:
        patch.setattr("core.jobs_worker.starter.os.killpg", refused)
        processes[0].kill()
        comes(job, attempt=2)
    processes[1].kill()


def test_l2_a_stop_begins_no_further_job(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    """[L2] Each beginning is one of the few attempts of a job."""
    made, claim_next = starter.Starter(), jobs.claim_next

    def claimed() -> Job | None:
        made._stopping = True
        return claim_next()

    monkeypatch.setattr(jobs, "claim_next", claimed)
    for call in "ab":
        machine.ask(call)
    made._run()
    rows = Job.objects.order_by("id").values_list("state", "attempt")
    assert list(rows) == [("queued", 1), ("queued", 0)]


def test_l2_a_second_signal_does_not_prolong_a_stop(monkeypatch: pytest.MonkeyPatch) -> None:
    """[L2] Celery begins the end of a worker at each SIGTERM, also within that of the first."""
    made, waited = starter.Starter(), list[float]()
    monkeypatch.setattr(made._thread, "join", waited.append)
    made.leave()
    monkeypatch.setattr(starter, "STOP_SECONDS", 100.0)
    made.leave()
    made.stop()
    assert max(waited) <= 2


def test_l2_a_job_that_takes_too_long_is_killed_and_failed(
    machine: Machine, started: starter.Starter, settings: Any
) -> None:
    """[L2]"""
    for settings.JOB_SECONDS in (1, 10, 100, 1000):  # a busy machine starts no process in a second
        job = machine.ask(f"{settings.JOB_SECONDS}")
        comes(job, state="failed", error=starter.TOO_LONG)
        if machine.has_begun(job):
            break
    assert not any(is_alive(pid) for pid in machine.pids(job))


def test_l2_a_stop_kills_the_jobs_and_leaves_them_to_others(machine: Machine) -> None:
    """[L2] At once, not when their leases end."""
    made = starter.Starter()
    made.start()
    job = machine.ask("a")
    processes = machine.processes(job)
    made.stop()
    job.refresh_from_db()
    assert (job.state, job.attempt, job.lease_until) == ("queued", 1, None)
    assert are_gone(processes)


def test_l2_a_lease_is_renewed_and_a_database_that_is_away_ends_no_job(
    machine: Machine, started: starter.Starter, settings: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """[L2] [RC3] The process has its own fence."""
    settings.RUN_LEASE_SECONDS = 1
    job = machine.ask("a")
    processes = machine.processes(job)
    asked: list[str] = []

    def away(**_: Any) -> bool:
        asked.append("")
        raise DatabaseError("away")

    with monkeypatch.context() as patch:
        patch.setattr(jobs, "is_wanted", away)
        wait_until(lambda: len(asked) > 2, what="some looks at the job")
    before = Job.objects.get(id=job.id).lease_until
    comes(job, lease_until__gt=before)
    assert not are_gone(processes)


def test_l2_a_machine_that_can_start_no_process_spends_no_attempts(
    machine: Machine, started: starter.Starter, monkeypatch: pytest.MonkeyPatch
) -> None:
    """[L2] As one that is out of processes: nothing is wrong with the job, which others may take.
    This one tries again.
    """
    refusals: list[str] = []

    def refused(*_: Any, **__: Any) -> None:
        refusals.append("")
        raise BlockingIOError

    monkeypatch.setattr(starter, "PAUSE_SECONDS", 0.1)
    with monkeypatch.context() as patch:
        patch.setattr("core.jobs_worker.starter.subprocess.Popen", refused)
        job = machine.ask("a")
        wait_until(lambda: len(refusals) > jobs.MOST_ATTEMPTS, what="more than its attempts")
        comes(job, state="queued", attempt=0, lease_until=None)
    machine.processes(job)
    comes(job, state="running", attempt=1)


def test_l2_a_machine_that_can_start_no_process_pauses(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """[L2] It does not claim jobs and put them back all the time."""
    made = starter.Starter()
    refusals: list[str] = []

    def refused(*_: Any, **__: Any) -> None:
        refusals.append("")
        raise BlockingIOError

    monkeypatch.setattr("core.jobs_worker.starter.subprocess.Popen", refused)
    for call in "ab":
        machine.ask(call)
    for _ in range(3):
        made._step()
    assert len(refusals) == 1


def test_l2_a_process_whose_code_does_not_fit_the_database_spends_no_attempt(
    machine: Machine, started: starter.Starter, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    """[L2] As while a deployment replaces the files under a worker. The job waits until they fit."""
    monkeypatch.setattr(starter, "PAUSE_SECONDS", 0.1)
    machine.end(NOT_NOW)
    job = machine.ask("a")
    for _ in range(jobs.MOST_ATTEMPTS + 1):
        machine.pids(job)
        (machine.folder / f"{job.id}-1").unlink()
    assert Job.objects.get(id=job.id).attempt <= 1
    monkeypatch.setattr(schema_version, "problem", lambda: "run `manage.py migrate`")
    assert process.work(job_id=job.id, attempt=1) == NOT_NOW


def test_l2_a_job_that_crashes_again_is_begun_later_each_time(
    machine: Machine, started: starter.Starter, settings: Any
) -> None:
    """[L2] The cause may pass, as a database without a free connection: all of its attempts
    were over within seconds.
    """
    settings.RUN_LEASE_SECONDS = 500
    machine.end(FAILED)
    job = machine.ask("a")
    for attempt in range(2, jobs.MOST_ATTEMPTS):
        least, before = timedelta(seconds=100 * (attempt - 1)), transactions.now()
        comes(job, attempt=attempt, lease_until__lt=before + timedelta(seconds=450))
        late = Job.objects.filter(id=job.id, state="running", lease_until__gt=before + least)
        assert late.exists()
        Job.objects.filter(id=job.id).update(lease_until=before)
        jobs.recover()
    comes(job, state="failed", error=jobs.GAVE_UP)


def test_l2_a_job_s_process_works_where_its_worker_does(
    machine: Machine, started: starter.Starter, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """[L2] A relative GATEWAY_HOME is the same folder for both."""
    monkeypatch.setenv("PYTHONPATH", str(Path.cwd()))
    monkeypatch.chdir(tmp_path)
    assert machine.processes(machine.ask("a"))[0].cwd() == str(tmp_path)


def test_l2_a_job_s_process_has_no_input_and_a_session_of_its_own(
    machine: Machine, started: starter.Starter
) -> None:
    """[L2] Ctrl-C at a terminal reaches the supervisor alone."""
    processes = machine.processes(machine.ask("a"))
    assert [os.getsid(each.pid) for each in processes] == [processes[0].pid] * 2
    assert str(Path(f"/proc/{processes[0].pid}/fd/0").readlink()) == os.devnull
