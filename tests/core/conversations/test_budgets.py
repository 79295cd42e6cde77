"""Budgets: reserved before a call, settled once, whatever happens to the process between."""

import asyncio
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, date, datetime
from typing import Any

import pytest
from django.utils import translation

from core.conversations import (
    budget_words,
    budgets,
    jobs,
    left_calls,
    runs,
    usage,
)
from core.conversations.usage import RunMeter
from core.database import transactions
from core.database.transactions import in_thread
from core.lib import money
from core.models import BudgetPeriod, ChannelAccount, Job, ModelCall, Run, User
from core.providers.base import ProviderError, Usage
from core.providers.failures import KINDS
from tests.core.conftest import Say, expire
from tests.core.conversations.metered import (
    ANSWER,
    CALL,
    DOLLAR,
    PRICED,
    PROMPT,
    REQUEST,
    budget,
    call_of,
    commit,
    end,
    info,
    period,
    state,
    whole,
)
from tests.core.providers.chains import MODEL
from tests.plans import listening

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("woken")]

USED = Usage(30, 12, cached_tokens=10, reasoning_tokens=2)
Claimed = Callable[..., Run]


@pytest.fixture
def claimed(say: Say) -> Claimed:
    """Return ``claimed()``: a run that a worker holds; with ``again`` its next attempt."""

    def make(again: Run | None = None, **more: Any) -> Run:
        if again is not None:
            expire(again)
            runs.recover()
        run = again or say("hello", **more)
        return runs.claim(run_ids=[run.id], worker="w")[run.id]

    return make


@pytest.fixture
def no_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    """Calls wait for no others."""
    monkeypatch.setattr(usage, "WAIT_SECONDS", 0.0)


async def test_without_a_budget_a_call_asks_nothing_and_is_stored_with_the_end(
    claimed: Claimed,
) -> None:
    run = await in_thread(claimed)
    meter = await in_thread(lambda: RunMeter.of_run(run=run))
    with listening() as asked:
        assert await meter.reserve(PRICED, REQUEST) is None
    assert asked == []
    end(meter, USED, model=PRICED)
    assert not await in_thread(ModelCall.objects.exists)
    await in_thread(commit, meter)
    await in_thread(commit, meter)
    row = await in_thread(call_of, run)
    assert (row.state, row.purpose, row.attempt) == ("settled", "turn", 1)
    assert (row.user_id, row.account_id) == (run.user_id, run.session.account_id)
    assert row.assistant_id
    assert (row.prompt_tokens, row.cached_tokens) == (30, 10)
    assert (row.completion_tokens, row.reasoning_tokens) == (12, 2)
    assert row.cost == (30 * 1 + 12 * 2) * DOLLAR // 1000
    assert (row.model_name, row.estimated, row.failure) == ("test: default", False, "")
    assert row.day == budgets.day_of(datetime.now(UTC))


async def test_a_call_is_reserved_before_and_replaced_by_its_usage(claimed: Claimed) -> None:
    limit = await in_thread(budget, 10_000)
    run = await in_thread(claimed)
    meter = await in_thread(lambda: RunMeter.of_run(run=run))
    assert await meter.reserve(MODEL, REQUEST) == ANSWER
    assert await in_thread(state, limit) == (0, CALL)
    row = await in_thread(call_of, run)
    assert row.state == "open"
    end(meter, USED)
    await in_thread(commit, meter)
    assert await in_thread(state, limit) == (42, 0)
    await in_thread(row.refresh_from_db)
    assert (row.state, row.prompt_tokens, row.completion_tokens) == ("settled", 30, 12)
    await in_thread(commit, meter)
    assert await in_thread(state, limit) == (42, 0)


async def test_the_next_call_of_a_run_settles_the_one_before(claimed: Claimed) -> None:
    limit = await in_thread(budget, 10_000)
    meter = await in_thread(lambda: RunMeter.of_run(run=claimed()))
    assert await whole(meter, USED) == ANSWER
    assert await meter.of("image").reserve(MODEL, REQUEST) == ANSWER
    assert await in_thread(state, limit) == (42, CALL)


async def test_a_call_is_reserved_in_all_its_budgets_or_in_none(
    claimed: Claimed, no_waiting: None
) -> None:
    wide, narrow = await in_thread(budget, 10_000), await in_thread(budget, 100)
    run = await in_thread(claimed)
    meter = await in_thread(lambda: RunMeter.of_run(run=run))
    with pytest.raises(ProviderError):
        await meter.reserve(MODEL, REQUEST)
    assert await in_thread(state, wide) == (0, 0)
    assert await in_thread(state, narrow) == (0, 0)
    assert not await in_thread(ModelCall.objects.exists)


