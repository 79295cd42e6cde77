"""The chores of a ``runs`` worker's sweep: ends what is over, tells the owner what has changed, and
makes work of dead workers due. Each may run in any number of workers at once.
"""

import logging
import time
from collections.abc import Callable, Iterable
from datetime import timedelta

from django.utils import timezone

from allowlist import held_messages, revocation, unknown_requests
from channels_app.agent_sessions import sessions
from channels_app.owner import budget_notices, circuit_notices, mcp_notices, notices, outages
from channels_app.replies import outbound
from channels_app.schedules import firing
from channels_app.tool_requests import deciding
from channels_app.worker import expired_rows
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
from core.conversations.schedules import occurrences, retention
from core.database import text_search, transactions
from core.database.transactions import AWAY, in_thread
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
        """Notify the owner when it was set back: expired rights may be valid again. The next sweep
        does it again when it fails.
        """
        ahead = time.time() - time.monotonic()
        is_told = True
        if self.ahead - ahead > CLOCK_SECONDS:
            by = timedelta(seconds=self.ahead - ahead)
            logger.warning("the clock of this machine was set back by %s", by)
            self._is_planned = False
            is_told = await done(lambda: notices.clock_set_back(by=by, now=timezone.now()))
        if is_told:
            self.ahead = ahead
        if not self._is_planned:
            self._is_planned = await done(lambda: occurrences.plan_again(now=timezone.now()))


async def done(chore: Callable[[], object]) -> bool:
    """Do a chore in a thread; return whether it succeeded. One that fails is logged, and must not
    hold up those after it. Raises OperationalError or InterfaceError while there is no database: no
    chore does without.
    """
    try:
        await in_thread(chore)
    except AWAY:
        raise
    except Exception:
        logger.exception("a chore of a sweep failed; the next sweep tries again")
        return False
    return True


async def found(look: Callable[[], Iterable[int]]) -> Iterable[int]:
    """Return the row ids that ``look`` finds; none if it fails, as in :func:`done`."""
    ids: list[int] = []
    await done(lambda: ids.extend(look()))
    return ids


async def before_work() -> None:
    """Do what a sweep does before it looks for work: deliveries of dead workers are due in it."""
    await done(lambda: notices.model_health(now=timezone.now()))
    await done(circuit_notices.look)
    await done(lambda: mcp_notices.look(now=timezone.now()))
    await done(outbound.recover_lost)


async def after_work() -> None:
    """Do what can wait until the work of a sweep has begun."""
    await done(lambda: unknown_requests.purge(now=timezone.now()))
    await done(lambda: revocation.end_expired(now=timezone.now()))
    await done(lambda: notices.look_after(now=timezone.now()))
    await done(lambda: sessions.close_idle(now=timezone.now()))
    await done(cleanup.discard_unfinished)
    await done(lambda: outages.look(now=timezone.now()))
    await done(left_calls.close_left)
    await done(lambda: deciding.look(now=timezone.now()))
    await done(lambda: budget_notices.look(now=timezone.now()))
    await done(lambda: usage_reports.roll_up(now=timezone.now()))
    await done(text_search.catch_up)
    await done(push_messages.purge)


async def hourly() -> None:
    """Remove what is left over on the disk and in small tables."""
    await done(cleanup.sweep)
    await done(lambda: held_messages.sweep_ignored(now=timezone.now()))
    await done(lambda: retention.purge(now=timezone.now()))
    await done(lambda: expired_rows.purge(now=timezone.now()))
    await done(runs.forget_silent)


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
        try:
            noun.bring_near()
        except AWAY:
            raise
        except Exception:
            logger.exception("far times could not be shortened; the next sweep tries again")


def fire_due() -> bool:
    """Fire the occurrences that are due; return whether more may be due."""
    return firing.look(now=transactions.now())
