"""Moments and rules in words, in six languages."""

from datetime import UTC, datetime
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.conversations.schedules import dates

BERLIN = ZoneInfo("Europe/Berlin")
MOMENT = datetime(2026, 11, 26, 7, 0, 59, tzinfo=UTC)


@pytest.mark.parametrize(
    ("language", "words"),
    [
        ("en", "Thursday, 26 November 2026 at 08:00"),
        ("en-GB", "Thursday, 26 November 2026 at 08:00"),
        ("zh", "2026年11月26日 星期四 08:00"),
        ("zh-CN", "2026年11月26日 星期四 08:00"),
        ("es", "jueves, 26 de noviembre de 2026, 08:00"),
        ("de_DE", "Donnerstag, 26. November 2026 um 08:00 Uhr"),
        ("fr", "jeudi 26 novembre 2026 à 08:00"),
        ("ja", "2026年11月26日（木曜日） 08:00"),
        ("tlh", "Thursday, 26 November 2026 at 08:00"),
        ("", "Thursday, 26 November 2026 at 08:00"),
    ],
)
def test_h3_a_moment_is_said_in_the_persons_language_and_zone(language: str, words: str) -> None:
    assert dates.in_words(MOMENT, BERLIN, language) == words


def test_h3_the_zone_decides_the_day() -> None:
    assert dates.in_words(MOMENT, ZoneInfo("Pacific/Auckland"), "en").startswith("Thursday, 26")
    assert dates.in_words(MOMENT, ZoneInfo("Pacific/Honolulu"), "en").startswith("Wednesday, 25")


@pytest.mark.parametrize("language", ["zh-TW", "zh-Hant-HK"])
def test_h3_traditional_chinese_has_its_own_weekdays(language: str) -> None:
    assert dates.in_words(MOMENT, BERLIN, language) == "2026年11月26日 星期四 08:00"
    assert dates.repeats("FREQ=WEEKLY;BYDAY=MO", language) == "每週：星期一"


@pytest.mark.parametrize(
    ("rule", "words"),
    [
        ("", "once"),
        ("FREQ=DAILY;BYHOUR=7;BYMINUTE=30", "every day"),
        ("FREQ=DAILY;INTERVAL=3;COUNT=4", "every 3 days, 4 times in all"),
        ("FREQ=DAILY;COUNT=1", "once"),
        ("FREQ=WEEKLY;UNTIL=20261231", "every week, until 31 December 2026"),
        ("FREQ=WEEKLY;UNTIL=20261231T180000", "every week, until 31 December 2026 18:00"),
        ("FREQ=DAILY;BYHOUR=8,18;COUNT=9", "repeats, 9 times in all"),
        ("FREQ=DAILY;BYDAY=MO,TU,WE,TH,FR", "every weekday"),
        ("FREQ=WEEKLY;BYDAY=FR,TH,WE,TU,MO", "every weekday"),
        ("FREQ=WEEKLY;INTERVAL=2;BYDAY=MO,TU,WE,TH,FR,SA,SU", None),
        ("FREQ=WEEKLY;BYDAY=MO,TU,WE,TH,FR,SA,SU", "every day"),
        ("FREQ=WEEKLY", "every week"),
        ("FREQ=WEEKLY;BYDAY=FR,MO", "every week: Monday, Friday"),
        ("FREQ=DAILY;BYDAY=SU", "every week: Sunday"),
        ("FREQ=WEEKLY;INTERVAL=2;BYDAY=SU", "every 2 weeks: Sunday"),
        ("FREQ=MONTHLY", "every month"),
        ("FREQ=MONTHLY;BYMONTHDAY=15", "every month"),
        ("FREQ=MONTHLY;BYDAY=-1FR", "every month"),
        ("FREQ=MONTHLY;BYDAY=MO,TU,WE,TH,FR;BYSETPOS=-1", "every month"),
        ("FREQ=MONTHLY;INTERVAL=2", "every 2 months"),
        ("FREQ=YEARLY", "every year"),
        ("FREQ=YEARLY;BYMONTH=12;BYMONTHDAY=24", "every year"),
        ("FREQ=MINUTELY;INTERVAL=20", "every 20 minutes"),
        ("FREQ=HOURLY", "every hour"),
        ("FREQ=DAILY;BYHOUR=8,18", "repeats"),
        ("FREQ=DAILY;BYMONTH=12", "repeats"),
        ("FREQ=DAILY;INTERVAL=2;BYDAY=MO", "repeats"),
        ("FREQ=WEEKLY;BYDAY=MO,TU;BYSETPOS=1", "repeats"),
        ("FREQ=MONTHLY;BYMONTHDAY=1,15", "repeats"),
        ("FREQ=MONTHLY;BYDAY=FR", "repeats"),
        ("FREQ=MONTHLY;BYMONTH=1", "repeats"),
        ("FREQ=YEARLY;BYMONTH=1,7", "repeats"),
        ("FREQ=YEARLY;BYMONTHDAY=13", "repeats"),
        ("nonsense", "repeats"),
    ],
)
def test_h3_how_often_is_said_in_a_few_words(rule: str, words: str | None) -> None:
    days = "Monday, Tuesday, Wednesday, Thursday, Friday, Saturday, Sunday"
    assert dates.repeats(rule, "en") == (words or f"every 2 weeks: {days}")


