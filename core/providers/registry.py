"""Providers by name (``LLM_PROVIDER``); one instance per process."""

from django.conf import settings

from core.lib.per_loop import per_loop
from core.providers.base import Provider, ProviderError, Unavailable
from core.providers.catalogue import ProviderInfo
from core.providers.openai_compatible import OpenAICompatible
from core.providers.scripted import Scripted


def current() -> Provider:
    """Return the provider of the running event loop; one that only fails when none is set up."""
    try:
        return configured()
    except ProviderError as error:
        return Unavailable(error)


async def close() -> None:
    """Close the connections of the running event loop's provider."""
    provider = configured.pop()
    if provider is not None:
        await provider.close()


@per_loop
def configured() -> Provider:
    """Return the provider of the settings. Raises ProviderError for incomplete ones."""
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
    from core.providers import agent_library  # noqa: PLC0415 - 1 s and 60 MB that few need

    return agent_library.build(name)


def provider_of(info: ProviderInfo) -> Provider:
    """Return the provider of a row in the running event loop."""
    return current()
