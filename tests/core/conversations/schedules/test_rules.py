"""Rules of schedules: their times, and texts that are refused, with which words."""

from datetime import UTC, datetime, timedelta
from itertools import pairwise
from zoneinfo import ZoneInfo

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from core.conversations.schedules import rules
from core.conversations.schedules.rules import Rule, RuleError

BERLIN = ZoneInfo("Europe/Berlin")
START = datetime.fromisoformat("2026-11-25T08:00")  # a Wednesday
LONG_AGO = datetime(1, 1, 1, tzinfo=UTC)


def local(text: str) -> datetime:
    """Return a local time."""
    return datetime.fromisoformat(text)


def parse(text: str, *, start: datetime = START, zone: str = "Europe/Berlin") -> Rule:
    """Return a rule."""
    return rules.parse(text, start=start, zone=ZoneInfo(zone))


def shown(rule: Rule, *, after: str = "2026-11-25T00:00", most: int = 3) -> list[str]:
    """Return the next times as the clock on the wall shows them."""
    moment = local(after).replace(tzinfo=rule.zone)
    times = rule.after(moment, most=most)
    return [f"{each.astimezone(rule.zone):%Y-%m-%d %H:%M}" for each in times]


def refused(text: str) -> str:
    """Return why a rule is refused."""
    with pytest.raises(RuleError) as caught:
        parse(text)
    return str(caught.value)


@pytest.mark.parametrize(
    ("written", "normal"),
    [
        ("", ""),
        ("  \n", ""),
        ("RRULE:", ""),
        ("RRULE:FREQ=DAILY", "FREQ=DAILY"),
        (" rrule: freq = weekly ; byday = mo, fr ;", "FREQ=WEEKLY;BYDAY=MO,FR"),
        ("INTERVAL=01;FREQ=DAILY", "FREQ=DAILY"),
        ("BYDAY=FR,MO,MO;FREQ=WEEKLY;WKST=SU", "FREQ=WEEKLY;BYDAY=MO,FR;WKST=SU"),
        ("FREQ=MONTHLY;BYDAY=+1MO,-1FR", "FREQ=MONTHLY;BYDAY=-1FR,1MO"),
        ("FREQ=DAILY;BYHOUR=9,07;BYMINUTE=0", "FREQ=DAILY;BYHOUR=7,9;BYMINUTE=0"),
        ("FREQ=DAILY;UNTIL=20270101T120000", "FREQ=DAILY;UNTIL=20270101T120000"),
        ("FREQ=DAILY;UNTIL=20270101T120000Z", "FREQ=DAILY;UNTIL=20270101T130000"),
        ("FREQ=DAILY;UNTIL=20270101", "FREQ=DAILY;UNTIL=20270101T235959"),
        ("FREQ=HOURLY;INTERVAL=2;COUNT=5", "FREQ=HOURLY;INTERVAL=2;COUNT=5"),
    ],
)
def test_h1_a_rule_is_kept_in_one_form(written: str, normal: str) -> None:
    assert parse(written).text == normal
    assert parse(normal).text == normal


@pytest.mark.parametrize(
    ("text", "times"),
    [
        ("", ["2026-11-25 08:00"]),
        ("FREQ=DAILY;COUNT=2", ["2026-11-25 08:00", "2026-11-26 08:00"]),
        ("FREQ=DAILY;UNTIL=20261126", ["2026-11-25 08:00", "2026-11-26 08:00"]),
        (
            "FREQ=WEEKLY;BYDAY=MO,TU,WE,TH,FR;BYHOUR=7;BYMINUTE=30",
            ["2026-11-26 07:30", "2026-11-27 07:30", "2026-11-30 07:30"],
        ),
        (
            "FREQ=MONTHLY;BYDAY=-1FR",
            ["2026-11-27 08:00", "2026-12-25 08:00", "2027-01-29 08:00"],
        ),
        (
            "FREQ=MONTHLY;BYDAY=MO,TU,WE,TH,FR;BYSETPOS=-1",
            ["2026-11-30 08:00", "2026-12-31 08:00", "2027-01-29 08:00"],
        ),
        (
            "FREQ=MONTHLY;BYMONTHDAY=31",
            ["2026-12-31 08:00", "2027-01-31 08:00", "2027-03-31 08:00"],
        ),
        ("FREQ=YEARLY", ["2026-11-25 08:00", "2027-11-25 08:00", "2028-11-25 08:00"]),
        ("FREQ=MINUTELY;INTERVAL=20", ["2026-11-25 08:00", "2026-11-25 08:20", "2026-11-25 08:40"]),
        ("FREQ=HOURLY;INTERVAL=5;COUNT=2", ["2026-11-25 08:00", "2026-11-25 13:00"]),
        ("FREQ=HOURLY;UNTIL=20261125T090000", ["2026-11-25 08:00", "2026-11-25 09:00"]),
    ],
)
def test_h1_a_rule_happens_at_its_local_times(text: str, times: list[str]) -> None:
    assert shown(parse(text)) == times


