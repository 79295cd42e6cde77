"""The body of ``POST /process``, checked field by field [D4]."""

from dataclasses import dataclass, field
from typing import Any

from django.conf import settings

from channels_app.asgi.fields import (
    MAX_CONTEXT,
    MEDIA,
    check_data_url,
    conversation_id,
    described,
    files,
    text,
)
from channels_app.asgi.http import RefusedError
from core.conversations.inbox import Draft, RepeatKey, body_digest
from core.models import ChannelAccount


@dataclass(frozen=True, slots=True)
class Asked:
    """A bridge's request; ``request_id`` is the bridge's own id, returned with the answer."""

    user_id: str
    text: str
    request_id: str = ""
    user_name: str = ""
    chat_id: str = ""
    thread_id: str = ""
    context: str = ""
    media: list[dict[str, Any]] = field(default_factory=list)

    @property
    def digest(self) -> str:
        """Return the digest of the request's content."""
        return body_digest(self.text, self.media, self.chat_id, self.thread_id, self.context)

    def draft(self, *, account: ChannelAccount, request_id: str, key: int) -> Draft:
        """Return the message for the inbox; ``key``: that of the API key that was used."""
        return Draft(
            account=account,
            kind=account.sender_kind,
            sender=self.user_id,
            sender_name=self.user_name,
            chat=conversation_id(self.chat_id or self.user_id),
            thread=conversation_id(self.thread_id),
            repeat=RepeatKey("process", request_id, "request_id", self.digest),
            message_id=request_id,
            text=self.text,
            media=self.media,
            options={"context": self.context} if self.context else {},
            via_key=key,
        )


def read(body: dict[str, Any]) -> Asked:
    """Parse ``body``; unknown fields are ignored. RefusedError 400 or 413 names the field."""
    media = [
        attachment(value, name, kind) for name, kind in MEDIA.items() for value in files(body, name)
    ]
    asked = Asked(
        user_id=text(body, "user_id", 256),
        text=text(body, "text", settings.MAX_TEXT_CHARACTERS),
        request_id=text(body, "request_id", 180),
        user_name=text(body, "user_name", 256),
        chat_id=text(body, "chat_id", 256),
        thread_id=text(body, "thread_id", 256),
        context=text(body, "context", MAX_CONTEXT),
        media=media,
    )
    if not asked.user_id.strip():
        raise RefusedError(400, "user_id is required.", field="user_id")
    if not asked.text.strip() and not media:
        raise RefusedError(400, "text must not be empty.", field="text")
    return asked


def attachment(value: Any, name: str, kind: str) -> dict[str, Any]:
    """Parse a medium: a base64 data URL, or ``{"url", "name"?}``. Raises RefusedError 400."""
    item, named = described(value)
    url = item.get("url")
    if not isinstance(url, str):
        raise RefusedError(400, f"{name} must be a list of data URLs.", field=name)
    check_data_url(url, name)
    return {"kind": kind, "url": url, **named}
