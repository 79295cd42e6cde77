"""Occurrences that come late, as the gateway was off or busy, and the words they come with."""

from collections import Counter
from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta

from django.conf import settings

from channels_app.rendering.links import escaped
from core.conversations.schedules import rules
from core.models import Occurrence, Schedule
from core.tools import phrases

MISSED = "This was due at {0} and comes late."
MISSED_ON = "This was due on {0} and comes late."
HELD_UP = "This was due at {0}; an error held it up."
HELD_UP_ON = "This was due on {0}; an error held it up."
LISTED = "These were due and come late:"


def is_late(occurrence: Occurrence, *, now: datetime) -> bool:
    """Return whether a waiting occurrence was missed: no worker took it up when one should have."""
    if occurrence.was_missed:  # when it was tried before, and an error held it up
        return True
    # It may have been planned within its minute; after an error ``look_at`` is the next try.
    late = now - max(occurrence.nominal_at, occurrence.look_at or occurrence.nominal_at)
    return late > timedelta(seconds=settings.SCHEDULE_MISSED_SECONDS)


def is_held_up(occurrence: Occurrence, *, now: datetime) -> bool:
    """Return whether errors have held up a waiting occurrence for so long that its time is said."""
    late = now - occurrence.nominal_at
    return occurrence.tries > 0 and late > timedelta(seconds=settings.SCHEDULE_MISSED_SECONDS)


def is_overtaken(occurrence: Occurrence, *, now: datetime) -> bool:
    """Return whether a later occurrence of its schedule is due as well: a snooze, or one that a
    clock that was set back left. Of those that were missed one comes.
    """
    others = Occurrence.objects.filter(
        schedule=occurrence.schedule_id, state=Occurrence.State.WAITING
    )
    later = others.filter(nominal_at__gt=occurrence.nominal_at, nominal_at__lte=now)
    return later.exists()


def groups(rows: Sequence[Occurrence], *, now: datetime) -> Iterable[list[Occurrence]]:
    """Return the rows in their order, in one list those that one message may name: missed texts of
    one conversation, of schedules of which no other row is there.
    """
    times = Counter(row.schedule_id for row in rows)
    found: dict[tuple[int | None, int | None], list[Occurrence]] = {}
    for row in rows:
        schedule = row.schedule
        is_listed = (
            row.state == Occurrence.State.WAITING
            and schedule.kind == Schedule.Kind.TEXT
            and schedule.session_id is not None
            and times[row.schedule_id] == 1
            and is_late(row, now=now)
        )
        key = (schedule.session_id, None) if is_listed else (None, row.pk)
        found.setdefault(key, []).append(row)
    return found.values()


def line(occurrence: Occurrence, *, now: datetime) -> str:
    """Return the English sentence for a late occurrence, with its time; empty for one in time."""
    time, is_today = due_time(occurrence, now=now)
    if is_late(occurrence, now=now):
        return (MISSED if is_today else MISSED_ON).format(time)
    if is_held_up(occurrence, now=now):
        return (HELD_UP if is_today else HELD_UP_ON).format(time)
    return ""


def listed(rows: Sequence[Occurrence], *, now: datetime, language: str, names: bool) -> str:
    """Return the texts of missed occurrences as a Markdown list with their times, under a sentence
    in ``language``. ``names``: with the name of each one's person.
    """
    items = []
    for row in rows:
        whose = f"{escaped(str(row.schedule.user))}: " if names else ""
        text = row.schedule.text.replace("\n", "\n  ")
        items.append(f"- **{due_time(row, now=now)[0]}** {whose}{text}")
    return "\n".join([phrases.in_language(LISTED, language), "", *items])


def due_time(occurrence: Occurrence, *, now: datetime) -> tuple[str, bool]:
    """Return when an occurrence was due in its time zone, and whether that was today."""
    zone = rules.stored_zone(occurrence.schedule.time_zone)
    due, here = occurrence.nominal_at.astimezone(zone), now.astimezone(zone)
    is_today = due.date() == here.date()
    return f"{due:%H:%M}" if is_today else f"{due:%Y-%m-%d %H:%M}", is_today