def test_h1_the_next_time_is_strictly_after_the_moment_and_in_utc() -> None:
    rule = parse("FREQ=DAILY")
    first = datetime(2026, 11, 25, 7, tzinfo=UTC)
    assert rule.after(first - timedelta(microseconds=1)) == [first]
    assert rule.after(first) == [first + timedelta(days=1)]
    assert rule.after(LONG_AGO)[0].tzinfo is UTC
    assert rule.after(first, most=0) == []


@pytest.mark.parametrize("text", ["", "FREQ=DAILY;COUNT=3", "FREQ=HOURLY;COUNT=3"])
def test_h1_after_its_last_time_nothing_is_left(text: str) -> None:
    assert parse(text).after(datetime(2026, 11, 28, tzinfo=UTC), most=9) == []


@pytest.mark.parametrize(
    ("text", "left"), [("FREQ=DAILY;COUNT=30", 10), ("FREQ=HOURLY;COUNT=485", 5)]
)
def test_h1_a_count_counts_from_the_start(text: str, left: int) -> None:
    moment = datetime(2026, 12, 15, 6, 59, 59, tzinfo=UTC)
    assert len(parse(text).after(moment, most=99)) == left


@pytest.mark.parametrize("text", ["", "FREQ=DAILY", "FREQ=WEEKLY;BYDAY=SU", "FREQ=HOURLY"])
def test_h1_any_moment_can_be_asked_for(text: str) -> None:
    rule = parse(text)
    assert len(rule.after(LONG_AGO)) == 1
    assert rule.after(datetime.max.replace(tzinfo=UTC)) == []


@pytest.mark.timeout(20)
@pytest.mark.parametrize(
    "text",
    [
        "FREQ=DAILY",
        "FREQ=DAILY;INTERVAL=3",
        "FREQ=WEEKLY;INTERVAL=2;BYDAY=TU,SU;WKST=SU",
        "FREQ=WEEKLY;INTERVAL=2;BYDAY=TU,SU;BYSETPOS=1",
        "FREQ=MONTHLY;INTERVAL=7",
        "FREQ=MONTHLY;BYDAY=SU,SA;BYSETPOS=1,-1;BYHOUR=0,23",
        "FREQ=YEARLY;INTERVAL=3;BYMONTH=1,12;BYMONTHDAY=31,1",
        "FREQ=MINUTELY;INTERVAL=7",
        "FREQ=HOURLY;INTERVAL=7",
    ],
)
def test_h1_a_rule_that_began_long_ago_goes_on_in_step(text: str) -> None:
    """The start is moved by whole intervals: every time asked for alone is that of the sequence."""
    rule = parse(text, start=local("2016-02-29T00:30"), zone="America/New_York")
    moment = datetime(2026, 2, 20, tzinfo=UTC)
    counted = parse(f"{text};COUNT=1000", start=rule.start, zone="America/New_York")
    for each in counted.after(LONG_AGO, most=1000):
        if moment < each:
            break
        assert each in rule.after(each - timedelta(seconds=1))
    times = rule.after(moment, most=40)
    assert [rule.after(each)[0] for each in times[:-1]] == times[1:]


def test_h1_the_whole_week_counts_whenever_the_next_time_is_asked_for() -> None:
    rule = parse("FREQ=WEEKLY;BYDAY=MO,TU,WE,TH,FR,SA,SU;BYSETPOS=4")
    moment = datetime(2030, 1, 1, tzinfo=UTC)
    for hour in range(14 * 24):
        (each,) = rule.after(moment + timedelta(hours=hour))
        assert f"{each:%A %H}" == "Thursday 07"