async def test_an_answer_gets_the_rest_when_that_is_enough(
    claimed: Claimed, no_waiting: None
) -> None:
    limit = await in_thread(budget, PROMPT + 300)
    meter = await in_thread(lambda: RunMeter.of_run(run=claimed()))
    assert await meter.reserve(MODEL, REQUEST) == 300
    assert await in_thread(state, limit) == (0, PROMPT + 300)
    end(meter, Usage(0, PROMPT + 45))
    with pytest.raises(ProviderError) as refused:
        await meter.reserve(MODEL, REQUEST)
    assert refused.value.code == "budget"


async def test_a_short_answer_needs_little(claimed: Claimed) -> None:
    await in_thread(budget, PROMPT + 20)
    meter = await in_thread(lambda: RunMeter.of_run(run=claimed()))
    assert await meter.reserve(MODEL, replace(REQUEST, options={"max_tokens": 20})) == 20


async def test_a_refusal_names_the_used_up_budget_and_when_it_frees(claimed: Claimed) -> None:
    limit = await in_thread(budget, 1000)
    meter = await in_thread(lambda: RunMeter.of_run(run=claimed()))
    await whole(meter, Usage(500, 400))
    with pytest.raises(ProviderError) as refused:
        await meter.reserve(MODEL, REQUEST)
    error = refused.value
    assert error.code == "budget"
    assert error.retry_after is None
    assert str(error).startswith("The tokens for today are used up: 1,000.\nYou can go on from ")
    assert str(error).endswith(" 00:00 (UTC).")
    kind = KINDS["budget"]
    assert (kind.status, kind.type, kind.is_reported) == (429, "insufficient_quota", False)
    row = await in_thread(period, limit)
    assert row.refused_at is not None
    assert (row.spent, row.reserved) == (900, 0)


async def test_a_message_that_is_too_large_for_the_rest_does_not_use_it_up(
    claimed: Claimed,
) -> None:
    limit = await in_thread(budget, 100)
    meter = await in_thread(lambda: RunMeter.of_run(run=claimed()))
    with pytest.raises(ProviderError, match="not enough for this message"):
        await meter.reserve(MODEL, REQUEST)
    assert (await in_thread(period, limit)).refused_at is None


async def test_a_call_waits_for_reservations_of_others(claimed: Claimed, say: Say) -> None:
    limit = await in_thread(budget, CALL + 100)
    first = await in_thread(lambda: RunMeter.of_run(run=claimed()))
    assert await first.reserve(MODEL, REQUEST) == ANSWER
    other = await in_thread(say, "another")
    second = await in_thread(lambda: RunMeter.of_run(run=other))
    waiting = asyncio.create_task(second.reserve(MODEL, REQUEST))
    done, _ = await asyncio.wait([waiting], timeout=0.2)
    assert not done
    end(first, Usage(30, 12))
    await in_thread(commit, first)
    assert await waiting == ANSWER
    assert await in_thread(state, limit) == (42, CALL)


async def test_a_wait_ends_and_says_that_others_are_in_the_way(
    claimed: Claimed, say: Say, no_waiting: None
) -> None:
    limit = await in_thread(budget, CALL)
    first = await in_thread(lambda: RunMeter.of_run(run=claimed()))
    await first.reserve(MODEL, REQUEST)
    other = await in_thread(say, "another")
    second = await in_thread(lambda: RunMeter.of_run(run=other))
    with pytest.raises(ProviderError, match="Other answers") as refused:
        await second.reserve(MODEL, REQUEST)
    assert refused.value.code == "budget"
    assert (await in_thread(period, limit)).refused_at is None


async def test_money_is_reserved_at_the_price_of_the_model(claimed: Claimed) -> None:
    limit = await in_thread(lambda: budget(DOLLAR, unit="money", period="month"))
    meter = await in_thread(lambda: RunMeter.of_run(run=claimed()))
    # 4 cents for the prompt; 480 tokens of an answer for the rest.
    assert await meter.reserve(PRICED, REQUEST) == 480
    assert await in_thread(state, limit) == (0, DOLLAR)
    end(meter, USED, model=PRICED)
    assert await meter.reserve(MODEL, REQUEST) == ANSWER  # its price is not known: counts nothing
    spent = (30 + 12 * 2) * DOLLAR // 1000
    assert await in_thread(state, limit) == (spent, 0)
    assert (await in_thread(period, limit)).start.day == 1


