"""The form of a reminder: its fields as a person types them, and the Wish that they mean."""

from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from django.http import QueryDict
from django.utils.translation import get_language, gettext, gettext_lazy

from core.conversations.schedules import changes, dates, occurrences, rules
from core.conversations.schedules.changes import RuleError, Wish
from core.conversations.schedules.rule_text import Parts, written
from core.lib.text import is_number
from core.models import Schedule

ONCE, DAILY, WEEKDAYS = "once", "daily", "weekdays"
WEEKLY, MONTHLY, YEARLY = "weekly", "monthly", "yearly"
MINUTES, KEPT = "minutes", "kept"
RULES = {
    ONCE: "",
    DAILY: "FREQ=DAILY",
    WEEKDAYS: "FREQ=WEEKLY;BYDAY=MO,TU,WE,TH,FR",
    WEEKLY: "FREQ=WEEKLY",
    MONTHLY: "FREQ=MONTHLY",
    YEARLY: "FREQ=YEARLY",
}
CHOICES = {
    ONCE: gettext_lazy("Once"),
    DAILY: gettext_lazy("Every day"),
    WEEKDAYS: gettext_lazy("Every weekday"),
    WEEKLY: gettext_lazy("Every week, on that day"),
    MONTHLY: gettext_lazy("Every month, on that day"),
    YEARLY: gettext_lazy("Every year, on that day"),
    MINUTES: gettext_lazy("Every few minutes"),
}
MOST_MINUTES = 1000
NO_ZONE = gettext_lazy("Give your time zone: a name such as Europe/Berlin, or a city.")
NO_TIME = gettext_lazy("Give a date and a time.")
NO_MINUTES = gettext_lazy("Give a number of minutes, 1 to {most}.")


@dataclass(frozen=True, slots=True, kw_only=True)
class Fields:
    """The values of the fields, as text. ``at``: local in ``zone``; ``kept``: the rule that the
    choices do not cover, without its time of day, and that choice in words.
    """

    text: str = ""
    kind: str = Schedule.Kind.TEXT
    at: str = ""
    repeat: str = ONCE
    every: str = "30"
    missed: str = Schedule.Missed.ONCE
    zone: str = ""
    kept: str = ""
    kept_words: str = ""

    @property
    def choices(self) -> list[tuple[str, str]]:
        """Return the options of ``repeat``."""
        as_it_is = gettext("As it is: {rule}").format(rule=self.kept_words)
        kept = [(KEPT, as_it_is)] if self.kept else []
        return [*((name, str(words)) for name, words in CHOICES.items()), *kept]


class FieldError(Exception):
    """A field has a wrong value: its name, and why, for the person."""

    def __init__(self, field: str, reason: str) -> None:
        super().__init__(reason)
        self.field = field


