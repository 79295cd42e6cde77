"""The body of ``POST /process``, checked field by field [D4]."""

import base64
import binascii
import hashlib
from dataclasses import dataclass, field
from typing import Any

from django.conf import settings

from channels_app.http import RefusedError
from core.inbox import Draft
from core.models import ChannelAccount
from core.text import is_clean

MEDIA = {"images": "image", "audios": "audio", "videos": "video", "files": "file"}
MAX_MEDIA = 16
MAX_PLACE = 128
MAX_CONTEXT = 2000


@dataclass(frozen=True, slots=True)
class Asked:
    """What a bridge asks; ``request_id`` is its own name for it, and comes back with the answer."""

    user_id: str
    text: str
    request_id: str = ""
    user_name: str = ""
    chat_id: str = ""
    thread_id: str = ""
    context: str = ""
    media: list[dict[str, Any]] = field(default_factory=list)

    def draft(self, *, account: ChannelAccount, request_id: str) -> Draft:
        """The message for the inbox."""
        return Draft(
            account=account,
            kind=str(account.config.get("kind", "im")),
            sender=self.user_id,
            sender_name=self.user_name,
            chat=place(self.chat_id or self.user_id),
            thread=place(self.thread_id),
            update_id=f"process:{request_id}",
            message_id=request_id,
            text=self.text,
            media=self.media,
            options={"context": self.context} if self.context else {},
        )


def place(name: str) -> str:
    """The id of a conversation, or a digest of one that no column holds."""
    return name if len(name) <= MAX_PLACE else hashlib.sha256(name.encode()).hexdigest()


def read(body: dict[str, Any]) -> Asked:
    """The fields of ``body``; unknown ones are ignored. RefusedError 400 or 413 names the field."""
    media = [item for name, kind in MEDIA.items() for item in attachments(body, name, kind)]
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


def text(body: dict[str, Any], name: str, limit: int) -> str:
    """A string field that every database can hold, of at most ``limit`` characters."""
    value = body.get(name)
    if value is None:
        return ""
    if not isinstance(value, str):
        raise RefusedError(400, f"{name} must be a string.", field=name)
    if len(value) > limit:
        raise RefusedError(413, f"{name} is longer than {limit} characters.", field=name)
    if not is_clean(value):
        raise RefusedError(400, f"{name} holds characters that are not text.", field=name)
    return value


def attachments(body: dict[str, Any], name: str, kind: str) -> list[dict[str, Any]]:
    """The base64 data URLs of one media field."""
    values = body.get(name)
    if values is None:
        return []
    if not isinstance(values, list) or not all(isinstance(value, str) for value in values):
        raise RefusedError(400, f"{name} must be a list of data URLs.", field=name)
    if len(values) > MAX_MEDIA:
        raise RefusedError(413, f"{name} holds more than {MAX_MEDIA} items.", field=name)
    if not all(is_data_url(value) for value in values):
        raise RefusedError(400, f"{name} must hold base64 data URLs.", field=name)
    return [{"kind": kind, "url": value} for value in values]


def is_data_url(value: str) -> bool:
    """Whether ``value`` is a well-formed base64 data URL."""
    head, comma, data = value.partition(",")
    if not (head.startswith("data:") and head.endswith(";base64") and comma):
        return False
    try:
        base64.b64decode(data, validate=True)
    except (binascii.Error, ValueError):
        return False
    return True