async def test_an_answer_that_may_be_as_long_as_a_number_can_say_is_reserved_like_others(
    claimed: Claimed,
) -> None:
    await in_thread(lambda: budget(DOLLAR, unit="money"))
    meter = await in_thread(lambda: RunMeter.of_run(run=claimed()))
    asked = replace(REQUEST, options={"max_tokens": 2**63 - 1})
    assert await meter.reserve(PRICED, asked) == 480


async def test_a_message_counts_once_a_run(claimed: Claimed, no_waiting: None) -> None:
    limit = await in_thread(lambda: budget(2, unit="messages"))
    run = await in_thread(claimed)
    meter = await in_thread(lambda: RunMeter.of_run(run=run))
    for _ in range(3):
        assert await whole(meter, USED) == ANSWER
    await in_thread(commit, meter)
    assert await in_thread(state, limit) == (1, 0)
    again = await in_thread(claimed, run)
    task = await in_thread(lambda: RunMeter.of_run(run=again, purpose="task", attempt=1, job_id=7))
    assert await whole(task, USED) == ANSWER
    await in_thread(commit, task)
    assert await in_thread(state, limit) == (1, 0)


async def test_a_message_more_than_allowed_is_refused(
    claimed: Claimed, say: Say, no_waiting: None
) -> None:
    await in_thread(lambda: budget(1, unit="messages"))
    run = await in_thread(claimed)
    meter = await in_thread(lambda: RunMeter.of_run(run=run))
    await whole(meter, USED)
    await in_thread(commit, meter)
    other = await in_thread(say, "another")
    second = await in_thread(lambda: RunMeter.of_run(run=other))
    with pytest.raises(ProviderError, match="The messages for today are used up: 1"):
        await second.reserve(MODEL, REQUEST)


async def test_a_budget_for_each_person_counts_each_by_themselves(claimed: Claimed) -> None:
    limit = await in_thread(lambda: budget(10_000, each_person=True))
    run = await in_thread(claimed)
    meter = await in_thread(lambda: RunMeter.of_run(run=run))
    await meter.reserve(MODEL, REQUEST)
    bob = await in_thread(lambda: User.objects.create(username="bob"))
    run.user_id = bob.pk
    other = await in_thread(lambda: RunMeter.of_run(run=run))
    await other.reserve(MODEL, REQUEST)
    rows = await in_thread(lambda: list(BudgetPeriod.objects.filter(budget=limit).order_by("id")))
    assert [row.reserved for row in rows] == [CALL, CALL]
    assert rows[1].person == bob.pk


@pytest.mark.parametrize("how", ["deleted", "raised", "unit"])
async def test_a_budget_may_change_while_calls_are_open(claimed: Claimed, how: str) -> None:
    limit = await in_thread(budget, 2000)
    meter = await in_thread(lambda: RunMeter.of_run(run=claimed()))
    await meter.reserve(MODEL, REQUEST)
    end(meter, USED)

    def edit() -> None:
        if how == "deleted":
            limit.delete()
        elif how == "raised":
            limit.limit = 5000
            limit.save()
        else:
            limit.unit, limit.limit = "messages", 5
            limit.save()

    await in_thread(edit)
    fresh = await in_thread(lambda: RunMeter.of_run(run=claimed(Run.objects.get())))
    assert await meter.reserve(MODEL, REQUEST) == ANSWER
    end(meter, USED)
    await in_thread(commit, meter)
    assert await whole(fresh, USED) == (None if how == "deleted" else ANSWER)
    await in_thread(commit, fresh)
    rows = await in_thread(lambda: {row.measure: row for row in BudgetPeriod.objects.all()})
    assert all(row.reserved == 0 for row in rows.values())
    spent = {measure: row.spent for measure, row in rows.items()}
    assert (
        spent
        == {
            "deleted": {},
            "raised": {"tokens/day": 126},
            # The first attempt went on in the unit that it began with.
            "unit": {"tokens/day": 84, "messages/day": 1},
        }[how]
    )


