"""Schedules are made, changed, paused, resumed and ended ([H10], [H20], [H21])."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from pytest_django import Settings

from core.conversations.schedules import changes, occurrences
from core.conversations.schedules.changes import Grant, OtherRequestError, RuleError, Wish
from core.models import ChatSession, Occurrence, Schedule, User
from tests.channels_app.running import guest, memory_account
from tests.channels_app.schedules.making import (
    DAILY,
    DAY,
    NOON,
    ONE,
    chat_of,
    fire,
    minutes,
    states,
    waiting,
)

__all__ = ["guest"]
pytestmark = pytest.mark.django_db


@pytest.fixture
def chat(guest: User) -> ChatSession:
    """Return a chat of the guest."""
    return chat_of(guest, memory_account())


def create(
    session: ChatSession | None,
    *,
    user: User | None = None,
    now: datetime = NOON,
    key: str | None = None,
    request: str = "",
    **wish: Any,
) -> Schedule:
    """Make a schedule: a text at 13:00, unless told."""
    given = {"text": "tea", "time_zone": "UTC", **wish}
    if not given.keys() & {"at", "minutes", "rule"}:
        given["at"] = ONE
    person = user or (session.user if session is not None else None)
    assert person is not None
    return changes.create(
        user=person,
        session=session,
        wish=Wish(**given),
        grant=Grant(),
        now=now,
        made_by=key,
        request=request,
    )


def fresh(schedule: Schedule) -> Schedule:
    return Schedule.objects.get(pk=schedule.pk)


def test_h20_a_schedule_has_its_place_its_grant_and_the_usual_kind(chat: ChatSession) -> None:
    ChatSession.objects.filter(pk=chat.pk).update(thread="9")
    chat.refresh_from_db()
    row = fresh(
        changes.create(
            user=chat.user,
            session=chat,
            wish=Wish(text=" tea\n", at=ONE, time_zone="utc"),
            grant=Grant("2", "im", "-7", 5),
            now=NOON,
            made_by="k",
            assistant_id=7,
        )
    )
    assert (row.user, row.session, row.account) == (chat.user, chat, chat.account)
    assert (row.chat, row.thread) == ("c", "9")
    assert (row.sender, row.sender_kind, row.group, row.via_key) == ("2", "im", "-7", 5)
    assert (row.kind, row.missed, row.state, row.why) == ("text", "once", "active", "")
    assert (row.text, row.start, row.rule, row.time_zone) == (
        "tea",
        "2026-11-25T13:00:00",
        "",
        "UTC",
    )
    assert (row.made_by, row.assistant_id, row.failures) == ("k", 7, 0)
    assert waiting(row) == NOON + minutes(60)


def test_h20_a_schedule_without_a_conversation_has_no_place(guest: User) -> None:
    row = fresh(create(None, user=guest, kind="prompt", missed="skip"))
    assert (row.session, row.account, row.chat, row.thread) == (None, None, "", "")
    assert (row.kind, row.missed, row.assistant_id) == ("prompt", "skip", 0)


def test_h21_a_person_has_so_many_at_most_and_those_of_others_do_not_count(
    chat: ChatSession, settings: Settings
) -> None:
    settings.SCHEDULES_PER_PERSON = 2
    other = User.objects.create(username="ben")
    create(None, user=other)
    ended, paused = create(chat, key="a"), create(chat)
    changes.pause(schedule_ids=[paused.pk], why="person")
    with pytest.raises(RuleError, match="There are 2 schedules already"):
        create(chat)
    assert create(chat, key="a") == ended  # a repeated call makes none
    changes.end(schedule=ended)
    create(chat)


def test_h45_a_key_finds_the_schedule_that_it_made_and_no_longer_key_does(
    chat: ChatSession,
) -> None:
    first = create(chat, key="a", request="1", text="one")
    assert create(chat, key="a", request="1", text="one") == first
    with pytest.raises(OtherRequestError):
        create(chat, key="a", request="2")
    assert create(chat, key="ab", request="1") != first
    assert create(chat, key="b", request="1") != first
    assert create(chat) != create(chat)
    other = User.objects.create(username="ben")
    assert changes.made_before(other, "a", "1") is None
    assert changes.made_before(chat.user, "a", "1") == first
    assert changes.made_before(chat.user, None, "") is None


@pytest.mark.parametrize("request_", ["", "1"])
def test_h45_a_repeated_call_finds_it_also_when_its_time_has_passed(
    chat: ChatSession, request_: str
) -> None:
    first = create(chat, key="a", request=request_)
    assert create(chat, key="a", request=request_, now=NOON + DAY) == first


@pytest.mark.parametrize("request_", ["", "1"])
def test_h45_one_that_is_made_between_the_look_and_the_lock_is_found(
    chat: ChatSession, monkeypatch: pytest.MonkeyPatch, request_: str
) -> None:
    first = create(chat, key="a", request=request_)
    look, looks = changes.made_before, []

    def made_before(user: User, made_by: str | None, request: str) -> Schedule | None:
        looks.append(made_by)
        return None if len(looks) == 1 else look(user, made_by, request)

    monkeypatch.setattr(changes, "made_before", made_before)
    assert create(chat, key="a", request=request_) == first


def test_h20_a_change_leaves_all_that_it_does_not_name(chat: ChatSession) -> None:
    row = create(chat, rule=DAILY, at=ONE, missed="skip", kind="prompt")
    Schedule.objects.update(failures=2)
    changed = changes.change(schedule=row, wish=Wish(text="coffee"), now=NOON)
    assert changed == row
    row = fresh(row)
    assert (row.text, row.kind, row.missed, row.rule) == ("coffee", "prompt", "skip", DAILY)
    assert (row.start, row.time_zone, row.failures) == ("2026-11-25T13:00:00", "UTC", 0)
    wish = Wish(kind="text", missed="once")
    changes.change(schedule=row, wish=wish, now=NOON)
    row = fresh(row)
    assert (row.text, row.kind, row.missed) == ("coffee", "text", "once")
    assert states(row) == ["waiting"]


@pytest.mark.parametrize(
    ("wish", "due"),
    [
        ({"at": datetime(2026, 11, 25, 15, 0)}, NOON + minutes(180)),
        ({"minutes": 30}, NOON + minutes(30)),
        ({"rule": "FREQ=DAILY;BYHOUR=18;BYMINUTE=0"}, NOON + minutes(360)),
        ({"time_zone": "America/New_York"}, NOON + minutes(360)),
        ({"rule": "", "at": datetime(2026, 11, 25, 15, 0)}, NOON + minutes(180)),
        ({"at": datetime(2026, 11, 25, 11, 59, 30)}, NOON - minutes(0.5)),
    ],
)
def test_h20_another_time_is_planned_anew(
    chat: ChatSession, wish: dict[str, Any], due: datetime
) -> None:
    row = create(chat, rule=DAILY, at=ONE)
    changes.change(schedule=row, wish=Wish(**wish), now=NOON)
    assert waiting(row) == due
    assert Occurrence.objects.get(state="waiting").look_at == max(due, NOON)
    assert states(row).count("withdrawn") == 1


@pytest.mark.parametrize("by", ["at", "minutes"])
@pytest.mark.parametrize(("days", "left"), [(0, 5), (3, 2), (4, 1), (9, 1)])
def test_h20_another_time_leaves_the_number_of_times_that_are_to_come(
    chat: ChatSession, days: int, left: int, by: str
) -> None:
    """Pills for five days, moved by an hour on the fourth, would come eight times."""
    row = create(chat, rule=f"{DAILY};COUNT=5", at=ONE)
    now = NOON + days * DAY
    at = datetime(2026, 11, 25, 15, 0) + days * DAY
    wish = Wish(at=at) if by == "at" else Wish(minutes=180)
    changes.change(schedule=row, wish=wish, now=now)
    row = fresh(row)
    assert (row.rule, row.start) == (f"{DAILY};COUNT={left}", at.isoformat())
    assert len(changes.next_times(row, now=now, most=9)) == left
    changes.change(schedule=row, wish=Wish(rule=f"{DAILY};COUNT=5", at=at), now=now)
    assert len(changes.next_times(fresh(row), now=now, most=9)) == 5


@pytest.mark.parametrize(("hour", "left"), [(13, 2), (15, 2), (11, 1)])
def test_h20_a_first_time_that_has_passed_takes_no_times_away(
    chat: ChatSession, hour: int, left: int
) -> None:
    """Of a client that sends the start that it has read, or one of the same day: the COUNT counts
    from there, as in a new one.
    """
    row = create(chat, rule=f"{DAILY};COUNT=5", at=ONE)
    now, at = NOON + 3 * DAY, datetime(2026, 11, 25, hour, 0)
    changes.change(schedule=row, wish=Wish(at=at), now=now)
    row = fresh(row)
    assert (row.rule, row.start) == (f"{DAILY};COUNT=5", at.isoformat())
    assert len(changes.next_times(row, now=now, most=9)) == left


def test_h20_a_paused_one_is_changed_and_stays_paused(chat: ChatSession) -> None:
    row = create(chat, rule=DAILY, at=ONE)
    changes.pause(schedule_ids=[row.pk], why="person")
    changes.change(schedule=row, wish=Wish(at=datetime(2026, 11, 25, 15, 0)), now=NOON)
    assert states(row) == ["withdrawn"]
    changes.resume(schedule=row, now=NOON)
    assert waiting(row) == NOON + minutes(180)


def test_h20_one_that_has_ended_is_neither_changed_nor_resumed(chat: ChatSession) -> None:
    row = create(chat)
    assert changes.end(schedule=row, why="owner")
    assert (fresh(row).state, fresh(row).why, states(row)) == ("ended", "owner", ["withdrawn"])
    with pytest.raises(RuleError, match="no such schedule any more"):
        changes.change(schedule=row, wish=Wish(text="x"), now=NOON)
    with pytest.raises(RuleError, match="no such schedule any more"):
        changes.resume(schedule=row, now=NOON)
    assert not changes.end(schedule=row)
    assert fresh(row).why == "owner"


def test_h20_a_pause_is_of_the_active_ones_and_says_why(chat: ChatSession) -> None:
    rows = [create(chat) for _ in range(3)]
    changes.end(schedule=rows[2])
    ids = [row.pk for row in rows]
    assert changes.pause(schedule_ids=ids[:1], why="owner") == 1
    assert changes.pause(schedule_ids=ids, why="person") == 1
    assert [(fresh(row).state, fresh(row).why) for row in rows] == [
        ("paused", "owner"),
        ("paused", "person"),
        ("ended", "person"),
    ]
    assert [states(row) for row in rows] == [["withdrawn"]] * 3


def test_h20_a_resumed_one_begins_anew(chat: ChatSession) -> None:
    row = create(chat, rule=DAILY, at=ONE)
    Schedule.objects.update(failures=2)
    changes.pause(schedule_ids=[row.pk], why="owner")
    with pytest.raises(RuleError, match="Ask the owner"):
        changes.resume(schedule=row, now=NOON)
    assert fresh(row).state == "paused"
    changes.resume(schedule=row, now=NOON + DAY, by_owner=True)
    row = fresh(row)
    assert (row.state, row.why, row.failures) == ("active", "", 0)
    assert waiting(row) == NOON + DAY + minutes(60)
    assert changes.resume(schedule=row, now=NOON) == row
    assert states(row) == ["withdrawn", "waiting"]


def test_h41_the_next_times_are_those_of_an_active_one(chat: ChatSession) -> None:
    row = create(chat, rule=DAILY, at=ONE)
    first = NOON + minutes(60)
    assert changes.next_times(row, now=NOON) == [first, first + DAY, first + 2 * DAY]
    assert changes.next_times(row, now=NOON, most=1) == [first]
    changes.pause(schedule_ids=[row.pk], why="person")
    assert changes.next_times(fresh(row), now=NOON) == []
    Schedule.objects.update(state="active", time_zone="Nowhere/Town")
    assert changes.next_times(fresh(row), now=NOON) == []


@pytest.mark.parametrize("number", [60 * 24 * 366 * 10, 1, 0.01])
def test_h20_minutes_are_more_than_none_and_at_most_ten_years(
    chat: ChatSession, number: float
) -> None:
    assert waiting(create(chat, minutes=number)) >= NOON + minutes(number)


@pytest.mark.parametrize("number", [0, -1, 60 * 24 * 366 * 10 + 1])
def test_h21_other_minutes_are_refused(chat: ChatSession, number: float) -> None:
    with pytest.raises(RuleError, match="at most ten years"):
        create(chat, minutes=number)


def test_h20_minutes_end_with_a_whole_second_and_not_before(chat: ChatSession) -> None:
    now = NOON + timedelta(microseconds=1)
    assert waiting(create(chat, minutes=1, now=now)) == NOON + timedelta(seconds=61)
    assert waiting(create(chat, minutes=1)) == NOON + timedelta(seconds=60)


def test_h2_minutes_that_end_in_the_second_of_two_equal_hours_do_so(chat: ChatSession) -> None:
    """Half past two comes twice on this day; the second one cannot be said in Berlin's time."""
    now = datetime(2026, 10, 25, 0, 0, tzinfo=UTC)
    first = create(chat, minutes=30, now=now, time_zone="Europe/Berlin")
    second = create(chat, minutes=90, now=now, time_zone="Europe/Berlin")
    assert (first.start, first.time_zone) == ("2026-10-25T02:30:00", "Europe/Berlin")
    assert (second.start, second.time_zone) == ("2026-10-25T01:30:00", "UTC")
    assert [waiting(first), waiting(second)] == [now + minutes(30), now + minutes(90)]


