"""Providers of the settings (``LLM_PROVIDER``) and of rows; one instance per event loop."""

import asyncio
from collections.abc import AsyncGenerator, Coroutine
from contextlib import AbstractAsyncContextManager, aclosing
from dataclasses import replace
from typing import Any

from django.conf import settings

from core.lib.per_loop import per_loop
from core.providers import prices, vendors
from core.providers.base import (
    Delta,
    ModelRequest,
    Provider,
    ProviderError,
    TextDelta,
    ThinkingDelta,
    ToolCallDelta,
    Unavailable,
)
from core.providers.catalogue import ProviderInfo
from core.providers.failures import Failure
from core.providers.openai_compatible import OpenAICompatible
from core.providers.scripted import Scripted
from core.providers.semaphore import semaphores

TOKENS = TextDelta | ThinkingDelta | ToolCallDelta


def current() -> Provider:
    """Return the settings' provider for this event loop; without any, one whose calls fail."""
    try:
        return configured()
    except ProviderError as error:
        return Unavailable(error)


def provider_of(info: ProviderInfo) -> Provider:
    """Return the provider of a row for the running event loop; of the environment's row that of the
    settings. One that only fails when it is not set up.

    A row that has changed gets a new provider; the old one is closed when its streams have ended.
    """
    return current() if info.from_environment else instances().of(info)


async def close() -> None:
    """Close the connections of the running event loop's providers."""
    for kept in (configured.pop(), instances.pop(), semaphores.pop()):
        if kept is not None:
            await kept.close()


@per_loop
def configured() -> Provider:
    """Return the provider of the settings, kept. Raises ProviderError for incomplete ones."""
    return of_settings()


def of_settings() -> Provider:
    """Return a new provider of the settings. Raises ProviderError for incomplete ones."""
    name = settings.LLM_PROVIDER
    if name == "scripted":
        return Scripted.from_file(settings.LLM_SCRIPT)
    if name == "openai-compatible":
        if not settings.LLM_BASE_URL:
            raise ProviderError(
                "No model is set up. The owner chooses one in the admin, or in GATEWAY_MODEL_URL.",
                code="setup",
            )
        if wrong := vendors.problem_of_form(settings.LLM_API_KEY):
            raise ProviderError.of(Failure("setup", f"GATEWAY_MODEL_KEY: {wrong}"))
        return OpenAICompatible(
            base_url=settings.LLM_BASE_URL,
            api_key=settings.LLM_API_KEY,
            model=settings.LLM_MODEL,
            first_seconds=settings.LLM_FIRST_TOKEN_SECONDS,
            idle_seconds=settings.LLM_IDLE_SECONDS,
            adapt=vendors.adapt_of(vendors.Kind.OPENAI_COMPATIBLE, settings.LLM_BASE_URL),
            may_lack_tools=True,  # its model was not tested, and its row is the environment's
        )
    from core.providers import agent_library  # noqa: PLC0415 - 1 s and 60 MB that few need

    return agent_library.build(name)


def slot_of(info: ProviderInfo) -> AbstractAsyncContextManager[None]:
    """Return the semaphore of a provider's calls in all processes; without a limit, nothing."""
    return semaphores().slot(str(info.id), most=info.concurrency)


class NoSlotError(ProviderError):
    """No slot became free for as long as a first token may take: not the model's fault."""


class Shared:
    """A row's provider, shared by the runs of an event loop.

    At most ``concurrency`` streams at once of all processes (0: any number), in the order of their
    requests; waiting for a place counts as time before the first token (NoSlotError). Closed when
    retired and idle.
    """

    def __init__(self, provider: Provider, info: ProviderInfo) -> None:
        self._provider = provider
        self._info = info
        self._streams = 0
        self._is_retired = False

    async def stream(self, request: ModelRequest) -> AsyncGenerator[Delta, None]:
        self._streams += 1
        try:
            deltas = self._in_turn if self._info.concurrency else self._provider.stream
            async with aclosing(deltas(request)) as found:
                async for delta in found:
                    yield delta
        finally:
            self._streams -= 1
            if self._is_retired and not self._streams:
                await self._provider.close()

    async def retire(self) -> None:
        """Close when the last stream has ended."""
        self._is_retired = True
        if not self._streams:
            await self._provider.close()

    async def close(self) -> None:
        await self._provider.close()

    async def _in_turn(self, request: ModelRequest) -> AsyncGenerator[Delta, None]:
        """Stream when a place is free. Raises ProviderError."""
        waits = True
        try:
            async with (
                asyncio.timeout(self._info.first_token_seconds) as bound,
                slot_of(self._info),
                aclosing(self._provider.stream(request)) as found,
            ):
                waits = False
                async for delta in found:
                    if isinstance(delta, TOKENS):
                        bound.reschedule(None)
                    yield delta
        except TimeoutError:
            if waits:
                reason = f"all {self._info.concurrency} calls at once were in use"
                raise NoSlotError.of(Failure("timeout", reason)) from None
            raise ProviderError.of(Failure("timeout")) from None


class Instances:
    """The providers of rows: one for an id, as long as the row is the same."""

    def __init__(self) -> None:
        self._made: dict[int, tuple[ProviderInfo, Shared]] = {}
        self._tasks: set[asyncio.Task[None]] = set()

    def of(self, info: ProviderInfo) -> Shared:
        kept = self._made.get(info.id)
        if kept is not None and (kept[0] is info or kept[0] == replace(info, name=kept[0].name)):
            return kept[1]
        if kept is not None:
            self._run(kept[1].retire())
        if prices.may_be_listed(info.kind, info.base_url):
            self._run(asyncio.to_thread(prices.load_list))  # needed behind the first answer
        made = Shared(vendors.build(info), info)
        self._made[info.id] = info, made
        return made

    async def close(self) -> None:
        """Close all, and wait for what runs in the background."""
        made, self._made = self._made, {}
        for _, each in made.values():
            await each.close()
        await asyncio.gather(*self._tasks)

    def _run(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)


@per_loop
def instances() -> Instances:
    """Return the rows' providers of the running event loop."""
    return Instances()