async def test_the_calls_of_a_dead_attempt_are_estimated_and_not_counted_twice(
    claimed: Claimed,
) -> None:
    limit = await in_thread(budget, 10_000)
    run = await in_thread(claimed)
    dead = await in_thread(lambda: RunMeter.of_run(run=run))
    await dead.reserve(MODEL, REQUEST)
    again = await in_thread(claimed, run)
    text = {"type": "text", "message_id": "text-1", "delta_path": "content"}
    logged: Any = [
        {**text, "props": {"content": "x" * 400}, "delta_action": "append"},
        {"type": "event", "props": {"event": "tool_end"}},
        {**text, "message_id": "text-2", "props": {"content": "y" * 40}, "delta_action": "append"},
    ]
    await in_thread(left_calls.take_over, run_id=again.id, attempt=again.attempt, logged=logged)
    row = await in_thread(call_of, run)
    assert (row.state, row.failure, row.estimated) == ("settled", "lost", True)
    assert (row.prompt_tokens, row.completion_tokens) == (28, 10)
    assert await in_thread(state, limit) == (38, 0)
    # The dead one wakes up after all: it settles only calls that are still open.
    end(dead, USED)
    await in_thread(usage.store, dead)
    assert await in_thread(state, limit) == (38, 0)
    assert await in_thread(ModelCall.objects.count) == 1


async def test_the_sweep_settles_calls_of_ended_runs(claimed: Claimed) -> None:
    limit = await in_thread(budget, 10_000)
    run = await in_thread(claimed)
    meter = await in_thread(lambda: RunMeter.of_run(run=run))
    await meter.reserve(MODEL, REQUEST)
    assert await in_thread(left_calls.close_left) == 0
    await in_thread(lambda: Run.objects.update(state=Run.State.CANCELLED))
    assert await in_thread(left_calls.close_left) == 1
    assert await in_thread(state, limit) == (28, 0)


async def test_open_calls_of_a_long_task_count_as_reserved_when_its_process_dies(
    claimed: Claimed,
) -> None:
    """Its answer was not seen."""
    limit = await in_thread(budget, 10_000)
    run = await in_thread(claimed)

    def begun() -> Job:
        job_id = jobs.begin(run_id=run.id, call_id="a", tool="run_skill", parameters={})
        job = jobs.claim(job_id=job_id)
        assert job is not None
        return job

    job = await in_thread(begun)
    meter = await in_thread(
        lambda: RunMeter.of_run(run=job.run, purpose="task", attempt=job.attempt, job_id=job.id)
    )
    await meter.reserve(MODEL, REQUEST)
    assert await in_thread(left_calls.close_left) == 0
    await in_thread(lambda: jobs.release(job=job))
    assert await in_thread(lambda: jobs.claim(job_id=job.id)) is not None
    assert await in_thread(state, limit) == (28 + ANSWER, 0)


async def test_a_call_that_is_stopped_before_it_is_made_uses_nothing(
    claimed: Claimed, monkeypatch: pytest.MonkeyPatch
) -> None:
    limit = await in_thread(budget, 10_000)
    run = await in_thread(claimed)
    meter = await in_thread(lambda: RunMeter.of_run(run=run))
    loop, begins, may_go = asyncio.get_running_loop(), asyncio.Event(), asyncio.Event()
    real = usage.reserve_batch

    def slow(wishes: Any) -> Any:
        loop.call_soon_threadsafe(begins.set)
        asyncio.run_coroutine_threadsafe(may_go.wait(), loop).result(20)
        return real(wishes)

    monkeypatch.setattr(usage, "reserve_batch", slow)
    task = asyncio.create_task(meter.reserve(MODEL, REQUEST))
    await asyncio.wait_for(begins.wait(), 20)
    task.cancel()
    loop.call_soon(may_go.set)
    with pytest.raises(asyncio.CancelledError):
        await task
    assert await in_thread(state, limit) == (0, CALL)
    await in_thread(commit, meter)
    assert await in_thread(state, limit) == (0, 0)
    row = await in_thread(call_of, run)
    assert (row.failure, row.estimated) == ("stopped", False)


async def test_a_reservation_is_settled_in_its_own_period(
    claimed: Claimed, monkeypatch: pytest.MonkeyPatch
) -> None:
    limit = await in_thread(budget, CALL)
    meter = await in_thread(lambda: RunMeter.of_run(run=claimed()))
    monkeypatch.setattr(budgets, "day_of", lambda _: date(2026, 3, 1))
    await meter.reserve(MODEL, REQUEST)
    end(meter, USED)
    monkeypatch.setattr(budgets, "day_of", lambda _: date(2026, 3, 2))
    assert await meter.reserve(MODEL, REQUEST) == ANSWER
    rows = await in_thread(
        lambda: list(
            BudgetPeriod.objects.filter(budget=limit)
            .order_by("start")
            .values_list("spent", "reserved")
        )
    )
    assert rows == [(42, 0), (0, CALL)]


