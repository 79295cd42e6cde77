"""What comes at once is committed at once, and is acknowledged only then ([D6])."""

import asyncio
import fcntl
import os
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import pytest
from django.db import OperationalError, connection, transaction

from core.database import batching, transactions
from core.database.transactions import atomic_write
from core.models import User
from tests import settings

pytestmark = pytest.mark.django_db(transaction=True)
BOUND_SECONDS = 60
on_sqlite = pytest.mark.skipif(
    settings.TEST_DATABASE != "sqlite", reason="PostgreSQL's writers need no turn"
)
on_postgresql = pytest.mark.skipif(
    settings.TEST_DATABASE == "sqlite", reason="SQLite has one writer at a time"
)


def do_at_once(*works: Callable[[], str]) -> list[Any]:
    """What became of ``works``, which all wait while the one before them is at work."""
    begin = threading.Event()
    held_up: list[None] = []
    lanes = 1 if connection.vendor == "sqlite" else batching.CONCURRENT_BATCHES

    def hold_up() -> str:
        held_up.append(None)
        assert begin.wait(BOUND_SECONDS)
        return "held up"

    async def ask() -> list[Any]:
        asked = []
        for number in range(lanes):
            asked.append(asyncio.create_task(batching.in_shared_transaction(hold_up)))
            while len(held_up) <= number:
                await asyncio.sleep(0.001)
        asked += [asyncio.create_task(batching.in_shared_transaction(each)) for each in works]
        await asyncio.sleep(0)
        begin.set()
        return await asyncio.gather(*asked, return_exceptions=True)

    return asyncio.run(ask())[lanes:]


def make(name: str, *, error: Exception | None = None) -> Callable[[], str]:
    """Work that stores a person, and may fail after that."""

    def work() -> str:
        with atomic_write():
            User.objects.create(username=name)
            if error is not None:
                raise error
        return name

    return work


def names() -> list[str]:
    """Who is stored."""
    return list(User.objects.order_by("id").values_list("username", flat=True))


def test_what_waits_is_done_in_the_order_in_which_it_came() -> None:
    wanted = [f"p{number}" for number in range(batching.AT_ONCE * 2)]
    assert do_at_once(*map(make, wanted)) == wanted
    assert sorted(names()) == sorted(wanted)
    if connection.vendor == "sqlite":
        assert names() == wanted


@on_postgresql
def test_a_group_whose_rows_another_holds_is_done_one_by_one() -> None:
    """Two groups with the same people, in another order, would wait for one another."""
    User.objects.create(username="held")
    User.objects.create(username="free")
    together_at: list[str] = []
    alone: list[str] = []

    def touch(name: str) -> Callable[[], str]:
        def work() -> str:
            (together_at if connection.in_atomic_block else alone).append(name)
            with atomic_write(joins=True):
                User.objects.filter(username=name).update(first_name="x")
            return name

        return work

    holds, may_go = threading.Event(), threading.Event()

    def hold() -> None:
        with transaction.atomic():
            User.objects.select_for_update().get(username="held")
            holds.set()
            assert may_go.wait(BOUND_SECONDS)
        connection.close()

    def let_go() -> str:
        if not connection.in_atomic_block:
            may_go.set()
        return touch("free")()

    thread = threading.Thread(target=hold)
    thread.start()
    assert holds.wait(BOUND_SECONDS)
    try:
        done = do_at_once(let_go, touch("held"))
    finally:
        may_go.set()
        thread.join(BOUND_SECONDS)
    assert done == ["free", "held"]
    assert together_at == ["free", "held"], "it was tried together first"
    assert alone == ["free", "held"]


def test_one_that_fails_takes_no_other_with_it() -> None:
    error = ValueError("this one")
    done = do_at_once(make("a"), make("b", error=error), make("c"))
    assert done == ["a", error, "c"]
    assert sorted(names()) == ["a", "c"]


def test_they_share_one_transaction() -> None:
    joined: list[bool] = []

    def work() -> str:
        joined.append(connection.in_atomic_block)
        return "done"

    assert do_at_once(work, work, work) == ["done"] * 3
    assert joined == [True] * 3


def test_what_several_want_to_know_is_asked_once_and_each_gets_its_answer() -> None:
    """Alone, after work of another kind, and where another's failure has them done one by one, they
    look for themselves."""
    asked: list[list[str]] = []

    def find(questions: Sequence[str]) -> list[str | None]:
        asked.append(list(questions))
        assert connection.in_atomic_block
        return [None if each == "b" else each.upper() for each in questions]

    def informed(question: str, *, fails: bool = False) -> batching.Informed[str, str, str]:
        def work(found: str | None) -> str:
            if fails:
                raise ValueError(question)
            return f"{question} {found}"

        return batching.Informed(work, asked=question, find=find)

    plain = make("plain")
    works: list[Callable[[], str]] = [informed("a"), informed("b"), plain, informed("z")]
    assert batching.all_of(works) == ["a A", "b None", "plain", "z None"]
    works = [make("first"), informed("y")]
    assert batching.all_of(works) == ["first", "y None"]
    assert batching.all_of([informed("d")]) == ["d None"]
    assert asked == [["a", "b"]]
    outcomes = batching.all_of([informed("e"), informed("f", fails=True)])
    assert outcomes[0] == "e None"
    assert isinstance(outcomes[1], ValueError)


