"""The tasks: the work that a wake-up starts, and the requests of dead processes."""

import logging
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import psutil
import pytest
from django.db import OperationalError, transaction

from channels_app.worker import take_wakeups, tasks
from core.conversations import jobs, runs
from core.database import schema_version
from core.jobs_worker import process
from core.signals import wakeups

WAKE_UPS = {
    "core.runs.wake": (tasks.wake_run, wakeups.run),
    "core.runs.wake_batch": (tasks.wake_batch, wakeups.batch),
    "core.runs.wake_delivery": (tasks.wake_delivery, wakeups.delivery),
    "core.runs.wake_push": (tasks.wake_push, wakeups.push),
}


@pytest.mark.parametrize("name", WAKE_UPS)
def test_a_wake_up_is_handed_to_the_runner_under_its_name(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls: list[tuple[str, int]] = []
    runner = SimpleNamespace(wake=lambda task, row_id: calls.append((task, row_id)))
    monkeypatch.setattr(tasks, "runner", lambda: runner)
    sent: list[tuple[str, int]] = []
    monkeypatch.setattr(transaction, "on_commit", lambda call: call())
    monkeypatch.setattr(
        wakeups, "send", lambda task, row_id, *, queue_name: sent.append((task, row_id))
    )
    task, wake = WAKE_UPS[name]
    task(row_id=7, more="of a later version")
    wake(7)
    assert calls == sent == [(name, 7)]
    assert task.name == name
    assert name in take_wakeups.KINDS


def test_a_long_task_is_worked_on_until_it_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[None] = []
    monkeypatch.setattr(process, "work", lambda: calls.append(None))
    tasks.work_on_job(row_id=7)
    assert len(calls) == 1


@pytest.fixture
def requests(monkeypatch: pytest.MonkeyPatch) -> tuple[set[Any], list[str]]:
    """Return the requests that Celery has, and the ids of those that are over."""
    reserved: set[Any] = set()
    over: list[str] = []
    state = SimpleNamespace(
        reserved_requests=reserved, task_ready=lambda request: over.append(request.id)
    )
    monkeypatch.setattr(tasks, "state", state)
    monkeypatch.setattr(psutil, "pid_exists", lambda pid: pid == 1)
    return reserved, over


@dataclass(eq=False)
class Request:
    """A request of Celery's."""

    id: str
    worker_pid: int | None


def test_a_request_without_a_process_is_forgotten_after_a_minute(
    requests: tuple[set[Any], list[str]],
) -> None:
    reserved, over = requests
    alive, dead, early = (
        Request(id="alive", worker_pid=1),
        Request(id="dead", worker_pid=2),
        Request(id="early", worker_pid=None),
    )
    reserved |= {alive, dead, early}
    seen: dict[str, float] = {}
    tasks.forget_lost(seen, now=100.0)
    assert seen == {"dead": 100.0, "early": 100.0}
    tasks.forget_lost(seen, now=160.0)
    assert over == []
    early.worker_pid = 1
    tasks.forget_lost(seen, now=160.5)
    assert over == ["dead"]
    assert seen == {"dead": 100.0}
    reserved.discard(dead)
    tasks.forget_lost(seen, now=170.0)
    assert seen == {}


def test_requests_that_change_meanwhile_are_looked_at_by_the_next_heartbeat(
    requests: tuple[set[Any], list[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    class Changing:
        def __iter__(self) -> Any:
            raise RuntimeError("Set changed size during iteration")

    state = SimpleNamespace(reserved_requests=Changing())
    monkeypatch.setattr(tasks, "state", state)
    seen = {"dead": 1.0}
    tasks.forget_lost(seen, now=100.0)
    assert seen == {"dead": 1.0}


@pytest.fixture
def closed(monkeypatch: pytest.MonkeyPatch) -> list[None]:
    """Return a list with an entry for each time that the connection is closed."""
    found: list[None] = []
    monkeypatch.setattr(tasks, "connection", SimpleNamespace(close=lambda: found.append(None)))
    return found


def test_a_heartbeat_has_a_connection_of_its_own_and_outlives_a_database_that_is_away(
    closed: list[None], monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    calls: list[dict[str, str]] = []
    monkeypatch.setattr(schema_version, "problem", lambda: "too old")
    monkeypatch.setattr(runs, "heard_from", lambda **given: calls.append(given))
    tasks.say_alive("w", "long")
    assert calls == [{"worker": "w", "queue": "long", "problem": "too old"}]
    assert len(closed) == 1

    def fail(**_: object) -> None:
        raise OperationalError("away")

    monkeypatch.setattr(runs, "heard_from", fail)
    with caplog.at_level(logging.WARNING):
        tasks.say_alive("w", "long")
    assert "heartbeat" in caplog.text
    assert len(closed) == 2


@pytest.mark.parametrize("is_away", [True, False])
def test_waiting_jobs_are_woken_when_a_worker_starts(
    closed: list[None], monkeypatch: pytest.MonkeyPatch, *, is_away: bool
) -> None:
    calls: list[None] = []

    def wake() -> None:
        calls.append(None)
        if is_away:
            raise OperationalError("away")

    monkeypatch.setattr(jobs, "wake_waiting", wake)
    tasks.wake_waiting()
    assert (len(calls), len(closed)) == (1, 1)