@pytest.mark.parametrize("text", ["FREQ=DAILY;BYHOUR=0,1", "FREQ=MONTHLY;BYMONTHDAY=1;BYHOUR=1,9"])
def test_h1_times_before_that_of_the_start_are_kept(text: str) -> None:
    rule = parse(text)
    assert shown(rule, after="2030-01-01T00:30", most=1) == ["2030-01-01 01:00"]


def test_h2_around_a_change_of_the_clock_no_time_is_left_out_whenever_it_is_asked_for() -> None:
    for zone, start, day in (
        ("Europe/Berlin", "2020-01-01T02:30", "2026-03-28T12:00"),
        ("Europe/Berlin", "2020-01-01T02:30", "2026-10-24T12:00"),
        ("Pacific/Apia", "2005-01-01T12:00", "2011-12-28T12:00"),
    ):
        rule = parse("FREQ=DAILY", start=local(start), zone=zone)
        moment = local(day).replace(tzinfo=UTC)
        times = rule.after(moment, most=6)
        for minute in range(0, 3 * 24 * 60, 10):
            now = moment + timedelta(minutes=minute)
            assert rule.after(now)[0] == next(each for each in times if each > now)


@pytest.mark.timeout(20)
def test_h1_of_half_a_million_times_a_year_the_next_one_is_found() -> None:
    hours, minutes = ",".join(map(str, range(24))), ",".join(map(str, range(60)))
    days = "BYDAY=MO,TU,WE,TH,FR,SA,SU"
    rule = parse(f"FREQ=YEARLY;{days};BYHOUR={hours};BYMINUTE={minutes}")
    assert shown(rule, after="2036-12-31T23:58:30", most=2) == [
        "2036-12-31 23:59",
        "2037-01-01 00:00",
    ]
    assert rule.shortest_interval() == timedelta(minutes=1)


@pytest.mark.timeout(20)
@pytest.mark.parametrize(
    "text",
    [
        "FREQ=DAILY;BYMONTH=2;BYMONTHDAY=30",
        "FREQ=WEEKLY;BYMONTH=2;BYMONTHDAY=30",
        "FREQ=MONTHLY;BYMONTH=2;BYMONTHDAY=30,31",
        "FREQ=YEARLY;BYMONTH=2;BYMONTHDAY=30",
        "FREQ=MONTHLY;BYDAY=MO;BYSETPOS=6",
        "FREQ=WEEKLY;BYSETPOS=2,3,4,5,6,7,8,9,10,11",
        "FREQ=YEARLY;BYMONTH=1;BYDAY=MO;BYSETPOS=200,201,202,203,204,205,206,207,208,209",
        "FREQ=DAILY;INTERVAL=7;BYDAY=MO",
        "FREQ=DAILY;UNTIL=20261124",
        "FREQ=DAILY;COUNT=3;BYMONTH=2;BYMONTHDAY=30",
        "FREQ=YEARLY;INTERVAL=11;BYMONTH=1;BYMONTHDAY=1",
    ],
)
def test_h1_a_rule_that_never_happens_is_refused_and_not_searched_for_ever(text: str) -> None:
    assert "never happens" in refused(text)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("FREQ=SECONDLY", "FREQ, one of MINUTELY, HOURLY, DAILY"),
        ("INTERVAL=2", "needs FREQ"),
        ("every day", "not NAME=VALUE"),
        ("FREQ=", "not NAME=VALUE"),
        ("FREQ=DAILY;FREQ=DAILY", "twice"),
        ("FREQ=DAILY;BYSECOND=1", '"BYSECOND" is not supported'),
        ("FREQ=YEARLY;BYYEARDAY=1", "not supported"),
        ("FREQ=YEARLY;BYWEEKNO=1", "not supported"),
        ("FREQ=YEARLY;BYEASTER=0", "not supported"),
        ("FREQ=DAILY;X-A=1", "not supported"),
        ("DTSTART:20261125T080000\nRRULE:FREQ=DAILY", "not supported"),
        ("FREQ=MINUTELY;BYHOUR=9", "write FREQ=DAILY;BYHOUR=…;BYMINUTE=…"),
        ("FREQ=HOURLY;WKST=MO", "takes only INTERVAL, COUNT and UNTIL"),
        ("FREQ=DAILY;INTERVAL=0", "INTERVAL is a number from 1 to 1000"),
        ("FREQ=DAILY;INTERVAL=1001", "from 1 to 1000"),
        ("FREQ=DAILY;COUNT=１", "COUNT is a number"),
        ("FREQ=DAILY;COUNT=3;UNTIL=20270101", "not both"),
        ("FREQ=DAILY;UNTIL=tomorrow", "UNTIL is a day such as 20261231"),
        ("FREQ=DAILY;UNTIL=20270230", "UNTIL is a day"),
        ("FREQ=DAILY;UNTIL=99991231T235959Z;INTERVAL=1;COUNT=x", "not both"),
        ("FREQ=DAILY;BYHOUR=24", "BYHOUR takes 0 to 23"),
        ("FREQ=MONTHLY;BYMONTHDAY=0", "1 to 31, or -31 to -1 from the end"),
        ("FREQ=MONTHLY;BYMONTHDAY=1,,2", 'not ""'),
        ("FREQ=MONTHLY;BYSETPOS=0", "BYSETPOS takes"),
        ("FREQ=MONTHLY;BYSETPOS=1,2,3,4,5,6,7,8,9,10,11", "at most 10 numbers"),
        ("FREQ=DAILY;BYSETPOS=1", "does not work with FREQ=DAILY"),
        ("FREQ=WEEKLY;BYDAY=1MO", "FREQ=MONTHLY or FREQ=YEARLY only"),
        ("FREQ=WEEKLY;BYDAY=MONDAY", "BYDAY takes MO, TU"),
        ("FREQ=MONTHLY;BYDAY=6MO", "has to be 1 to 5"),
        ("FREQ=MONTHLY;BYDAY=0MO", "has to be 1 to 5"),
        ("FREQ=WEEKLY;WKST=X", "WKST is one of MO"),
        ("FREQ=DAILY;BYHOUR=" + "1," * 300, "at most 500 characters"),
    ],
)
def test_h1_a_refused_text_is_refused_with_words_that_help(text: str, why: str) -> None:
    assert why in refused(text)