def test_h20_a_time_in_this_minute_counts_and_one_before_it_does_not(chat: ChatSession) -> None:
    now = NOON + minutes(60) + timedelta(seconds=59)
    row = create(chat, at=ONE, now=now)
    one = Occurrence.objects.get(schedule=row)
    assert (one.nominal_at, one.look_at) == (NOON + minutes(60), now)
    with pytest.raises(RuleError, match=r"it is Wednesday, 2026-11-25 13:01 in UTC now\."):
        create(chat, at=ONE, now=now + timedelta(seconds=1))


def test_h20_a_single_one_becomes_repeated_from_its_own_time_or_from_now(chat: ChatSession) -> None:
    """A rule of minutes or hours counts from now, and takes nothing of the time before."""
    row = create(chat, at=datetime(2026, 11, 27, 9, 30))
    changes.change(schedule=row, wish=Wish(rule="FREQ=HOURLY"), now=NOON + minutes(5.5))
    assert fresh(row).start == "2026-11-25T12:05:00"
    assert waiting(row) == NOON + minutes(65)


def test_h20_a_repeated_one_becomes_single_at_its_start_while_that_is_to_come(
    chat: ChatSession,
) -> None:
    row = create(chat, rule=DAILY, at=ONE)
    changes.change(schedule=row, wish=Wish(rule=""), now=NOON)
    assert (fresh(row).rule, waiting(row)) == ("", NOON + minutes(60))
    row = create(chat, rule=DAILY, at=ONE)
    with pytest.raises(RuleError, match="That time has passed"):
        changes.change(schedule=row, wish=Wish(rule=""), now=NOON + minutes(90))
    assert fresh(row).rule == DAILY


