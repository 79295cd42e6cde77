"""Whether the model accepts pictures: by setting, else by a cached refusal."""

from typing import Any

from django.conf import settings

from core.lib.ttl_cache import TtlCache
from core.providers.base import ChatMessage, ProviderError

UNSEEN = "(There is a picture here that the model in use cannot see.)"
REMEMBERED_SECONDS = 24 * 60 * 60
# Statuses for an unsupported form of request; not a busy or broken server, nor a wrong key.
REFUSALS = frozenset({"refused", "bad_request", "unsupported"})
refusals: TtlCache[tuple[str, str], str] = TtlCache(REMEMBERED_SECONDS)


def can_see(model: str = "") -> bool:
    """Return whether pictures are sent to ``model`` (the default one when empty).

    ``LLM_IMAGES`` sets yes or no. ``auto``: not to the embedded model, not where ``VISION_MODEL``
    describes pictures, and not for a day after the model refused one.
    """
    if settings.LLM_IMAGES != "auto":
        return bool(settings.LLM_IMAGES == "yes")
    if settings.LLM_IS_EMBEDDED or settings.VISION_MODEL:
        return False
    return not refusals.get(key(model))


def key(model: str) -> tuple[str, str]:
    return settings.LLM_BASE_URL, model or settings.LLM_MODEL


def remember_refusal(model: str = "") -> None:
    """Record that the model answered without the pictures, and refused with them."""
    refusals.put(key(model), "refused")


def may_be_refusal(error: ProviderError, messages: list[ChatMessage]) -> bool:
    """Return whether another try without pictures may help."""
    return error.code in REFUSALS and settings.LLM_IMAGES != "yes" and has_pictures(messages)


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
    return [
        {**message, "content": [spoken(part) for part in parts_of(message)]}
        if parts_of(message)
        else message
        for message in messages
    ]


def spoken(part: dict[str, Any]) -> dict[str, Any]:
    """Return a part, or a sentence for a picture."""
    return {"type": "text", "text": UNSEEN} if part.get("type") == "image_url" else part