PIECES = (
    "FREQ= DAILY WEEKLY MONTHLY YEARLY MINUTELY HOURLY INTERVAL= COUNT= UNTIL= 00010101T000000Z "
    "99991231T235959Z 99991231 BYDAY= MO -1FR 53SU BYMONTHDAY= BYMONTH= BYHOUR= BYMINUTE= "
    "BYSETPOS= WKST= SU ; ; ; , = - 0 1 2 29 31 366 1000 RRULE: \x00 \ud800 İ ß ²"
)
RULES = st.lists(st.sampled_from(PIECES.split()), max_size=14).map("".join)
LOCAL = st.datetimes(min_value=local("2000-01-01"), max_value=local("2199-12-31"))


@given(
    st.text(max_size=80) | RULES,
    LOCAL,
    st.sampled_from(["UTC", "Europe/Berlin", "Pacific/Apia", "America/New_York"]),
)
@example("FREQ=YEARLY;INTERVAL=1000;UNTIL=99991231", local("2199-12-31T23:59"), "Pacific/Apia")
@example("FREQ=WEEKLY;INTERVAL=53;BYDAY=SU", local("2199-01-01"), "UTC")
@example("FREQ=DAILY;UNTIL=00010101T000000Z", local("2026-01-01"), "America/New_York")
@example("FREQ=HOURLY;UNTIL=00010101", local("2026-01-01"), "Europe/Berlin")
def test_h1_any_text_is_a_rule_or_a_rule_error(text: str, start: datetime, zone: str) -> None:
    try:
        rule = parse(text, start=start, zone=zone)
    except RuleError:
        return
    assert rule == parse(rule.text, start=rule.start, zone=zone)
    assert len(rule.text) <= 500
    (first,) = rule.after(LONG_AGO)
    later = rule.after(first, most=5)
    assert sorted({first, *later}) == [first, *later]
    interval = rule.shortest_interval()
    assert interval is None or interval > timedelta()


@pytest.mark.parametrize("text", ["FREQ=WEEKLY;BYDAY=SU", "FREQ=DAILY", "FREQ=WEEKLY;INTERVAL=53"])
def test_h1_the_end_of_the_search_ends_a_rule(text: str) -> None:
    rule = parse(text)
    moment, found = datetime(2399, 1, 1, tzinfo=UTC), 0
    for each in rule.after(moment, most=400):
        assert each > moment
        moment, found = each, found + 1
    assert moment.year == 2399 or not found
    assert rule.after(moment) == []