def test_h21_a_wish_without_a_time_is_refused(chat: ChatSession) -> None:
    with pytest.raises(RuleError, match="The time is missing"):
        create(chat, at=None)


def test_h20_a_count_that_has_begun_goes_on_though_a_time_has_passed(chat: ChatSession) -> None:
    """With a first time that time is the first of so many, also in this minute."""
    row = create(chat, at=ONE, rule="FREQ=DAILY;COUNT=2", now=NOON + minutes(60.5))
    fire(NOON + minutes(60.5))
    fire(NOON + DAY + minutes(60))
    fire(NOON + 2 * DAY + minutes(60))
    assert states(row) == ["fired", "fired"]


def test_h20_a_rule_whose_next_time_is_too_far_away_is_refused(chat: ChatSession) -> None:
    """Its one time within the calendar was half a minute ago."""
    with pytest.raises(RuleError, match="That time has passed"):
        create(chat, rule="FREQ=YEARLY;INTERVAL=1000;COUNT=2", now=NOON + minutes(0.5))


def test_h2_a_count_from_the_second_of_two_equal_hours_has_all_of_its_times(
    chat: ChatSession,
) -> None:
    now = datetime(2026, 10, 25, 1, 20, 30, tzinfo=UTC)
    rule = "FREQ=MINUTELY;INTERVAL=45;COUNT=3"
    row = create(chat, rule=rule, now=now, time_zone="Europe/Berlin")
    times = changes.next_times(row, now=now, most=9)
    assert len(times) == 3
    assert all(each > now for each in times)


