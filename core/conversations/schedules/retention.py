"""Remove occurrences that were over long ago, and ended schedules that have none left."""

from collections.abc import Callable
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
    return sum(
        remove(rows, delete, since)
        for rows, delete in (
            (FIRED, delete_occurrences),
            (UNFIRED, delete_occurrences),
            (ENDED, delete_schedules),  # after their occurrences
        )
    )


def remove(rows: Values, delete: Callable[[list[int]], int], since: datetime) -> int:
    """Remove rows in short transactions; return how many."""
    removed = 0
    for _ in range(MOST_BATCHES):
        ids = rows.column(before=since)
        with atomic_write():
            removed += delete(ids)
        if len(ids) < AT_ONCE:
            break
    return removed


def delete_occurrences(ids: list[int]) -> int:
    """Delete those of these occurrences that are still over: a withdrawn one may wait again."""
    return Occurrence.objects.filter(pk__in=ids, look_at__isnull=True).delete()[0]


def delete_schedules(ids: list[int]) -> int:
    """Delete those of these schedules that are still left behind: a snooze, which locks the
    schedule first, may have made one active again.
    """
    locked = Schedule.objects.filter(pk__in=ids).order_by("pk").select_for_update()
    return left_behind().filter(pk__in=list(locked.values_list("pk", flat=True))).delete()[0]
