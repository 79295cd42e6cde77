"""Checks of every request before its key: the method, and whether messages are accepted."""

import asyncio
import logging
import time
from collections.abc import Sequence
from dataclasses import dataclass

from django.db import Error as DatabaseFailure
from django.utils.translation import gettext_lazy

from channels_app.asgi.http import RefusedError, Request
from core.conversations import runs
from core.database.transactions import in_thread

logger = logging.getLogger(__name__)

REFRESH_SECONDS = 5.0
VALID_SECONDS = 15.0
UPDATING = gettext_lazy(
    "The gateway is being updated and takes no messages now. Try again in a minute."
)


@dataclass(slots=True)
class Acceptance:
    """Whether new messages are accepted.

    Refreshed in the background: only the first request after VALID_SECONDS without one waits for
    the database.
    """

    reason: str = ""
    checked_at: float = float("-inf")
    refreshing: asyncio.Task[None] | None = None

    async def check(self) -> None:
        """Raise RefusedError 503 when no worker would take a message."""
        age = time.monotonic() - self.checked_at
        if age > VALID_SECONDS:
            await self.refresh()
        elif age > REFRESH_SECONDS and (self.refreshing is None or self.refreshing.done()):
            self.refreshing = asyncio.ensure_future(self.refresh())
        if self.reason:
            raise RefusedError(503, UPDATING, headers={"Retry-After": "30"})

    async def refresh(self) -> None:
        """Query the database; when it does not answer, the last result stays."""
        self.checked_at = time.monotonic()
        try:
            reason = await in_thread(runs.why_none_works)
        except DatabaseFailure:
            return
        if reason != self.reason:
            logger.error("messages are %s", f"refused: {reason}" if reason else "taken again")
        self.reason = reason

    def clear_cache(self) -> None:
        """Query the database again at the next request."""
        self.reason, self.checked_at = "", float("-inf")


acceptance = Acceptance()


async def admit(request: Request, *, methods: Sequence[str]) -> None:
    """Raise RefusedError: 405 for a method that is not in ``methods`` (empty: any but TRACE), 503
    for a POST while no messages are accepted.
    """
    if request.method == "TRACE" or (methods and request.method not in methods):
        allowed = methods or ("GET", "POST")
        raise RefusedError(405, f"Use {allowed[0]}.", headers={"Allow": ", ".join(allowed)})
    if request.method == "POST":
        await acceptance.check()