@pytest.mark.parametrize(
    ("kind", "number", "said"),
    [
        ("text", 3, "Texts may come every 4 minutes at most"),
        ("text", 4, ""),
        ("prompt", 9, "Tasks for the assistant may come every 10 minutes at most"),
        ("prompt", 10, ""),
    ],
)
def test_h21_texts_and_tasks_have_a_shortest_interval(
    chat: ChatSession, settings: Settings, kind: str, number: int, said: str
) -> None:
    settings.SCHEDULE_TEXT_MINUTES, settings.SCHEDULE_PROMPT_MINUTES = 4, 10
    rule = f"FREQ=MINUTELY;INTERVAL={number}"
    if not said:
        assert create(chat, kind=kind, rule=rule).rule == rule
        return
    with pytest.raises(RuleError, match=said):
        create(chat, kind=kind, rule=rule)
    row = create(chat, kind=kind)
    with pytest.raises(RuleError, match=said):
        changes.change(schedule=row, wish=Wish(rule=rule), now=NOON)
    assert fresh(row).rule == ""


def test_h21_a_text_that_becomes_a_task_has_the_interval_of_a_task(chat: ChatSession) -> None:
    row = create(chat, rule="FREQ=MINUTELY;INTERVAL=5")
    with pytest.raises(RuleError, match="Tasks for the assistant may come every 15 minutes"):
        changes.change(schedule=row, wish=Wish(kind="prompt"), now=NOON)


