"""Occurrences that are due ([H10] to [H15])."""

from datetime import datetime, timedelta

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from pytest_django import Settings

from channels_app.schedules import firing, places
from core.conversations.schedules import changes, occurrences
from core.conversations.schedules.changes import Wish
from core.models import (
    ChannelAccount,
    ChannelIdentity,
    ChatSession,
    Delivery,
    Message,
    Occurrence,
    Run,
    Schedule,
    User,
)
from tests.channels_app.running import memory_account
from tests.channels_app.schedules.making import (
    DAILY,
    NOON,
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


def test_h10_a_text_is_sent_once_at_its_time_and_not_before(chat: ChatSession) -> None:
    schedule = made(chat)
    fire(NOON + minutes(9.99))
    assert texts() == []
    fire(NOON + minutes(10))
    fire(NOON + minutes(10))
    fire(NOON + minutes(11))
    assert texts() == ["⏰ take the pills"]
    schedule.refresh_from_db()
    assert (schedule.state, schedule.why) == ("ended", "over")


def test_h10_the_next_occurrence_is_planned_in_the_same_moment(chat: ChatSession) -> None:
    schedule = made(chat, rule=DAILY, at=datetime(2026, 11, 25, 13, 0))
    for day in range(3):
        due = datetime(2026, 11, 25 + day, 13, 0, tzinfo=NOON.tzinfo)
        assert waiting(schedule) == due
        fire(due)
    assert len(texts()) == 3


def test_h10_an_error_between_two_steps_leaves_nothing(
    chat: ChatSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The effect, the state and the next occurrence are one transaction."""
    schedule = made(chat, rule=DAILY, at=datetime(2026, 11, 25, 13, 0))
    with monkeypatch.context() as patch:
        patch.setattr(occurrences, "plan", broken)
        fire(NOON + minutes(60))
    assert texts() == []
    assert states(schedule) == ["waiting"]
    fire(NOON + minutes(61))
    assert texts() == ["⏰ take the pills"]


def broken(*_: object, **__: object) -> None:
    raise RuntimeError("broken")


def test_h10_an_occurrence_that_always_breaks_fails_alone(
    chat: ChatSession, guest: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    bad = made(chat, rule=DAILY, at=datetime(2026, 11, 25, 13, 0), text="bad")
    made(chat, at=datetime(2026, 11, 25, 13, 0), text="good")
    say_it = firing.say

    def say_good(occurrence: Occurrence, *rest: object) -> Run:
        if occurrence.schedule_id == bad.pk:
            raise RuntimeError("bad")
        return say_it(occurrence, *rest)  # type: ignore[arg-type]

    monkeypatch.setattr(firing, "say", say_good)
    for minute in range(60, 60 + 20):
        fire(NOON + minutes(minute))
    assert texts()[0] == "⏰ good"
    assert states(bad) == ["failed", "waiting"]
    bad.refresh_from_db()
    assert bad.failures == 1


def test_h11_a_prompt_becomes_a_run_of_the_conversation(chat: ChatSession) -> None:
    made(chat, kind="prompt", text="the news")
    fire(NOON + minutes(10))
    fire(NOON + minutes(11))
    run = Run.objects.get()
    assert (run.state, run.text, run.origin, run.session) == (
        "queued",
        "the news",
        "schedule",
        chat,
    )
    assert Message.objects.get(run=run).role == "user"


def test_h12_executed_and_delivered_are_two_facts(chat: ChatSession) -> None:
    schedule = made(chat, kind="prompt")
    due = NOON + minutes(10)
    fire(due)
    fire(due + minutes(1))
    one = Occurrence.objects.get(schedule=schedule)
    assert (one.state, one.executed_at, one.delivered_at) == ("fired", None, None)
    answer()
    run = Run.objects.get()
    Delivery.objects.create(
        account=chat.account, session=chat, run=run, dedupe_key="x", conversation="c"
    )
    fire(due + minutes(2))
    one.refresh_from_db()
    assert one.executed_at is not None
    assert (one.state, one.delivered_at) == ("fired", None)
    arrive()
    fire(due + minutes(9))
    one.refresh_from_db()
    assert (one.state, one.delivered_at, one.look_at) == ("done", NOON, None)


def test_h12_in_the_web_chat_it_is_delivered_with_its_conversation(guest: User) -> None:
    session = places.web_chat(guest)
    schedule = made(session)
    fire(NOON + minutes(10))
    fire(NOON + minutes(11))
    one = Occurrence.objects.get(schedule=schedule)
    assert one.state == "done"
    assert one.delivered_at is not None
    assert Message.objects.get(session=session).text == "⏰ take the pills"


def test_h12_three_failures_in_a_row_pause_it_and_are_told_once(chat: ChatSession) -> None:
    schedule = made(chat, kind="prompt", rule=DAILY, at=datetime(2026, 11, 25, 13, 0))
    due = NOON + minutes(60)
    for day in range(5):
        fire(due + timedelta(days=day))
        answer("no model", Run.State.FAILED)
        fire(due + timedelta(days=day, minutes=5))
    schedule.refresh_from_db()
    assert (schedule.state, schedule.why, schedule.failures) == ("paused", "failures", 3)
    assert Run.objects.filter(text="take the pills").count() == 3
    [told] = texts()
    assert told.startswith("⏸ “take the pills” failed three times in a row and is paused. ")
    assert told.endswith("\n\nno model")


def test_h12_a_success_between_failures_starts_the_count_anew(chat: ChatSession) -> None:
    schedule = made(chat, kind="prompt", rule=DAILY, at=datetime(2026, 11, 25, 13, 0))
    due = NOON + minutes(60)
    for day, state in enumerate(("failed", "failed", "succeeded", "failed", "failed")):
        fire(due + timedelta(days=day))
        answer("no model", state)
        fire(due + timedelta(days=day, minutes=5))
    schedule.refresh_from_db()
    assert (schedule.state, schedule.failures) == ("active", 2)


@pytest.mark.parametrize(("missed", "said"), [("once", 1), ("skip", 0)])
def test_h13_after_an_outage_it_comes_once_or_not_at_all(
    chat: ChatSession, missed: str, said: int
) -> None:
    schedule = made(
        chat, rule="FREQ=MINUTELY;INTERVAL=15", at=datetime(2026, 11, 25, 13, 0), missed=missed
    )
    back = NOON + timedelta(days=2, minutes=7)
    fire(back)
    assert len(texts()) == said
    assert waiting(schedule) == back + minutes(8)
    assert [state for state in states(schedule) if state != "waiting"] == [
        "fired" if said else "skipped"
    ]


def test_h13_after_a_long_pause_a_chat_gets_one_list_and_not_a_hundred_messages(
    chat: ChatSession, guest: User
) -> None:
    """Prompts, other chats, and what is due by now come by themselves."""
    listed = [
        made(chat, at=datetime(2026, 11, 25, 13, 0) + minutes(n), text=f"t{n}", time_zone="UTC")
        for n in range(12)
    ]
    prompt = made(chat, minutes=5, text="the news", kind="prompt")
    left_out = made(chat, minutes=5, text="x", missed="skip")
    other = made(chat_of(guest, chat.account, "d"), minutes=5, text="elsewhere")
    on_time = made(chat, at=datetime(2026, 11, 26, 15, 0), text="now", time_zone="UTC")
    now = NOON + timedelta(hours=27)
    fire(now)
    lines = "\n".join(f"- **2026-11-25 13:{n:02}** t{n}" for n in range(12))
    assert sorted(texts()) == sorted(
        [
            f"⏰ These were due and come late:\n\n{lines}",
            "⏰ elsewhere\n\n_This was due on 2026-11-25 12:05 and comes late._",
            "⏰ now",
        ]
    )
    assert [states(each) for each in (prompt, left_out, on_time)] == [
        ["fired"],
        ["skipped"],
        ["fired"],
    ]
    assert [states(each) for each in listed] == [["fired"]] * 12
    assert states(other) == ["fired"]
    arrive()
    fire(now + minutes(5))
    rows = Occurrence.objects.filter(schedule__in=listed, was_missed=True)
    assert rows.filter(state="done", delivered_at=NOON).count() == 12


def test_h13_a_hundred_missed_ones_of_ten_chats_are_a_few_lists(
    chat: ChatSession, guest: User, settings: Settings
) -> None:
    settings.SCHEDULES_PER_PERSON = 100
    chats = [chat_of(guest, chat.account, f"c{n}") for n in range(10)]
    for n in range(100):
        made(chats[n % 10], minutes=5 + n, text=f"t{n}")
    fire(NOON + timedelta(days=1))
    said = texts()
    assert len(said) <= 15
    assert sum(text.count("- **") + ("_This was" in text) for text in said) == 100


@pytest.mark.parametrize("number", [3, 4])
def test_h13_a_few_missed_ones_come_one_by_one_with_their_buttons(
    chat: ChatSession, number: int
) -> None:
    for n in range(number):
        made(chat, text=f"t{n}")
    fire(NOON + timedelta(days=1))
    assert len(texts()) == (1 if number > firing.FEW_MISSED else number)


def test_h13_a_missed_one_says_when_it_was_due(chat: ChatSession) -> None:
    made(chat, at=datetime(2026, 11, 25, 13, 0), time_zone="Europe/Berlin")
    fire(NOON + minutes(30))
    assert texts() == ["⏰ take the pills\n\n_This was due at 13:00 and comes late._"]
    made(chat, at=datetime(2026, 11, 26, 13, 0), text="Bitte nimm die Tabletten")
    fire(NOON + timedelta(days=3))
    assert texts()[1].endswith("_Das war am 2026-11-26 13:00 fällig und kommt zu spät._")


def test_h14_when_the_grant_ends_nothing_comes_any_more(chat: ChatSession, guest: User) -> None:
    schedule = made(chat, rule=DAILY, at=datetime(2026, 11, 25, 13, 0))
    ChannelIdentity.objects.filter(user=guest).delete()
    fire(NOON + minutes(60))
    assert texts() == []
    schedule.refresh_from_db()
    assert (schedule.state, schedule.why) == ("paused", "grant")
    assert states(schedule) == ["withdrawn"]


def test_h14_an_identity_that_is_taken_away_stops_the_schedules_at_once(
    chat: ChatSession, guest: User
) -> None:
    from allowlist import revocation

    schedule = made(chat, rule=DAILY, at=datetime(2026, 11, 25, 13, 0))
    identity = guest.identities.get()
    identity.delete()
    revocation.end_identity(user_id=guest.pk, kind="im", value=identity.value)
    schedule.refresh_from_db()
    assert (schedule.state, schedule.why) == ("paused", "grant")


def test_h15_it_goes_elsewhere_and_says_why_where_its_channel_cannot_be_written_to_first(
    guest: User,
) -> None:
    http = ChannelAccount.objects.create(channel="http", name="default")
    asked = chat_of(guest, http, "s")
    account = memory_account()
    guest.last_account, guest.last_target = account, {"chat": "c", "thread": ""}
    guest.save()
    made(asked)
    fire(NOON + minutes(10))
    assert texts() == [
        "⏰ take the pills\n\n_You asked for this on HTTP, where I cannot write first._"
    ]
    assert Delivery.objects.get().account == account


def test_h15_it_goes_to_the_web_chat_where_there_is_nothing_else(chat: ChatSession) -> None:
    schedule = made(chat)
    chat.account.delete()
    schedule.refresh_from_db()
    fire(NOON + minutes(10))
    said = Message.objects.get()
    assert said.session.account.channel == "web"
    assert "is gone" in said.text


def test_h10_a_change_a_pause_and_a_deletion_count_at_once(chat: ChatSession) -> None:
    changed, paused, deleted = (
        made(chat, rule=DAILY, at=datetime(2026, 11, 25, 13, 0), text=text)
        for text in ("one", "two", "three")
    )
    now = NOON + minutes(59)
    changes.change(schedule=changed, wish=Wish(at=datetime(2026, 11, 25, 14, 0)), now=now)
    changes.pause(schedule_ids=[paused.pk], why="person")
    assert changes.end(schedule=deleted)
    assert not changes.end(schedule=deleted)
    fire(NOON + minutes(60))
    assert texts() == []
    changes.resume(schedule=paused, now=NOON + minutes(61))
    assert waiting(paused) == NOON + timedelta(days=1, hours=1)
    fire(NOON + minutes(120))
    assert texts() == ["⏰ one"]


def test_h10_one_query_when_nothing_is_due(chat: ChatSession) -> None:
    made(chat)
    fire(NOON)
    with CaptureQueriesContext(connection) as seen:
        fire(NOON)
    assert len(seen) <= 1


@pytest.mark.parametrize("rule", ["", DAILY])
def test_h10_another_text_loses_nothing_that_is_due(chat: ChatSession, rule: str) -> None:
    """Found by a review: a change withdrew what no worker had fired yet."""
    schedule = made(chat, at=datetime(2026, 11, 25, 12, 10), rule=rule)
    late = NOON + minutes(10.2)
    changes.change(schedule=schedule, wish=Wish(text="new", time_zone="UTC"), now=late)
    fire(late)
    assert texts() == ["⏰ new"]


def test_h23_another_text_or_time_keeps_a_snooze(chat: ChatSession) -> None:
    schedule = made(chat)
    fire(NOON + minutes(10))
    one = Occurrence.objects.get(schedule=schedule)
    for _ in range(2):
        assert occurrences.snooze(one, until=NOON + minutes(20)) is not None
    schedule.refresh_from_db()
    changes.change(schedule=schedule, wish=Wish(text="new"), now=NOON + minutes(11))
    at = datetime(2026, 11, 26, 8, 0)
    changes.change(schedule=schedule, wish=Wish(at=at), now=NOON + minutes(12))
    fire(NOON + minutes(20))
    assert texts()[1:] == ["⏰ new"]
    assert waiting(schedule) == datetime(2026, 11, 26, 8, 0, tzinfo=NOON.tzinfo)


def test_h12_an_error_that_always_comes_pauses_its_schedule_and_stops_no_other(
    chat: ChatSession, caplog: pytest.LogCaptureFixture
) -> None:
    """A schedule whose next time cannot be found, as in a time zone that a machine lacks."""
    bad = made(chat, rule=DAILY, at=datetime(2026, 11, 25, 13, 0), text="bad")
    Schedule.objects.filter(pk=bad.pk).update(time_zone="Nowhere/Town")
    made(chat, at=datetime(2026, 11, 25, 13, 30), text="good")
    for minute in range(60, 110, 2):
        fire(NOON + minutes(minute))
    assert "⏰ good" in texts()
    assert "⏰ bad" not in texts()
    bad.refresh_from_db()
    assert (bad.state, bad.why) == ("paused", "failures")
    assert "is tried again" in caplog.text


def test_h12_a_text_that_was_sent_is_done_when_its_conversation_is_deleted(
    chat: ChatSession,
) -> None:
    schedule = made(chat)
    fire(NOON + minutes(10))
    chat.delete()
    fire(NOON + minutes(11))
    assert states(schedule) == ["done"]