@pytest.mark.parametrize(
    ("language", "words"),
    [
        ("zh", ["一次", "每天", "每个工作日", "每周：星期一、星期五", "每20分钟", "重复"]),
        (
            "es",
            ["una vez", "cada día", "de lunes a viernes", "cada semana: lunes, viernes",
             "cada 20 minutos", "se repite"],
        ),
        (
            "de",
            ["einmal", "jeden Tag", "montags bis freitags", "jede Woche: Montag, Freitag",
             "alle 20 Minuten", "wiederholt sich"],
        ),
        (
            "fr",
            ["une fois", "chaque jour", "du lundi au vendredi", "chaque semaine : lundi, vendredi",
             "toutes les 20 minutes", "se répète"],
        ),
        (
            "ja",
            ["1回", "毎日", "月曜日から金曜日まで", "毎週：月曜日、金曜日", "20分ごと", "繰り返し"],
        ),
    ],
)  # fmt: skip
def test_h3_rules_are_said_in_each_language(language: str, words: list[str]) -> None:
    texts = [
        "",
        "FREQ=DAILY",
        "FREQ=DAILY;BYDAY=MO,TU,WE,TH,FR",
        "FREQ=WEEKLY;BYDAY=MO,FR",
        "FREQ=MINUTELY;INTERVAL=20",
        "FREQ=DAILY;BYHOUR=8,18",
    ]
    assert [dates.repeats(text, language) for text in texts] == words


@pytest.mark.parametrize(
    ("language", "words"),
    [
        ("zh", ["每天、共4次", "每天、到2026年12月31日为止"]),
        ("zh-TW", ["每天、共4次", "每天、到2026年12月31日為止"]),
        ("es", ["cada día, 4 veces en total", "cada día, hasta el 31 de diciembre de 2026"]),
        ("de", ["jeden Tag, insgesamt 4 Mal", "jeden Tag, bis 31. Dezember 2026"]),
        ("fr", ["chaque jour, 4 fois en tout", "chaque jour, jusqu'au 31 décembre 2026"]),
        ("ja", ["毎日、全4回", "毎日、2026年12月31日まで"]),
    ],
)
def test_h3_the_end_of_a_rule_is_said_in_each_language(language: str, words: list[str]) -> None:
    ends = ["FREQ=DAILY;COUNT=4", "FREQ=DAILY;UNTIL=20261231"]
    assert [dates.repeats(text, language) for text in ends] == words


@given(st.text(max_size=60), st.text(max_size=12))
def test_h3_any_text_in_any_language_is_said(rule: str, language: str) -> None:
    assert dates.repeats(rule, language)
    assert "2026" in dates.in_words(MOMENT, BERLIN, language)


def test_every_language_has_words_for_every_frequency() -> None:
    for words in dates.LANGUAGES.values():
        assert set(words.units) == set(dates.ENGLISH.units)
        assert all("{}" in more and "{}" not in one for one, more in words.units.values())