@pytest.mark.parametrize("year", [1999, 2200])
def test_h1_a_start_far_away_is_refused(year: int) -> None:
    with pytest.raises(RuleError, match="years 2000 to 2199"):
        parse("", start=START.replace(year=year))


@pytest.mark.parametrize(
    ("text", "interval"),
    [
        ("", None),
        ("FREQ=DAILY;COUNT=1", None),
        ("FREQ=MINUTELY;COUNT=1", None),
        ("FREQ=YEARLY;INTERVAL=50", None),
        ("FREQ=MINUTELY;INTERVAL=20", timedelta(minutes=20)),
        ("FREQ=HOURLY", timedelta(hours=1)),
        ("FREQ=DAILY", timedelta(days=1)),
        ("FREQ=DAILY;BYHOUR=0,23;BYMINUTE=0,59", timedelta(minutes=1)),
        ("FREQ=WEEKLY;BYDAY=MO,FR", timedelta(days=3)),
        ("FREQ=MONTHLY;BYMONTHDAY=-1,1", timedelta(days=1)),
        ("FREQ=YEARLY;BYMONTH=2,3;BYMONTHDAY=29,1", timedelta(days=1)),
        ("FREQ=DAILY;BYMONTH=2;BYMONTHDAY=29", timedelta(days=1461)),
    ],
)
def test_h1_the_shortest_interval_is_that_of_ten_years(
    text: str, interval: timedelta | None
) -> None:
    assert parse(text).shortest_interval() == interval


@pytest.mark.parametrize(
    ("written", "zone", "moment"),
    [
        ("2026-03-29T01:59", "Europe/Berlin", "2026-03-29T00:59"),
        ("2026-03-29T02:00", "Europe/Berlin", "2026-03-29T01:00"),
        ("2026-03-29T02:30", "Europe/Berlin", "2026-03-29T01:00"),
        ("2026-03-29T03:00", "Europe/Berlin", "2026-03-29T01:00"),
        ("2026-10-25T02:30", "Europe/Berlin", "2026-10-25T00:30"),
        ("2026-10-25T03:00", "Europe/Berlin", "2026-10-25T02:00"),
        ("2026-10-04T02:10", "Australia/Lord_Howe", "2026-10-03T15:30"),
        ("2026-04-05T01:45", "Australia/Lord_Howe", "2026-04-04T14:45"),
        ("2011-12-30T12:00", "Pacific/Apia", "2011-12-30T10:00"),
        ("2026-09-06T00:30", "America/Santiago", "2026-09-06T04:00"),
        ("2026-07-01T12:00", "Asia/Kolkata", "2026-07-01T06:30"),
    ],
)
def test_h2_a_time_that_is_left_out_is_the_end_of_the_gap_and_a_double_one_the_first(
    written: str, zone: str, moment: str
) -> None:
    assert rules.to_utc(local(written), ZoneInfo(zone)) == local(moment).replace(tzinfo=UTC)


def test_h2_a_daily_reminder_keeps_its_time_on_the_wall() -> None:
    rule = parse("FREQ=DAILY", start=local("2026-03-27T02:30"))
    assert shown(rule, after="2026-03-27T03:00") == [
        "2026-03-28 02:30",
        "2026-03-29 03:00",
        "2026-03-30 02:30",
    ]
    rule = parse("FREQ=DAILY", start=local("2026-10-24T02:30"))
    assert [f"{each:%d %H:%M}" for each in rule.after(LONG_AGO, most=3)] == [
        "24 00:30",
        "25 00:30",
        "26 01:30",
    ]


def test_h2_two_local_times_on_one_instant_are_one() -> None:
    rule = parse("FREQ=DAILY;BYHOUR=2,3;BYMINUTE=0,30", start=local("2026-03-29T00:00"))
    assert shown(rule, after="2026-03-29T00:00", most=3) == [
        "2026-03-29 03:00",
        "2026-03-29 03:30",
        "2026-03-30 02:00",
    ]


def test_h2_minutes_and_hours_go_on_through_a_change_of_the_clock() -> None:
    for day in ("2026-03-29", "2026-10-25"):
        rule = parse("FREQ=MINUTELY;INTERVAL=20", start=local(f"{day}T00:00"))
        times = rule.after(LONG_AGO, most=20)
        gaps = {later - each for each, later in pairwise(times)}
        assert gaps == {timedelta(minutes=20)}
