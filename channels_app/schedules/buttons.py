"""The buttons under a reminder: done, in ten minutes, tomorrow."""

from datetime import datetime, timedelta

from channels_app.base import Block
from core.conversations import outbox
from core.conversations.schedules import dates, occurrences, rules
from core.database.transactions import atomic_write
from core.lib.ids import is_public_id
from core.models import Delivery, Occurrence, Run, Schedule, User
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
OVER = "This reminder does not exist any more."
STOPPED = "This reminder is paused or deleted, so nothing was changed."
ALREADY = "You have answered this reminder already."
NOT_YOURS = "This reminder belongs to somebody else."
# Telegram's limit is 4096: a longer message loses its buttons, and gets no line.
LONGEST = 3900


def under(block: Block, run: Run, language: str) -> Block:
    """Return a message with the buttons of a run's reminder (at most 64 bytes of data each)."""
    row = [
        {"text": phrases.in_language(label, language), "data": f"{PREFIX}:{name}:{run.public_id}"}
        for name, label in LABELS.items()
    ]
    return {**block, "buttons": [row]}


def press(*, user: User, choice: str, run_id: str, now: datetime) -> str:
    """Carry out a press of a person on their own reminder; return the answer in their language.

    ``run_id``: the public id of the run that showed it. Its message shows the outcome instead of
    the buttons. A second press changes nothing, and so does one by anybody else.
    """
    rows = Occurrence.objects.filter(run__public_id=run_id).select_related("schedule", "run")
    occurrence = rows.first() if is_public_id(run_id) else None
    language = user.language
    if occurrence is None or choice not in LABELS:
        return phrases.in_language(OVER, language)
    schedule = occurrence.schedule
    language = language or languages.of_request(schedule.text)
    if schedule.user_id != user.pk:
        return phrases.in_language(NOT_YOURS, language)
    with atomic_write():
        # The lock of a schedule is that of its occurrences: of two presses at once one counts.
        list(Schedule.objects.select_for_update(no_key=True).filter(pk=schedule.pk))
        occurrence.refresh_from_db(fields=["acknowledged_at"])
        if occurrence.acknowledged_at is not None:
            return phrases.in_language(ALREADY, language)
        line = carry_out(occurrence, choice, language, now=now)
        if line:
            show_outcome(occurrence, line)
    return phrases.in_language(SAID[choice] if line else STOPPED, language)


def carry_out(occurrence: Occurrence, choice: str, language: str, *, now: datetime) -> str:
    """Acknowledge or snooze an occurrence; return a line, empty if its schedule is inactive."""
    if choice == DONE:
        occurrences.acknowledge(occurrence)
        return f"✓ {phrases.in_language(LABELS[DONE], language)}"
    zone = rules.stored_zone(occurrence.schedule.time_zone)
    until = now + timedelta(minutes=LATER_MINUTES)
    if choice == TOMORROW:
        until = tomorrow(occurrence, now=now)
    if occurrences.snooze(occurrence, until=until) is None:
        return ""
    is_later = choice == LATER
    when = f"{until.astimezone(zone):%H:%M}" if is_later else dates.in_words(until, zone, language)
    return f"↻ {when}"


def show_outcome(occurrence: Occurrence, line: str) -> None:
    """Show a line under the reminder's message instead of its buttons, on a platform."""
    for delivery in Delivery.objects.filter(run=occurrence.run):
        block = {name: value for name, value in delivery.payload.items() if name != "buttons"}
        if "buttons" not in delivery.payload:
            continue
        longer = f"{block['text']}\n\n{line}"
        if len(longer.encode("utf-16-le")) // 2 <= LONGEST:
            block["text"] = longer
        outbox.change(delivery=delivery, payload=block)


def tomorrow(occurrence: Occurrence, *, now: datetime) -> datetime:
    """Return the time of an occurrence on the next day, as the clock of its time zone shows it."""
    zone = rules.stored_zone(occurrence.schedule.time_zone)
    due = occurrence.nominal_at.astimezone(zone)
    day = now.astimezone(zone).date() + timedelta(days=1)
    return rules.to_utc(datetime.combine(day, due.time()), zone)
