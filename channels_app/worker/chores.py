"""The chores of a ``runs`` worker's sweep: ends what is over, tells the owner what has changed, and
makes work of dead workers due. Each may run in any number of workers at once.
"""

import logging
import time
from datetime import timedelta

from django.utils import timezone

from allowlist import revocation, unknown_requests
from channels_app.agent_sessions import sessions
from channels_app.owner import budget_notices, circuit_notices, mcp_notices, notices, outages
from channels_app.replies import outbound
from channels_app.schedules import firing
from channels_app.tool_requests import deciding
from core.conversations import (
    inbox,
    jobs,
    left_calls,
    outbox,
    push_messages,
    runs,
    tool_calls,
    usage_reports,
)
from core.conversations.schedules import occurrences
from core.database import text_search, transactions
from core.database.transactions import in_thread
from core.files import cleanup
from core.providers import circuits
from core.tools.mcp.oauth import sign_ins

logger = logging.getLogger(__name__)

CLOCK_SECONDS = 5.0  # less is the clock being kept right


class Clock:
    """Notices that the clock of this machine was set back. ``ahead``: of the monotonic one."""

    def __init__(self) -> None:
        """Compare with the clock as it is now."""
        self.ahead = time.time() - time.monotonic()
        # Whether occurrences are planned for the clock as it is: it may have been set back.
        self._is_planned = False

    async def watch(self) -> None:
        """Notify the owner when it was set back: expired rights may be valid again."""
        before, self.ahead = self.ahead, time.time() - time.monotonic()
        if before - self.ahead > CLOCK_SECONDS:
            by = timedelta(seconds=before - self.ahead)
            logger.warning("the clock of this machine was set back by %s", by)
            await in_thread(notices.clock_set_back, by=by, now=timezone.now())
            self._is_planned = False
        if not self._is_planned:
            await in_thread(occurrences.plan_again, now=timezone.now())
            self._is_planned = True


async def before_work() -> None:
    """Do what a sweep does before it looks for work: deliveries of dead workers are due in it."""
    await in_thread(notices.model_health, now=timezone.now())
    await in_thread(circuit_notices.look, now=timezone.now())
    await in_thread(mcp_notices.look, now=timezone.now())
    await in_thread(outbound.recover_lost)


async def after_work() -> None:
    """Do what can wait until the work of a sweep has begun."""
    await in_thread(unknown_requests.purge, now=timezone.now())
    await in_thread(revocation.end_expired, now=timezone.now())
    await in_thread(notices.look_after, now=timezone.now())
    await in_thread(sessions.close_idle, now=timezone.now())
    await in_thread(cleanup.discard_unfinished)
    await in_thread(outages.look, now=timezone.now())
    await in_thread(left_calls.close_left)
    await in_thread(deciding.look, now=timezone.now())
    await in_thread(budget_notices.look, now=timezone.now())
    await in_thread(usage_reports.roll_up, now=timezone.now())
    await in_thread(text_search.catch_up)
    await in_thread(push_messages.purge)


def bring_near() -> None:
    """Shorten waits that end in the far future because the clock was set back."""
    nouns = (
        runs,
        jobs,
        outbox,
        inbox,
        sessions,
        unknown_requests,
        circuits,
        occurrences,
        tool_calls,
        sign_ins,
        push_messages,
    )
    for noun in nouns:
        noun.bring_near()


def fire_due() -> bool:
    """Fire the occurrences that are due; return whether more may be due."""
    return firing.look(now=transactions.now())
