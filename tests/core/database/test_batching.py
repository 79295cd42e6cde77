"""Group commit: simultaneous work shares a transaction, and ends only after its commit ([D6])."""

import asyncio
import fcntl
import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
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
    settings.TEST_DATABASE != "sqlite", reason="PostgreSQL has concurrent writers"
)
on_postgresql = pytest.mark.skipif(
    settings.TEST_DATABASE == "sqlite", reason="SQLite has one writer at a time"
)


def run_as_one_batch(*works: Callable[[], str]) -> list[Any]:
    """Return the outcomes of ``works``, all submitted while an earlier batch runs."""
    begin = threading.Event()
    held_up: list[None] = []
    concurrent = 1 if connection.vendor == "sqlite" else batching.CONCURRENT_BATCHES

    def hold_up() -> str:
        held_up.append(None)
        assert begin.wait(BOUND_SECONDS)
        return "held up"

    async def ask() -> list[Any]:
        asked = []
        for number in range(concurrent):
            asked.append(asyncio.create_task(batching.in_shared_transaction(hold_up)))
            while len(held_up) <= number:
                await asyncio.sleep(0.001)
        asked += [asyncio.create_task(batching.in_shared_transaction(each)) for each in works]
        await asyncio.sleep(0)
        begin.set()
        return await asyncio.gather(*asked, return_exceptions=True)

    return asyncio.run(ask())[concurrent:]


def make(name: str, *, error: Exception | None = None) -> Callable[[], str]:
    """Return work that stores a person, and then raises ``error`` if there is one."""

    def work() -> str:
        with atomic_write():
            User.objects.create(username=name)
            if error is not None:
                raise error
        return name

    return work


def names() -> list[str]:
    """Return the stored user names."""
    return list(User.objects.order_by("id").values_list("username", flat=True))


def test_work_is_done_in_the_order_in_which_it_was_submitted() -> None:
    wanted = [f"p{number}" for number in range(batching.MAX_BATCH * 2)]
    assert run_as_one_batch(*map(make, wanted)) == wanted
    assert sorted(names()) == sorted(wanted)
    if connection.vendor == "sqlite":
        assert names() == wanted


@on_postgresql
def test_a_batch_that_waits_for_a_row_lock_is_run_one_by_one() -> None:
    """Two batches that lock the same people in another order would wait for each other."""
    User.objects.create(username="held")
    User.objects.create(username="free")
    shared: list[str] = []
    alone: list[str] = []

    def touch(name: str) -> Callable[[], str]:
        def work() -> str:
            (shared if connection.in_atomic_block else alone).append(name)
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
        done = run_as_one_batch(let_go, touch("held"))
    finally:
        may_go.set()
        thread.join(BOUND_SECONDS)
    assert done == ["free", "held"]
    assert shared == ["free", "held"], "the shared transaction was tried first"
    assert alone == ["free", "held"]


def test_work_that_fails_does_not_affect_the_rest_of_its_batch() -> None:
    error = ValueError("this one")
    done = run_as_one_batch(make("a"), make("b", error=error), make("c"))
    assert done == ["a", error, "c"]
    assert sorted(names()) == ["a", "c"]


def test_work_of_one_batch_shares_a_transaction() -> None:
    joined: list[bool] = []

    def work() -> str:
        joined.append(connection.in_atomic_block)
        return "done"

    assert run_as_one_batch(work, work, work) == ["done"] * 3
    assert joined == [True] * 3


