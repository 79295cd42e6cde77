"""Occurrences that meet: in one sweep, in one outage, after a clock that jumped; their grants."""

from datetime import datetime, timedelta
from typing import Any

import pytest

from allowlist import revocation, tool_rights
from channels_app.memory.channel import MemoryOutbound
from channels_app.schedules import firing, outcomes, places
from core.conversations import outbox
from core.conversations.schedules import changes, occurrences
from core.conversations.schedules.changes import Wish
from core.models import (
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


def test_h12_one_due_in_the_sweep_of_the_third_failure_does_not_come(chat: ChatSession) -> None:
    """The pause and the next occurrence meet in one transaction."""
    schedule = made(chat, kind="prompt", rule="FREQ=MINUTELY;INTERVAL=15", at=ONE)
    due = NOON + minutes(60)
    for number in range(3):
        fire(due + minutes(15 * number))
        answer("no model", Run.State.FAILED)
        if number < 2:
            fire(due + minutes(15 * number + 5))
    fire(due + minutes(45))
    assert Run.objects.filter(text="take the pills").count() == 3
    assert len(texts()) == 1
    schedule.refresh_from_db()
    assert (schedule.state, schedule.failures) == ("paused", 3)
    assert not Occurrence.objects.filter(schedule=schedule, state="waiting").exists()


def test_h12_failures_that_are_found_in_one_sweep_are_counted_each(chat: ChatSession) -> None:
    schedule = made(chat, rule="FREQ=MINUTELY;INTERVAL=15", at=ONE)
    for number in range(2):
        fire(NOON + minutes(60 + 15 * number))
    Delivery.objects.filter(state="pending").update(state="dead", error="blocked")
    fire(NOON + minutes(85))
    schedule.refresh_from_db()
    assert schedule.failures == 2


def test_h12_a_pause_after_failed_deliveries_is_told_elsewhere(chat: ChatSession) -> None:
    """The chat that took none of three takes the reason neither."""
    schedule = made(chat, rule=DAILY, at=ONE)
    for day in range(3):
        fire(NOON + minutes(60) + day * DAY)
        Delivery.objects.filter(state="pending").update(state="failed", error="blocked")
        fire(NOON + minutes(65) + day * DAY)
    schedule.refresh_from_db()
    assert (schedule.state, schedule.why) == ("paused", "failures")
    told = Message.objects.get(text__startswith="⏸")
    assert told.session.account.channel == "web"
    assert told.text.endswith("\n\nNot delivered: blocked")


def test_h12_a_task_that_was_stopped_was_not_carried_out_and_is_no_failure(
    chat: ChatSession,
) -> None:
    """A person who stops it three times keeps their schedule, and the count is as it was."""
    schedule = made(chat, kind="prompt", rule=DAILY, at=ONE)
    for day, state in enumerate(("failed", "cancelled", "cancelled", "cancelled", "failed")):
        fire(NOON + minutes(60) + day * DAY)
        answer("no model", state)
        fire(NOON + minutes(65) + day * DAY)
    rows = list(Occurrence.objects.filter(state="failed").order_by("nominal_at"))
    assert [row.note for row in rows] == [
        "no model",
        *["The task was stopped."] * 3,
        "no model",
    ]
    assert [(row.executed_at, row.delivered_at) for row in rows[1:4]] == [(None, None)] * 3
    schedule.refresh_from_db()
    assert (schedule.state, schedule.failures) == ("active", 2)
    assert texts() == []


def test_h12_one_that_was_withdrawn_on_its_way_says_so(chat: ChatSession) -> None:
    """A delivery without an error: its conversation was closed before it was sent."""
    made(chat)
    fire(NOON + minutes(10))
    Delivery.objects.update(state="dismissed", error="")
    fire(NOON + minutes(11))
    assert Occurrence.objects.get().note == "Not delivered"


@pytest.mark.parametrize(
    ("error", "said"),
    [
        ("The budget for today is used up: 5 €.", "Das Budget für heute ist aufgebraucht: 5 €."),
        ("", "Der Assistent konnte nicht antworten."),
        ("Error code: 500", "Error code: 500"),
    ],
)
def test_h12_the_reason_of_a_pause_is_in_the_persons_language(
    chat: ChatSession, error: str, said: str
) -> None:
    User.objects.update(language="de")
    made(chat, kind="prompt", rule=DAILY, at=ONE)
    for day in range(3):
        fire(NOON + minutes(60) + day * DAY)
        answer(error, Run.State.FAILED)
        fire(NOON + minutes(65) + day * DAY)
    [told] = texts()
    assert told.startswith("⏸ „take the pills“ ist dreimal")
    assert told.endswith(f"\n\n{said}")


def test_h12_a_pause_after_failed_deliveries_is_told_in_the_persons_language(
    chat: ChatSession,
) -> None:
    User.objects.update(language="de")
    made(chat, rule=DAILY, at=ONE)
    for day in range(3):
        fire(NOON + minutes(60) + day * DAY)
        Delivery.objects.filter(state="pending").update(state="failed", error="blocked")
        fire(NOON + minutes(65) + day * DAY)
    told = Message.objects.get(text__startswith="⏸")
    assert told.text.endswith("\n\nNicht zugestellt: blocked")


def test_h12_a_pause_because_no_next_time_is_found_is_told(chat: ChatSession) -> None:
    bad = made(chat, rule=DAILY, at=ONE, text="bad")
    Schedule.objects.filter(pk=bad.pk).update(time_zone="Nowhere/Town")
    for minute in range(60, 110, 2):
        fire(NOON + minutes(minute))
    [told] = texts()
    assert told.startswith("⏸ “bad” ")


def test_h12_three_errors_pause_a_schedule_whose_person_cannot_be_told_either(
    chat: ChatSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The error is in the plugin of the channel: neither a reminder nor the reason can be sent."""
    schedule = made(chat, rule=DAILY, at=ONE)

    def broken(*_: object) -> None:
        raise RuntimeError("a defect of the plugin")

    monkeypatch.setattr(MemoryOutbound, "render", broken)
    for day in range(3):
        for minute in range(60, 80):
            fire(NOON + day * DAY + minutes(minute))
    schedule.refresh_from_db()
    assert (schedule.state, schedule.why) == ("paused", "failures")
    assert occurrences.due(now=NOON + 9 * DAY) == []


def test_h50_a_schedule_without_a_next_time_keeps_no_other_from_being_planned(
    chat: ChatSession,
) -> None:
    """The clock was set back, on a machine that lacks the time zone of the first one."""
    bad, good = (made(chat, rule=DAILY, at=ONE, text=text) for text in ("bad", "good"))
    fire(NOON + 5 * DAY)
    Schedule.objects.filter(pk=bad.pk).update(time_zone="Nowhere/Town")
    assert occurrences.plan_again(now=NOON) == 1
    first = Occurrence.objects.filter(schedule=good, state="waiting").order_by("nominal_at")[0]
    assert first.nominal_at == NOON + DAY + minutes(60)


def test_h51_a_snooze_and_a_time_of_the_rule_that_were_both_missed_come_once(
    chat: ChatSession,
) -> None:
    schedule = made(chat, rule=DAILY, at=ONE)
    fire(NOON + minutes(60))
    one = Occurrence.objects.get(schedule=schedule, state="fired")
    assert occurrences.snooze(one, until=NOON + minutes(70)) is not None
    fire(NOON + DAY + minutes(90))
    assert len(texts()) == 2
    assert "2026" not in texts()[1]  # the later one is told: due today
    assert states(schedule) == ["fired", "skipped", "fired", "waiting"]


@pytest.mark.parametrize("missed", Schedule.Missed.values)
def test_h51_an_outage_after_a_clock_was_set_back_gives_one(chat: ChatSession, missed: str) -> None:
    """Times before and after the jump wait; both are missed."""
    schedule = made(chat, rule=DAILY, at=ONE, missed=missed)
    fire(NOON + 5 * DAY + minutes(65))  # set forward by five days
    arrive()
    fired = len(texts())
    occurrences.plan_again(now=NOON)  # and back
    fire(NOON + 9 * DAY)
    assert len(texts()) == fired * 2
    assert waiting(schedule) == NOON + 9 * DAY + minutes(60)


def test_h50_after_a_clock_was_set_back_each_time_comes_with_one_row_waiting(
    chat: ChatSession,
) -> None:
    schedule = made(chat, rule=DAILY, at=ONE)
    fire(NOON + 2 * DAY + minutes(65))
    occurrences.plan_again(now=NOON)
    for hour in range(1, 24 * 5, 12):
        fire(NOON + timedelta(hours=hour))
    assert len(texts()) == 5  # of the days 0 to 4, one of them early as a missed one
    assert waiting(schedule) == NOON + 5 * DAY + minutes(60)


def test_h13_one_for_this_very_minute_was_not_missed(chat: ChatSession, settings: Any) -> None:
    """Asked for at 13:00:50, while the minute of 13:00 runs: the gateway was not off."""
    settings.SCHEDULE_MISSED_SECONDS = 10
    now = NOON + minutes(60) + timedelta(seconds=50)
    made(chat, at=ONE, now=now, missed="skip")
    moved = made(chat, at=datetime(2026, 11, 26, 8, 0), text="moved", missed="skip")
    changes.change(schedule=moved, wish=Wish(at=ONE), now=now)
    fire(now + timedelta(seconds=1))
    assert texts() == ["⏰ take the pills", "⏰ moved"]


def test_h12_errors_before_it_fired_are_not_counted_when_its_outcome_is_looked_for(
    chat: ChatSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The fifth error gives up: a reminder that was sent was called failed after one more."""
    made(chat, at=ONE)

    def broken(*_: object, **__: object) -> None:
        raise RuntimeError("a defect of the plugin")

    due = NOON + minutes(60)
    with monkeypatch.context() as patch:
        patch.setattr(MemoryOutbound, "render", broken)
        for tries in range(1, 5):
            fire(due)
            one = Occurrence.objects.get()
            assert (one.state, one.tries) == ("waiting", tries)
            assert one.look_at is not None
            due = one.look_at
    fire(due)
    assert Occurrence.objects.get().tries == 0
    with monkeypatch.context() as patch:
        patch.setattr(outcomes, "outcome_of", broken)
        fire(due + minutes(1))
    fire(due + minutes(2))
    arrive()
    fire(due + minutes(9))
    assert [row.state for row in Occurrence.objects.all()] == ["done"]
    assert len(texts()) == 1


def test_h13_one_that_an_error_held_up_says_when_it_was_due(
    chat: ChatSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The time of its last try is not the one at which the person wanted it."""
    made(chat, at=ONE)

    def broken(*_: object) -> None:
        raise RuntimeError("a defect of the plugin")

    with monkeypatch.context() as patch:
        patch.setattr(MemoryOutbound, "render", broken)
        for second in range(60, 140, 5):
            fire(NOON + minutes(59) + timedelta(seconds=second))
    fire(NOON + minutes(62.5))
    assert texts() == ["⏰ take the pills\n\n_This was due at 13:00; an error held it up._"]


def test_h13_a_list_in_a_group_names_the_person_of_each_and_indents_further_lines(
    guest: User,
) -> None:
    User.objects.filter(pk=guest.pk).update(display_name="Ada *Lovelace*")
    guest.refresh_from_db()
    ChannelIdentity.objects.create(user=guest, kind="im", value="-7")
    group = chat_of(guest, memory_account(), "-7")
    for number in range(4):
        made(group, minutes=5, text=f"t{number}\nand water")
    fire(NOON + DAY)
    lines = [
        f"- **2026-11-25 12:05** Ada \\*Lovelace\\*: t{number}\n  and water" for number in range(4)
    ]
    assert texts() == ["\n".join(["⏰ These were due and come late:", "", *lines])]


def test_h13_a_missed_one_names_its_day_unless_it_is_today_where_the_person_is(
    chat: ChatSession,
) -> None:
    """At 01:00 in Tokyo yesterday's reminder was due on another day; in UTC it is one day."""
    made(chat, at=datetime(2026, 11, 25, 23, 30), time_zone="Asia/Tokyo")
    fire(NOON + minutes(60 * 4))
    assert texts()[0].endswith("_This was due on 2026-11-25 23:30 and comes late._")


def test_h23_a_snooze_until_a_time_that_has_happened_comes_all_the_same(chat: ChatSession) -> None:
    """A clock that was set back leaves times that have happened ahead."""
    schedule = made(chat, rule=DAILY, at=ONE)
    fire(NOON + DAY + minutes(60))
    one = Occurrence.objects.filter(schedule=schedule, state="fired").latest("nominal_at")
    row = occurrences.snooze(one, until=one.nominal_at)
    assert row is not None
    assert row.state == "waiting"


def test_h23_a_snooze_to_a_time_that_the_rule_had_before_is_a_snooze(chat: ChatSession) -> None:
    """It is replaced by the next one, and a change of the time leaves it."""
    schedule = made(chat, rule=DAILY, at=ONE)
    fire(NOON + minutes(60))
    one = Occurrence.objects.get(schedule=schedule, state="fired")
    wish = Wish(at=datetime(2026, 11, 26, 9, 0))
    changes.change(schedule=schedule, wish=wish, now=NOON + minutes(61))
    occurrences.snooze(one, until=NOON + DAY + minutes(60))
    assert Occurrence.objects.get(nominal_at=NOON + DAY + minutes(60)).snoozed
    occurrences.snooze(one, until=NOON + minutes(70))
    fire(NOON + minutes(70))
    fire(NOON + DAY + minutes(60))
    assert len(texts()) == 3  # at 13:00, 13:10 and 9:00


def test_h23_a_snooze_that_meets_the_rule_stays_when_another_replaces_it(chat: ChatSession) -> None:
    schedule = made(chat, rule=DAILY, at=ONE)
    fire(NOON + minutes(60))
    one = Occurrence.objects.get(schedule=schedule, state="fired")
    occurrences.snooze(one, until=NOON + minutes(120))
    wish = Wish(at=datetime(2026, 11, 25, 14, 0))
    changes.change(schedule=schedule, wish=wish, now=NOON + minutes(61))
    occurrences.snooze(one, until=NOON + minutes(130))
    fire(NOON + minutes(120))
    fire(NOON + minutes(130))
    assert len(texts()) == 3


@pytest.mark.parametrize("rule", ["", DAILY])
def test_h23_a_snooze_outlives_a_pause(chat: ChatSession, rule: str) -> None:
    schedule = made(chat, rule=rule, at=ONE)
    fire(NOON + minutes(60))
    one = Occurrence.objects.get(schedule=schedule, state="fired")
    occurrences.snooze(one, until=NOON + minutes(90))
    occurrences.snooze(one, until=NOON + minutes(70))
    changes.pause(schedule_ids=[schedule.pk], why="person")
    changes.resume(schedule=schedule, now=NOON + minutes(65))
    fire(NOON + minutes(70))
    fire(NOON + minutes(90))
    assert len(texts()) == 2
    changes.end(schedule=schedule)


def test_h23_a_snooze_whose_time_passed_during_a_pause_does_not_come(chat: ChatSession) -> None:
    schedule = made(chat, rule="", at=ONE)
    fire(NOON + minutes(60))
    one = Occurrence.objects.get(schedule=schedule, state="fired")
    occurrences.snooze(one, until=NOON + minutes(70))
    changes.pause(schedule_ids=[schedule.pk], why="person")
    with pytest.raises(changes.RuleError, match="Its time has passed"):
        changes.resume(schedule=schedule, now=NOON + minutes(75))


def test_h14_a_task_that_waits_for_its_turn_ends_with_its_grant(
    chat: ChatSession, guest: User
) -> None:
    made(chat, kind="prompt")
    fire(NOON + minutes(10))
    identity = guest.identities.get()
    identity.delete()
    revocation.end_identity(user_id=guest.pk, kind="im", value=identity.value)
    run = Run.objects.get()
    assert run.state == "cancelled" or run.cancel_requested_at is not None


def test_h14_a_task_that_waits_for_a_yes_does_not_go_on_without_its_grant(
    chat: ChatSession, guest: User
) -> None:
    made(chat, kind="prompt")
    fire(NOON + minutes(10))
    run = Run.objects.get()
    later = Run.objects.create(
        session=chat, user=guest, options={**run.options, "continues": run.pk}
    )
    assert tool_rights.may_go_on(later, is_group=False, now=NOON)
    guest.identities.all().delete()
    assert not tool_rights.may_go_on(later, is_group=False, now=NOON)


def test_h14_a_group_that_is_taken_off_the_list_stops_the_schedules_of_its_members(
    guest: User,
) -> None:
    owner = User.objects.create(username="boss", is_owner=True)
    group = ChannelIdentity.objects.create(user=owner, kind="im", value="-7")
    session = chat_of(guest, memory_account(), "-7")
    sender = guest.identities.get().value
    schedule = made(session, grant=changes.Grant(sender, "im", "-7"))
    group.delete()
    revocation.end_identity(user_id=owner.pk, kind="im", value="-7")
    schedule.refresh_from_db()
    assert (schedule.state, schedule.why) == ("paused", "grant")


def test_h24_a_group_that_gets_a_new_id_keeps_its_schedules(guest: User) -> None:
    """The owner lists the new id, and takes the old one off the list."""
    listed = ChannelIdentity.objects.create(user=guest, kind="im", value="-7")
    session = chat_of(guest, memory_account(), "-7")
    sender = guest.identities.exclude(value="-7").get().value
    schedule = made(session, rule=DAILY, at=ONE, grant=changes.Grant(sender, "im", "-7"))
    outbox.moved(account_id=session.account_id, chat="-7", new_chat="-1007")
    fire(NOON + minutes(60))
    assert Delivery.objects.get().target["chat"] == "-1007"
    ChannelIdentity.objects.create(user=guest, kind="im", value="-1007")
    listed.delete()
    revocation.end_identity(user_id=guest.pk, kind="im", value="-7")
    fire(NOON + DAY + minutes(60))
    assert len(texts()) == 2
    session.refresh_from_db()
    assert [row.pk for row in changes.listed(guest, session=session)] == [schedule.pk]


def test_h24_a_group_is_told_whose_reminder_it_is(guest: User) -> None:
    User.objects.filter(pk=guest.pk).update(display_name="Ada *Lovelace*")
    guest.refresh_from_db()
    made(chat_of(guest, memory_account(), "-7"))
    made(places.web_chat(guest), text="mine alone")
    ChannelIdentity.objects.create(user=guest, kind="im", value="-7")
    fire(NOON + minutes(10))
    assert [each.partition("⏰ ")[2] for each in texts()] == [r"Ada \*Lovelace\*: take the pills"]
    assert Message.objects.filter(text="⏰ mine alone").exists()


def test_h11_a_task_that_lasts_longer_than_its_interval_queues_no_other(chat: ChatSession) -> None:
    """The times that come meanwhile are left out; that is told once, and each of them says why."""
    schedule = made(chat, kind="prompt", rule="FREQ=MINUTELY;INTERVAL=15", at=ONE, text="the news")
    for number in range(4):
        fire(NOON + minutes(60 + 15 * number))
    assert Run.objects.filter(origin="schedule", state="queued").count() == 1
    assert states(schedule) == ["fired", "skipped", "skipped", "skipped", "waiting"]
    rows = Occurrence.objects.filter(state="skipped")
    assert {(row.note, row.was_missed) for row in rows} == {(firing.STILL_BUSY, False)}
    assert len(texts()) == 1
    assert "“the news” is not finished yet, so its next time was left out." in texts()[0]
    answer()
    fire(NOON + minutes(60 + 15 * 4))
    assert states(schedule)[-2:] == ["fired", "waiting"]
    fire(NOON + minutes(60 + 15 * 5))
    assert len(texts()) == 1


@pytest.mark.parametrize("state", ["held", "failed", "cancelled"])
def test_h11_a_task_that_does_not_last_leaves_no_time_out(chat: ChatSession, state: str) -> None:
    """Such as one that the owner holds since a restore, who need not decide at all."""
    schedule = made(chat, kind="prompt", rule=DAILY, at=ONE)
    fire(NOON + minutes(60))
    Run.objects.update(state=state)
    fire(NOON + minutes(60 * 25))
    assert Run.objects.filter(origin="schedule", state="queued").count() == 1
    assert "skipped" not in states(schedule)


def test_h11_the_tasks_of_others_leave_no_time_out(chat: ChatSession) -> None:
    made(chat, kind="prompt", rule=DAILY, at=ONE)
    fire(NOON + minutes(60))
    made(chat, kind="prompt", at=datetime(2026, 11, 25, 13, 30))
    text = made(chat, rule=DAILY, at=datetime(2026, 11, 25, 13, 30))
    fire(NOON + minutes(90))
    assert Run.objects.filter(origin="schedule", state="queued").count() == 2
    assert states(text)[0] == "fired"
