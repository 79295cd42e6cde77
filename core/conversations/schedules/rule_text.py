"""The text of a recurrence rule: the parts of RFC 5545 (section 3.3.10) that schedules take."""

import re
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

MOST_CHARACTERS = 500
DAYS = ("MO", "TU", "WE", "TH", "FR", "SA", "SU")
ELAPSED = {"MINUTELY": timedelta(minutes=1), "HOURLY": timedelta(hours=1)}
FREQUENCIES = (*ELAPSED, "DAILY", "WEEKLY", "MONTHLY", "YEARLY")
# Part -> smallest, largest, and whether it may be negative (from the end).
NUMBERS = {
    "BYMONTH": (1, 12, False),
    "BYMONTHDAY": (1, 31, True),
    "BYHOUR": (0, 23, False),
    "BYMINUTE": (0, 59, False),
    "BYSETPOS": (1, 366, True),
}
MOST_POSITIONS = 10  # each costs a look at all days of a week, a month or a year
OTHERS = ("INTERVAL", "COUNT", "UNTIL", "BYDAY", "WKST")
ALLOWED = ("FREQ", *OTHERS, *NUMBERS)
NUMBER = re.compile(r"[+-]?[0-9]{1,4}")
DAY = re.compile(r"([+-]?[0-9]{1,2})?(MO|TU|WE|TH|FR|SA|SU)")
UNTIL = re.compile(r"([0-9]{8})(?:T([0-9]{6})(Z?))?")
END_OF_DAY = "235959"


class RuleError(Exception):
    """Why a text is no rule, or a name no time zone: a sentence for the model or the person."""


@dataclass(frozen=True)
class Parts:
    """A rule. ``days``: (0 or which of the month or year, 0 for Monday); ``until``: local."""

    frequency: str
    interval: int
    count: int | None
    until: datetime | None
    months: tuple[int, ...]
    month_days: tuple[int, ...]
    days: tuple[tuple[int, int], ...]
    hours: tuple[int, ...]
    minutes: tuple[int, ...]
    positions: tuple[int, ...]
    week_start: int


def read(text: str, *, zone: ZoneInfo) -> Parts | None:
    """Return the parts of a rule, in any case and with any spaces; None for an empty text (once).

    ``zone``: in which a UNTIL in UTC is read. Raises RuleError.
    """
    if len(text) > MOST_CHARACTERS:
        raise RuleError(f"A rule has at most {MOST_CHARACTERS} characters.")
    values = split("".join(text.split()).upper().removeprefix("RRULE:"))
    if not values:
        return None
    frequency = values.get("FREQ", "")
    if frequency not in FREQUENCIES:
        raise RuleError(f"A rule needs FREQ, one of {', '.join(FREQUENCIES)}.")
    refuse_of_elapsed(frequency, values)
    if "COUNT" in values and "UNTIL" in values:
        raise RuleError("Write COUNT or UNTIL, not both.")
    numbers = {name: by_numbers(name, values.get(name)) for name in NUMBERS}
    if len(numbers["BYSETPOS"]) > MOST_POSITIONS:
        raise RuleError(f"BYSETPOS takes at most {MOST_POSITIONS} numbers.")
    if numbers["BYSETPOS"] and frequency == "DAILY":
        raise RuleError("BYSETPOS does not work with FREQ=DAILY: write the times as BYHOUR.")
    return Parts(
        frequency=frequency,
        interval=one_number("INTERVAL", values["INTERVAL"]) if "INTERVAL" in values else 1,
        count=one_number("COUNT", values["COUNT"]) if "COUNT" in values else None,
        until=local_until(values["UNTIL"], zone) if "UNTIL" in values else None,
        months=numbers["BYMONTH"],
        month_days=numbers["BYMONTHDAY"],
        days=weekdays(values.get("BYDAY"), frequency),
        hours=numbers["BYHOUR"],
        minutes=numbers["BYMINUTE"],
        positions=numbers["BYSETPOS"],
        week_start=week_start(values.get("WKST", "MO")),
    )


def split(text: str) -> dict[str, str]:
    """Return name -> value of the parts of a rule, each of them allowed and written once."""
    values: dict[str, str] = {}
    for part in text.split(";"):
        if not part:
            continue
        name, equals, value = part.partition("=")
        if not equals or not value:
            raise RuleError(f"{short(part)} is not NAME=VALUE. Write a rule such as FREQ=DAILY.")
        if name not in ALLOWED:
            raise RuleError(f"{short(name)} is not supported. Use only {', '.join(ALLOWED)}.")
        if name in values:
            raise RuleError(f"{name} is written twice.")
        values[name] = value
    return values


