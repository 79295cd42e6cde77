"""A run's log for clients outside: live, with beats, and with our own pictures inlined."""

from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import TypeAlias

from django.conf import settings

from core.conversations import events
from core.database.transactions import in_thread
from core.files import storage
from core.messages import MessageDict
from core.models import Run
from core.signals import pubsub

BEAT = b": still working\n\n"
Log: TypeAlias = AsyncGenerator[MessageDict | None, None]


async def follow(
    run: Run, *, since_before: pubsub.Listener | None = None
) -> AsyncGenerator[MessageDict | None, None]:
    """The events of ``run`` from the first to its ``stream_end``; None when it is time for a beat.

    An adapter needs them all: what it says of one depends on those before. ``since_before``: as of
    ``events.follow``.
    """
    log = events.follow(
        run_id=run.id,
        public_id=run.public_id,
        seq=0,
        beat=settings.HEARTBEAT_SECONDS,
        since_before=since_before,
    )
    async with aclosing(log):
        async for item in log:
            yield None if item is None else await with_picture(item[1], run.user_id)


async def with_picture(event: MessageDict, user_id: int) -> MessageDict:
    """``event``; a picture that the person has stored here as a data URL: its address needs a
    sign-in."""
    url = event["props"].get("url")
    if event["type"] != "image" or not isinstance(url, str) or not url.startswith("/files/"):
        return event
    data = await in_thread(storage.inline, url, user_id=user_id)
    return event if data is None else {**event, "props": {**event["props"], "url": data}}
