"""Leave to the owner whatever was open in a restored database (decision 207): it may have happened
already, in the gateway from which the backup is.
"""

import logging
from dataclasses import dataclass
from datetime import datetime
from zoneinfo import ZoneInfoNotFoundError

from django.utils.translation import gettext_noop

from allowlist import audit
from channels_app.schedules import firing
from core.conversations import inbox, push_messages, restored_deliveries, runs
from core.database import transactions
from core.models import (
    Backup,
    BackupSchedule,
    ChatSession,
    InboundMessage,
    Installation,
    Occurrence,
)

logger = logging.getLogger(__name__)

UNSENT = "The gateway was restored from a backup: this may have been sent after it was made."
MISSED = gettext_noop("Due between a backup and its restore: it may have happened.")


@dataclass(frozen=True, slots=True)
class Held:
    """Numbers of what waits for the owner: runs, messages; and of occurrences that were skipped."""

    runs: int
    deliveries: int
    skipped: int


def hold(*, made_at: datetime, now: datetime) -> Held:
    """Hold everything that was open when the backup was made (``made_at``). Once, after the
    restore, before a process of the gateway starts.
    """
    with transactions.atomic_write():
        run_waiting_messages(now)
        found = Held(
            runs=runs.hold_open(),
            deliveries=restored_deliveries.doubt_unsent(error=UNSENT),
            skipped=skip_due(now),
        )
        push_messages.drop_unsent()
        Backup.objects.all().delete()  # of the other home
        BackupSchedule.objects.update(next_at=None)
        values = {"restored_at": now, "restored_from": made_at}
        Installation.objects.update_or_create(id=1, defaults=values)
        audit.record(
            actor="manage.py",
            action="gateway.restored",
            data={"made_at": made_at.isoformat(), "runs": found.runs, "sends": found.deliveries},
            now=now,
        )
    return found


def run_waiting_messages(now: datetime) -> None:
    """Make runs of the messages that wait for one, to be held with the others."""
    waiting = InboundMessage.objects.filter(state=InboundMessage.State.RECEIVED)
    ids = waiting.exclude(session=None).values_list("session_id", flat=True).distinct()
    for session in ChatSession.objects.filter(id__in=ids).order_by("id"):
        inbox.run_waiting(session=session, now=now)
        ChatSession.objects.filter(id=session.id).update(flush_at=None, batch_started_at=None)


def skip_due(now: datetime) -> int:
    """Skip the occurrences that were due by now, and plan the next ones; return how many. Those of
    a time zone that this machine lacks are left to a worker, which pauses their schedules.
    """
    due = Occurrence.objects.filter(state=Occurrence.State.WAITING, nominal_at__lte=now)
    number = 0
    for occurrence in list(due.select_related("schedule").order_by("id")):
        try:
            with transactions.atomic_write():  # a savepoint
                firing.leave_out(occurrence, now=now, note=MISSED)
        except ZoneInfoNotFoundError:
            logger.exception("the next time of a schedule could not be found")
        else:
            number += 1
    return number


def restored_from() -> datetime | None:
    """Return when the backup was made from which the database is; None if it is from none."""
    rows = Installation.objects.filter(id=1).values_list("restored_from", flat=True)
    return rows.first()