@pytest.mark.parametrize(
    ("used", "output_tokens", "failure", "counted"),
    [
        (None, 12, "", (28, 12, True)),
        (Usage(0, 0), 12, "", (28, 12, True)),
        (None, 0, "rate_limited", (0, 0, True)),
        (None, 0, "unreachable", (0, 0, True)),
        (None, 0, "timeout", (28, 0, True)),
        (None, 0, "stopped", (28, 0, True)),
        (None, 7, "cut", (28, 7, True)),
        (USED, 9, "cut", (30, 12, False)),
    ],
)
async def test_calls_without_a_report_are_estimated_and_failed_ones_are_calls(
    claimed: Claimed,
    used: Usage | None,
    output_tokens: int,
    failure: str,
    counted: tuple[int, int, bool],
) -> None:
    limit = await in_thread(budget, 10_000)
    run = await in_thread(claimed)
    meter = await in_thread(lambda: RunMeter.of_run(run=run))
    await whole(meter, used, output_tokens=output_tokens, failure=failure)
    await in_thread(commit, meter)
    row = await in_thread(call_of, run)
    assert (row.prompt_tokens, row.completion_tokens, row.estimated) == counted
    assert row.failure == failure
    assert await in_thread(state, limit) == (counted[0] + counted[1], 0)


def test_a_budget_applies_to_its_target() -> None:
    whole_house, adas, key = (
        info(id=1, each_person=True),
        info(id=2, user_id=5),
        info(id=3, key_id=9),
    )
    account, assistant = info(id=4, account_id=2), info(id=5, assistant_id=3)
    every = [whole_house, adas, key, account, assistant]

    def found(**whose: int) -> list[tuple[int, int]]:
        place = {"user_id": 1, "key_id": 0, "account_id": 1, "assistant_id": 1, **whose}
        return [(each.budget.id, each.person) for each in budgets.applying(every, **place)]

    assert found() == [(1, 1)]
    assert found(user_id=5) == [(1, 5), (2, 0)]
    assert found(key_id=9, account_id=2, assistant_id=3) == [(1, 1), (3, 0), (4, 0), (5, 0)]


def test_days_and_months_are_those_of_the_owner(user: User, account: ChannelAccount) -> None:
    User.objects.filter(pk=user.pk).update(is_owner=True, time_zone="Pacific/Auckland")
    budgets.zones.clear()
    late = datetime(2026, 2, 28, 20, tzinfo=UTC)
    assert budgets.day_of(late) == date(2026, 3, 1)
    end = budgets.end_of("month", date(2026, 3, 1))
    assert (end.isoformat(), end.utcoffset()) == ("2026-04-01T00:00:00+13:00", end.utcoffset())
    assert budgets.end_of("day", date(2026, 12, 31)).date() == date(2027, 1, 1)
    assert budgets.start_of("month", date(2026, 3, 17)) == date(2026, 3, 1)
    User.objects.filter(pk=user.pk).update(time_zone="Nowhere/At all")
    budgets.zones.clear()
    assert str(budgets.owner_zone()) == "UTC"


def test_amounts_for_people() -> None:
    assert money.shown(5 * DOLLAR) == "$5.00"
    assert money.shown(0) == "$0.00"
    assert money.shown(12_000) == "$0.000012"
    assert budget_words.named(info(limit=100_000)) == "100,000 tokens a day"
    with translation.override("de"):
        assert budget_words.named(info(limit=100_000)) == "100.000 Tokens am Tag"
        assert budget_words.dollars(1234 * DOLLAR) == "$1.234,00"
        assert budget_words.dollars(12_000) == "$0,000012"


def test_runs_that_end_in_one_transaction_lock_the_periods_in_one_order(claimed: Claimed) -> None:
    """Else two workers block each other."""
    made = [budget(1000) for _ in range(3)]
    rows = [
        BudgetPeriod.objects.create(budget=each, start=date(2026, 3, 1), reserved=9)
        for each in made
    ]
    with listening() as asked, transactions.atomic_write(), budgets.settling():
        budgets.change([budgets.Change(rows[2].pk, 5, 1), budgets.Change(rows[0].pk, 5, 2)])
        budgets.change([budgets.Change(rows[1].pk, 5, 3), budgets.Change(rows[2].pk, 4, 4)])
        assert not [each for each in asked if "budgetperiod" in each.sql]
    changed = [each.params[-1] for each in asked if each.sql.startswith("UPDATE")]
    assert changed == [each.pk for each in rows]
    found = BudgetPeriod.objects.order_by("pk").values_list("spent", "reserved")
    assert list(found) == [(2, 4), (3, 4), (5, 0)]