def of_new(*, zone: str, now: datetime) -> Fields:
    """Return the fields of a new reminder: in an hour, on the quarter; without a time and a zone
    where that of the person is not known, without a time where there is no such zone.
    """
    try:
        local = (now + timedelta(minutes=75)).astimezone(rules.zone_named(zone))
    except RuleError:
        return Fields(zone=zone)
    at = local.replace(tzinfo=None, minute=local.minute // 15 * 15)
    return Fields(zone=zone, at=written_time(at))


def of_schedule(schedule: Schedule, *, now: datetime) -> Fields:
    """Return the fields of a stored one: ``at`` is its next time."""
    rule = occurrences.rule_in(rules.stored_zone(schedule.time_zone), schedule)
    times = rule.after(now)
    at = times[0].astimezone(rule.zone).replace(tzinfo=None) if times else rule.start
    found = Fields(
        text=schedule.text,
        kind=schedule.kind,
        at=written_time(at),
        missed=schedule.missed,
        zone=schedule.time_zone,
    )
    return with_repeat(found, schedule.rule, changes.parts_to_come(rule, now=now), at)


def with_repeat(fields: Fields, text: str, parts: Parts | None, at: datetime) -> Fields:
    """Return the fields with the choice that a rule is; KEPT for one that is none of them."""
    if parts is None:
        return fields
    # The time of day, and the day, are those of ``at``.
    plain = replace(parts, interval=1) if parts.frequency == "MINUTELY" else without_time(parts)
    if plain.days == ((0, at.weekday()),) and plain.frequency == "WEEKLY":
        plain = replace(plain, days=())
    if plain.month_days == (at.day,) and plain.frequency in ("MONTHLY", "YEARLY"):
        plain = replace(plain, month_days=())
    if plain.months == (at.month,) and plain.frequency == "YEARLY":
        plain = replace(plain, months=())
    rule = written(plain)
    if rule == "FREQ=MINUTELY":
        return replace(fields, repeat=MINUTES, every=str(parts.interval))
    for name, known in RULES.items():
        if rule in (known, known.replace("WEEKLY", "DAILY") if name == WEEKDAYS else known):
            return replace(fields, repeat=name)
    words = f"{dates.repeats(text, get_language() or '')} ({text})"
    return replace(fields, repeat=KEPT, kept=written(without_time(parts)), kept_words=words)


def without_time(parts: Parts) -> Parts:
    """Return a rule that takes its time of day from its start, unless it has several."""
    if len(parts.hours) > 1 or len(parts.minutes) > 1:
        return parts
    return replace(parts, hours=(), minutes=())


def written_time(at: datetime) -> str:
    """Return a local time as a browser's field takes it."""
    return at.isoformat(timespec="minutes")


def posted(given: QueryDict, *, before: Fields) -> Fields:
    """Return the fields as typed; a value that is not among the choices is as before."""
    repeat = given.get("repeat", before.repeat)
    kind, missed = given.get("kind", ""), given.get("missed", "")
    # The next time may have changed since the page was opened.
    at = given.get("at", "")[:40]
    is_as_shown = at == given.get("at_before", "")
    return replace(
        before,
        text=given.get("text", "").replace("\r\n", "\n"),
        kind=kind if kind in Schedule.Kind.values else before.kind,
        at=before.at if is_as_shown and at else at,
        repeat=repeat if repeat in dict(before.choices) else before.repeat,
        every=given.get("every", before.every)[:10],
        missed=missed if missed in Schedule.Missed.values else before.missed,
        zone=given.get("zone", "").strip()[:64],
    )


def wish_of(fields: Fields, *, before: Fields | None = None) -> Wish:
    """Return what the fields ask for. Raises FieldError.

    ``before``: those of a stored one; where its times are as before, its rule goes on as it is.
    """
    try:
        text = changes.text_of(fields.text)
    except RuleError as error:
        raise FieldError("text", str(error)) from error
    if not fields.zone:
        raise FieldError("zone", str(NO_ZONE))
    try:
        zone = zone_of(fields.zone)
    except RuleError as error:
        raise FieldError("zone", str(error)) from error
    wish = Wish(text=text, kind=fields.kind, missed=fields.missed, time_zone=zone)
    same = replace(fields, text="", kind="", missed="", zone=zone)
    if before is not None and same == replace(before, text="", kind="", missed=""):
        return wish
    return replace(wish, at=time_of(fields.at), rule=rule_of(fields))


def time_of(text: str) -> datetime:
    """Return a local time. Raises FieldError."""
    try:
        at = datetime.fromisoformat(text)
    except ValueError as error:
        raise FieldError("at", str(NO_TIME)) from error
    if at.tzinfo is not None:
        raise FieldError("at", str(NO_TIME))
    return at


def rule_of(fields: Fields) -> str:
    """Return the rule of the choice. Raises FieldError."""
    if fields.repeat == KEPT:
        return fields.kept
    if fields.repeat != MINUTES:
        return RULES[fields.repeat]
    every = fields.every.strip()
    if not (is_number(every) and 1 <= int(every) <= MOST_MINUTES):
        raise FieldError("every", NO_MINUTES.format(most=MOST_MINUTES))
    return f"FREQ=MINUTELY;INTERVAL={int(every)}"


def zone_of(words: str) -> str:
    """Return the time zone of a name or a city. Raises RuleError, also where several fit."""
    found = rules.find_zones(words)
    if len(found) > 1:
        raise RuleError(gettext("Which one: {names}?").format(names=", ".join(found)))
    return rules.zone_named(found[0] if len(found) == 1 else words).key
