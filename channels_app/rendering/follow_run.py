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

BEAT = b": still working\n\n"
Log: TypeAlias = AsyncGenerator[MessageDict | None, None]


async def follow(run: Run) -> AsyncGenerator[MessageDict | None, None]:
    """Yield the events of ``run`` from the first to its ``stream_end``; None when a heartbeat is
    due.

    Adapters need all of them: their output for one depends on the earlier ones.
    """
    log = events.follow(
        run_id=run.id,
        public_id=run.public_id,
        seq=0,
        idle_seconds=settings.HEARTBEAT_SECONDS,
    )
    async with aclosing(log):
        async for item in log:
            yield None if item is None else await with_picture(item[1], run.user_id)


async def with_picture(event: MessageDict, user_id: int) -> MessageDict:
    """Return ``event`` with a picture of the user's own files as a data URL: its address needs a
    sign-in.
    """
    url = event["props"].get("url")
    if event["type"] != "image" or not isinstance(url, str) or not url.startswith("/files/"):
        return event
    data = await in_thread(storage.inline, url, user_id=user_id)
    return event if data is None else {**event, "props": {**event["props"], "url": data}}
