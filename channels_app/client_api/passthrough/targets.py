"""Which provider answers a request that is passed through: by the name in ``model``.

It is a model that the owner has enabled, ``name`` or ``provider/name`` (Admin → Models), of a
provider that speaks OpenAI's API; it need not be offered for chats, and may be in no chain. For
transcriptions also ``TRANSCRIPTION_MODEL``, at the server of the settings.
"""

from dataclasses import dataclass
from typing import Any

from django.conf import settings

from channels_app.asgi.chat_messages import refused
from channels_app.asgi.http import RefusedError
from core.conversations.assistants import model_names
from core.lib.text import one_line
from core.media import transcribe
from core.providers import listing, vendors
from core.providers.catalogue import Catalogue, ModelInfo
from core.providers.listing import Server

SHOWN = 100  # characters of a name in an error
SPEECH_TO_TEXT = frozenset({"audio/transcriptions", "audio/translations"})


@dataclass(frozen=True, slots=True)
class Target:
    """The server that answers, and the model there: its name, its prices and its limits."""

    server: Server
    model: ModelInfo

    @property
    def is_of_row(self) -> bool:
        """Return whether the server is that of the model's provider: not that of the settings."""
        return self.model.id != 0


def target_of(known: Catalogue, name: Any, path: str) -> Target:
    """Return the target of a request. Raises RefusedError 400, 404, or ProviderError."""
    if not isinstance(name, str) or not name:
        raise refused("must be the name of a model", "model")
    if path in SPEECH_TO_TEXT and name == settings.TRANSCRIPTION_MODEL:
        return of_settings(known)
    found = model_names(known).get(name)
    shown = one_line(name, SHOWN)
    if found is None:
        text = f"The model {shown} is not known here: the owner has to add it to the models."
        raise RefusedError(404, text, field="model")
    provider = found.provider
    vendor = vendors.VENDORS.get(provider.kind)
    speaks = vendor is not None and not vendor.in_library
    if provider.from_environment:
        speaks = settings.LLM_PROVIDER == vendors.Kind.OPENAI_COMPATIBLE
        # Without a server of its own, ``default`` is a model that only answers in chats.
        speaks = speaks and bool(settings.LLM_BASE_URL) and not settings.LLM_IS_EMBEDDED
    if not speaks:
        text = f"The provider of {shown} has no /v1/{path}: name a model of one that has it."
        raise RefusedError(404, text, field="model")
    return Target(listing.server_of(provider), found)


def of_settings(known: Catalogue) -> Target:
    """Return the transcriber of the settings. It has no price: the tokens are counted."""
    url = settings.TRANSCRIPTION_BASE_URL or settings.LLM_BASE_URL
    key = settings.TRANSCRIPTION_API_KEY or settings.LLM_API_KEY
    server = Server(vendors.Kind.OPENAI_COMPATIBLE, url, key, allowed=None)
    usual = next(iter(known.models.values()), None)
    if usual is None:
        raise RefusedError(404, "No model is set up.", field="model")
    return Target(server, transcribe.model_like(usual))
