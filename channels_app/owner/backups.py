"""Backups that are asked for, made and listed: the rows (decision 208). The copies themselves are
made by ``gateway_project.backups``.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from django.db.models import DateTimeField, Q
from django.utils import timezone
from django.utils.translation import gettext, gettext_lazy, gettext_noop

from channels_app.owner import notices
from core.database import transactions
from core.database.queries import Instances, Param
from core.lib.text import one_line
from core.models import Backup, BackupSchedule

State, Cause = Backup.State, Backup.Cause
LEASE = timedelta(seconds=60)
MOST_ATTEMPTS = 3
INTERRUPTED = gettext_noop("The worker that made it ended, several times.")
ERROR_CHARACTERS = 500


@dataclass(frozen=True, slots=True)
class Made:
    """The content of a checked backup; see :class:`core.models.Backup`."""

    name: str
    rows: int
    files: int
    size: int
    has_keys: bool


def ask(*, cause: str, now: datetime) -> bool:
    """Ask for a backup; return False when one is asked for or being made already."""
    with transactions.atomic_write():
        if Backup.objects.filter(state__in=(State.WAITING, State.RUNNING)).exists():
            return False
        Backup.objects.create(cause=cause, asked_at=now)
    return True


def next_time(schedule: BackupSchedule, *, after: datetime) -> datetime:
    """Return the first time of ``schedule`` after ``after``, whether it is on or not."""
    zone = timezone.get_default_timezone()
    day = after.astimezone(zone).date()
    while True:
        moment = datetime.combine(day, schedule.at, tzinfo=zone)
        if moment > after and schedule.day in {schedule.Day.EVERY, day.isoweekday()}:
            return moment
        day += timedelta(days=1)


SWITCHED_ON = Instances(lambda: BackupSchedule.objects.filter(id=1, is_on=True))


def fire_due(*, now: datetime) -> None:
    """Ask for the backup that is due, once however many workers look and times were missed.

    A time that is further away than the next one, since the schedule or the clock was changed, is
    planned anew.
    """
    schedule = SWITCHED_ON.first()
    if schedule is None:
        return
    planned, following = schedule.next_at, next_time(schedule, after=now)
    if planned is not None and now < planned <= following:
        return
    with transactions.atomic_write():
        rows = BackupSchedule.objects.filter(id=1, is_on=True, next_at=planned)
        if rows.update(next_at=following) and planned is not None and planned <= now:
            ask(cause=Cause.SCHEDULE, now=now)


def lost(now: Any, furthest: Any) -> Q:
    """Return the condition that the worker of a backup is gone, or the clock was set back."""
    return Q(state=State.RUNNING) & ~Q(lease_until__gte=now, lease_until__lte=furthest)


TO_MAKE = Instances(
    lambda: Backup.objects.filter(
        Q(state=State.WAITING)
        | lost(Param("now", DateTimeField()), Param("furthest", DateTimeField()))
    ).order_by("id")[:1]
)


def take(*, now: datetime) -> Backup | None:
    """Take the oldest requested or abandoned backup; None without one, or while one is made."""
    furthest = now + 2 * LEASE
    found = TO_MAKE.first(now=now, furthest=furthest)
    if found is None:
        return None
    with transactions.atomic_write():
        if Backup.objects.filter(state=State.RUNNING).exclude(lost(now, furthest)).exists():
            return None
        if found.attempts == MOST_ATTEMPTS:
            fail(INTERRUPTED, row=found.pk, now=now)
            return None
        same = Backup.objects.filter(pk=found.pk, state=found.state, attempts=found.attempts)
        found.attempts += 1
        values = {"state": State.RUNNING, "attempts": found.attempts, "lease_until": now + LEASE}
        return found if same.update(**values) else None


def renew(backup: Backup, *, now: datetime) -> bool:
    """Keep a backup that is being made; return False when another worker has taken it."""
    own = Backup.objects.filter(pk=backup.pk, state=State.RUNNING, attempts=backup.attempts)
    return own.update(lease_until=now + LEASE) == 1


def succeed(made: Made, *, removed: Iterable[str], row: int | None, now: datetime) -> None:
    """Store that a backup was made and checked, and which older ones were ``removed``. ``row``: the
    one that asked for it; None when it was made by a command.
    """
    values = {
        "state": State.GOOD,
        "finished_at": now,
        "name": made.name,
        "rows": made.rows,
        "files": made.files,
        "size": made.size,
        "has_keys": made.has_keys,
        "error": "",
    }
    with transactions.atomic_write():
        was_bad = has_failed(before=row)
        Backup.objects.filter(state=State.GOOD, name__in=list(removed)).update(state=State.REMOVED)
        if row is None:
            row = Backup.objects.create(cause=Cause.COMMAND, asked_at=now, **values).pk
        else:
            Backup.objects.filter(pk=row).update(**values)
        if was_bad:
            text = gettext_lazy("A backup was made and checked again: {name}.")
            notices.notify(lambda: text.format(name=made.name), key=f"notice:backup:{row}:good")


def fail(error: str, *, row: int, now: datetime) -> None:
    """Store why a backup that was asked for could not be made; the first failure is told."""
    text = one_line(error, ERROR_CHARACTERS)
    with transactions.atomic_write():
        was_bad = has_failed(before=row)
        running = Backup.objects.filter(pk=row, state=State.RUNNING)
        if running.update(state=State.FAILED, finished_at=now, error=text) and not was_bad:
            notices.notify(lambda: failed(text), key=f"notice:backup:{row}:failed")


def last_ended(*, before: int | None = None) -> Backup | None:
    """Return the last backup that was made or has failed, ``before`` a row or of all."""
    ended = Backup.objects.filter(finished_at__isnull=False)
    if before is not None:
        ended = ended.filter(pk__lt=before)
    return ended.order_by("-id").first()


def has_failed(*, before: int | None) -> bool:
    """Return whether the last backup that ended, ``before`` a row or of all, has failed."""
    last = last_ended(before=before)
    return last is not None and last.state == State.FAILED


def failed(error: str) -> str:
    """Return the notice of a failure."""
    return gettext("The backup could not be made: {reason}").format(reason=gettext(error))
