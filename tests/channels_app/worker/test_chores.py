"""The chores of a sweep: none holds up the others, and none is forgotten."""

import time
from collections.abc import Awaitable, Callable
from datetime import datetime, timedelta

import pytest
from django.db import InterfaceError, OperationalError
from django.utils import timezone

from allowlist import held_messages, revocation, unknown_requests
from channels_app.agent_sessions import sessions
from channels_app.owner import budget_notices, circuit_notices, mcp_notices, notices, outages
from channels_app.replies import outbound, typing_and_reactions
from channels_app.schedules import firing
from channels_app.tool_requests import deciding
from channels_app.worker import chores, expired_rows
from channels_app.worker.runner import Runner
from core.conversations import (
    inbox,
    jobs,
    left_calls,
    outbox,
    push_messages,
    runs,
    tool_calls,
    usage_reports,
)
from core.conversations.schedules import occurrences, retention
from core.database import text_search, transactions
from core.database.transactions import in_thread
from core.files import cleanup
from core.providers import circuits
from core.tools.mcp.oauth import sign_ins

pytestmark = pytest.mark.django_db(transaction=True)


def failing(*_: object, **__: object) -> None:
    raise ValueError("a row that nothing can read")


def noting(calls: list[str], name: str) -> Callable[..., None]:
    """Return a function that notes its calls."""
    return lambda *_, **__: calls.append(name)


