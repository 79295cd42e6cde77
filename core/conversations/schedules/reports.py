"""Read what the admin, `/metrics` and the doctor show of schedules."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from django.db.models import DateTimeField

from core.database.queries import Among, Param, Values
from core.models import Occurrence, Schedule

# Firing looks once a second: an occurrence that waits longer than this is late.
LATE = timedelta(seconds=5)
MOST_COUNTED = 1000
MOST_ACTIVE = 100_000

# Values writes constants into the SQL, so that SQLite finds the partial index of waiting ones.
NEXT = Values(
    lambda: Occurrence.objects.filter(
        Among("schedule_id", "schedules"), state=Occurrence.State.WAITING, look_at__isnull=False
    ).values_list("schedule_id", "look_at")
)
OVERDUE = Values(
    lambda: (
        Occurrence.objects.filter(
            look_at__isnull=False,
            look_at__lt=Param("before", DateTimeField()),
            state=Occurrence.State.WAITING,
        )
        .order_by("look_at")
        .values_list("look_at")[:MOST_COUNTED]
    )
)


@dataclass(frozen=True, slots=True)
class Lateness:
    """Occurrences that wait although they were due: how many (at most MOST_COUNTED), and for how
    many seconds the oldest one has been due; 0 without any.
    """

    waiting: int
    oldest_seconds: float


def next_of(schedule_ids: Sequence[int]) -> dict[int, datetime]:
    """Return when each of these schedules is due next; those without a waiting time are absent."""
    found: dict[int, datetime] = {}
    for schedule_id, due_at in NEXT(schedules=list(schedule_ids)):
        found[schedule_id] = min(due_at, found.get(schedule_id, due_at))
    return found


def active_count() -> int:
    """Return the number of active schedules, at most MOST_ACTIVE."""
    return Schedule.objects.filter(state=Schedule.State.ACTIVE)[:MOST_ACTIVE].count()


def lateness(*, now: datetime, after: timedelta = LATE) -> Lateness:
    """Return what has waited for longer than ``after`` since it was due."""
    rows = OVERDUE(before=now - after)
    oldest = (now - rows[0][0]).total_seconds() if rows else 0.0
    return Lateness(len(rows), oldest)
