"""Occurrences that cannot be fired, and those of which too many are due ([H12], [H13], [H53])."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta
from typing import Any

import pytest
from django.db import OperationalError
from pytest_django import Settings

from channels_app.memory.channel import MemoryOutbound
from channels_app.schedules import firing, places
from core.conversations.schedules import changes, occurrences
from core.models import ChannelAccount, ChatSession, Message, Occurrence, Run, Schedule, User
from tests.channels_app.running import memory_account
from tests.channels_app.schedules.making import (
    DAILY,
    DAY,
    NOON,
    ONE,
    answer,
    arrive,
    chat_of,
    fire,
    made,
    minutes,
    states,
    texts,
    waiting,
)

pytestmark = pytest.mark.django_db
DUE = NOON + minutes(60)


def breaking(error: Exception) -> Callable[..., Any]:
    """Return a function that raises ``error``."""

    def broken(*_: object, **__: object) -> None:
        raise error

    return broken


@contextmanager
def broken() -> Iterator[None]:
    """Let a defect break each message meanwhile."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(MemoryOutbound, "render", breaking(RuntimeError("a defect")))
        yield


def test_h12_an_occurrence_that_breaks_is_tried_again_later_each_time_and_then_fails(
    chat: ChatSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    schedule = made(chat, rule=DAILY, at=ONE)
    monkeypatch.setattr(MemoryOutbound, "render", breaking(RuntimeError("a defect")))
    now, waits = DUE, []
    for tries in range(1, 5):
        fire(now)
        one = Occurrence.objects.get(schedule=schedule)
        assert (one.state, one.tries, one.fired_at) == ("waiting", tries, None)
        assert one.look_at is not None
        waits.append((one.look_at - now).total_seconds())
        fire(one.look_at - timedelta(microseconds=1))
        now = one.look_at
    assert waits == [10, 20, 40, 80]
    fire(now)
    one = Occurrence.objects.get(schedule=schedule, state="failed")
    assert (one.note, one.look_at) == ("Something went wrong in the gateway.", None)
    assert waiting(schedule) == DUE + DAY
    schedule.refresh_from_db()
    assert (schedule.state, schedule.failures) == ("active", 1)


@pytest.mark.parametrize("missed", ["once", "skip"])
def test_h13_one_that_errors_held_up_was_not_missed(chat: ChatSession, missed: str) -> None:
    """The gateway was on all the time: it does not say that it was off, and leaves nothing out."""
    schedule = made(chat, rule=DAILY, at=ONE, missed=missed)
    now = DUE
    with broken():
        for _ in range(4):
            fire(now)
            now = Occurrence.objects.get(schedule=schedule).look_at or now
    assert now - DUE > timedelta(minutes=2)
    fire(now + timedelta(seconds=5))
    assert texts() == ["⏰ take the pills\n\n_This was due at 13:00; an error held it up._"]
    assert not Occurrence.objects.filter(was_missed=True).exists()


def test_h13_times_that_pass_while_errors_hold_one_up_were_not_missed(chat: ChatSession) -> None:
    """Of a reminder of each minute the next one is the next to come."""
    schedule = made(chat, rule="FREQ=MINUTELY", at=ONE)
    now = DUE
    with broken():
        for _ in range(4):
            fire(now)
            now = Occurrence.objects.get(schedule=schedule).look_at or now
    fire(now)
    assert waiting(schedule) == DUE + minutes(3)
    assert texts() == ["⏰ take the pills\n\n_This was due at 13:00; an error held it up._"]


def test_h13_one_that_was_missed_and_then_broke_comes_as_missed(chat: ChatSession) -> None:
    made(chat, at=ONE)
    with broken():
        fire(DUE + minutes(60))
    fire(DUE + minutes(61))
    assert texts() == ["⏰ take the pills\n\n_This was due at 13:00 and comes late._"]


def test_h13_one_that_broke_before_the_gateway_was_off_comes_as_missed(chat: ChatSession) -> None:
    made(chat, at=ONE)
    with broken():
        fire(DUE)
    fire(DUE + minutes(60))
    assert texts() == ["⏰ take the pills\n\n_This was due at 13:00 and comes late._"]


def test_h12_the_longest_wait_between_two_tries_is_five_minutes(
    chat: ChatSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A clock that was set back leaves an occurrence with tries; it does not wait for hours."""
    made(chat, at=ONE)
    Occurrence.objects.update(tries=30)
    monkeypatch.setattr(firing, "MOST_TRIES", 99)
    monkeypatch.setattr(MemoryOutbound, "render", breaking(RuntimeError("a defect")))
    fire(DUE)
    one = Occurrence.objects.get()
    assert (one.look_at, one.tries) == (DUE + minutes(5), 31)


@pytest.mark.parametrize(
    ("error", "is_told"), [(OperationalError("away"), False), (RuntimeError("a defect"), True)]
)
def test_h10_each_of_a_batch_that_breaks_is_taken_alone_and_a_database_that_is_away_needs_no_word(
    chat: ChatSession,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    error: Exception,
    is_told: bool,
) -> None:
    made(chat, at=ONE)
    real, calls = firing.take_all, []

    def take_all(*arguments: Any, **named: Any) -> None:
        calls.append(arguments)
        if len(calls) == 1:
            raise error
        real(*arguments, **named)

    monkeypatch.setattr(firing, "take_all", take_all)
    fire(DUE)
    assert texts() == ["⏰ take the pills"]
    assert ("could not be fired in one transaction" in caplog.text) == is_told


def test_h53_of_more_than_can_be_taken_at_once_the_rest_is_told(
    chat: ChatSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    due = occurrences.due
    assert due(now=DUE) == []  # makes the query, which keeps the number that it has now
    monkeypatch.setattr(occurrences, "DUE_AT_ONCE", 3)
    monkeypatch.setattr(occurrences, "due", lambda now: due(now=now)[:3])
    for number in range(4):
        made(chat, at=ONE, text=f"t{number}")
    assert firing.look(now=DUE)
    assert texts() == ["⏰ t0", "⏰ t1", "⏰ t2"]
    assert not firing.look(now=DUE)
    assert len(texts()) == 4


def test_h53_those_of_one_second_come_in_order_in_each_chat_however_many_are_due(
    chat: ChatSession, guest: User
) -> None:
    """In batches by conversation."""
    other = chat_of(guest, chat.account, "d")
    for number in range(24):
        made((chat, other)[number % 2], at=ONE, text=f"t{number}")
    fire(DUE)
    said = [int(text.rpartition("t")[2]) for text in texts()]
    assert said == [*range(0, 24, 2), *range(1, 24, 2)]


def test_h13_a_list_speaks_the_language_of_its_texts_and_has_no_buttons(
    chat: ChatSession,
) -> None:
    for text in ("Bitte nimm die Tabletten", "Nicht den Müll vergessen"):
        made(chat, text=text, rule=DAILY, at=ONE)
    for text in ("take the pills", "water the plants"):
        made(chat, text=text, rule=DAILY, at=ONE)
    now = DUE + minutes(120)
    fire(now)
    chat.refresh_from_db()
    assert chat.title == "Bitte nimm die Tabletten"
    german, english = texts()
    assert german.startswith("⏰ Das war fällig und kommt zu spät:")
    assert "Tabletten" in german
    assert english.startswith("⏰ These were due")
    assert not Message.objects.filter(data__has_key="reminder").exists()
    rows = Occurrence.objects.filter(state="fired")
    assert {(row.was_missed, row.fired_at) for row in rows} == {(True, now)}
    waits = Occurrence.objects.filter(state="waiting")
    assert {row.nominal_at for row in waits} == {DUE + DAY}


def test_h15_a_list_that_goes_elsewhere_says_why(guest: User) -> None:
    http = ChannelAccount.objects.create(channel="http", name="default")
    asked, account = chat_of(guest, http, "s"), memory_account()
    guest.last_account, guest.last_target = account, {"chat": "c", "thread": ""}
    guest.save()
    for number in range(4):
        made(asked, at=ONE, text=f"t{number}")
    fire(DUE + minutes(30))
    why = "You asked for this on HTTP, where I cannot write first."
    [text] = texts()
    assert text.endswith(f"- **13:00** t3\n\n_{why}_")
    assert {row.note for row in Occurrence.objects.all()} == {why}


def test_h13_in_a_list_those_that_may_not_happen_are_left_out(chat: ChatSession) -> None:
    rows = [made(chat, at=ONE, text=f"t{number}") for number in range(4)]
    Schedule.objects.filter(pk=rows[0].pk).update(state="paused")
    Schedule.objects.filter(pk=rows[1].pk).update(sender="9")
    fire(DUE + minutes(30))
    [text] = texts()
    assert [f"t{number}" in text for number in range(4)] == [False, False, True, True]
    assert states(rows[0]) == ["withdrawn"]
    rows[1].refresh_from_db()
    assert (rows[1].state, rows[1].why) == ("paused", "grant")


def test_h13_one_that_is_left_out_says_when_and_the_next_one_comes(chat: ChatSession) -> None:
    schedule = made(chat, rule=DAILY, at=ONE, missed="skip")
    now = DUE + minutes(30)
    fire(now)
    one = Occurrence.objects.get(schedule=schedule, state="skipped")
    assert (one.was_missed, one.fired_at, one.look_at, one.note) == (True, now, None, "")
    assert waiting(schedule) == DUE + DAY
    assert texts() == []
    following = Occurrence.objects.get(schedule=schedule, state="waiting")
    firing.leave_out(following, now=now + DAY, note="why")
    following.refresh_from_db()
    assert (following.state, following.note) == ("skipped", "why")


def test_h10_a_fired_one_is_looked_at_two_seconds_later_and_then_ever_more_rarely(
    chat: ChatSession,
) -> None:
    made(chat, kind="prompt")
    now, waits = NOON + minutes(10), []
    for _ in range(30):
        fire(now)
        one = Occurrence.objects.get()
        assert one.look_at is not None
        waits.append((one.look_at - now).total_seconds())
        now = one.look_at
    assert waits[:5] == [2, 2, 2, 2, 2]
    assert waits[-1] == 300
    assert sorted(waits) == waits
    assert one.was_missed is False


def test_h12_the_pause_names_the_reminder_and_its_reason_on_one_line_each(
    chat: ChatSession,
) -> None:
    schedule = made(chat, kind="prompt", rule=DAILY, at=ONE, text="x" * 80)
    for day in range(3):
        fire(DUE + day * DAY)
        answer("a\n" + "y" * 300, Run.State.FAILED)
        fire(DUE + day * DAY + minutes(5))
    [told] = texts()
    first, reason = told.split("\n\n")
    assert first.count("x") == 59
    assert reason.startswith("a y")
    assert len(reason) == 200
    assert not Message.objects.filter(text=told, data__has_key="reminder").exists()
    schedule.refresh_from_db()
    assert schedule.failures == 3


def test_h12_after_a_pause_by_the_person_no_failures_are_told(chat: ChatSession) -> None:
    schedule = made(chat, kind="prompt", rule=DAILY, at=ONE)
    for day in range(3):
        fire(DUE + day * DAY)
        answer("no model", Run.State.FAILED)
        if day == 2:
            changes.pause(schedule_ids=[schedule.pk], why="person")
        fire(DUE + day * DAY + minutes(5))
    assert texts() == []
    schedule.refresh_from_db()
    assert (schedule.state, schedule.why, schedule.failures) == ("paused", "person", 3)


def test_h12_a_database_that_is_away_while_the_person_is_told_leaves_the_failure_to_be_counted(
    chat: ChatSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All of it is tried again: the pause is not recorded without a word."""
    schedule = made(chat, kind="prompt", rule=DAILY, at=ONE)
    for day in range(3):
        fire(DUE + day * DAY)
        answer("no model", Run.State.FAILED)
        if day < 2:
            fire(DUE + day * DAY + minutes(5))
    with monkeypatch.context() as patch:
        patch.setattr(firing, "send", breaking(OperationalError("away")))
        fire(DUE + 2 * DAY + minutes(5))
    schedule.refresh_from_db()
    assert (schedule.state, schedule.failures) == ("active", 2)
    fire(DUE + 2 * DAY + minutes(9))
    schedule.refresh_from_db()
    assert (schedule.state, schedule.failures) == ("paused", 3)
    assert len(texts()) == 1


def test_h12_an_error_in_the_web_chat_is_told_there(guest: User) -> None:
    made(places.web_chat(guest), kind="prompt", rule=DAILY, at=ONE)
    for day in range(3):
        fire(DUE + day * DAY)
        answer("no model", Run.State.FAILED)
        fire(DUE + day * DAY + minutes(5))
    told = Message.objects.get(text__startswith="⏸")
    assert told.session.account.channel == "web"


def test_h10_one_that_another_worker_has_taken_meanwhile_is_left_alone(chat: ChatSession) -> None:
    """It read which ones are due before the other worker had locked them."""
    made(chat, kind="prompt", at=ONE)
    ids = occurrences.due(now=DUE)
    firing.take_batch(ids, now=DUE)
    firing.take_batch(ids, now=DUE + timedelta(seconds=1))
    one = Occurrence.objects.get()
    assert one.look_at == DUE + timedelta(seconds=2)
    assert Run.objects.count() == 1


def test_h10_one_that_breaks_holds_up_no_other_of_its_schedule(
    chat: ChatSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    schedule = made(chat, rule=DAILY, at=ONE)
    bad = Occurrence.objects.create(
        schedule=schedule, nominal_at=DUE + timedelta(seconds=9), look_at=DUE, snoozed=True
    )
    say = firing.say

    def say_good(occurrence: Occurrence, *rest: Any) -> Run:
        if occurrence.pk == bad.pk:
            raise RuntimeError("a defect")
        return say(occurrence, *rest)

    monkeypatch.setattr(firing, "say", say_good)
    firing.look(now=DUE + timedelta(seconds=9))
    assert texts() == ["⏰ take the pills"]
    bad.refresh_from_db()
    assert (bad.state, bad.tries) == ("waiting", 1)


def test_h12_two_of_one_schedule_in_one_sweep_are_no_error(
    chat: ChatSession, caplog: pytest.LogCaptureFixture
) -> None:
    """The first pauses it by its third failure; the second is withdrawn."""
    schedule = made(chat, kind="prompt", rule="FREQ=MINUTELY;INTERVAL=15", at=ONE)
    Schedule.objects.update(failures=2)
    fire(DUE)
    answer("no model", Run.State.FAILED)
    fire(DUE + minutes(15))
    assert states(schedule) == ["failed", "withdrawn"]
    assert caplog.text == ""


def test_h10_times_that_are_not_yet_missed_come_each(chat: ChatSession, settings: Settings) -> None:
    settings.SCHEDULE_MISSED_SECONDS = 600
    schedule = made(chat, rule="FREQ=MINUTELY", at=ONE)
    fire(DUE + minutes(1.5))
    assert waiting(schedule) == DUE + minutes(1)
    fire(DUE + minutes(1.5))
    assert (len(texts()), waiting(schedule)) == (2, DUE + minutes(2))


def test_h10_a_look_at_one_leaves_the_others_that_have_fired(chat: ChatSession) -> None:
    made(chat, kind="prompt", at=ONE)
    fire(DUE)
    other = made(chat, kind="prompt", at=datetime(2026, 11, 25, 13, 30))
    fire(DUE + minutes(30))
    later = Occurrence.objects.get(schedule=other)
    fire(DUE + minutes(30) + timedelta(seconds=1))
    Occurrence.objects.exclude(pk=later.pk).update(look_at=DUE)
    fire(DUE + minutes(30) + timedelta(seconds=1))
    before = later.look_at
    later.refresh_from_db()
    assert later.look_at == before


def test_h12_a_success_ends_the_count_of_its_own_schedule_alone(chat: ChatSession) -> None:
    good = made(chat, rule=DAILY, at=ONE)
    bad = made(chat, kind="prompt", at=datetime(2026, 11, 25, 18, 0))
    Schedule.objects.update(failures=1)
    fire(DUE)
    arrive()
    fire(DUE + minutes(1))
    good.refresh_from_db()
    bad.refresh_from_db()
    assert (good.failures, bad.failures) == (0, 1)
