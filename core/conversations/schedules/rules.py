"""When a schedule happens: recurrence rules of RFC 5545 in the time zone of a person.

A rule of days, weeks, months or years is expanded in local time and then mapped to UTC. One of
minutes or hours counts elapsed time in UTC: "every 20 minutes" goes on through a change of daylight
saving.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import cached_property
from itertools import dropwhile, groupby, islice, pairwise, takewhile
from typing import Any, Literal
from zoneinfo import ZoneInfo

from dateutil.rrule import DAILY, MONTHLY, WEEKLY, YEARLY, rrule, weekday
from django.utils.translation import gettext

from core.conversations.schedules.rule_text import ELAPSED, Parts, read, written
from core.conversations.schedules.rule_text import RuleError as RuleError
from core.conversations.schedules.zones import find_zones as find_zones
from core.conversations.schedules.zones import stored_zone as stored_zone
from core.conversations.schedules.zones import zone_named as zone_named

FREQUENCIES: dict[str, Literal[0, 1, 2, 3]] = {
    "DAILY": DAILY,
    "WEEKLY": WEEKLY,
    "MONTHLY": MONTHLY,
    "YEARLY": YEARLY,
}
FIRST_YEAR, LAST_YEAR = 2000, 2199  # of a start
MOST_YEARS = 10  # from a start to the first occurrence
# dateutil looks for a match until the year 9999. The Gregorian calendar repeats every 400 years,
# weekdays included; so 19 times 400 years later the same search ends after at most 400 years.
CALENDARS = 19 * 400
END = datetime(2399, 12, 31, 23, 59, 59)  # noqa: DTZ001 (local; of the search)
# dateutil begins the first week at its start, not at WKST: a moved start is in the week before.
WEEK = timedelta(days=7)
COMPARED = 20_000  # occurrences, of which the nearest two are the shortest interval
SECOND = timedelta(seconds=1)
TWICE = (
    "At that time the clock is set back: as a local time it means an hour earlier. Use "
    "in_minutes, or the time zone UTC."
)


@dataclass(frozen=True)
class Rule:
    """A rule that counts from ``start``, a local time in ``zone``; ``text`` "" means once."""

    text: str
    start: datetime
    zone: ZoneInfo

    @cached_property
    def parts(self) -> Parts | None:
        """Return what ``text`` says; None for once."""
        return read(self.text, zone=self.zone)

    def after(self, moment: datetime, *, most: int = 1) -> list[datetime]:
        """Return the first ``most`` times after an aware ``moment``: in UTC, ascending, each once.

        Local times that fall on the same instant are one.
        """
        following = (each for each in self._from(moment) if each > moment)
        return [each for each, _ in islice(groupby(following), most)]

    def shortest_interval(self) -> timedelta | None:
        """Return the shortest time between two occurrences in the first ten years; None where there
        is only one.

        As the clock on the wall counts: once a year, where an hour is left out, it can be less.
        """
        if self.parts is None:
            return None
        times: Iterator[datetime]
        if self.parts.frequency in ELAPSED:
            times = islice(self._elapsed(self.parts, to_utc(self.start, self.zone)), 2)
        else:
            last = years_later(self.start)
            local = islice(self._local(self.parts, self.start), COMPARED)
            times = takewhile(lambda each: each <= last, local)
        return min((later - each for each, later in pairwise(times)), default=None)

    def _from(self, moment: datetime) -> Iterator[datetime]:
        """Yield times in UTC, beginning with one that is not after the first after ``moment``."""
        if self.parts is None:
            yield to_utc(self.start, self.zone)
        elif self.parts.frequency in ELAPSED:
            yield from self._elapsed(self.parts, moment)
        else:
            since = self.start
            if moment >= to_utc(END, self.zone):
                return
            # Later on the clock is later in time, or the same instant; so nothing is before it.
            if moment > to_utc(since, self.zone):
                since = moment.astimezone(self.zone).replace(tzinfo=None, fold=0)
            for each in self._local(self.parts, since):
                yield to_utc(each, self.zone)

    def _elapsed(self, parts: Parts, moment: datetime) -> Iterator[datetime]:
        """Yield times of a rule of minutes or hours from ``moment``."""
        first = to_utc(self.start, self.zone)
        step = ELAPSED[parts.frequency] * parts.interval
        last = to_utc(min(parts.until or END, END), self.zone)
        number = max(0, (moment - first) // step)
        while (parts.count is None or number < parts.count) and first + number * step <= last:
            yield first + number * step
            number += 1

    def _local(self, parts: Parts, since: datetime) -> Iterator[datetime]:
        """Yield local times from ``since`` on."""
        anchor = self.start
        # Without a count the past does not matter.
        if parts.count is None and since - WEEK > self.start:
            anchor = moved(self.start, parts, since - WEEK)
        until = min(parts.until, END) if parts.until else None
        expanded = rrule(
            FREQUENCIES[parts.frequency],
            dtstart=anchor.replace(year=anchor.year + CALENDARS),
            until=until and until.replace(year=until.year + CALENDARS),
            interval=parts.interval,
            count=parts.count,
            wkst=parts.week_start,
            byweekday=[weekday(day, number or None) for number, day in parts.days] or None,
            **by_numbers(parts, self.start),
        )
        try:
            # The largest rule has half a million times in a year: most are not looked at.
            first = since.replace(year=since.year + CALENDARS)
            for each in dropwhile(first.__gt__, expanded):
                yield each.replace(year=each.year - CALENDARS)
        except ValueError:
            return  # dateutil stumbles over a week that goes beyond the year 9999


def parse(text: str, *, start: datetime, zone: ZoneInfo) -> Rule:
    """Return the rule of ``text``: "RRULE:FREQ=…", "FREQ=…", or "" for once.

    ``start``: local, without a time zone; its microseconds are dropped. Times of a rule that names
    none are those of ``start``. Raises RuleError for whatever is not a rule, or never happens.
    """
    if not FIRST_YEAR <= start.year <= LAST_YEAR:
        raise RuleError(
            gettext("The start has to be in the years {first} to {last}.").format(
                first=FIRST_YEAR, last=LAST_YEAR
            )
        )
    start = start.replace(microsecond=0)
    parts = read(text, zone=zone)
    rule = Rule(written(parts), start, zone)
    if parts is None:
        return rule
    if parts.until and parts.until < start:
        raise RuleError("UNTIL is before the start: this rule never happens.")
    first = next(iter(rule.after(to_utc(start, zone) - SECOND)), None)
    if first is None or first > to_utc(years_later(start), zone):
        raise RuleError(
            f"This rule never happens within {MOST_YEARS} years after its start: "
            "check BYDAY, BYMONTHDAY, BYMONTH and BYSETPOS against each other."
        )
    return rule


def to_utc(local: datetime, zone: ZoneInfo) -> datetime:
    """Return the instant of a local time.

    One that the clock leaves out: the first moment after the gap. One that comes twice: the first.
    """
    before, after = (
        offset(local.replace(tzinfo=zone, fold=0)),
        offset(local.replace(tzinfo=zone, fold=1)),
    )
    utc = local.replace(tzinfo=UTC, fold=0)
    if after <= before:
        return utc - before
    # In a gap (PEP 495): the change is after one reading of the local time, not after the other.
    early, late = (utc - after).replace(microsecond=0), (utc - before).replace(microsecond=0)
    while late - early > SECOND:
        middle = early + (late - early) // (2 * SECOND) * SECOND
        if offset(middle.astimezone(zone)) == before:
            early = middle
        else:
            late = middle
    return late


def local_time(moment: datetime, zone: ZoneInfo) -> datetime:
    """Return a time as the clock of a zone shows it; one without an offset is local already.

    Raises RuleError for the second of two equal local times, which would mean the first.
    """
    if moment.tzinfo is None:
        return moment.replace(fold=0)
    try:
        local = moment.astimezone(zone).replace(tzinfo=None, fold=0)
    except OverflowError as error:
        raise RuleError(gettext("This time is outside of the calendar.")) from error
    if to_utc(local, zone) != moment:
        raise RuleError(TWICE)
    return local


def offset(moment: datetime) -> timedelta:
    """Return the distance of an aware time from UTC."""
    return moment.utcoffset() or timedelta()


def years_later(start: datetime) -> datetime:
    """Return a time ``MOST_YEARS`` years later; the first of March instead of a 29 February."""
    day = start + timedelta(days=1) if (start.month, start.day) == (2, 29) else start
    return day.replace(year=day.year + MOST_YEARS)


def moved(start: datetime, parts: Parts, target: datetime) -> datetime:
    """Return a start of the same rule, whole intervals later, at most a day after ``target``."""
    if parts.frequency in ("DAILY", "WEEKLY"):
        step = parts.interval * (7 if parts.frequency == "WEEKLY" else 1)
        return start + timedelta(days=(target - start).days // step * step)
    step = parts.interval * (12 if parts.frequency == "YEARLY" else 1)
    months = (target.year - start.year) * 12 + target.month - start.month
    months = months // step * step
    if not months:
        return start
    month = start.year * 12 + start.month - 1 + months
    # Of its month or year only: which days it has is said by ``by_numbers``.
    return start.replace(year=month // 12, month=month % 12 + 1, day=1)


def by_numbers(parts: Parts, start: datetime) -> dict[str, Any]:
    """Return the numbers of BY parts, with those of ``start`` where RFC 5545 takes them from it."""
    months, month_days = parts.months, parts.month_days
    if not parts.days and not month_days and parts.frequency in ("MONTHLY", "YEARLY"):
        month_days = (start.day,)
        if parts.frequency == "YEARLY":
            months = months or (start.month,)
    by = {
        "bymonth": months,
        "bymonthday": month_days,
        "bysetpos": parts.positions,
        "byhour": parts.hours or (start.hour,),
        "byminute": parts.minutes or (start.minute,),
    }
    return {name: numbers for name, numbers in by.items() if numbers} | {"bysecond": start.second}
