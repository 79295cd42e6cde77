"""Deliveries to one chat of the in-memory platform."""

import asyncio
from typing import Any

from channels_app.base import ChannelError
from channels_app.memory.channel import PLATFORM
from channels_app.replies import outbound
from channels_app.replies.outbound import Next
from core.conversations import outbox
from core.database.transactions import atomic_write
from core.models import ChannelAccount, ChatSession, Delivery, User

CHAT = "c"


def put(account: ChannelAccount, key: str = "x", **more: Any) -> Delivery:
    """Queue a message to the chat."""
    with atomic_write():
        return outbox.enqueue(
            key=key,
            account_id=account.pk,
            conversation=more.pop("conversation", "conversation"),
            target={"chat": CHAT, "thread": "", "reply_to": "7"},
            payload=more.pop("payload", {"text": key}),
            **more,
        )


def deliver(row: Delivery, ended: list[int] | None = None) -> Next | None:
    """Deliver one row, as a worker does."""
    known = [] if ended is None else ended
    return asyncio.run(outbound.deliver(row.id, ended=lambda each: known.append(each.id)))


def refuse(*errors: ChannelError) -> None:
    """Let the next calls of the platform fail."""
    PLATFORM.refusals = list(errors)


def stored(row: Delivery) -> Delivery:
    """Return the row as the database has it."""
    return Delivery.objects.get(id=row.id)


def in_doubt(row: Delivery, after_id: int | None = None) -> None:
    """Let a try of the delivery end without a known outcome."""
    claimed = outbox.claim(delivery_id=row.id)
    assert claimed is not None
    outbox.unsure(delivery=claimed, error="", repeatable=False, after_id=after_id, at_once=True)


def session_of(account: ChannelAccount, **person: Any) -> ChatSession:
    """Return a conversation of Ada."""
    user = User.objects.create(username="ada", **person)
    return ChatSession.objects.create(user=user, account=account, chat=CHAT)


class Pacer:
    """A rate limit that allows a call in so many ``seconds``, and notes pauses."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self.held: list[dict[str, Any]] = []

    def reserve(self, **asked: Any) -> float:
        assert asked["chat"] == CHAT
        return self.seconds

    def hold(self, **what: Any) -> None:
        self.held.append(what)
