"""Random rules in random time zones over ten years, against dateutil and a slow mapping to UTC.

``SCHEDULE_RULES``: how many. The mapping tries offsets and minutes of UTC one after another; it
shares nothing with ``to_utc``.
"""

import os
import random
from bisect import bisect_right
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from functools import cache
from itertools import takewhile
from zoneinfo import ZoneInfo

import pytest
from dateutil.rrule import rrulestr

from core.conversations.schedules import rules, zones
from core.conversations.schedules.rules import RuleError

RULES = int(os.environ.get("SCHEDULE_RULES", "200"))
GROUPS = 10
FIRST = datetime(2020, 1, 1, tzinfo=UTC)
YEARS = 18  # from FIRST: starts of eight years, and ten years after each
SPAN = timedelta(days=3652)
MINUTE = timedelta(minutes=1)
# On two changes of the clock a year, of half an hour, of a month for Ramadan, and on none.
KNOWN = (
    "Europe/Berlin",
    "America/New_York",
    "Australia/Lord_Howe",
    "Africa/Casablanca",
    "America/Santiago",
    "Asia/Kolkata",
)


@cache
def changes(name: str) -> list[datetime]:
    """Return the minutes of UTC at which the clock of a zone changes."""
    zone, found, moment = ZoneInfo(name), [], FIRST
    end = FIRST + YEARS * timedelta(days=366)
    while moment < end:
        later = moment + timedelta(hours=12)
        if moment.astimezone(zone).utcoffset() != later.astimezone(zone).utcoffset():
            each = moment
            while each.astimezone(zone).utcoffset() == moment.astimezone(zone).utcoffset():
                each += MINUTE
            found.append(each)
        moment = later
    return found


@cache
def offsets(name: str) -> set[timedelta]:
    """Return the distances from UTC that a zone has in that time."""
    moments = [FIRST, *changes(name)]
    return {each.astimezone(ZoneInfo(name)).utcoffset() or timedelta() for each in moments}


def wall(moment: datetime, name: str) -> datetime:
    """Return what the clock on the wall shows."""
    return moment.astimezone(ZoneInfo(name)).replace(tzinfo=None, fold=0)


def mapped(local: datetime, name: str) -> datetime:
    """Return the first moment at which the clock shows ``local``; if it never does, the first at
    which it shows more."""
    utc = local.replace(tzinfo=UTC)
    shown = [utc - each for each in offsets(name) if wall(utc - each, name) == local]
    if shown:
        return min(shown)
    moment = (utc - max(offsets(name)) - timedelta(hours=1)).replace(second=0)
    while wall(moment, name) <= local:
        moment += MINUTE
    return moment


def random_zone(dice: random.Random) -> str:
    """Return a name: of the whole list, or one whose clock changes often."""
    return (
        dice.choice(KNOWN) if dice.random() < 0.3 else dice.choice(sorted(zones.names().values()))
    )


def random_start(dice: random.Random, name: str) -> datetime:
    """Return a local start; every second one at the time of day of a change of the clock."""
    start = wall(FIRST, name) + dice.randrange(8 * 365 * 24 * 60) * MINUTE
    if changes(name) and dice.random() < 0.5:
        shown = wall(dice.choice(changes(name)), name) + dice.randint(-90, 90) * MINUTE
        start = start.replace(hour=shown.hour, minute=shown.minute)
    return start


def some(dice: random.Random, *numbers: int, most: int = 3) -> str:
    """Return a few of the numbers, as a rule lists them."""
    return ",".join(map(str, dice.sample(numbers, dice.randint(1, min(most, len(numbers))))))


def random_rule(dice: random.Random, start: datetime) -> str:
    """Return a rule of any form that is allowed, with at most nine times a day."""
    frequency = dice.choice(["MINUTELY", "HOURLY", *("DAILY", "WEEKLY", "MONTHLY") * 2, "YEARLY"])
    parts = [f"FREQ={frequency}"]
    least = {"MINUTELY": 500, "HOURLY": 8}.get(frequency, 1)
    if least > 1 or dice.random() < 0.4:
        parts.append(f"INTERVAL={least + dice.choice([0, 1, 2, 3, 6, 16, 59, 399])}")
    if dice.random() < 0.2:
        parts.append(f"COUNT={dice.choice([1, 2, 10, 365, 1000])}")
    elif dice.random() < 0.2:
        until = start + timedelta(minutes=dice.randrange(10 * 365 * 24 * 60))
        parts.append(f"UNTIL={until:%Y%m%dT%H%M%S}")
    if least == 1:
        parts += random_by(dice, frequency)
    dice.shuffle(parts)
    return ";".join(parts)