def test_h20_another_text_leaves_a_time_that_is_due(chat: ChatSession) -> None:
    row = create(chat, rule=DAILY, at=ONE)
    changes.change(schedule=row, wish=Wish(text="x"), now=NOON + minutes(61))
    assert waiting(row) == NOON + minutes(60)


def test_h23_another_time_leaves_a_snooze(chat: ChatSession) -> None:
    row = create(chat, rule=DAILY, at=ONE)
    fire(NOON + minutes(60))
    snooze(row, NOON + minutes(70))
    at = datetime(2026, 11, 26, 9, 0)
    changes.change(schedule=row, wish=Wish(at=at), now=NOON + minutes(61))
    waits = Occurrence.objects.filter(state="waiting").order_by("nominal_at")
    assert [each.nominal_at for each in waits] == [NOON + minutes(70), NOON + minutes(60 * 21)]


def snooze(row: Schedule, until: datetime) -> None:
    """Put off what a schedule has fired."""
    fired = Occurrence.objects.get(schedule=row, state="fired")
    assert occurrences.snooze(fired, until=until) is not None


def test_h23_a_single_one_is_resumed_while_its_snooze_is_to_come(chat: ChatSession) -> None:
    row = create(chat)
    fire(NOON + minutes(60))
    snooze(row, NOON + minutes(70))
    changes.pause(schedule_ids=[row.pk], why="person")
    found = changes.resume(schedule=row, now=NOON + minutes(69))
    assert found.state == "active"
    assert waiting(row) == NOON + minutes(70)
    changes.pause(schedule_ids=[row.pk], why="person")
    with pytest.raises(RuleError, match="Its time has passed"):
        changes.resume(schedule=row, now=NOON + minutes(70))
    assert fresh(row).state == "paused"


