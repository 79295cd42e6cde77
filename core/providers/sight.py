"""Whether the model accepts pictures: by setting, else by a cached refusal."""

import re
from typing import Any

from django.conf import settings

from core.lib.ttl_cache import TtlCache
from core.providers.base import ChatMessage, ProviderError
from core.providers.catalogue import ModelInfo

UNSEEN = "(There is a picture here that the model in use cannot see.)"
REMEMBERED_SECONDS = 24 * 60 * 60
# Statuses for an unsupported form of request; not a busy or broken server, nor a wrong key.
REFUSALS = frozenset({"refused", "bad_request", "unprocessable", "unsupported"})
# (model, its name, its server) -> that it refuses pictures.
refusals: TtlCache[tuple[int, str, str], str] = TtlCache(REMEMBERED_SECONDS)
# Refusals of one picture, or of so many: of OpenAI (twice), Anthropic (four times), Google, vLLM
# (three times), llama.cpp, DashScope (twice) and Groq. The model sees others.
OF_PICTURES = re.compile(
    r"(?i)unsupported image\. please|represent a valid image|image exceeds"
    r"|image does not match|image appears to be|image dimensions|process input image"
    r"|identify image file|(?:load|process|decode) (?:the )?image\b|at most [1-9]\d* image"
    r"|image length and width|image format is illegal|too many images|up to [1-9]\d* images"
)


def can_see(model: ModelInfo) -> bool:
    """Return whether pictures are sent to ``model``.

    Its row may say yes or no, for the environment's model ``LLM_IMAGES``. Else: not to the embedded
    model, not where ``VISION_MODEL`` describes pictures, and not for a day after the model refused
    one.
    """
    if model.can_see_images is not None:
        return model.can_see_images
    if model.provider.from_environment and settings.LLM_IMAGES != "auto":
        return bool(settings.LLM_IMAGES == "yes")
    if model.is_embedded or settings.VISION_MODEL:
        return False
    return not refusals.get(key_of(model))


def remember_refusal(model: ModelInfo, error: ProviderError) -> None:
    """Record that the model refuses pictures, unless it refused only these."""
    if not OF_PICTURES.search(error.reason):
        refusals.put(key_of(model), "refused")


def key_of(model: ModelInfo) -> tuple[int, str, str]:
    """Return what a refusal is remembered for: at another address the same name may see."""
    return model.id, model.name, model.provider.base_url


def may_be_refusal(model: ModelInfo, error: ProviderError, messages: list[ChatMessage]) -> bool:
    """Return whether another try without pictures may help."""
    if model.can_see_images or (model.provider.from_environment and settings.LLM_IMAGES == "yes"):
        return False
    return error.code in REFUSALS and has_pictures(messages)


def has_pictures(messages: list[ChatMessage]) -> bool:
    return any(
        part.get("type") == "image_url" for message in messages for part in parts_of(message)
    )


def parts_of(message: ChatMessage) -> list[dict[str, Any]]:
    """Return the parts of a message; none for a plain text."""
    content = message.get("content")
    return content if isinstance(content, list) else []


def without_pictures(messages: list[ChatMessage]) -> list[ChatMessage]:
    """Return the same messages with a sentence in place of each picture."""
    unseen = {"type": "text", "text": UNSEEN}
    made = []
    for message in messages:
        parts = [unseen if part.get("type") == "image_url" else part for part in parts_of(message)]
        made.append({**message, "content": parts} if parts else message)
    return made
