"""The rows of the page of reminders: a person's schedules with their latest occurrences."""

from dataclasses import dataclass
from datetime import datetime
from functools import cache
from zoneinfo import ZoneInfo

from django.conf import settings
from django.db.models import Prefetch, prefetch_related_objects
from django.utils.translation import get_language, gettext, gettext_noop

from channels_app.schedules import lists, outcomes
from core.conversations.schedules import changes, dates, zones
from core.models import Occurrence, Schedule, User
from core.tools import phrases

SHOWN_OCCURRENCES, SHOWN_OVER, SHOWN_TIMES = 5, 10, 3
NOT_YET, YES, NO = "open", "yes", "no"
OFF = gettext_noop("Left out: the gateway was off or busy at that time")
CONTINENTS = (
    "Africa/",
    "America/",
    "Antarctica/",
    "Asia/",
    "Atlantic/",
    "Australia/",
    "Europe/",
    "Indian/",
    "Pacific/",
)
State = Occurrence.State


@dataclass(frozen=True, slots=True)
class Fact:
    """Whether something has happened (``state``: yes, no or open), in words with its time."""

    state: str
    words: str


@dataclass(frozen=True, slots=True)
class Past:
    """An occurrence that is not waiting any more. ``note``: the rest."""

    when: str
    facts: list[Fact]
    note: str


@dataclass(frozen=True, slots=True)
class Shown:
    """A schedule on the page. ``when``: its next time; empty without one; ``is_put_off``: which is
    not one of the rule. ``elsewhere``: its time
    zone, where that is not the person's. ``state``: empty while it is active.
    """

    name: str
    text: str
    is_prompt: bool
    is_active: bool
    may_resume: bool
    when: str
    is_put_off: bool
    repeats: str
    state: str
    elsewhere: str
    past: list[Past]


def zone_of(user: User) -> ZoneInfo:
    """Return the time zone in which a person reads times; UTC if there is no such zone."""
    return zones.stored_zone(user.time_zone or settings.TIME_ZONE)


def current(user: User) -> list[Shown]:
    """Return a person's schedules that have not ended, the next one first."""
    return shown(changes.listed(user), user)


def over(user: User) -> list[Shown]:
    """Return a person's latest schedules of which nothing is left; not those that were deleted."""
    ended = Schedule.objects.filter(user=user, state=Schedule.State.ENDED)
    rows = ended.filter(why=Schedule.Why.OVER).order_by("-id")
    return shown(list(rows[:SHOWN_OVER]), user)


def shown(rows: list[Schedule], user: User) -> list[Shown]:
    zone = zone_of(user)
    add_past(rows)
    return [row_of(row, zone) for row in rows]


def add_past(rows: list[Schedule]) -> None:
    """Load the latest occurrences of schedules that have happened, or should have."""
    happened = Occurrence.objects.exclude(state__in=[State.WAITING, State.WITHDRAWN])
    latest = happened.order_by("-nominal_at")[:SHOWN_OCCURRENCES]
    prefetch_related_objects(rows, Prefetch("occurrences", queryset=latest, to_attr="past"))


def row_of(schedule: Schedule, zone: ZoneInfo) -> Shown:
    """Return a schedule, whose past is loaded, as the page shows it."""
    past: list[Occurrence] = schedule.past  # type: ignore[attr-defined]
    return Shown(
        name=schedule.public_id,
        text=schedule.text,
        is_prompt=schedule.kind == Schedule.Kind.PROMPT,
        is_active=schedule.state == Schedule.State.ACTIVE,
        may_resume=may_resume(schedule),
        when=in_words(schedule.next_at, zone) if schedule.next_at else "",
        is_put_off=schedule.is_put_off,
        repeats=dates.repeats(schedule.rule, language()),
        state=state_of(schedule),
        elsewhere=schedule.time_zone if schedule.time_zone != zone.key else "",
        past=[past_of(each, zone) for each in past],
    )


def may_resume(schedule: Schedule) -> bool:
    """Return whether the person may resume it: not what the owner has paused."""
    is_paused = schedule.state == Schedule.State.PAUSED
    return is_paused and schedule.why != Schedule.Why.OWNER


def state_of(schedule: Schedule) -> str:
    """Return why a schedule is not active, in words; empty while it is."""
    if schedule.state != Schedule.State.PAUSED:
        return ""
    words = lists.PAUSED.get(Schedule.Why(schedule.why), "paused") if schedule.why else "paused"
    said = gettext(words)
    return said[0].upper() + said[1:]


