"""Server-sent events to one client: back-pressure, limits, and the end of the process."""

import asyncio
import contextlib
from collections.abc import AsyncGenerator, Callable, Coroutine, Mapping
from dataclasses import dataclass
from typing import Any

import orjson
from django.conf import settings

from channels_app.asgi import http
from channels_app.asgi.bodies import Body
from channels_app.asgi.http import Headers, Send
from core.lib.per_loop import per_loop

LAST_SECONDS = 1.5  # of a stream whose process is stopped
ANSWER_SECONDS = 3.0  # of an answer without a stream: the process ends after five
RESTARTS = "The gateway restarts. The run goes on."
CONTENT_TYPE = "text/event-stream; charset=utf-8"


async def send_stream(
    body: Body,
    send: Send,
    blocks: AsyncGenerator[bytes, None],
    *,
    headers: Headers,
    farewell: bytes | None,
    ended: Callable[[], Coroutine[Any, Any, None]] | None = None,
) -> bool:
    """Send ``blocks`` as an event stream; False when the client left first, or when ``ended``
    returned.

    When this process is stopped, ``farewell`` is the last event and the body ends properly: the
    client learns how to resume, and does not mistake a cut connection for a failed request. None:
    the body does not end properly either, so that a part of it does not look whole.

    A reader that takes nothing for STREAM_STALL_SECONDS is cut off, and so is a stream that lasts
    MAX_STREAM_SECONDS or has had MAX_STREAM_BYTES: the client can resume.
    """
    every = {
        "Content-Type": CONTENT_TYPE,
        "Cache-Control": "no-cache",
        "X-Accel-Buffering": "no",
        **headers,
    }
    await send({"type": "http.response.start", "status": 200, "headers": http.encoded(every)})
    progress = Progress()
    pump = asyncio.ensure_future(push(send, blocks, progress))
    gone = asyncio.ensure_future(body.gone())
    stopped = asyncio.ensure_future(stopping().wait())
    tasks = [pump, gone, stopped, *([asyncio.ensure_future(ended())] if ended else [])]
    try:
        await asyncio.wait(
            tasks,
            timeout=settings.MAX_STREAM_SECONDS,
            return_when=asyncio.FIRST_COMPLETED,
        )
        if stopped.done() and not (pump.done() or gone.done()):
            return await end_early(send, pump, progress, farewell)
        if not pump.done():
            return False
        return pump.result()
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


@dataclass(slots=True)
class Progress:
    """The state of a stream: is a block or the end being sent, and is the block the last one?"""

    is_sending: bool = False
    ends: bool = False


async def push(send: Send, blocks: AsyncGenerator[bytes, None], progress: Progress) -> bool:
    """Send every block; False when the reader stalled, has had enough, or must leave."""
    left = settings.MAX_STREAM_BYTES
    async with contextlib.aclosing(blocks):
        async for block in blocks:
            left -= len(block)
            progress.is_sending = True
            if left < 0 or not await http.write(send, block, more=True):
                return False
            progress.is_sending = False
            if progress.ends:
                return False
    progress.is_sending = True
    return await http.write(send, b"", more=False)


async def end_early(
    send: Send, pump: "asyncio.Future[bool]", progress: Progress, farewell: bytes | None
) -> bool:
    """End a stream whose process is stopped: with its own end, if that comes at once, else with the
    block that is being sent and ``farewell``."""
    await asyncio.wait({pump}, timeout=LAST_SECONDS)
    progress.ends = True
    if not pump.done() and progress.is_sending:
        await asyncio.wait({pump}, timeout=LAST_SECONDS)
    if pump.done() and pump.result():
        return True
    if progress.is_sending:  # a reader that stalls in the middle of an event, or at the end
        return False
    pump.cancel()
    await asyncio.wait({pump})
    if farewell is None:
        return False
    return await http.write(send, farewell, more=True) and await http.write(send, b"", more=False)


@per_loop
def stopping() -> asyncio.Event:
    """Return the event that is set when the process of this event loop is about to stop."""
    return asyncio.Event()


def sse(data: Mapping[str, Any], *, seq: int | None = None) -> bytes:
    """Encode one event: ``id: <seq>`` when given, and ``data:`` with JSON on one line."""
    head = b"" if seq is None else b"id: %d\n" % seq
    return head + b"data: " + orjson.dumps(data) + b"\n\n"
