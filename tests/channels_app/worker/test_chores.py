"""The chores of a sweep: none holds up the others, and none is forgotten."""

import time
from collections.abc import Callable
from datetime import timedelta

import pytest

from allowlist import unknown_requests
from channels_app.owner import notices
from channels_app.replies import outbound
from channels_app.worker import chores
from core.conversations import push_messages, runs
from core.conversations.schedules import occurrences
from core.database.transactions import in_thread

pytestmark = pytest.mark.django_db(transaction=True)


def failing(*_: object, **__: object) -> None:
    raise ValueError("a row that nothing can read")


def noting(calls: list[str], name: str) -> Callable[..., None]:
    """Return a function that notes its calls."""
    return lambda *_, **__: calls.append(name)


async def test_a_chore_that_fails_holds_up_no_other(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """One before the work that is looked for, one after it, and one about far times."""
    calls: list[str] = []
    monkeypatch.setattr(notices, "model_health", failing)
    monkeypatch.setattr(unknown_requests, "purge", failing)
    monkeypatch.setattr(runs, "bring_near", failing)
    monkeypatch.setattr(outbound, "recover_lost", noting(calls, "lost deliveries"))
    monkeypatch.setattr(push_messages, "purge", noting(calls, "old messages"))
    monkeypatch.setattr(push_messages, "bring_near", noting(calls, "far times"))
    await chores.before_work()
    await chores.after_work()
    await in_thread(chores.bring_near)
    assert calls == ["lost deliveries", "old messages", "far times"]
    assert caplog.text.count("ValueError: a row that nothing can read") == 3


@pytest.fixture
def set_back(monkeypatch: pytest.MonkeyPatch) -> chores.Clock:
    """Return a clock that is set back by an hour, with schedules that were planned before."""
    clock = chores.Clock()
    clock._is_planned = True
    before = time.time
    monkeypatch.setattr(time, "time", lambda: before() - 3600)
    return clock


async def test_a_clock_that_was_set_back_is_told_and_planned_for_once(
    set_back: chores.Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls: list[str] = []
    told: list[timedelta] = []
    monkeypatch.setattr(notices, "clock_set_back", lambda *, by, now: told.append(by))
    monkeypatch.setattr(occurrences, "plan_again", noting(calls, "planned"))
    for _ in range(2):
        await set_back.watch()
    assert [round(by.total_seconds()) for by in told] == [3600]
    assert calls == ["planned"]


async def test_a_clock_that_was_set_back_is_told_later_when_the_database_fails(
    set_back: chores.Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Schedules are planned again meanwhile."""
    calls: list[str] = []
    monkeypatch.setattr(notices, "clock_set_back", failing)
    monkeypatch.setattr(occurrences, "plan_again", noting(calls, "planned"))
    await set_back.watch()
    assert calls == ["planned"]
    monkeypatch.setattr(notices, "clock_set_back", noting(calls, "told"))
    await set_back.watch()
    await set_back.watch()
    assert "told" in calls
    assert calls.count("told") == 1


async def test_schedules_are_planned_again_later_when_the_database_fails(
    set_back: chores.Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls: list[str] = []
    monkeypatch.setattr(notices, "clock_set_back", noting(calls, "told"))
    monkeypatch.setattr(occurrences, "plan_again", failing)
    await set_back.watch()
    assert calls == ["told"]
    monkeypatch.setattr(occurrences, "plan_again", noting(calls, "planned"))
    for _ in range(2):
        await set_back.watch()
    assert calls == ["told", "planned"]
