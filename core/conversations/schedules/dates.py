"""Moments and rules in words, in the person's language."""

from dataclasses import dataclass, replace
from datetime import datetime
from zoneinfo import ZoneInfo

from django.utils import dateformat, translation
from django.utils.dates import WEEKDAYS

from core.conversations.schedules.rule_text import END_OF_DAY, Parts, RuleError, read

WORKING_DAYS = (0, 1, 2, 3, 4)
TRADITIONAL = {"hant", "tw", "hk", "mo"}  # script and regions of traditional Chinese


@dataclass(frozen=True, slots=True, kw_only=True)
class Words:
    """The phrases of one language. ``moment`` and ``day`` are formats of Django's ``date`` filter.

    ``units``: frequency -> "every …", and the same with a number.
    """

    moment: str
    day: str
    until: str
    times: str
    once: str
    weekday: str
    repeats: str
    units: dict[str, tuple[str, str]]
    between: str = ", "
    colon: str = ": "


ENGLISH = Words(
    moment=r"l, j F Y \a\t H:i",
    day="j F Y",
    until="until {}",
    times="{} times in all",
    once="once",
    weekday="every weekday",
    repeats="repeats",
    units={
        "MINUTELY": ("every minute", "every {} minutes"),
        "HOURLY": ("every hour", "every {} hours"),
        "DAILY": ("every day", "every {} days"),
        "WEEKLY": ("every week", "every {} weeks"),
        "MONTHLY": ("every month", "every {} months"),
        "YEARLY": ("every year", "every {} years"),
    },
)
CHINESE = Words(
    moment="Y年n月j日 l H:i",
    day="Y年n月j日",
    until="到{}为止",
    times="共{}次",
    once="一次",
    weekday="每个工作日",
    repeats="重复",
    units={
        "MINUTELY": ("每分钟", "每{}分钟"),
        "HOURLY": ("每小时", "每{}小时"),
        "DAILY": ("每天", "每{}天"),
        "WEEKLY": ("每周", "每{}周"),
        "MONTHLY": ("每月", "每{}个月"),
        "YEARLY": ("每年", "每{}年"),
    },
    between="、",
    colon="：",
)
LANGUAGES = {
    "en": ENGLISH,
    "zh": CHINESE,
    "zh-hant": replace(
        CHINESE,
        until="到{}為止",
        weekday="每個工作日",
        repeats="重複",
        units={
            **CHINESE.units,
            "MINUTELY": ("每分鐘", "每{}分鐘"),
            "HOURLY": ("每小時", "每{}小時"),
            "WEEKLY": ("每週", "每{}週"),
            "MONTHLY": ("每月", "每{}個月"),
        },
    ),
    "es": Words(
        moment=r"l, j \d\e F \d\e Y, H:i",
        day=r"j \d\e F \d\e Y",
        until="hasta el {}",
        times="{} veces en total",
        once="una vez",
        weekday="de lunes a viernes",
        repeats="se repite",
        units={
            "MINUTELY": ("cada minuto", "cada {} minutos"),
            "HOURLY": ("cada hora", "cada {} horas"),
            "DAILY": ("cada día", "cada {} días"),
            "WEEKLY": ("cada semana", "cada {} semanas"),
            "MONTHLY": ("cada mes", "cada {} meses"),
            "YEARLY": ("cada año", "cada {} años"),
        },
    ),
    "de": Words(
        moment=r"l, j. F Y \u\m H:i \U\h\r",
        day="j. F Y",
        until="bis {}",
        times="insgesamt {} Mal",
        once="einmal",
        weekday="montags bis freitags",
        repeats="wiederholt sich",
        units={
            "MINUTELY": ("jede Minute", "alle {} Minuten"),
            "HOURLY": ("jede Stunde", "alle {} Stunden"),
            "DAILY": ("jeden Tag", "alle {} Tage"),
            "WEEKLY": ("jede Woche", "alle {} Wochen"),
            "MONTHLY": ("jeden Monat", "alle {} Monate"),
            "YEARLY": ("jedes Jahr", "alle {} Jahre"),
        },
    ),
    "fr": Words(
        moment="l j F Y à H:i",
        day="j F Y",
        until="jusqu'au {}",
        times="{} fois en tout",
        once="une fois",
        weekday="du lundi au vendredi",
        repeats="se répète",
        units={
            "MINUTELY": ("chaque minute", "toutes les {} minutes"),
            "HOURLY": ("chaque heure", "toutes les {} heures"),
            "DAILY": ("chaque jour", "tous les {} jours"),
            "WEEKLY": ("chaque semaine", "toutes les {} semaines"),
            "MONTHLY": ("chaque mois", "tous les {} mois"),
            "YEARLY": ("chaque année", "tous les {} ans"),
        },
        colon=" : ",
    ),
    "ja": Words(
        moment="Y年n月j日（l） H:i",
        day="Y年n月j日",
        until="{}まで",
        times="全{}回",
        once="1回",
        weekday="月曜日から金曜日まで",
        repeats="繰り返し",
        units={
            "MINUTELY": ("毎分", "{}分ごと"),
            "HOURLY": ("毎時", "{}時間ごと"),
            "DAILY": ("毎日", "{}日ごと"),
            "WEEKLY": ("毎週", "{}週間ごと"),
            "MONTHLY": ("毎月", "{}か月ごと"),
            "YEARLY": ("毎年", "{}年ごと"),
        },
        between="、",
        colon="：",
    ),
}


