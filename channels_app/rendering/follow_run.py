"""Follow a run's log for external clients: live, with heartbeats, and with stored pictures
inlined.
"""

from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import TypeAlias

from django.conf import settings

from core.conversations import events
from core.database.transactions import in_thread
from core.files import storage
from core.messages import MessageDict
from core.models import Run
from core.signals import live_events

BEAT = b": still working\n\n"
Log: TypeAlias = AsyncGenerator[MessageDict | None, None]


async def follow(run: Run, *, with_lost: bool = False) -> AsyncGenerator[MessageDict | None, None]:
    """Yield the events of ``run`` from the first to its ``stream_end``; None when a heartbeat is
    due.

    Adapters need all of them: their output for one depends on the earlier ones. ``with_lost``: also
    those that a killed worker had shown and not stored, as far as the live stream still has them.
    """
    last = 0
    log = events.follow(
        run_id=run.id,
        public_id=run.public_id,
        seq=0,
        idle_seconds=settings.HEARTBEAT_SECONDS,
    )
    async with aclosing(log):
        async for item in log:
            if item is None:
                yield None
                continue
            number, event = item
            if with_lost and number > last + events.AHEAD:  # another attempt
                for _, lost in await in_thread(live_events.after, run=run.public_id, seq=last):
                    yield lost
            last = number
            yield await with_picture(event, run.user_id)


async def with_picture(event: MessageDict, user_id: int) -> MessageDict:
    """Return ``event`` with the user's own picture as a data URL: its address needs a sign-in."""
    url = event["props"].get("url")
    if event["type"] != "image" or not isinstance(url, str) or not url.startswith("/files/"):
        return event
    data = await in_thread(storage.inline, url, user_id=user_id)
    return event if data is None else {**event, "props": {**event["props"], "url": data}}
