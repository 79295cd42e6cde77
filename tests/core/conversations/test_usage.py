"""The meter of a run: its wishes, how long it waits, and its notes of each call."""

import asyncio
import threading
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import Any

import pytest
from django.db import DatabaseError, transaction
from django.utils import timezone

from core.conversations import budgets, reservations, usage
from core.conversations.budgets import Entry, Limit
from core.conversations.reservations import Refusal, Reservation, ReservationRequest
from core.conversations.usage import RunMeter
from core.database.transactions import atomic_write
from core.lib.tokens import estimate
from core.models import BudgetPeriod, ModelCall, Run
from core.providers import catalogue
from core.providers.base import ModelRequest, ProviderError, Usage
from core.providers.catalogue import BudgetInfo
from core.providers.failures import KINDS
from tests.core.conftest import Say
from tests.core.conversations.metered import (
    ANSWER,
    DOLLAR,
    PRICED,
    PROMPT,
    REQUEST,
    budget,
    commit,
    end,
)
from tests.core.providers.chains import MODEL
from tests.plans import listening

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("woken", "commits_at_once")]
NOON = datetime(2026, 3, 17, 12, tzinfo=UTC)
BUDGET = BudgetInfo(
    id=1,
    unit="tokens",
    period="day",
    limit=100,
    each_person=False,
    user_id=0,
    key_id=0,
    account_id=0,
    assistant_id=0,
)
SOON = Refusal(BUDGET, 100, 10, NOON, is_soon=True)
USED_UP = Refusal(BUDGET, 100, 90, NOON, is_soon=False)
GRANTED = Reservation(300, (Entry(5, 340, "tokens"),), call_id=7)
NO_ONE = {"user_id": 0, "key_id": 0, "account_id": 0, "assistant_id": 0}
Answer = Reservation | Refusal | Exception


class World:
    """A clock that moves by sleeping, and a database with prepared answers."""

    def __init__(self) -> None:
        self.now = 1000.0
        self.slept: list[float] = []
        self.wishes: list[ReservationRequest] = []
        self.answers: list[Answer] = []

    async def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.now += seconds

    def reserve(self, wishes: list[ReservationRequest]) -> list[Answer]:
        """Answer each wish with the next answer; the last one stays."""
        self.wishes += wishes
        return [self.answers.pop(0) if len(self.answers) > 1 else self.answers[0] for _ in wishes]


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch) -> World:
    """Return the clock and the database of meters."""
    made = World()
    monkeypatch.setattr(usage, "time", SimpleNamespace(monotonic=lambda: made.now))
    own = {name: getattr(asyncio, name) for name in ("ensure_future", "shield", "wait")}
    fake = SimpleNamespace(sleep=made.sleep, CancelledError=asyncio.CancelledError, **own)
    monkeypatch.setattr(usage, "asyncio", fake)
    monkeypatch.setattr(reservations, "reserve_all", made.reserve)
    return made


def meter_of(*limits: BudgetInfo, **whose: int) -> RunMeter:
    """Return the meter of a call without a run."""
    known: Any = SimpleNamespace(budgets=limits)
    return RunMeter.without_run(**{**NO_ONE, **whose}, known=known)


# -- how long a call waits ---------------------------------------------------------------------


async def test_a_call_waits_for_others_at_growing_pauses_and_at_most_twenty_seconds(
    world: World,
) -> None:
    meter, world.answers = meter_of(BUDGET), [SOON]
    with pytest.raises(ProviderError, match="Other answers"):
        await meter.reserve(MODEL, REQUEST)
    pauses = [0.05 * 1.5**number for number in range(8)]
    assert world.slept[:8] == pytest.approx(pauses)
    assert set(world.slept[8:-1]) == {1.0}
    assert sum(world.slept) == pytest.approx(20)
    assert [each.is_last for each in world.wishes] == [*[False] * len(world.slept), True]
    world.wishes.clear()
    with pytest.raises(ProviderError, match="Other answers"):
        await meter.reserve(PRICED, REQUEST)
    assert [each.is_last for each in world.wishes] == [True]  # the next model does not wait again


async def test_the_time_to_wait_begins_anew_after_a_call_that_was_made(world: World) -> None:
    meter, world.answers = meter_of(BUDGET), [SOON, SOON, GRANTED]
    assert await meter.reserve(MODEL, REQUEST) == 300
    assert world.slept == pytest.approx([0.05, 0.075])
    end(meter, Usage(30, 12))
    world.now += 1000
    world.answers = [SOON, GRANTED]
    assert await meter.reserve(MODEL, REQUEST) == 300
    assert [each.is_last for each in world.wishes] == [False] * 5
    assert world.slept == pytest.approx([0.05, 0.075, 0.05])


