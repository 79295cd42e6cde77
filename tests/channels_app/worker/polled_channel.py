"""A channel whose accounts may be polled, and an event loop whose time a test moves."""

import asyncio
from collections import Counter, defaultdict
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

from channels_app.base import Account, Capability, ChannelError, Health
from channels_app.memory.channel import (
    PLATFORM,
    MemoryChannel,
    MemoryConfig,
    MemoryGateway,
    MemoryOutbound,
)
from channels_app.worker.account_watcher import Gateways
from core.lib.encryption import encrypt
from core.models import ChannelAccount

T = TypeVar("T")
ID = "polled"
# Steps of the loop in which whatever does not wait for a thread comes to its next pause.
STEPS = 20


class Platform(MemoryGateway):
    """The inbound side: it counts its calls, and answers as the test says.

    ``errors`` are raised by the next calls of a kind. ``silent``: the kinds of calls that are never
    answered. ``ended``: the names of accounts for which polling returns.
    """

    def __init__(self) -> None:
        self.calls: dict[str, Counter[str]] = defaultdict(Counter)  # kind, account
        self.errors: dict[str, list[Exception]] = defaultdict(list)
        self.silent: set[str] = set()
        self.ended: set[str] = set()
        self.health = Health()
        self.polling: list[Account] = []
        self.addresses: list[str] = []
        self.closed = 0

    async def _call(self, kind: str, account: Account) -> None:
        self.calls[kind][account.name] += 1
        if self.errors[kind]:
            raise self.errors[kind].pop(0)
        if kind in self.silent:
            await asyncio.Event().wait()

    async def prepare(self, account: Account, *, base_url: str) -> str:
        self.addresses.append(base_url)
        await self._call("prepare", account)
        return "prepared"

    async def retire(self, account: Account) -> None:
        await self._call("retire", account)

    async def check(self, account: Account) -> Health:
        await self._call("check", account)
        return self.health

    async def test(self, account: Account) -> str:
        if "test" in self.silent:
            await asyncio.sleep(0.05)  # in a loop with real time
        return f"@{account.name}"

    async def close(self) -> None:
        self.closed += 1

    def wants_polling(self, account: Account) -> bool:
        return account.config.get("mode") == "polling"

    async def poll(self, account: Account) -> None:
        await self._call("poll", account)
        if account.name in self.ended:
            return
        self.polling.append(account)
        try:
            await asyncio.Event().wait()
        finally:
            self.polling.remove(account)

    def polled(self) -> list[str]:
        """Return the names of the accounts that are being polled now, sorted."""
        return sorted(account.name for account in self.polling)


class Config(MemoryConfig):
    """An account may lack a setting."""

    def problems(self, account: Account) -> list[str]:
        return ["incomplete"] if account.config.get("incomplete") else []


CHANNEL = MemoryChannel(
    PLATFORM,
    MemoryOutbound(PLATFORM),
    id=ID,
    name="Polled",
    capabilities=frozenset({Capability.POLLING}),
    config=Config(),
)


class Clock(asyncio.SelectorEventLoop):
    """An event loop with a time of its own, in seconds, which stands until a test moves it."""

    def __init__(self) -> None:
        super().__init__()
        self.now = 0.0
        self._in_threads: set[asyncio.Future[Any]] = set()

    def time(self) -> float:
        """Return the time of this loop."""
        return self.now

    def run_in_executor(  # type: ignore[override]
        self, executor: Any, func: Callable[..., T], *args: Any
    ) -> asyncio.Future[T]:
        """Run ``func`` in a thread, as every loop does, and remember that it runs."""
        future = super().run_in_executor(executor, func, *args)
        self._in_threads.add(future)
        future.add_done_callback(self._in_threads.discard)
        return future

    def go_on(self, seconds: float = 0.0) -> None:
        """Let time pass; return when all tasks wait for the platform or for a later time."""
        self.now += seconds
        self.run_until_complete(self._settled())

    async def _settled(self) -> None:
        quiet = 0
        while quiet < STEPS:
            await asyncio.sleep(0)
            quiet += 1
            if self._in_threads:
                await asyncio.wait(self._in_threads)
                quiet = 0

    def begin(self, work: Coroutine[Any, Any, T]) -> asyncio.Task[T]:
        """Return a task of ``work`` after its first steps; it has failed if ``work`` has."""
        task = self.create_task(work)
        self.go_on()
        if task.done():
            task.result()
        return task

    def look(self, *workers: Gateways) -> None:
        """Let each worker look after the accounts, one after another."""
        for worker in workers:
            assert self.begin(worker.look_after()).done()

    def end(self) -> None:
        """Cancel the tasks that remain, and close the loop."""
        for task in asyncio.all_tasks(self):
            task.cancel()
        self.go_on()
        self.close()


def create(name: str, *, mode: str = "polling") -> ChannelAccount:
    """Create an account of the channel."""
    return ChannelAccount.objects.create(
        channel=ID, name=name, config={"mode": mode}, secrets=encrypt({"token": "first"})
    )


def refusal(trouble: Any = "", *, retry_after: float | None = None) -> ChannelError:
    """Return an error of the platform."""
    return ChannelError("The platform refuses.", trouble=trouble, retry_after=retry_after)