def test_h44_a_pause_a_resumption_and_an_end_are_changes(chat: ChatSession) -> None:
    row = create(chat, rule=DAILY)
    times = [fresh(row).changed_at]
    changes.pause(schedule_ids=[row.pk], why="person")
    times.append(fresh(row).changed_at)
    changes.resume(schedule=row, now=NOON)
    times.append(fresh(row).changed_at)
    changes.end(schedule=row)
    times.append(fresh(row).changed_at)
    assert sorted(set(times)) == times


def test_h20_a_rule_alone_begins_by_the_clock_of_its_time_zone(chat: ChatSession) -> None:
    row = create(chat, rule=DAILY, time_zone="Europe/Berlin", now=NOON + minutes(5.5))
    assert fresh(row).start == "2026-11-25T13:05:00"


def test_h20_a_schedule_without_a_time_zone_is_refused(guest: User) -> None:
    with pytest.raises(RuleError, match='"" is not the IANA name'):
        create(None, user=guest, time_zone=None)


def test_h20_another_time_zone_in_which_the_time_has_passed_is_refused(chat: ChatSession) -> None:
    row = create(chat)
    with pytest.raises(RuleError, match="That time has passed"):
        changes.change(schedule=row, wish=Wish(time_zone="Asia/Tokyo"), now=NOON)
    assert (fresh(row).time_zone, states(row)) == ("UTC", ["waiting"])


def test_h23_another_text_of_one_that_is_over_but_for_its_snooze_is_no_other_time(
    chat: ChatSession,
) -> None:
    row = create(chat)
    fire(NOON + minutes(60))
    snooze(row, NOON + minutes(90))
    wish = Wish(text="x", time_zone="UTC")
    changes.change(schedule=row, wish=wish, now=NOON + minutes(75))
    assert (fresh(row).text, waiting(row)) == ("x", NOON + minutes(90))


@pytest.mark.parametrize("seconds", [0, 30])
@pytest.mark.parametrize("number", [1, 2])
def test_h20_a_count_without_a_first_time_counts_times_that_are_still_to_come(
    chat: ChatSession, seconds: int, number: int
) -> None:
    now = NOON + timedelta(seconds=seconds)
    row = create(chat, rule=f"FREQ=DAILY;COUNT={number}", now=now)
    times = [NOON + DAY, NOON + 2 * DAY]
    assert changes.next_times(row, now=now, most=9) == times[:number]
    assert waiting(row) == NOON + DAY


def test_h21_a_change_is_of_the_schedule_that_is_meant(chat: ChatSession) -> None:
    first, second = create(chat, text="one"), create(chat, text="two")
    changes.change(schedule=second, wish=Wish(text="x"), now=NOON)
    assert (fresh(first).text, fresh(second).text) == ("one", "x")


def test_h20_one_for_this_very_minute_has_a_next_time(chat: ChatSession) -> None:
    """It is shown with its time, not as paused."""
    now = NOON + minutes(60.5)
    row = create(chat, at=ONE, now=now)
    assert changes.next_times(row, now=now) == [NOON + minutes(60)]


def test_h23_the_next_time_of_one_that_was_put_off_is_that_to_which_it_was(
    chat: ChatSession,
) -> None:
    row = create(chat, at=ONE)
    fire(NOON + minutes(60))
    snooze(row, NOON + minutes(90))
    assert changes.next_times(fresh(row), now=NOON + minutes(75)) == [NOON + minutes(90)]