async def test_a_chore_that_fails_holds_up_no_other(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """One before the work that is looked for, one after it, an hourly one, one of far times."""
    calls: list[str] = []
    monkeypatch.setattr(notices, "model_health", failing)
    monkeypatch.setattr(unknown_requests, "purge", failing)
    monkeypatch.setattr(runs, "bring_near", failing)
    monkeypatch.setattr(outbound, "recover_lost", noting(calls, "lost deliveries"))
    monkeypatch.setattr(cleanup, "sweep", failing)
    monkeypatch.setattr(push_messages, "purge", noting(calls, "old messages"))
    monkeypatch.setattr(expired_rows, "purge", noting(calls, "expired rows"))
    monkeypatch.setattr(push_messages, "bring_near", noting(calls, "far times"))
    await chores.before_work()
    await chores.after_work()
    await chores.hourly()
    await in_thread(chores.bring_near)
    assert calls == ["lost deliveries", "old messages", "expired rows", "far times"]
    assert caplog.text.count("ValueError: a row that nothing can read") == 4


# The module and the function of each chore, in their order; with the time or without.
BEFORE = (
    (notices, "model_health", True),
    (circuit_notices, "look", False),
    (mcp_notices, "look", True),
    (outbound, "recover_lost", False),
)
AFTER = (
    (unknown_requests, "purge", True),
    (revocation, "end_expired", True),
    (notices, "look_after", True),
    (sessions, "close_idle", True),
    (cleanup, "discard_unfinished", False),
    (outages, "look", True),
    (left_calls, "close_left", False),
    (deciding, "look", True),
    (budget_notices, "look", True),
    (usage_reports, "roll_up", True),
    (text_search, "catch_up", False),
    (push_messages, "purge", False),
)


HOURLY = (
    (cleanup, "sweep", False),
    (held_messages, "sweep_ignored", True),
    (retention, "purge", True),
    (expired_rows, "purge", True),
    (runs, "forget_silent", False),
)


@pytest.mark.parametrize(
    ("do", "expected"),
    [(chores.before_work, BEFORE), (chores.after_work, AFTER), (chores.hourly, HOURLY)],
)
async def test_every_chore_is_done_in_its_order_with_the_time(
    do: Callable[[], Awaitable[None]],
    expected: tuple[tuple[object, str, bool], ...],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    calls: list[tuple[object, str, bool]] = []

    def noting_in(module: object, name: str) -> Callable[..., None]:
        def call(*, now: datetime | None = None) -> None:
            assert now is None or abs(timezone.now() - now) < timedelta(minutes=1)
            calls.append((module, name, now is not None))

        return call

    for module, name, _ in expected:
        monkeypatch.setattr(module, name, noting_in(module, name))
    await do()
    assert tuple(calls) == expected


def test_far_times_of_every_noun_are_brought_near(monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[str] = []
    nouns = (
        *(runs, jobs, outbox, inbox, sessions, unknown_requests, circuits, occurrences),
        *(tool_calls, sign_ins, push_messages),
    )
    for noun in nouns:
        monkeypatch.setattr(noun, "bring_near", noting(calls, noun.__name__))
    chores.bring_near()
    assert calls == [noun.__name__ for noun in nouns]


@pytest.mark.parametrize("more", [True, False])
def test_occurrences_are_fired_by_the_clock_of_the_database(
    more: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    moment = timezone.now()
    monkeypatch.setattr(transactions, "now", lambda: moment)
    monkeypatch.setattr(firing, "look", lambda *, now: (now == moment) is more)
    assert chores.fire_due() is more


async def test_a_clock_that_is_a_little_late_is_being_kept_right(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    calls: list[str] = []
    monkeypatch.setattr(notices, "clock_set_back", noting(calls, "told"))
    monkeypatch.setattr(occurrences, "plan_again", noting(calls, "planned"))
    seconds = {"clock": 1000.0, "monotonic": 10.0}
    monkeypatch.setattr(time, "time", lambda: seconds["clock"])
    monkeypatch.setattr(time, "monotonic", lambda: seconds["monotonic"])
    clock = chores.Clock()
    for late in (0.0, 5.0, 5.0):
        seconds["clock"] -= late
        await clock.watch()
    assert calls == ["planned"], "at the first look alone"
    seconds["clock"] -= 5.5
    await clock.watch()
    assert calls == ["planned", "told", "planned"]
    seconds["clock"] += 3600
    await clock.watch()
    assert calls == ["planned", "told", "planned"]


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
    calls: list[tuple[int, datetime]] = []

    def note(*, now: datetime, by: timedelta = timedelta()) -> None:
        calls.append((round(by.total_seconds()), now))

    monkeypatch.setattr(notices, "clock_set_back", note)
    monkeypatch.setattr(occurrences, "plan_again", note)
    for _ in range(2):
        await set_back.watch()
    assert [seconds for seconds, _ in calls] == [3600, 0]
    for _, moment in calls:
        assert abs(timezone.now() - moment) < timedelta(minutes=61)


@pytest.mark.parametrize("error", [OperationalError, InterfaceError])
async def test_without_a_database_a_sweep_ends_at_its_first_chore(
    error: type[Exception], monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """The runner says so once, and sweeps again in a second."""

    def away(*_: object, **__: object) -> None:
        raise error

    calls: list[str] = []
    monkeypatch.setattr(notices, "model_health", away)
    monkeypatch.setattr(runs, "bring_near", away)
    monkeypatch.setattr(outbound, "recover_lost", noting(calls, "lost deliveries"))
    monkeypatch.setattr(push_messages, "bring_near", noting(calls, "far times"))
    with pytest.raises(error):
        await chores.before_work()
    with pytest.raises(error):
        await in_thread(chores.bring_near)
    assert (calls, caplog.records) == ([], [])


@pytest.mark.parametrize("name", ["told", "planned"])
async def test_a_clock_that_was_set_back_counts_when_the_database_is_there_again(
    name: str, set_back: chores.Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    def away(*_: object, **__: object) -> None:
        raise OperationalError

    calls: list[str] = []
    places = {"told": (notices, "clock_set_back"), "planned": (occurrences, "plan_again")}
    for each, place in places.items():
        monkeypatch.setattr(*place, away if each == name else noting(calls, each))
    with pytest.raises(OperationalError):
        await set_back.watch()
    monkeypatch.setattr(*places[name], noting(calls, name))
    for _ in range(2):
        await set_back.watch()
    assert calls == ["told", "planned"]


async def test_a_clock_that_was_set_back_is_told_later_when_that_fails(
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


async def test_schedules_are_planned_again_later_when_that_fails(
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


async def test_a_look_for_work_that_fails_holds_up_no_other(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """A row that cannot be read stops neither the other runs' deliveries nor the reactions."""
    worker = Runner()
    begun: list[tuple[str, int]] = []
    monkeypatch.setattr(worker, "_spawn", lambda *key: begun.append(key))
    for noun, name in ((runs, "recover"), (jobs, "recover"), (inbox, "due_sessions")):
        monkeypatch.setattr(noun, name, failing)
    monkeypatch.setattr(outbox, "due", lambda: [7])
    monkeypatch.setattr(push_messages, "due", failing)
    monkeypatch.setattr(typing_and_reactions, "leftovers", lambda: [9])
    try:
        await worker._look_for_work()
    finally:
        worker.loop.close()
    assert begun == [("delivery", 7), ("ack", 9)]
    assert caplog.text.count("ValueError: a row that nothing can read") == 4
