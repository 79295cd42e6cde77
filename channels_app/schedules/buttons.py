"""The buttons under a reminder: done, in ten minutes, tomorrow; and what a press does."""

from datetime import datetime, timedelta
from zoneinfo import ZoneInfo

from channels_app.base import Block
from core.conversations.schedules import occurrences, rules
from core.models import Occurrence, Run, User
from core.tools import phrases

PREFIX = "remind"
DONE, LATER, TOMORROW = "done", "later", "tomorrow"
LATER_MINUTES = 10
LABELS = {DONE: "Done", LATER: "In 10 minutes", TOMORROW: "Tomorrow"}
SAID = {
    DONE: "Done.",
    LATER: "I will remind you in 10 minutes.",
    TOMORROW: "I will remind you tomorrow.",
}
OVER = "This reminder does not exist any more."


def under(block: Block, run: Run, language: str) -> Block:
    """Return a message with the buttons of the reminder that a run showed (at most 64 bytes of
    data each).
    """
    row = [
        {"text": phrases.in_language(label, language), "data": f"{PREFIX}:{name}:{run.public_id}"}
        for name, label in LABELS.items()
    ]
    return {**block, "buttons": [row]}


def press(*, user: User, choice: str, run_id: str, now: datetime) -> str:
    """Carry out a press of a person on their own reminder; return the answer, in English.

    ``run_id``: the public id of the run that showed it. A second press is the same as the first.
    """
    rows = Occurrence.objects.filter(run__public_id=run_id, schedule__user=user)
    occurrence = rows.select_related("schedule").first()
    if occurrence is None or choice not in LABELS:
        return OVER
    if choice == DONE:
        occurrences.acknowledge(occurrence)
        return SAID[DONE]
    until = now + timedelta(minutes=LATER_MINUTES)
    if choice == TOMORROW:
        until = tomorrow(occurrence, now=now)
    return SAID[choice] if occurrences.snooze(occurrence, until=until) is not None else OVER


def tomorrow(occurrence: Occurrence, *, now: datetime) -> datetime:
    """Return the time of an occurrence on the next day, as the clock of its time zone shows it."""
    zone = ZoneInfo(occurrence.schedule.time_zone)
    due = occurrence.nominal_at.astimezone(zone)
    day = now.astimezone(zone).date() + timedelta(days=1)
    return rules.to_utc(datetime.combine(day, due.time()), zone)