@pytest.mark.parametrize("rule", ["FREQ=DAILY;BYHOUR=18", "FREQ=DAILY;BYHOUR=18;COUNT=3"])
def test_h20_an_hour_without_minutes_is_a_full_one(chat: ChatSession, rule: str) -> None:
    """Models write "at six" so; the minute in which it is asked for means nothing."""
    row = create(chat, rule=rule, at=None, now=NOON + minutes(5.5))
    assert waiting(row) == NOON + minutes(360)


@pytest.mark.parametrize(
    ("before", "rule", "due"),
    [
        ({"rule": DAILY, "at": ONE}, "FREQ=WEEKLY;BYDAY=FR", (27, 13, 0)),
        ({"at": ONE}, "FREQ=DAILY", (25, 13, 0)),
        ({"rule": "FREQ=DAILY;BYHOUR=7;BYMINUTE=30"}, "FREQ=WEEKLY;BYDAY=FR", (27, 7, 30)),
        ({"rule": "FREQ=DAILY;BYHOUR=7"}, "FREQ=WEEKLY;BYDAY=FR", (27, 7, 0)),
        ({"rule": DAILY, "at": ONE}, "FREQ=WEEKLY;BYDAY=FR;BYHOUR=9", (27, 9, 0)),
        ({"rule": "FREQ=DAILY;BYHOUR=8,18;BYMINUTE=0"}, "FREQ=WEEKLY;BYDAY=FR", (27, 12, 5)),
        ({"rule": "FREQ=HOURLY"}, "FREQ=WEEKLY;BYDAY=FR", (27, 12, 5)),
        ({"rule": DAILY, "at": ONE}, "FREQ=DAILY;COUNT=2", (25, 13, 0)),
    ],
)
def test_h20_another_rule_keeps_the_time_of_day_unless_it_names_one(
    chat: ChatSession, before: dict[str, Any], rule: str, due: tuple[int, int, int]
) -> None:
    """Such as "make it weekly instead": nothing is said of the time of day."""
    row = create(chat, **{"at": None, **before}, now=NOON)
    changes.change(schedule=row, wish=Wish(rule=rule), now=NOON + minutes(5.5))
    day, hour, minute = due
    assert waiting(row) == datetime(2026, 11, day, hour, minute, tzinfo=NOON.tzinfo)


@pytest.mark.parametrize(
    ("rule", "first", "second"),
    [
        ("FREQ=WEEKLY;INTERVAL=2;BYDAY=MO;BYHOUR=9", (11, 30), (12, 14)),
        ("FREQ=WEEKLY;INTERVAL=2;BYDAY=MO,FR;BYHOUR=9", (11, 27), (12, 7)),
        ("FREQ=WEEKLY;INTERVAL=2;BYDAY=WE;BYHOUR=18;COUNT=2", (11, 25), (12, 9)),
        ("FREQ=DAILY;INTERVAL=2;BYHOUR=9", (11, 27), (11, 29)),
        ("FREQ=MONTHLY;INTERVAL=3", (2, 25), (5, 25)),
        ("FREQ=MONTHLY;INTERVAL=2;BYMONTHDAY=1;BYHOUR=9", (12, 1), (2, 1)),
    ],
)
def test_h20_an_interval_of_certain_days_begins_with_the_next_of_them(
    chat: ChatSession, rule: str, first: tuple[int, int], second: tuple[int, int]
) -> None:
    """Of "every two weeks on Monday", asked for on a Wednesday, the first is the next Monday. Where
    no days are named it counts from now.
    """
    now = NOON + minutes(5.5)
    row = create(chat, rule=rule, at=None, now=now)
    found = [(each.month, each.day) for each in changes.next_times(row, now=now, most=2)]
    assert found == [first, second]
    assert (waiting(row).month, waiting(row).day) == first


def test_h20_every_four_years_on_29_february_begins_with_the_next_one(chat: ChatSession) -> None:
    rule = "FREQ=YEARLY;INTERVAL=4;BYMONTH=2;BYMONTHDAY=29;BYHOUR=9"
    assert waiting(create(chat, rule=rule, at=None)).year == 2028
