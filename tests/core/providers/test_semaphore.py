"""[W76] Calls at once of a provider are those of all processes; a dead one's soon end."""

import asyncio
import os
import signal
import sys
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import pytest
import redis.asyncio
from aiohttp import web
from django.conf import settings as django_settings
from pytest_django import Settings

from core.providers import semaphore
from core.providers.semaphore import PREFIX, SharedSemaphore
from tests import ROOT
from tests.core.providers.model_server import ModelServer, hello, streams
from tests.servers import Valkey


async def until(condition: Callable[[], Awaitable[object]]) -> None:
    """Wait until ``condition`` holds."""
    async with asyncio.timeout(60):
        while not await condition():
            await asyncio.sleep(0.01)


async def known(name: str) -> int:
    """Return how many calls the broker knows, waiting or not."""
    async with redis.asyncio.Redis.from_url(django_settings.REDIS_URL) as client:
        return int(await client.zcard(f"{PREFIX}{name}"))


async def last_lease(name: str) -> float:
    """Return when the last lease ends, in microseconds of the broker; 0 without one."""
    async with redis.asyncio.Redis.from_url(django_settings.REDIS_URL) as client:
        found: Any = await client.zrevrange(f"{PREFIX}{name}:leases", 0, 0, withscores=True)
    return float(found[0][1]) if found else 0.0


class Call:
    """A call that holds its place until it is ended."""

    def __init__(self, owner: SharedSemaphore) -> None:
        self.has_place = False
        self.over = asyncio.Event()
        self.task = asyncio.create_task(self.hold(owner))

    async def hold(self, owner: SharedSemaphore) -> None:
        async with owner.slot():
            self.has_place = True
            await self.over.wait()

    async def begins(self) -> bool:
        return self.has_place

    async def end(self) -> None:
        self.over.set()
        await self.task


MakeSemaphore = Callable[..., SharedSemaphore]


@pytest.fixture
async def make() -> AsyncIterator[MakeSemaphore]:
    """Return a maker of semaphores; each is what another process would have."""
    made: list[SharedSemaphore] = []

    def new(name: str, *, most: int) -> SharedSemaphore:
        made.append(SharedSemaphore(name, most=most))
        return made[-1]

    yield new
    for each in made:
        await each.close()


# Processes ---------------------------------------------------------------------------------------


class Crowd(ModelServer):
    """A provider that counts its calls at once, by model, and answers when ``go`` is set."""

    def __init__(self) -> None:
        super().__init__(replies=[self.answer])
        self.running: Counter[str] = Counter()
        self.most = self.answered = 0
        self.go = asyncio.Event()

    async def answer(self, request: web.Request) -> web.StreamResponse:
        """Answer a call."""
        model = self.requests[-1]["model"]
        self.running[model] += 1
        self.most = max(self.most, self.running.total())
        try:
            await self.go.wait()
            return await streams(hello("a"))(request)
        finally:
            self.running[model] -= 1
            self.answered += 1


@pytest.fixture
async def crowd() -> AsyncIterator[Crowd]:
    """Start the provider."""
    server = Crowd()
    await server.start()
    yield server
    server.go.set()
    await server.stop()


async def caller(
    url: str, model: str, *, calls: int, most: int, lease: float
) -> asyncio.subprocess.Process:
    """Start a process that calls."""
    more = {
        "MOST": str(most),
        "LEASE_SECONDS": str(lease),
        "DJANGO_SETTINGS_MODULE": "gateway_project.settings",
        "REDIS_URL": django_settings.REDIS_URL,
    }
    words = ("-m", "tests.core.providers.caller", url, model, str(calls))
    return await asyncio.create_subprocess_exec(
        sys.executable, *words, env={**os.environ, **more}, cwd=ROOT
    )


@pytest.mark.unmeasured
async def test_w76_two_processes_call_no_more_than_the_provider_takes(
    broker: Valkey, crowd: Crowd
) -> None:
    """All of both ask, and the provider gets three at once, until all are answered."""
    both = [await caller(crowd.url, each, calls=6, most=3, lease=6) for each in "ab"]

    async def all_ask() -> bool:
        return await known("1") == 12 and crowd.running.total() == 3

    await until(all_ask)
    crowd.go.set()
    assert [await each.wait() for each in both] == [0, 0]
    assert (crowd.most, crowd.answered) == (3, 12)
    assert await known("1") == 0


@pytest.mark.unmeasured
async def test_w76_places_of_a_killed_process_are_free_when_their_leases_end(
    broker: Valkey, crowd: Crowd
) -> None:
    """Those of a call that takes longer than a lease are not: it renews its own."""
    dying = await caller(crowd.url, "a", calls=2, most=2, lease=1)

    async def holds() -> bool:
        return crowd.running["a"] == 2

    await until(holds)
    waiting = await caller(crowd.url, "b", calls=2, most=2, lease=1)

    async def all_ask() -> bool:
        return await known("1") == 4

    await until(all_ask)
    first = await last_lease("1")

    async def is_renewed() -> bool:
        return await last_lease("1") > first + 2_500_000

    await until(is_renewed)
    assert crowd.running == {"a": 2}
    dying.kill()
    await dying.wait()

    async def is_free() -> bool:
        return crowd.running["b"] == 2

    await until(is_free)
    crowd.go.set()
    assert await waiting.wait() == 0