async def test_a_budget_that_makes_an_answer_shorter_is_named_until_its_end(world: World) -> None:
    meter, world.answers = meter_of(BUDGET), [replace(GRANTED, shortage=USED_UP)]
    await meter.reserve(MODEL, REQUEST)
    error = meter.shortage()
    assert error is not None
    assert error.code == "budget"
    assert str(error).startswith("The tokens for today are used up: 100.")
    end(meter, Usage(30, 300))
    assert meter.shortage() is None
    world.answers = [GRANTED]
    await meter.reserve(MODEL, REQUEST)
    assert meter.shortage() is None


async def test_a_used_up_budget_is_told_at_once(world: World) -> None:
    meter, world.answers = meter_of(BUDGET), [USED_UP]
    with pytest.raises(ProviderError, match="used up: 100") as error:
        await meter.reserve(MODEL, REQUEST)
    assert (error.value.code, world.slept, len(world.wishes)) == ("budget", [], 1)


def test_the_tokens_of_a_run_have_the_same_names_as_before_any_call() -> None:
    """Clients add them up; of cached ones and of reasoning they are told where there are some."""
    meter = meter_of()
    assert meter.tokens == {"prompt_tokens": 0, "completion_tokens": 0, "total_tokens": 0}
    end(meter, Usage(30, 12))
    assert meter.tokens == {"prompt_tokens": 30, "completion_tokens": 12, "total_tokens": 42}
    end(meter, Usage(10, 5, cached_tokens=4))
    sums = {"prompt_tokens": 40, "completion_tokens": 17, "total_tokens": 57}
    assert meter.tokens == {**sums, "cached_tokens": 4}


async def test_without_a_budget_nothing_is_asked(world: World) -> None:
    assert await meter_of().reserve(MODEL, REQUEST) is None
    assert world.wishes == []


async def test_a_database_that_fails_is_no_fault_of_the_request(world: World) -> None:
    meter, world.answers = meter_of(BUDGET), [DatabaseError("secret")]
    with pytest.raises(ProviderError) as error:
        await meter.reserve(MODEL, REQUEST)
    assert (str(error.value), error.value.code) == (
        "Something went wrong in the gateway.",
        "internal",
    )