def saved(schedule: Schedule, zone: ZoneInfo, *, now: datetime) -> str:
    """Return that a schedule was saved, with its next times in words: a mistake is seen at once."""
    most = SHOWN_TIMES if schedule.rule else 1
    times = [in_words(each, zone) for each in changes.next_times(schedule, now=now, most=most)]
    if not times:
        return gettext("Saved. It is paused.")
    said = gettext("Saved. The next times: {times}.")
    if not schedule.rule:
        said = gettext("Saved. Its time: {times}.")
    return said.format(times=" · ".join(times))


def past_of(occurrence: Occurrence, zone: ZoneInfo) -> Past:
    """Return what became of an occurrence: two facts, each with its time or why not."""
    when = in_words(occurrence.nominal_at, zone)
    snoozed = f" ({gettext('put off')})" if occurrence.snoozed else ""
    if occurrence.state == State.SKIPPED:
        why = gettext(occurrence.note) if occurrence.note else ""
        return Past(when + snoozed, [Fact(NO, gettext("Left out") if why else gettext(OFF))], why)
    facts = [executed(occurrence, zone), delivered(occurrence, zone)]
    return Past(when + snoozed, facts, note_of(occurrence))


def executed(occurrence: Occurrence, zone: ZoneInfo) -> Fact:
    """Return whether it was carried out."""
    if occurrence.executed_at is not None:
        return Fact(
            YES, at(gettext("Carried out at {time}"), occurrence.executed_at, occurrence, zone)
        )
    if occurrence.state == State.FIRED:
        return Fact(NOT_YET, gettext("Is being carried out"))
    return Fact(NO, gettext("Not carried out: {reason}").format(reason=reason(occurrence)))


def delivered(occurrence: Occurrence, zone: ZoneInfo) -> Fact:
    """Return whether its messages have arrived."""
    is_failed = occurrence.state == State.FAILED
    if occurrence.delivered_at is not None:
        said = gettext("Delivered at {time}")
        if is_failed:
            said = gettext("The reason was delivered at {time}")
        return Fact(YES, at(said, occurrence.delivered_at, occurrence, zone))
    if occurrence.state == State.FIRED:
        return Fact(NOT_YET, gettext("Not delivered yet"))
    if occurrence.note == outcomes.UNSURE:
        return Fact(NOT_YET, gettext(outcomes.UNSURE))
    if occurrence.executed_at is None or occurrence.note == outcomes.WITHDRAWN:
        return Fact(NO, gettext("Not delivered"))
    why = reason(occurrence).removeprefix(outcomes.NOT_DELIVERED)
    return Fact(NO, gettext("Not delivered: {reason}").format(reason=why))


def reason(occurrence: Occurrence) -> str:
    if not occurrence.note:
        return gettext("the reason is not known")
    return phrases.in_language(gettext(occurrence.note), language())


def note_of(occurrence: Occurrence) -> str:
    """Return what the facts do not say: that it came late, and why it went elsewhere."""
    late = gettext("It came late: the gateway was off or busy.") if occurrence.was_missed else ""
    is_fact = occurrence.state == State.FAILED or occurrence.note == outcomes.UNSURE
    where = "" if is_fact else phrases.in_language(occurrence.note, language())
    return " ".join(filter(None, [late, where]))


def at(said: str, moment: datetime, occurrence: Occurrence, zone: ZoneInfo) -> str:
    """Return a sentence with the time of a moment in place of ``{time}``."""
    return said.format(time=clock(moment, occurrence, zone))


def language() -> str:
    return get_language() or ""


def clock(moment: datetime, occurrence: Occurrence, zone: ZoneInfo) -> str:
    """Return the time of day of a moment; with its date, if that is not the occurrence's."""
    local = moment.astimezone(zone)
    is_same_day = local.date() == occurrence.nominal_at.astimezone(zone).date()
    return f"{local:%H:%M:%S}" if is_same_day else f"{local:%Y-%m-%d %H:%M:%S}"


def in_words(moment: datetime, zone: ZoneInfo) -> str:
    return dates.in_words(moment, zone, language())


@cache
def names_of_zones() -> list[str]:
    """Return the time zones that are suggested: those of places."""
    return sorted(each for each in zones.names().values() if each.startswith(CONTINENTS))
