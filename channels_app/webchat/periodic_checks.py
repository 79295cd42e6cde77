"""One timer for all sockets of an event loop, so that idle sockets cause no wake-ups.

With a timer each, 10,000 idle sockets would wake 2,000 times a second and check their credentials
in the database 170 times a second (docs/decisions/136).
"""

import asyncio
import logging
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from channels_app.asgi.authentication import RECHECK_SECONDS
from channels_app.asgi.principal import Principal
from channels_app.webchat import access
from channels_app.webchat.following import Following
from core.database.transactions import in_thread
from core.lib.log_ids import IDS
from core.lib.per_loop import per_loop
from core.signals import pubsub

logger = logging.getLogger(__name__)

POLL_SECONDS = 5.0
POLL_AWAY_SECONDS = 0.5
CHECKED_AT_ONCE = 200


@dataclass(eq=False, slots=True)
class Watched:
    """An open socket: its principal, when that was checked last, and the runs it follows."""

    listener: pubsub.Listener
    principal: Principal
    following: Following
    checked: float


class Ticker:
    """Wakes the sockets that have something to check. One event loop."""

    def __init__(self) -> None:
        self._sockets: set[Watched] = set()
        self._task: asyncio.Task[None] | None = None

    @contextmanager
    def watch(
        self, listener: pubsub.Listener, principal: Principal, following: Following
    ) -> Iterator[None]:
        """Watch a socket for as long as the block lasts."""
        loop = asyncio.get_running_loop()
        watched = Watched(listener, principal, following, checked=loop.time())
        self._sockets.add(watched)
        if self._task is None or self._task.done():
            self._task = loop.create_task(self._work())
        try:
            yield
        finally:
            self._sockets.discard(watched)
            if not self._sockets and self._task is not None:
                self._task.cancel()
                self._task = (
                    None  # the old task ends a little later; the next socket needs a running one
                )

    async def _work(self) -> None:
        IDS.set(None)  # it serves all sockets
        while True:
            await asyncio.sleep(POLL_SECONDS if pubsub.local().connected else POLL_AWAY_SECONDS)
            self._look_after_runs()
            try:
                await self._recheck()
            except Exception:
                logger.exception("credentials could not be checked; the next tick tries again")

    def _look_after_runs(self) -> None:
        """Let each socket that follows a run read the log: it finds what a lost frame held."""
        for each in self._sockets:
            if each.following.sent:
                each.listener.nudge()

    async def _recheck(self) -> None:
        """Find lost revocations ([A9]): check each credential once, not each socket."""
        now = asyncio.get_running_loop().time()
        due = [each for each in self._sockets if now - each.checked > RECHECK_SECONDS]
        principals = list({each.principal.credential: each.principal for each in due}.values())
        ended: set[tuple[str, int]] = set()
        for start in range(0, len(principals), CHECKED_AT_ONCE):
            ended |= await in_thread(access.ended, principals[start : start + CHECKED_AT_ONCE])
        for each in due:
            each.checked = now
            if each.principal.credential in ended:
                each.listener.resync()  # the socket checks again itself, and closes


@per_loop
def local() -> Ticker:
    """Return the timer of the running event loop."""
    return Ticker()