async def test_a_call_that_is_stopped_while_the_database_fails_is_stopped(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    loop, begins, may_go = asyncio.get_running_loop(), asyncio.Event(), threading.Event()

    def fail(wishes: list[ReservationRequest]) -> list[Answer]:
        loop.call_soon_threadsafe(begins.set)
        assert may_go.wait(20)
        return [DatabaseError("away") for _ in wishes]

    monkeypatch.setattr(reservations, "reserve_all", fail)
    meter = meter_of(BUDGET)
    task = asyncio.create_task(meter.reserve(MODEL, REQUEST))
    await asyncio.wait_for(begins.wait(), 20)
    task.cancel()
    may_go.set()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert meter.ledger.calls == []


# -- wishes ------------------------------------------------------------------------------------


async def test_a_wish_is_of_the_request_and_settles_the_calls_before_it(world: World) -> None:
    whose = {"user_id": 1, "key_id": 2, "account_id": 3, "assistant_id": 4}
    meter, world.answers = meter_of(BUDGET, **whose), [GRANTED]
    await meter.reserve(PRICED, replace(REQUEST, options={"max_tokens": 55}))
    (first,) = world.wishes
    assert (first.model, first.limits) == (PRICED, (Limit(BUDGET, 0),))
    assert (first.prompt_tokens, first.output_tokens) == (PROMPT, 55)
    assert (first.before, first.is_whole) == ([], True)
    call = first.call
    assert (call.purpose, call.model_id, call.model_name) == ("turn", 1, "test: default")
    assert (call.user_id, call.key_id, call.account_id, call.assistant_id) == (1, 2, 3, 4)
    assert (call.run_id, call.prompt_tokens) == (None, estimate("a" * 96))
    end(meter, Usage(30, 12), model=PRICED)
    await meter.reserve(MODEL, REQUEST)
    (closing,) = world.wishes[1].before
    assert (closing.call_id, closing.columns["completion_tokens"]) == (7, 12)
    assert closing.changes == (budgets.Change(5, 340, 42),)
    end(meter, Usage(1, 1))
    await meter.reserve(MODEL, REQUEST)
    assert [each.columns["completion_tokens"] for each in world.wishes[2].before] == [1]


async def test_calls_before_stay_to_be_settled_where_the_database_fails(world: World) -> None:
    meter, world.answers = meter_of(BUDGET), [GRANTED]
    await meter.reserve(MODEL, REQUEST)
    end(meter, Usage(30, 12))
    world.answers = [DatabaseError("away"), GRANTED]
    with pytest.raises(ProviderError):
        await meter.reserve(MODEL, REQUEST)
    await meter.reserve(MODEL, REQUEST)
    assert [len(each.before) for each in world.wishes] == [0, 1, 1]


def test_a_run_is_whose_calls_are_counted(say: Say) -> None:
    run = say("hello")
    run.attempt, run.via_key, run.assistant_id = 3, 9, 5
    every = [
        replace(BUDGET, id=1, user_id=run.user_id, each_person=True),
        replace(BUDGET, id=2, key_id=9),
        replace(BUDGET, id=3, account_id=run.session.account_id),
        replace(BUDGET, id=4, assistant_id=5),
        replace(BUDGET, id=5, user_id=run.user_id + 1),
        replace(BUDGET, id=6, assistant_id=6),
    ]
    known: Any = SimpleNamespace(budgets=every, default=6)
    meter = RunMeter.of_run(run=run, known=known)
    assert meter.ledger.common == {
        "run_id": run.pk,
        "user_id": run.user_id,
        "account_id": run.session.account_id,
        "key_id": 9,
        "assistant_id": 5,
        "attempt": 3,
        "job_id": 0,
    }
    assert [(each.budget.id, each.person) for each in meter.ledger.limits] == [
        (1, run.user_id),
        (2, 0),
        (3, 0),
        (4, 0),
    ]
    run.assistant_id = 0
    of_task = RunMeter.of_run(run=run, known=known, attempt=0, job_id=8)
    whose = of_task.ledger.common
    assert (whose["assistant_id"], whose["attempt"], whose["job_id"]) == (6, 0, 8)
    assert [each.budget.id for each in of_task.ledger.limits] == [1, 2, 3, 6]
    catalogue.current()
    assert RunMeter.of_run(run=run).ledger.common["assistant_id"] == catalogue.current().default


async def test_meters_of_one_run_settle_each_other_and_one_apart_only_itself(
    world: World,
) -> None:
    meter, world.answers = meter_of(BUDGET), [GRANTED]
    image, apart = meter.of("image"), meter.apart()
    await image.reserve(MODEL, REQUEST)
    assert (world.wishes[0].call.purpose, world.wishes[0].is_whole) == ("image", True)
    end(image, Usage(1, 2))
    await apart.reserve(MODEL, REQUEST)
    await meter.reserve(MODEL, REQUEST)
    assert [len(each.before) for each in world.wishes] == [0, 0, 1]
    assert world.wishes[1].call.purpose == "turn"
    assert apart.ledger.common == meter.ledger.common


# -- the size of a request ---------------------------------------------------------------------


def request(*contents: Any, tools: int = 0, **options: Any) -> ModelRequest:
    """Return a request with messages of these contents."""
    messages: list[Any] = [{"role": "user", "content": each} for each in contents]
    return ModelRequest(messages, [{"name": "a"}] * tools, options=options)


TOOL = '{"name":"a"}'
IMAGE = {"type": "image_url", "image_url": {"url": "data:image/png;base64," + "A" * 9000}}


@pytest.mark.parametrize(
    ("asked", "most", "usual"),
    [
        pytest.param(request(), 0, 0, id="nothing"),
        pytest.param(request(""), 8, 4, id="empty"),
        pytest.param(request(None), 8, 4, id="none"),
        pytest.param(request("abc"), 9, 5, id="three bytes"),
        pytest.param(request("abcd"), 10, 5, id="four bytes"),
        pytest.param(request("日本"), 10, 7, id="characters of three bytes"),
        pytest.param(request("abc", "abc"), 18, 10, id="two messages"),
        pytest.param(request([{"type": "text", "text": "abc"}]), 9, 5, id="a part"),
        pytest.param(request([{"type": "text", "text": None}]), 8, 4, id="an empty part"),
        pytest.param(request([IMAGE]), 3208, 1604, id="an image, whatever its size"),
        pytest.param(
            request([{"text": "abc"}, IMAGE, IMAGE]), 6409, 3213, id="a text and two images"
        ),
        pytest.param(
            request("abc", [{"text": "abc"}, IMAGE], [IMAGE]), 6426, 3218, id="parts of several"
        ),
        pytest.param(request("", tools=2), 32, 4 + 2 * estimate(TOOL), id="two tools"),
    ],
)
def test_a_prompt_is_estimated_and_reserved_on_the_safe_side(
    asked: ModelRequest, most: int, usual: int
) -> None:
    assert usage.most_prompt_tokens(asked) == most
    assert usage.prompt_tokens(asked) == usual


def test_calls_of_tools_are_part_of_a_prompt() -> None:
    calls = [{"id": "a", "function": {"name": "send", "arguments": "{}"}}]
    asked = ModelRequest([{"role": "assistant", "content": "", "tool_calls": calls}])
    text = '[{"id":"a","function":{"name":"send","arguments":"{}"}}]'
    assert usage.prompt_tokens(asked) == estimate("") + estimate(text)
    assert usage.most_prompt_tokens(asked) == -(-len(text) // 3) + 8


@pytest.mark.parametrize(
    ("options", "tokens"),
    [
        ({}, ANSWER),
        ({"temperature": 1}, ANSWER),
        ({"max_tokens": 5}, 5),
        ({"max_completion_tokens": 6}, 6),
        ({"max_tokens": 5, "max_completion_tokens": 6}, 5),
        ({"max_tokens": 9999}, 9999),
        ({"max_tokens": 2**63 - 1}, 2**31 - 1),
        ({"max_tokens": None}, ANSWER),
        ({"max_tokens": None, "max_completion_tokens": 6}, 6),
        ({"max_tokens": 0}, ANSWER),
        ({"max_tokens": 1}, 1),
        ({"max_tokens": 0.5}, 1),
    ],
)
def test_an_answer_is_as_long_as_the_request_allows_else_the_model(
    options: dict[str, Any], tokens: int
) -> None:
    assert usage.wanted_tokens(MODEL, replace(REQUEST, options=options)) == tokens


# -- notes -------------------------------------------------------------------------------------

READ = {"timeout", "silence", "cut", "bad_stream", "empty", "length", "content"}
UNREAD = sorted(set(KINDS) - READ)


@pytest.mark.parametrize(
    ("used", "output_tokens", "failure", "noted"),
    [
        (Usage(30, 12), 99, "", (30, 12, False)),
        (Usage(30, 0), 99, "", (30, 0, False)),
        (Usage(0, 12), 99, "cut", (28, 12, True)),
        (Usage(0, 0), 9, "", (28, 9, True)),
        (None, 9, "", (28, 9, True)),
        (None, 0, "", (28, 0, True)),
        (None, 0, "stopped", (28, 0, True)),
        *((None, 0, each, (0, 0, True)) for each in UNREAD),
        *((None, 0, each, (28, 0, True)) for each in sorted(set(KINDS) - set(UNREAD))),
        (None, 1, "rate_limited", (28, 1, True)),
    ],
)
def test_a_call_is_noted_as_it_is_reported_else_by_an_estimate(
    world: World,
    used: Usage | None,
    output_tokens: int,
    failure: str,
    noted: tuple[int, int, bool],
) -> None:
    """A server that was not reached, or refused the call, has read nothing. Some report only the
    answer's tokens: a prompt of none would cost nothing, in budgets too.
    """
    meter = meter_of()
    world.now += 2.5
    end(meter, used, output_tokens=output_tokens, failure=failure)
    (found,) = meter.ledger.calls
    columns = found.columns
    names = ("prompt_tokens", "completion_tokens", "estimated")
    assert tuple(columns[each] for each in names) == noted
    assert (columns["failure"], columns["milliseconds"]) == (failure, 2500)
    assert (found.call_id, found.entries, found.is_stored) == (0, (), False)
    assert (columns["purpose"], columns["model_name"]) == ("turn", "test: default")


def test_every_kind_of_tokens_and_a_long_failure_are_noted() -> None:
    meter = meter_of()
    used = Usage(30, 12, cached_tokens=10, reasoning_tokens=2)
    end(meter, used, model=replace(PRICED, name="x" * 400), failure="f" * 50)
    (found,) = meter.ledger.calls
    assert (found.columns["cached_tokens"], found.columns["reasoning_tokens"]) == (10, 2)
    assert found.columns["failure"] == "f" * 40
    assert len(found.columns["model_name"]) == 300
    assert found.price() == (30 + 2 * 12) * DOLLAR // 1000


async def test_the_time_of_a_call_begins_when_it_is_granted(world: World) -> None:
    meter, world.answers = meter_of(BUDGET), [SOON, SOON, GRANTED]
    await meter.reserve(MODEL, REQUEST)
    world.now += 1.5
    end(meter, Usage(30, 12))
    world.now += 9
    world.answers = [GRANTED]
    await meter.reserve(MODEL, REQUEST)
    world.now += 0.25
    end(meter, Usage(30, 12))
    first, second = meter.ledger.calls
    assert (first.columns["milliseconds"], second.columns["milliseconds"]) == (1500, 250)
    assert (first.call_id, first.entries) == (7, GRANTED.entries)
    assert "model_name" not in first.columns


# -- the end -----------------------------------------------------------------------------------


def test_calls_are_stored_once_also_when_the_end_is_made_again(say: Say) -> None:
    meter = RunMeter.of_run(run=say("hello"))
    end(meter, Usage(30, 12), model=PRICED)
    end(meter, Usage(1, 2), model=PRICED, failure="cut")
    with pytest.raises(RuntimeError), transaction.atomic():
        assert len(usage.settle(meter)) == 2
        for each in meter.ledger.calls:
            each.is_stored = False  # on_commit is at once in this test, unlike a rollback
        raise RuntimeError
    usage.store(meter)
    rows = ModelCall.objects.order_by("pk").values_list("state", "completion_tokens", "failure")
    assert list(rows) == [("settled", 12, ""), ("settled", 2, "cut")]
    assert {each.cost for each in ModelCall.objects.all()} == {
        (30 + 24) * DOLLAR // 1000,
        (1 + 4) * DOLLAR // 1000,
    }
    with listening() as sent:
        usage.store(meter)
        commit(meter)
    assert sent == []
    assert ModelCall.objects.count() == 2


def test_all_open_calls_of_a_run_are_settled_with_its_end(say: Say) -> None:
    of = budget(10_000)
    row = BudgetPeriod.objects.create(budget=of, start=NOON.date(), reserved=900)
    meter = RunMeter.of_run(run=say("hello"))
    for answer in (5, 7):
        call = ModelCall.objects.create(state="open", day=NOON.date())
        end(meter, Usage(30, answer))
        meter.ledger.calls[-1].call_id = call.pk
        meter.ledger.calls[-1].entries = (Entry(row.pk, 300, "tokens"),)
    end(meter, Usage(1, 1))
    commit(meter)
    row.refresh_from_db()
    assert (row.spent, row.reserved) == (72, 300)
    rows = ModelCall.objects.order_by("pk").values_list("state", "completion_tokens")
    assert list(rows) == [("settled", 5), ("settled", 7), ("settled", 1)]


def test_the_day_of_a_call_is_at_the_earliest_that_of_yesterday(
    say: Say, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Sums of the days before are made already: it would be in none."""
    meter = RunMeter.of_run(run=say("hello"))
    for days in (9, 2, 1, 0):
        monkeypatch.setattr(timezone, "now", lambda days=days: NOON - timedelta(days=days))
        end(meter, Usage(1, 1))
    monkeypatch.setattr(timezone, "now", lambda: NOON)
    usage.store(meter)
    days_of = ModelCall.objects.order_by("pk").values_list("day", flat=True)
    assert [each.day for each in days_of] == [16, 16, 16, 17]


def test_prices_are_looked_up_before_the_transaction_of_the_end(
    say: Say, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first look at the list of prices is long."""
    asked: list[bool] = []

    def cost(*_: object) -> int:
        asked.append(transaction.get_connection().in_atomic_block)
        return 5

    meter = RunMeter.of_run(run=say("hello"))
    end(meter, Usage(1, 1))
    monkeypatch.setattr("core.providers.prices.cost", cost)
    usage.price(meter)
    with atomic_write():
        (insert,) = usage.settle(meter)
    assert len(asked) == 1
    assert [each.price() for each in meter.ledger.calls] == [5]
    assert insert is not None


def left_of(meter: RunMeter) -> list[int]:
    """Return the calls that are not stored yet, by their answers."""
    return [each.columns["completion_tokens"] for each in meter.ledger.unstored]


def test_stored_calls_are_not_left(say: Callable[..., Run]) -> None:
    meter = RunMeter.of_run(run=say("hello"))
    end(meter, Usage(1, 1))
    end(meter, Usage(1, 2))
    usage.mark_stored(meter.ledger.calls[:1])
    assert left_of(meter) == [2]
    usage.store(meter)
    assert left_of(meter) == []
    assert ModelCall.objects.get().completion_tokens == 2