def random_by(dice: random.Random, frequency: str) -> Iterator[str]:
    """Yield parts that choose days and times."""
    is_long = frequency in ("MONTHLY", "YEARLY")
    if dice.random() < 0.2:
        yield f"BYMONTH={some(dice, *range(1, 13))}"
    if dice.random() < 0.25:
        yield f"BYMONTHDAY={some(dice, *range(1, 32), -1, -2, -31)}"
    if dice.random() < 0.5:
        numbers = ("", "", "1", "2", "+3", "-1", "5") if is_long else ("",)
        days = dice.sample(("MO", "TU", "WE", "TH", "FR", "SA", "SU"), dice.randint(1, 7))
        yield "BYDAY=" + ",".join(dice.choice(numbers) + day for day in days)
        if frequency != "DAILY" and dice.random() < 0.3:
            yield f"BYSETPOS={some(dice, 1, 2, 3, -1, -2, 40)}"
    if dice.random() < 0.3:
        yield f"BYHOUR={some(dice, 0, 1, 2, 3, 8, 12, 23)}"
    if dice.random() < 0.3:
        yield f"BYMINUTE={some(dice, 0, 15, 30, 45, 59)}"
    if dice.random() < 0.2:
        yield f"WKST={dice.choice(['SU', 'WE'])}"


def expected(text: str, start: datetime, name: str) -> list[datetime]:
    """Return what dateutil makes of the rule in ten years, each instant once."""
    if "MINUTELY" in text or "HOURLY" in text:
        aware = mapped(start, name)
        if "UNTIL=" in text:
            head, _, tail = text.partition("UNTIL=")
            until = mapped(datetime.strptime(tail[:15], "%Y%m%dT%H%M%S"), name)  # noqa: DTZ007
            text = f"{head}UNTIL={until:%Y%m%dT%H%M%S}Z{tail[15:]}"
        return list(takewhile(lambda each: each <= aware + SPAN, rrulestr(text, dtstart=aware)))
    local = takewhile(lambda each: each <= start + SPAN, rrulestr(text, dtstart=start))
    return sorted({mapped(each, name) for each in local})


@pytest.mark.sampled
@pytest.mark.unmeasured
@pytest.mark.parametrize("group", range(GROUPS))
def test_h1_h2_random_rules_happen_when_dateutil_and_the_clock_say(group: int) -> None:
    for number in range(group, RULES, GROUPS):
        dice = random.Random(f"rule {number}")
        name = random_zone(dice)
        start = random_start(dice, name)
        text = random_rule(dice, start)
        said = f"{number}: {text} from {start} in {name}"
        times = expected(text, start, name)
        if not times:
            with pytest.raises(RuleError, match="never happens"):
                rules.parse(text, start=start, zone=ZoneInfo(name))
            continue
        rule = rules.parse(text, start=start, zone=ZoneInfo(name))
        before = times[0] - timedelta(days=dice.randrange(400), seconds=1)
        assert rule.after(before, most=len(times)) == times, said
        for each in dice.choices(times, k=5):
            moment = each + dice.choice([-1, 0, 1, 86_399]) * timedelta(seconds=1)
            following = times[bisect_right(times, moment) :][:3]
            assert rule.after(moment, most=len(following) or 1)[: len(following)] == following, said


@pytest.mark.sampled
@pytest.mark.unmeasured
@pytest.mark.parametrize("group", range(GROUPS))
def test_h2_all_changes_of_the_clock_are_mapped_as_the_clock_shows_them(group: int) -> None:
    names = sorted(zones.names().values())
    random.Random("zones").shuffle(names)
    for name in names[: max(len(KNOWN), RULES // 3)][group::GROUPS] + list(KNOWN[group::GROUPS]):
        for change in changes(name):
            for minutes in range(-180, 181, 20):
                local = wall(change, name) + minutes * MINUTE
                assert rules.to_utc(local, ZoneInfo(name)) == mapped(local, name), (name, local)
