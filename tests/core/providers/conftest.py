"""Model servers, and the provider that asks one."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TypeVar

import pytest

from core.providers.openai_compatible import OpenAICompatible
from tests.core.providers.model_server import ModelServer
from tests.core.providers.vendor_server import VendorServer

Server = TypeVar("Server", ModelServer, VendorServer)


@asynccontextmanager
async def running(made: Server) -> AsyncIterator[Server]:
    """Let a server run for the length of a test."""
    await made.start()
    yield made
    await made.stop()


@asynccontextmanager
async def asking(
    server: ModelServer, *, key: str, seconds: float
) -> AsyncIterator[OpenAICompatible]:
    """Yield a provider that asks a server, with these time limits."""
    made = OpenAICompatible(
        base_url=server.url, api_key=key, model="m", first_seconds=seconds, idle_seconds=seconds
    )
    yield made
    await made.close()


@pytest.fixture
async def server() -> AsyncIterator[ModelServer]:
    """Start a model server."""
    async with running(ModelServer()) as made:
        yield made


@pytest.fixture
async def compatible(server: ModelServer) -> AsyncIterator[OpenAICompatible]:
    """Return the ``openai_compatible`` provider."""
    async with asking(server, key="sk-secret", seconds=60) as made:
        yield made