def test_d6_work_fails_when_its_commit_fails(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    @contextmanager
    def full() -> Iterator[None]:
        with transaction.atomic():
            yield
            raise OperationalError("database or disk is full")

    monkeypatch.setattr(batching, "atomic_write", full)
    done = run_as_one_batch(make("a"), make("b"))
    assert [type(each) for each in done] == [OperationalError] * 2
    assert names() == []


def test_an_error_of_a_whole_batch_is_raised_for_each_item_and_the_next_batch_runs() -> None:
    batches: list[list[int]] = []

    def work(asked: list[int]) -> list[int | Exception]:
        batches.append(asked)
        if len(batches) == 1:
            raise OperationalError("away")
        return [each * 2 for each in asked]

    async def ask() -> list[Any]:
        group = batching.Batcher()
        first = await asyncio.gather(
            group.submit(work, 1), group.submit(work, 2), return_exceptions=True
        )
        return [*first, await group.submit(work, 3)]

    *failed, done = asyncio.run(ask())
    assert [type(each) for each in failed] == [OperationalError] * 2
    assert done == 6
    assert batches == [[1, 2], [3]]


def batches_of_requests(
    monkeypatch: pytest.MonkeyPatch, *, others: int = 0, reads: int = 0
) -> list[tuple[str, int]]:
    """Return kind and size of each batch of a request that reads and then writes.

    ``others`` more such requests come while its read runs; ``reads`` reads come with it, each when
    the one before has ended.
    """
    batches: list[tuple[str, int]] = []
    proceed = threading.Event()

    def run(kind: str, items: list[None]) -> list[None]:
        batches.append((kind, len(items)))
        assert proceed.wait(BOUND_SECONDS)
        return items

    read, write = partial(run, "read"), partial(run, "write")
    monkeypatch.setattr(batching, "run_in_transaction", write)

    async def ask() -> None:
        batcher = batching.Batcher()

        async def request() -> None:
            await batcher.submit(read, None)
            await batcher.submit(write, None)

        async def read_on() -> None:
            for _ in range(reads):
                await batcher.submit(read, None)

        requests = [asyncio.ensure_future(request()), asyncio.ensure_future(read_on())]
        while not batches:
            await asyncio.sleep(0.001)
        requests += [asyncio.ensure_future(request()) for _ in range(others)]
        await asyncio.sleep(0)
        proceed.set()
        await asyncio.gather(*requests)

    asyncio.run(ask())
    return batches


def test_requests_of_one_moment_are_all_read_before_they_are_written_in_one_batch(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The first of ten is read alone, the others in the next batch."""
    assert batches_of_requests(monkeypatch, others=9) == [("read", 1), ("read", 9), ("write", 10)]


def test_a_write_waits_for_one_batch_of_reads_at_most(monkeypatch: pytest.MonkeyPatch) -> None:
    assert batches_of_requests(monkeypatch, reads=4) == [
        *(("read", 2), ("read", 1), ("write", 1)),
        *(("read", 1), ("read", 1)),
    ]


def test_a_read_is_not_held_up_by_a_transaction_that_waits() -> None:
    """Nor does a second transaction start, where the database has several writers."""
    held_up, proceed = threading.Event(), threading.Event()

    def hold_up() -> str:
        held_up.set()
        assert proceed.wait(BOUND_SECONDS)
        return "held up"

    async def ask() -> list[str]:
        first = asyncio.ensure_future(batching.in_shared_transaction(hold_up))
        while not held_up.is_set():
            await asyncio.sleep(0.001)
        second = asyncio.ensure_future(batching.in_shared_transaction(lambda: "written"))
        read = await asyncio.wait_for(batching.in_shared_call(list, "read"), BOUND_SECONDS)
        await asyncio.wait([second], timeout=batching.SLOW_BATCH_SECONDS * 3)
        if connection.vendor == "sqlite":
            assert not second.done()
        proceed.set()
        return [await first, await second, read]

    assert asyncio.run(ask()) == ["held up", "written", "read"]


def test_items_that_wait_while_the_database_is_away_get_the_same_error_at_once() -> None:
    batches: list[int] = []

    def away(items: list[int]) -> list[int]:
        batches.append(len(items))
        raise OperationalError("away")

    async def ask() -> list[Any]:
        group = batching.Batcher()
        asked = (group.submit(away, number, most=2) for number in range(7))
        return await asyncio.gather(*asked, return_exceptions=True)

    assert [type(each) for each in asyncio.run(ask())] == [OperationalError] * 7
    assert batches == [2]


@on_sqlite
def test_a_process_that_writes_again_does_not_overtake_one_that_waits(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A worker with many threads took the lock again and again while the web process waited."""
    name = str(connection.settings_dict["NAME"])
    waits, done = threading.Event(), threading.Event()
    known = transactions.wait_for

    def wait_for(descriptor: int, deadline: float) -> None:
        waits.set()
        known(descriptor, deadline)

    def ours() -> None:
        try:
            with atomic_write():
                done.set()
        finally:
            connection.close()

    monkeypatch.setattr(transactions, "wait_for", wait_for)
    monkeypatch.setattr(transactions, "LOCK_FILE_SECONDS", 600.0)
    gate, turn = (os.open(f"{name}.{each}", os.O_RDWR | os.O_CREAT) for each in ("gate", "turn"))
    try:
        fcntl.flock(gate, fcntl.LOCK_EX)  # the other process waits for its turn
        thread = threading.Thread(target=ours)
        thread.start()
        assert waits.wait(BOUND_SECONDS)
        fcntl.flock(turn, fcntl.LOCK_EX)  # and now has it, though we came before its next try
        fcntl.flock(gate, fcntl.LOCK_UN)
        assert not done.is_set()
        fcntl.flock(turn, fcntl.LOCK_UN)
        thread.join(BOUND_SECONDS)
        assert done.is_set()
    finally:
        os.close(gate)
        os.close(turn)


@pytest.mark.parametrize("concurrent", [1, 2])
def test_a_second_batch_starts_beside_a_slow_one_where_it_may(concurrent: int) -> None:
    """After a delay: items that are submitted meanwhile are one batch."""
    released = threading.Event()
    batches: list[list[int]] = []

    def work(asked: list[int]) -> list[int]:
        batches.append(asked)
        if asked == [1]:
            released.wait(60)
        return asked

    async def ask() -> None:
        group = batching.Batcher(concurrent=concurrent)
        first = asyncio.ensure_future(group.submit(work, 1))
        await asyncio.sleep(0)
        others = asyncio.gather(group.submit(work, 2), group.submit(work, 3))
        if concurrent == 1:
            await asyncio.wait([others], timeout=batching.SLOW_BATCH_SECONDS * 3)
            assert not others.done()
        else:
            assert list(await asyncio.wait_for(others, 30)) == [2, 3]
            assert not first.done()
        released.set()
        await asyncio.gather(first, others)

    asyncio.run(ask())
    assert batches == [[1], [2, 3]]