# One process: each semaphore is what another one would have --------------------------------------


async def test_w76_the_order_is_that_of_asking_over_all_processes(make: MakeSemaphore) -> None:
    one, other = (make("order", most=1) for _ in range(2))
    calls: list[Call] = []
    for number, owner in enumerate((one, other, one, one, other), 1):
        calls.append(Call(owner))

        async def is_known(number: int = number) -> bool:
            return await known("order") == number

        await until(is_known)
    # One that gives up in the queue leaves its place to the next.
    calls[2].task.cancel()
    for at in (0, 1, 3, 4):
        await until(calls[at].begins)
        assert [each.has_place for each in calls[at + 1 :]] == [False] * (4 - at)
        await calls[at].end()
    assert not calls[2].has_place


async def test_w76_a_place_is_kept_for_as_long_as_it_is_used(
    make: MakeSemaphore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(semaphore, "LEASE_SECONDS", 0.4)
    monkeypatch.setattr(semaphore, "RENEW_SECONDS", 0.1)
    one, other = (make("renewed", most=1) for _ in range(2))
    first = Call(one)
    await until(first.begins)
    began = await last_lease("renewed")
    second = Call(other)

    async def is_renewed() -> bool:
        return await last_lease("renewed") > began + 1_500_000

    await until(is_renewed)
    assert not second.has_place
    await first.end()
    await until(second.begins)
    await second.end()


async def test_w76_a_larger_limit_holds_at_once(make: MakeSemaphore) -> None:
    owner = make("larger", most=1)
    calls = [Call(owner) for _ in range(3)]
    await until(calls[0].begins)
    owner.most = 2
    await until(calls[1].begins)
    assert not calls[2].has_place
    for each in calls:
        await each.end()


async def test_w76_leases_from_before_the_clock_was_set_back_are_void(make: MakeSemaphore) -> None:
    async with redis.asyncio.Redis.from_url(django_settings.REDIS_URL) as client:
        for key in (f"{PREFIX}clock", f"{PREFIX}clock:leases"):
            await client.zadd(key, {"dead": 8e15})
    call = Call(make("clock", most=1))
    await until(call.begins)
    await call.end()


async def test_w76_without_a_limit_the_broker_is_not_asked(settings: Settings) -> None:
    settings.REDIS_URL = "redis://127.0.0.1:1/0"
    made = semaphore.Semaphores()
    async with made.slot("x", most=0), made.slot("x", most=0):
        assert made._made == {}
    await made.close()


async def test_w76_while_the_broker_is_away_each_process_counts_its_own(
    broker: Valkey, make: MakeSemaphore, caplog: pytest.LogCaptureFixture
) -> None:
    one, other = (make("away", most=2) for _ in range(2))
    before = Call(one)
    await until(before.begins)
    broker.process.send(signal.SIGKILL)
    broker.process.wait()
    of_one, of_other = [before, Call(one), Call(one)], [Call(other) for _ in range(3)]
    for each in (of_one[1], of_other[0], of_other[1]):
        await until(each.begins)
    assert not of_one[2].has_place
    assert not of_other[2].has_place
    await of_other[0].end()
    await until(of_other[2].begins)
    assert sum("the broker is away" in each for each in caplog.messages) == 2
    # It is back, without a memory: it learns all calls, and no other gets a place before they end.
    broker.start()

    async def knows_all() -> bool:
        return await known("away") == 5

    await until(knows_all)
    late = Call(other)

    async def knows_the_late_one() -> bool:
        return await known("away") == 6

    await until(knows_the_late_one)
    assert not late.has_place
    assert not of_one[2].has_place
    for each in (*of_one[:2], *of_other[1:]):
        await each.end()
    await until(of_one[2].begins)
    await until(late.begins)
    await of_one[2].end()
    await late.end()


@pytest.mark.parametrize("is_connected", [True, False])
async def test_w76_a_broker_that_hangs_fails_no_call(
    broker: Valkey, make: MakeSemaphore, *, is_connected: bool
) -> None:
    owner = make("hangs", most=1)
    if is_connected:
        earlier = Call(owner)
        await until(earlier.begins)
        await earlier.end()
    broker.process.send(signal.SIGSTOP)
    calls = [Call(owner) for _ in range(2)]
    await until(calls[0].begins)
    assert not calls[1].has_place
    await calls[0].end()
    await until(calls[1].begins)
    await calls[1].end()


async def test_w76_a_closed_semaphore_leaves_nothing_in_the_broker(make: MakeSemaphore) -> None:
    owner = make("closed", most=1)
    calls = [Call(owner) for _ in range(2)]
    await until(calls[0].begins)
    await owner.close()
    assert await known("closed") == 0
    for each in calls:
        each.task.cancel()
    await asyncio.gather(*(each.task for each in calls), return_exceptions=True)
