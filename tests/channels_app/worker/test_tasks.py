"""The tasks: the work that a wake-up starts."""

from functools import cache
from types import SimpleNamespace
from typing import Any

import pytest
from django.db import transaction

from channels_app.worker import take_wakeups, tasks
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


def test_a_wake_up_for_a_job_makes_the_starter_look(monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[None] = []
    monkeypatch.setattr(tasks, "starter", lambda: SimpleNamespace(wake=lambda: calls.append(None)))
    tasks.wake_job(row_id=7, more="of a later version")
    assert len(calls) == 1
    assert tasks.wake_job.name == wakeups.JOB


def test_a_stop_ends_jobs_while_runs_are_released(monkeypatch: pytest.MonkeyPatch) -> None:
    """One after the other they could need longer than `up` waits."""
    calls: list[str] = []

    def process(name: str) -> Any:
        made = SimpleNamespace(
            leave=lambda: calls.append(f"{name} leaves"), stop=lambda: calls.append(f"{name} stops")
        )
        return cache(lambda: made)

    monkeypatch.setattr(tasks, "runner", process("runner"))
    monkeypatch.setattr(tasks, "starter", process("starter"))
    tasks.end()
    assert calls == []  # neither was begun
    tasks.runner()
    tasks.starter()
    tasks.end()
    assert calls == ["starter leaves", "runner stops", "starter stops"]
