"""The body of ``POST /inbound``, checked field by field [D1]."""

import asyncio
import dataclasses
from dataclasses import dataclass, field
from typing import Any

from django.conf import settings

from channels_app.asgi import images
from channels_app.asgi.fields import (
    MEDIA,
    check_data_url,
    conversation_id,
    described,
    files,
    text,
    uploaded,
    wanted,
)
from channels_app.asgi.http import RefusedError
from core.conversations.assistants import Wanted
from core.conversations.inbox import Draft, RepeatKey, body_digest
from core.models import ChannelAccount

ADDRESS = ("http://", "https://")


@dataclass(frozen=True, slots=True)
class Asked:
    text: str
    stream: bool = False
    is_async: bool = False
    user_id: str = ""
    user_name: str = ""
    channel_name: str = ""
    session_id: str = ""
    media: list[dict[str, Any]] = field(default_factory=list)
    digest: str = ""
    wanted: Wanted | None = None

    def repeat(self, *, scope: str, key: str, session: str = "") -> RepeatKey | None:
        """Return the idempotency key of a request; None when the client gave none.

        The form of the answer (``stream``, ``async``) may change. ``session``: the conversation
        that a user named; a bridge names none.
        """
        if not key:
            return None
        return RepeatKey(scope, key, "Idempotency-Key", self.digest, session=session)

    def draft(
        self, *, account: ChannelAccount, repeat: RepeatKey | None, key: int, sender: str = ""
    ) -> Draft:
        """Return the message for the inbox; ``key``: that of the API key that was used.

        A person's own key: without ``session_id`` the open conversation of this label goes on, and
        ``user_id`` is the label, never the sender ([A10]).
        """
        label = "" if self.session_id else conversation_id(f"user:{self.user_id}")
        return Draft(
            account=account,
            kind=account.sender_kind,
            sender=sender,
            sender_name=self.user_name,
            chat=conversation_id(sender) if sender else label,
            repeat=repeat,
            text=self.text,
            media=self.media,
            via_key=key,
            wanted=self.wanted,
        )


def read(body: dict[str, Any], *, keyed: bool = False) -> Asked:
    """Parse the fields of ``body``; unknown ones are ignored. RefusedError 400 names the field.

    ``keyed``: whether the request may be repeated, and needs a digest.
    """
    media = [
        attachment(value, name, kind) for name, kind in MEDIA.items() for value in files(body, name)
    ]
    asked = Asked(
        text=text(body, "text", settings.MAX_TEXT_CHARACTERS, required=True),
        stream=flag(body, "stream"),
        is_async=flag(body, "async"),
        user_id=text(body, "user_id", 256),
        user_name=text(body, "user_name", 256),
        channel_name=text(body, "channel_name", 256),
        session_id=text(body, "session_id", 64),
        media=media,
        wanted=wanted(body),
    )
    if not asked.text.strip() and not media:
        raise RefusedError(400, "text must not be empty.", field="text")
    if keyed:  # computed before pictures are fetched, whose content may differ the next time
        named = [dataclasses.asdict(asked.wanted)] if asked.wanted is not None else []
        digest = body_digest(asked.text, asked.media, asked.user_id, *named)
        return dataclasses.replace(asked, digest=digest)
    return asked


def flag(body: dict[str, Any], name: str) -> bool:
    value = body.get(name, False)
    if not isinstance(value, bool):
        raise RefusedError(400, f"{name} must be true or false.", field=name)
    return value


def attachment(value: Any, name: str, kind: str) -> dict[str, Any]:
    """Parse one medium: a data URL or the id of an uploaded file, bare or as ``{"url" | "id",
    "name"?}``. The owner of a file is checked when the run begins. Raises RefusedError 400.
    """
    item, named = described(value)
    given = item.get("url") if item.get("id") in (None, "") else item["id"]
    if not isinstance(given, str):
        raise RefusedError(400, f"{name} must be a list of data URLs.", field=name)
    public = uploaded(given)
    if public:
        return {"kind": kind, "upload": public, **named}
    if not (kind == "image" and given.startswith(ADDRESS)):
        check_data_url(given, name)
    return {"kind": kind, "url": given, **named}


async def fetch_pictures(media: list[dict[str, Any]], *, get: images.Get | None = None) -> None:
    """Replace the addresses of pictures by their content. Raises RefusedError 400 or 413.

    One at a time, and in total no larger than a request body may be.
    """
    more = {"get": get} if get else {}
    size = 0
    try:
        async with asyncio.timeout(settings.BODY_SECONDS):
            for item in pictures_elsewhere(media):
                item["url"] = await images.as_data_url(item["url"], field="images", **more)
                size += len(item["url"])
                if size > settings.MAX_BODY_BYTES:
                    raise RefusedError(413, "images are too large in total.", field="images")
    except TimeoutError as error:
        text = "images were not fetched: it took too long."
        raise RefusedError(400, text, field="images") from error


def pictures_elsewhere(media: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the pictures of which a message has only the address."""
    return [item for item in media if str(item.get("url", "")).startswith(ADDRESS)]
