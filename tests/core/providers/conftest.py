"""A model server, and the provider that asks it."""

from collections.abc import AsyncIterator

import pytest

from core.providers.openai_compatible import OpenAICompatible
from tests.core.providers.model_server import ModelServer


@pytest.fixture
async def server() -> AsyncIterator[ModelServer]:
    """Start a model server."""
    model = ModelServer()
    await model.start()
    yield model
    await model.stop()


@pytest.fixture
async def compatible(server: ModelServer) -> AsyncIterator[OpenAICompatible]:
    """Return the ``openai_compatible`` provider."""
    made = OpenAICompatible(
        base_url=server.url, api_key="sk-secret", model="m", first_seconds=60, idle_seconds=60
    )
    yield made
    await made.close()
