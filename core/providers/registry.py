"""Providers by name (``LLM_PROVIDER``); one instance per process."""

import asyncio
from importlib import import_module

from django.conf import settings

from core.providers.base import Provider, ProviderError, Unavailable
from core.providers.openai_compatible import OpenAICompatible
from core.providers.scripted import Scripted

_current: dict[asyncio.AbstractEventLoop, Provider] = {}


def current() -> Provider:
    """Return the provider of the running event loop; an unconfigured one raises on every call."""
    loop = asyncio.get_running_loop()
    if loop not in _current:
        _current.clear()
        try:
            _current[loop] = build()
        except ProviderError as error:
            return Unavailable(error)
    return _current[loop]


async def close() -> None:
    """Close the connections of the running event loop's provider."""
    provider = _current.pop(asyncio.get_running_loop(), None)
    if provider is not None:
        await provider.close()


def build() -> Provider:
    """Return a provider by the settings. Raises ProviderError for incomplete ones."""
    name = settings.LLM_PROVIDER
    if name == "scripted":
        return Scripted.from_file(settings.LLM_SCRIPT)
    if name == "openai-compatible":
        if not settings.LLM_BASE_URL:
            raise ProviderError(
                "No model is set up. The owner should set GATEWAY_MODEL_URL.", code="setup"
            )
        return OpenAICompatible(
            base_url=settings.LLM_BASE_URL,
            api_key=settings.LLM_API_KEY,
            model=settings.LLM_MODEL,
            first_seconds=settings.LLM_FIRST_TOKEN_SECONDS,
            idle_seconds=settings.LLM_IDLE_SECONDS,
        )
    # Imported here: the library costs 1 s and 60 MB, and is rarely used.
    library = import_module("core.providers.agent_library")
    provider: Provider = library.build(name)
    return provider
