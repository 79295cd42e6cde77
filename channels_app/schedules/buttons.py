"""The buttons under a reminder: done, in ten minutes, tomorrow."""

from datetime import datetime, timedelta
from zoneinfo import ZoneInfo

from channels_app.base import Block
from core.conversations import outbox
from core.conversations.schedules import occurrences, rules
from core.database.transactions import atomic_write
from core.models import Delivery, Occurrence, Run, User
from core.tools import languages, phrases

PREFIX = "remind"
DONE, LATER, TOMORROW = "done", "later", "tomorrow"
LATER_MINUTES = 10
LABELS = {DONE: "Done", LATER: "In 10 minutes", TOMORROW: "Tomorrow"}
SAID = {
    DONE: "Done.",
    LATER: "I will remind you in 10 minutes.",
    TOMORROW: "I will remind you tomorrow.",
}
SIGNS = {DONE: "✓", LATER: "↻", TOMORROW: "↻"}
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
    """Carry out a press of a person on their own reminder; return the answer in their language.

    ``run_id``: the public id of the run that showed it. Its message shows the answer instead of the
    buttons. Others than its person change nothing.
    """
    rows = Occurrence.objects.filter(run__public_id=run_id, schedule__user=user)
    occurrence = rows.select_related("schedule", "run").first()
    language = user.language.partition("-")[0]
    if occurrence is None or choice not in LABELS:
        return phrases.in_language(OVER, language)
    language = language or languages.of_request(occurrence.schedule.text)
    with atomic_write():
        if not carry_out(occurrence, choice, now=now):
            return phrases.in_language(OVER, language)
        said = phrases.in_language(SAID[choice], language)
        show_answer(occurrence, f"{SIGNS[choice]} {said}")
    return said


def carry_out(occurrence: Occurrence, choice: str, *, now: datetime) -> bool:
    """Acknowledge or snooze an occurrence; return False if its schedule was deleted."""
    if choice == DONE:
        occurrences.acknowledge(occurrence)
        return True
    until = now + timedelta(minutes=LATER_MINUTES)
    if choice == TOMORROW:
        until = tomorrow(occurrence, now=now)
    return occurrences.snooze(occurrence, until=until) is not None


def show_answer(occurrence: Occurrence, line: str) -> None:
    """Show a line under the reminder's message instead of its buttons, on a platform."""
    for delivery in Delivery.objects.filter(run=occurrence.run):
        block = {name: value for name, value in delivery.payload.items() if name != "buttons"}
        if "buttons" in delivery.payload:
            outbox.change(
                delivery=delivery, payload={**block, "text": f"{block['text']}\n\n{line}"}
            )


def tomorrow(occurrence: Occurrence, *, now: datetime) -> datetime:
    """Return the time of an occurrence on the next day, as the clock of its time zone shows it."""
    zone = ZoneInfo(occurrence.schedule.time_zone)
    due = occurrence.nominal_at.astimezone(zone)
    day = now.astimezone(zone).date() + timedelta(days=1)
    return rules.to_utc(datetime.combine(day, due.time()), zone)