def test_those_on_their_way_are_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ten come from a visit that tells the first of them a moment before the others: they are one
    visit, and who comes when nobody is on the way does not wait."""
    monkeypatch.setattr(batching, "WAIT_FOR_OTHERS_SECONDS", BOUND_SECONDS)
    seen: list[list[int]] = []
    alone: list[int] = []
    here = threading.Event()

    def know(asked: list[int]) -> list[int]:
        if asked == [0]:
            alone.append(0)
            assert here.wait(BOUND_SECONDS)
        return asked

    def keep(asked: list[int]) -> list[int]:
        seen.append(asked)
        return asked

    async def ask() -> None:
        known = batching.Batcher(know, name="known")
        kept = batching.Batcher(keep, name="kept")

        async def request(number: int) -> None:
            await kept.do(await known.do(number), after=known)

        requests = [asyncio.ensure_future(request(0))]
        while not alone:
            await asyncio.sleep(0.001)
        requests += [asyncio.ensure_future(request(number)) for number in range(1, 10)]
        await asyncio.sleep(0)
        here.set()
        await asyncio.gather(*requests)
        await request(10)
        assert not kept.is_busy

    asyncio.run(ask())
    assert seen == [list(range(10)), [10]]


def test_those_who_do_not_come_are_waited_for_a_moment_only() -> None:
    """The way to here stands still, and who is told there goes elsewhere."""
    seen: list[int] = []
    released = threading.Event()

    def stand_still(asked: list[str]) -> list[str]:
        assert released.wait(BOUND_SECONDS)
        return asked

    def keep(asked: list[int]) -> list[int]:
        seen.extend(asked)
        return asked

    async def ask() -> None:
        slow = batching.Batcher(stand_still, name="slow")
        kept = batching.Batcher(keep, name="kept")
        other = asyncio.ensure_future(slow.do("elsewhere"))
        await asyncio.sleep(0)
        assert await asyncio.wait_for(kept.do(1, after=slow), BOUND_SECONDS) == 1
        released.set()
        await other
        assert await kept.do(2, after=slow) == 2

    asyncio.run(ask())
    assert seen == [1, 2]


def test_d6_nobody_is_told_that_it_is_done_when_the_commit_fails(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    @contextmanager
    def full() -> Iterator[None]:
        with transaction.atomic():
            yield
            raise OperationalError("database or disk is full")

    monkeypatch.setattr(batching, "atomic_write", full)
    done = do_at_once(make("a"), make("b"))
    assert [type(each) for each in done] == [OperationalError] * 2
    assert names() == []


def test_an_error_of_the_visit_itself_reaches_all_who_wait_and_the_next_are_done() -> None:
    visits: list[list[int]] = []

    def work(asked: list[int]) -> list[int | Exception]:
        visits.append(asked)
        if len(visits) == 1:
            raise OperationalError("away")
        return [each * 2 for each in asked]

    async def ask() -> list[Any]:
        group = batching.Batcher(work, name="test")
        first = await asyncio.gather(group.do(1), group.do(2), return_exceptions=True)
        return [*first, await group.do(3)]

    *failed, done = asyncio.run(ask())
    assert [type(each) for each in failed] == [OperationalError] * 2
    assert done == 6
    assert visits == [[1, 2], [3]]


@on_sqlite
def test_a_process_that_wants_to_write_again_does_not_overtake_the_one_that_waits(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A worker with many threads had the turn again and again while the web process waited."""
    name = str(connection.settings_dict["NAME"])
    at_the_gate, done = threading.Event(), threading.Event()
    known = transactions.wait_for

    def wait_for(descriptor: int, deadline: float) -> None:
        at_the_gate.set()
        known(descriptor, deadline)

    def ours() -> None:
        try:
            with atomic_write():
                done.set()
        finally:
            connection.close()

    monkeypatch.setattr(transactions, "wait_for", wait_for)
    monkeypatch.setattr(transactions, "COURTESY_SECONDS", 600.0)
    gate, turn = (os.open(f"{name}.{each}", os.O_RDWR | os.O_CREAT) for each in ("gate", "turn"))
    try:
        fcntl.flock(gate, fcntl.LOCK_EX)  # the other process waits for its turn
        thread = threading.Thread(target=ours)
        thread.start()
        assert at_the_gate.wait(BOUND_SECONDS)
        fcntl.flock(turn, fcntl.LOCK_EX)  # and now has it, though we came meanwhile
        fcntl.flock(gate, fcntl.LOCK_UN)
        assert not done.is_set()
        fcntl.flock(turn, fcntl.LOCK_UN)
        thread.join(BOUND_SECONDS)
        assert done.is_set()
    finally:
        os.close(gate)
        os.close(turn)


@pytest.mark.parametrize("lanes", [1, 2])
def test_behind_a_visit_that_stands_still_another_begins_where_it_may(lanes: int) -> None:
    """Not at once: what is done soon is waited for, and what came meanwhile is done together."""
    released = threading.Event()
    visits: list[list[int]] = []

    def work(asked: list[int]) -> list[int]:
        visits.append(asked)
        if asked == [1]:
            released.wait(60)
        return asked

    async def ask() -> None:
        group = batching.Batcher(work, name=f"patience-{lanes}", lanes=lanes)
        first = asyncio.ensure_future(group.do(1))
        await asyncio.sleep(0)
        others = asyncio.gather(group.do(2), group.do(3))
        if lanes == 1:
            await asyncio.wait([others], timeout=batching.PATIENCE_SECONDS * 3)
            assert not others.done()
        else:
            assert list(await asyncio.wait_for(others, 30)) == [2, 3]
            assert not first.done()
        released.set()
        await asyncio.gather(first, others)

    asyncio.run(ask())
    assert visits == [[1], [2, 3]]
