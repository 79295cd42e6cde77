"""Remove occurrences that were over long ago, and ended schedules that have none left."""

from datetime import datetime, timedelta

from django.conf import settings
from django.db.models import DateTimeField, Exists, OuterRef, QuerySet

from core.database.queries import Param, Values
from core.database.transactions import atomic_write
from core.models import Occurrence, Schedule

AT_ONCE = 500
MOST_BATCHES = 20  # of each kind a call: 10,000 rows


def before() -> Param:
    return Param("before", DateTimeField())


# Values writes constants into the SQL, so that SQLite finds the partial indexes.
FIRED = Values(
    lambda: (
        Occurrence.objects.filter(
            fired_at__isnull=False, fired_at__lt=before(), look_at__isnull=True
        )
        .order_by("fired_at")
        .values_list("id")[:AT_ONCE]
    )
)
# Those that never fired: withdrawn ones, and such that broke each time.
UNFIRED = Values(
    lambda: (
        Occurrence.objects.filter(
            fired_at__isnull=True, look_at__isnull=True, nominal_at__lt=before()
        )
        .order_by("nominal_at")
        .values_list("id")[:AT_ONCE]
    )
)
ENDED = Values(
    lambda: (
        left_behind()
        .filter(changed_at__lt=before())
        .order_by("changed_at")
        .values_list("id")[:AT_ONCE]
    )
)


def left_behind() -> QuerySet[Schedule]:
    """Return the ended schedules that have no occurrence but withdrawn ones, of any time."""
    own = Occurrence.objects.filter(schedule=OuterRef("pk"))
    own = own.exclude(state=Occurrence.State.WITHDRAWN)
    return Schedule.objects.filter(~Exists(own), state=Schedule.State.ENDED)


def purge(*, now: datetime) -> int:
    """Remove what was over OCCURRENCE_DAYS ago; return how many rows. A bounded number a call."""
    since = now - timedelta(days=settings.OCCURRENCE_DAYS)
    return (
        sum(remove_occurrences(rows, since) for rows in (FIRED, UNFIRED))  # before their schedules
        + remove_schedules(since)
    )


def remove_occurrences(rows: Values, since: datetime) -> int:
    """Remove occurrences in short transactions; return how many."""
    removed = 0
    for _ in range(MOST_BATCHES):
        ids = rows.column(before=since)
        with atomic_write():
            # One that was withdrawn may wait again meanwhile.
            over = Occurrence.objects.filter(pk__in=ids, look_at__isnull=True)
            removed += over.delete()[0]
        if len(ids) < AT_ONCE:
            break
    return removed


def remove_schedules(since: datetime) -> int:
    """Remove the ended schedules that are left behind in short transactions; return how many."""
    removed = 0
    for _ in range(MOST_BATCHES):
        ids = ENDED.column(before=since)
        with atomic_write():
            # A snooze may have made one active again: it locks the schedule first.
            locked = Schedule.objects.filter(pk__in=ids).order_by("pk").select_for_update()
            mine = list(locked.values_list("pk", flat=True))
            removed += left_behind().filter(pk__in=mine).delete()[0]
        if len(ids) < AT_ONCE:
            break
    return removed
