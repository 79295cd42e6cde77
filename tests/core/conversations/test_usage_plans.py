"""Nothing of usage and budgets reads all calls ever made."""

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from django.db import connection
from django.utils import timezone

from channels_app.owner import budget_notices
from core.conversations import left_calls, reservations, runs, usage, usage_reports
from core.conversations.usage import RunMeter
from core.database.transactions import atomic_write
from core.models import BudgetPeriod, ModelCall, Run, User
from core.providers.base import Usage
from tests.core.conftest import Say
from tests.core.conversations.metered import budget, commit, end
from tests.core.database.growth import copies
from tests.core.providers.chains import MODEL
from tests.plans import Asked, analyse, listening

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("woken", "commits_at_once")]
MANY = 20_000
# Other tables are small here; `tests/core/database/test_growth.py` has all of them.
OURS = {"core_modelcall", "core_usageday", "core_budgetperiod"}
USED = Usage(30, 12)


@pytest.fixture
def grown(say: Say, user: User) -> Run:
    """Return a claimed run beside months of calls and periods, most of them summed up."""
    run = runs.claim(run_ids=[say("hello").id], worker="w")[say("x").id - 1]
    limits = [budget(10**9, each_person=True), budget(10**12, unit="messages", period="month")]
    now = timezone.now()
    copies(
        ModelCall(user=user, model_name="a: one", prompt_tokens=9, day=now.date()),
        MANY,
        day="date({at})",
        user_id=f"CASE n - (n / 100) * 100 WHEN 0 THEN {user.pk} ELSE NULL END",
    )
    old = now.date() - timedelta(days=900)
    copies(
        BudgetPeriod(budget=limits[0], measure="tokens/day", start=old, spent=10**9),
        MANY,
        person="n + 1000",
    )
    while usage_reports.roll_up(now=now):
        pass
    if connection.vendor == "postgresql":
        analyse()
    return run


def call_once(run: Run) -> None:
    """Make two calls of a run, and end it."""
    meter = RunMeter.of_run(run=run)
    for _ in range(2):
        request = request_of(meter, before=[each.closing() for each in meter.ledger.unstored])
        (found,) = reservations.reserve_all([request])
        assert isinstance(found, reservations.Reservation)
        meter._open = found
        end(meter, USED)
    commit(meter)
    left_calls.take_over(run_id=run.id, attempt=run.attempt, logged=[])


def request_of(meter: RunMeter, **more: Any) -> reservations.ReservationRequest:
    """Return the request for a small call."""
    return reservations.ReservationRequest(
        call=ModelCall(**meter._named(MODEL), **meter.ledger.common),
        model=MODEL,
        limits=meter.ledger.limits,
        prompt_tokens=9,
        output_tokens=9,
        **more,
    )


def test_neither_a_turn_nor_a_sweep_nor_a_summary_reads_old_calls(grown: Run, user: User) -> None:
    now, today = timezone.now(), timezone.now().date()
    week = {"since": today - timedelta(days=7), "until": today}
    steps: dict[str, Callable[[], object]] = {
        "turn": lambda: call_once(grown),
        "sweep": left_calls.close_left,
        "notices": lambda: budget_notices.look(now=now),
        "roll-up": lambda: usage_reports.roll_up(now=now),
        "ratios": lambda: usage_reports.used_ratios(now=now, most=100),
        "summary": lambda: usage_reports.summary(user, now),
        "week": lambda: usage_reports.by("model", **week),
        "person": lambda: usage_reports.by("day", user_id=user.pk, **week),
        "csv": lambda: [*usage_reports.csv_rows(**week)],
    }
    slow: dict[str, list[str]] = {}
    for name, step in steps.items():
        with listening() as asked:
            step()
        assert asked
        for each in asked:
            if found := OURS & {*each.read_whole()}:
                slow.setdefault(f"{name}: {each.sql[:600]}", []).extend(found)
    assert slow == {}, "\n".join(f"{found} {sql}" for sql, found in slow.items())
    assert Asked("SELECT id FROM core_modelcall WHERE cost = %s", [1]).read_whole()


def test_metrics_read_past_days_once(grown: Run) -> None:
    first = usage_reports.totals()
    usage_reports.all_totals.clear()
    with listening() as asked:
        assert usage_reports.totals() == first
    assert [each for each in asked if "usageday" in each.sql and "SUM" in each.sql] == []
    assert not [each for each in asked if OURS & {*each.read_whole()}]
    assert sum(used.calls for used in first.values()) == MANY


def test_a_reservation_is_few_statements_and_many_at_once_are_hardly_more(grown: Run) -> None:
    """One transaction reserves for all calls that come at the same moment."""

    def statements(number: int) -> int:
        meter = RunMeter.of_run(run=grown)
        requests = [request_of(meter) for _ in range(number)]
        with listening() as asked, atomic_write():
            found = reservations.reserve_all(requests)
        assert all(isinstance(each, reservations.Reservation) for each in found)
        return len(asked)

    statements(1)  # the periods are there
    one = statements(1)
    assert one <= 5
    assert statements(16) == one


def test_the_end_of_a_run_without_a_budget_has_one_insert_more(say: Say) -> None:
    run = runs.claim(run_ids=[say("hello").id], worker="w")[say("x").id - 1]
    meter = RunMeter.of_run(run=run)
    end(meter, USED)
    with atomic_write(), listening() as asked:
        inserts = usage.settle(meter)
    assert len(inserts) == 1
    assert [each.sql for each in asked if "core_user" not in each.sql] == []