def in_words(moment: datetime, zone: ZoneInfo, language: str) -> str:
    """Return an aware moment as local date and time, without seconds; in English for a language
    that is not among ours.

    ``language``: a tag such as ``de`` or ``zh-CN``.
    """
    words, locale = words_and_locale(language)
    with translation.override(locale):
        return dateformat.format(moment.astimezone(zone), words.moment)


def repeats(rule_text: str, language: str) -> str:
    """Return how often a rule happens, and its end: ``every week: Monday, Friday, 4 times in all``;
    one that takes more words than that, or is no rule, is just "repeats"."""
    words, locale = words_and_locale(language)
    try:
        parts = read(rule_text, zone=ZoneInfo("UTC"))
    except RuleError:
        return words.repeats
    if parts is None or parts.count == 1:
        return words.once
    return words.between.join([how_often(parts, words, locale), *end_of(parts, words, locale)])


def end_of(parts: Parts, words: Words, locale: str) -> list[str]:
    """Return when a rule ends, in words; nothing for one without an end."""
    if parts.count is not None:
        return [words.times.format(parts.count)]
    if parts.until is None:
        return []
    is_whole_day = f"{parts.until:%H%M%S}" == END_OF_DAY
    with translation.override(locale):
        day = dateformat.format(parts.until, words.day if is_whole_day else f"{words.day} H:i")
    return [words.until.format(day)]


def how_often(parts: Parts, words: Words, locale: str) -> str:
    """Return how often a rule happens, without its end."""
    days = tuple(day for _, day in parts.days)
    if not is_simple(parts):
        return words.repeats
    if parts.frequency not in ("DAILY", "WEEKLY") or not days:
        return every(words, parts.frequency, parts.interval)
    if parts.interval == 1 and len(days) == len(WEEKDAYS):
        return every(words, "DAILY", 1)
    if parts.interval == 1 and days == WORKING_DAYS:
        return words.weekday
    with translation.override(locale):
        names = words.between.join(str(WEEKDAYS[day]) for day in days)
    return f"{every(words, 'WEEKLY', parts.interval)}{words.colon}{names}"


def is_simple(parts: Parts) -> bool:
    """Return whether a frequency, an interval and weekdays say it all, but for the time and the
    day of the month or year."""
    if len(parts.hours) > 1 or len(parts.minutes) > 1:
        return False
    if parts.frequency == "DAILY":
        return not (
            parts.months
            or parts.month_days
            or parts.positions
            or (parts.days and parts.interval > 1)
        )
    if parts.frequency == "WEEKLY":
        return not (parts.months or parts.month_days or parts.positions)
    return is_once_a_period(parts)


def is_once_a_period(parts: Parts) -> bool:
    """Return whether a rule of months or years picks at most one day of each."""
    is_yearly = parts.frequency == "YEARLY"
    if len(parts.months) > is_yearly or len(parts.month_days) > 1 or len(parts.positions) > 1:
        return False
    if parts.positions:
        return True
    if is_yearly and parts.month_days and not parts.months:
        return False
    return not parts.days or (len(parts.days) == 1 and parts.days[0][0] != 0)


def every(words: Words, frequency: str, interval: int) -> str:
    """Return "every day", or "every 3 days"."""
    one, more = words.units[frequency]
    return one if interval == 1 else more.format(interval)


def words_and_locale(language: str) -> tuple[Words, str]:
    """Return the phrases of a language, and Django's name of it."""
    main, *more = language.lower().replace("_", "-").split("-")
    if main == "zh":
        if TRADITIONAL & set(more):
            return LANGUAGES["zh-hant"], "zh-hant"
        return LANGUAGES["zh"], "zh-hans"
    return (LANGUAGES[main], main) if main in LANGUAGES else (ENGLISH, "en")
