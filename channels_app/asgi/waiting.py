"""Wait for an answer, while its client may leave and its process may be stopped."""

import asyncio
import contextlib
from collections.abc import Awaitable
from typing import Any, Literal, TypeVar

from channels_app.asgi import event_stream
from channels_app.asgi.bodies import Body

Result = TypeVar("Result")
End = Literal["done", "gone", "stops", "late"]


async def until_end(
    begins: Awaitable[Result],
    *,
    incoming: Body | None = None,
    seconds: float | None = None,
    patience: float | None = None,
) -> tuple[End, Result | None]:
    """Return how the wait for ``begins`` ended, and its result when it is ``done``.

    ``gone``: the client of ``incoming`` left first. ``stops``: the process is being stopped, since
    ``patience`` seconds; None does not look for that. ``late``: after so many ``seconds``. Where it
    is not done, it is cancelled.
    """
    begun = asyncio.ensure_future(begins)
    gone = asyncio.ensure_future(incoming.gone() if incoming is not None else asyncio.Future())
    stop = event_stream.stopping() if patience is not None else asyncio.Event()
    stops = asyncio.ensure_future(stop.wait())
    tasks: set[asyncio.Future[Any]] = {begun, gone, stops}
    try:
        await asyncio.wait(tasks, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
        if patience and stops.done() and not (begun.done() or gone.done()):
            await asyncio.wait({begun}, timeout=patience)
        if begun.done():
            return "done", begun.result()
        if gone.done():
            return "gone", None
        return ("stops" if stops.done() else "late"), None
    finally:
        for task in tasks:
            task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.gather(*tasks, return_exceptions=True)