def refuse_of_elapsed(frequency: str, values: dict[str, str]) -> None:
    """Raise for parts that a rule of minutes or hours does not take."""
    others = [name for name in values if name.startswith(("BY", "WKST"))]
    if frequency in ELAPSED and others:
        raise RuleError(
            f"FREQ={frequency} takes only INTERVAL, COUNT and UNTIL, not {others[0]}. For times of "
            "the day write FREQ=DAILY;BYHOUR=…;BYMINUTE=… instead."
        )


def one_number(name: str, value: str) -> int:
    """Return INTERVAL or COUNT."""
    if not NUMBER.fullmatch(value) or not 1 <= int(value) <= 1000:
        raise RuleError(f"{name} is a number from 1 to 1000, not {short(value)}.")
    return int(value)


def by_numbers(name: str, value: str | None) -> tuple[int, ...]:
    """Return the numbers of a BY part, sorted, each once; none without the part."""
    if value is None:
        return ()
    first, last, from_end = NUMBERS[name]
    found = set()
    for each in value.split(","):
        number = int(each) if NUMBER.fullmatch(each) else None
        if number is None or not first <= (abs(number) if from_end else number) <= last:
            ends = f", or -{last} to -{first} from the end" if from_end else ""
            raise RuleError(f"{name} takes {first} to {last}{ends}, not {short(each)}.")
        found.add(number)
    return tuple(sorted(found))


def weekdays(value: str | None, frequency: str) -> tuple[tuple[int, int], ...]:
    """Return the days of BYDAY; none without it."""
    found = set()
    for each in value.split(",") if value else ():
        match = DAY.fullmatch(each)
        if not match:
            raise RuleError(
                f"BYDAY takes {', '.join(DAYS)}, or such as 1MO or -1FR, not {short(each)}."
            )
        number = int(match[1] or 0)
        if match[1] and frequency not in ("MONTHLY", "YEARLY"):
            raise RuleError(
                f"{each} has a number: that works with FREQ=MONTHLY or FREQ=YEARLY only."
            )
        most = 5 if frequency == "MONTHLY" else 53
        if match[1] and not 1 <= abs(number) <= most:
            raise RuleError(f"The number in {each} has to be 1 to {most}, or -{most} to -1.")
        found.add((number, DAYS.index(match[2])))
    return tuple(sorted(found))


def local_until(value: str, zone: ZoneInfo) -> datetime:
    """Return UNTIL as local time: a day includes its end, one in UTC is converted."""
    match = UNTIL.fullmatch(value)
    try:
        if not match:
            raise ValueError
        until = datetime.strptime(  # noqa: DTZ007 (local, or made aware below)
            match[1] + (match[2] or END_OF_DAY), "%Y%m%d%H%M%S"
        )
        if match[3]:
            until = until.replace(tzinfo=UTC).astimezone(zone).replace(tzinfo=None, fold=0)
    except (ValueError, OverflowError):
        raise RuleError(
            f"UNTIL is a day such as 20261231 or a local time such as 20261231T180000, "
            f"not {short(value)}."
        ) from None
    return until


def week_start(value: str) -> int:
    """Return WKST, 0 for Monday."""
    if value not in DAYS:
        raise RuleError(f"WKST is one of {', '.join(DAYS)}, not {short(value)}.")
    return DAYS.index(value)


def written(parts: Parts | None) -> str:
    """Return a rule as text in its one form; "" for once. Raises RuleError if it is too long."""
    if parts is None:
        return ""
    days = ",".join(f"{number or ''}{DAYS[day]}" for number, day in parts.days)
    values = {
        "FREQ": parts.frequency,
        "INTERVAL": str(parts.interval) if parts.interval > 1 else "",
        "COUNT": str(parts.count or ""),
        "UNTIL": f"{parts.until:%Y%m%dT%H%M%S}".zfill(15) if parts.until else "",
        "BYMONTH": listed(parts.months),
        "BYMONTHDAY": listed(parts.month_days),
        "BYDAY": days,
        "BYHOUR": listed(parts.hours),
        "BYMINUTE": listed(parts.minutes),
        "BYSETPOS": listed(parts.positions),
        "WKST": DAYS[parts.week_start] if parts.week_start else "",
    }
    text = ";".join(f"{name}={value}" for name, value in values.items() if value)
    if len(text) > MOST_CHARACTERS:
        raise RuleError(f"A rule has at most {MOST_CHARACTERS} characters.")
    return text


def listed(numbers: tuple[int, ...]) -> str:
    """Return numbers as a rule lists them."""
    return ",".join(map(str, numbers))


def short(text: str) -> str:
    """Return what was written, for a message."""
    return f'"{text[:40]}"'
