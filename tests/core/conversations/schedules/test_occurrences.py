"""Occurrences are planned, found, put off and looked at again ([H10], [H23], [H50])."""

from datetime import datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from django.utils import timezone

from core.conversations.schedules import changes, occurrences
from core.database.transactions import atomic_write
from core.models import ChatSession, Occurrence, Schedule, User
from tests.channels_app.running import guest, memory_account
from tests.channels_app.schedules.making import (
    DAILY,
    DAY,
    NOON,
    ONE,
    chat_of,
    fire,
    made,
    minutes,
    states,
    texts,
    waiting,
)

__all__ = ["guest"]
pytestmark = pytest.mark.django_db
DUE = NOON + minutes(60)
State = Occurrence.State


@pytest.fixture
def chat(guest: User) -> ChatSession:
    """Return a chat of the guest."""
    return chat_of(guest, memory_account())


def occurrence(schedule: Schedule, at: datetime, **values: object) -> Occurrence:
    """Return a stored occurrence that waits, unless told."""
    return Occurrence.objects.create(
        schedule=schedule, nominal_at=at, **{"look_at": at, "state": State.WAITING, **values}
    )


def fired(chat: ChatSession, *, rule: str = DAILY) -> tuple[Schedule, Occurrence]:
    """Return a schedule that has fired once, with that occurrence."""
    schedule = made(chat, rule=rule, at=ONE)
    fire(DUE)
    schedule.refresh_from_db()
    return schedule, Occurrence.objects.get(schedule=schedule, state="fired")


def test_h53_the_one_that_is_due_longest_comes_first_then_the_one_that_was_planned_first(
    chat: ChatSession,
) -> None:
    schedule = made(chat, at=datetime(2026, 11, 30, 8, 0))
    late = occurrence(schedule, DUE)
    early = occurrence(schedule, DUE - minutes(1))
    same = occurrence(schedule, DUE + minutes(1), look_at=DUE)
    occurrence(schedule, DUE + minutes(2), look_at=None, state=State.DONE)
    assert occurrences.due(now=DUE) == [early.pk, late.pk, same.pk]
    assert occurrences.due(now=DUE - minutes(2)) == []
    assert occurrences.due(now=DUE - minutes(1)) == [early.pk]


def test_h53_by_conversation_they_are_in_the_order_of_their_time(
    chat: ChatSession, guest: User
) -> None:
    other = chat_of(guest, chat.account, "d")
    second, first = made(other, at=ONE), made(chat, at=ONE)
    third = made(chat, at=datetime(2026, 11, 25, 12, 30))
    rows = {row.schedule_id: row.pk for row in Occurrence.objects.all()}
    ids = [rows[each.pk] for each in (second, first, third)]
    assert occurrences.by_conversation(ids) == [rows[third.pk], rows[first.pk], rows[second.pk]]
    assert occurrences.by_conversation([*ids[:1], 0]) == ids[:1]


def test_h10_the_next_time_has_one_row_however_often_it_is_planned(chat: ChatSession) -> None:
    made(chat, rule=DAILY, at=ONE)
    schedule = made(chat, rule=DAILY, at=ONE)
    row = Occurrence.objects.get(schedule=schedule)
    assert occurrences.plan(schedule, after=NOON) == row
    Occurrence.objects.update(state=State.WITHDRAWN, look_at=None)
    again = occurrences.plan(schedule, after=NOON, not_before=DUE + minutes(1))
    assert again == row
    assert (again.state, again.look_at, again.snoozed) == ("waiting", DUE + minutes(1), False)
    Occurrence.objects.update(state=State.DONE, look_at=None)
    following = occurrences.plan(schedule, after=NOON)
    assert following is not None
    assert (following.nominal_at, following.look_at) == (DUE + DAY, DUE + DAY)


def test_h10_a_schedule_of_which_nothing_waits_is_over(chat: ChatSession) -> None:
    schedule = made(chat, at=ONE)
    before = Schedule.objects.get().changed_at
    occurrences.end_if_over(schedule)
    assert Schedule.objects.get().state == "active"
    Occurrence.objects.update(state=State.DONE)
    Schedule.objects.update(state="paused", why="owner")
    occurrences.end_if_over(schedule)
    assert (Schedule.objects.get().state, Schedule.objects.get().why) == ("paused", "owner")
    Schedule.objects.update(state="active", why="")
    assert occurrences.plan(schedule, after=NOON) is None
    found = Schedule.objects.get()
    assert (found.state, found.why) == ("ended", "over")
    assert found.changed_at > before


def test_h10_a_time_of_another_schedule_keeps_none_from_being_over(
    chat: ChatSession,
) -> None:
    """And the other goes on."""
    schedule, other = made(chat, at=ONE), made(chat, at=ONE)
    Occurrence.objects.filter(schedule=schedule).update(state=State.DONE)
    occurrences.end_if_over(schedule)
    schedule.refresh_from_db()
    other.refresh_from_db()
    assert (schedule.state, other.state) == ("ended", "active")


def test_h10_waiting_times_are_withdrawn_with_the_snoozes_or_without(chat: ChatSession) -> None:
    schedule, other = made(chat, rule=DAILY, at=ONE), made(chat, at=ONE)
    occurrence(schedule, NOON, state=State.DONE, look_at=None)
    snoozed = occurrence(schedule, DUE + minutes(10), snoozed=True)
    assert occurrences.withdraw_waiting([schedule.pk], also_snoozed=False) == 1
    assert states(schedule) == ["done", "withdrawn", "waiting"]
    assert occurrences.withdraw_waiting([schedule.pk]) == 1
    snoozed.refresh_from_db()
    assert (snoozed.state, snoozed.look_at) == ("withdrawn", None)
    assert states(other) == ["waiting"]


def test_h23_a_snooze_is_a_time_of_its_own_and_acknowledges(chat: ChatSession) -> None:
    schedule, one = fired(chat)
    until = DUE + timedelta(minutes=10, microseconds=5)
    row = occurrences.snooze(one, until=until)
    assert row is not None
    assert (row.nominal_at, row.look_at, row.snoozed) == (
        DUE + minutes(10),
        DUE + minutes(10),
        True,
    )
    one.refresh_from_db()
    assert one.acknowledged_at is not None
    assert states(schedule) == ["fired", "waiting", "waiting"]
    assert not occurrences.acknowledge(one)


@pytest.mark.parametrize(("state", "why"), [("paused", "person"), ("ended", "person")])
def test_h23_one_that_was_paused_or_deleted_is_not_put_off(
    chat: ChatSession, state: str, why: str
) -> None:
    schedule, one = fired(chat)
    Schedule.objects.update(state=state, why=why)
    assert occurrences.snooze(one, until=DUE + minutes(10)) is None
    assert states(schedule) == ["fired", "waiting"]
    one.refresh_from_db()
    assert one.acknowledged_at is None
    schedule.delete()
    assert occurrences.snooze(one, until=DUE + minutes(10)) is None


def test_h23_one_that_is_over_is_active_until_its_snooze(chat: ChatSession) -> None:
    schedule, one = fired(chat, rule="")
    assert (schedule.state, schedule.why) == ("ended", "over")
    assert occurrences.may_snooze(schedule)
    occurrences.snooze(one, until=DUE + minutes(10))
    schedule.refresh_from_db()
    assert (schedule.state, schedule.why) == ("active", "")
    fire(DUE + minutes(10))
    schedule.refresh_from_db()
    assert (schedule.state, schedule.why) == ("ended", "over")


def test_h23_a_snooze_to_a_second_that_has_happened_comes_a_second_later(
    chat: ChatSession,
) -> None:
    schedule, one = fired(chat)
    occurrence(schedule, DUE + minutes(10), state=State.DONE, look_at=None)
    row = occurrences.snooze(one, until=DUE + minutes(10))
    assert row is not None
    assert row.nominal_at == DUE + minutes(10) + timedelta(seconds=1)


def test_h23_the_latest_snooze_waits_again_after_a_pause_while_it_is_to_come(
    chat: ChatSession,
) -> None:
    schedule, _ = fired(chat)
    assert not occurrences.snooze_again(schedule, now=NOON)
    old = occurrence(schedule, DUE + minutes(30), snoozed=True, state=State.WITHDRAWN, look_at=None)
    new = occurrence(schedule, DUE + minutes(10), snoozed=True, state=State.WITHDRAWN, look_at=None)
    assert not occurrences.snooze_again(schedule, now=new.nominal_at)
    assert occurrences.snooze_again(schedule, now=new.nominal_at - timedelta(seconds=1))
    new.refresh_from_db()
    old.refresh_from_db()
    assert (new.state, new.look_at, new.snoozed) == ("waiting", DUE + minutes(10), True)
    assert old.state == "withdrawn"
    assert not occurrences.snooze_again(schedule, now=NOON)


def test_h12_a_settled_one_is_not_settled_again(chat: ChatSession) -> None:
    _, one = fired(chat)
    with atomic_write():
        assert occurrences.settle(
            one, state=State.FAILED, executed_at=DUE, delivered_at=None, note="n" * 400
        )
        assert not occurrences.settle(one, state=State.DONE, executed_at=None, delivered_at=DUE)
    one.refresh_from_db()
    assert (one.state, one.look_at, one.executed_at, one.delivered_at) == (
        "failed",
        None,
        DUE,
        None,
    )
    assert one.note == "n" * 300


def test_h15_the_note_of_another_place_stays_when_it_is_done(chat: ChatSession) -> None:
    _, one = fired(chat)
    Occurrence.objects.filter(pk=one.pk).update(note="elsewhere")
    with atomic_write():
        occurrences.settle(one, state=State.DONE, executed_at=DUE, delivered_at=DUE)
    one.refresh_from_db()
    assert one.note == "elsewhere"


@pytest.mark.parametrize(
    ("taken", "wait"), [(0, 2), (8, 2), (9, 2.25), (400, 100), (1200, 300), (9999, 300)]
)
def test_h10_the_longer_it_has_taken_the_later_it_is_looked_at(taken: float, wait: float) -> None:
    now = DUE + timedelta(seconds=taken)
    assert occurrences.next_look(Occurrence(fired_at=DUE), now=now) == now + timedelta(seconds=wait)
    assert occurrences.next_look(Occurrence(), now=now) == now + timedelta(seconds=2)


def test_h50_only_those_that_fired_in_the_future_are_planned_again(chat: ChatSession) -> None:
    rows = [made(chat, rule=DAILY, at=ONE, text=text) for text in "abc"]
    fire(DUE + 3 * DAY)
    changes.pause(schedule_ids=[rows[2].pk], why="person")
    Occurrence.objects.filter(schedule=rows[1]).update(fired_at=NOON + timedelta(seconds=5))
    assert occurrences.plan_again(now=NOON) == 1
    assert states(rows[0]).count("waiting") == 2
    assert states(rows[1]).count("waiting") == 1
    assert "waiting" not in states(rows[2])
    assert occurrences.plan_again(now=NOON) == 1  # as before: no other row
    assert states(rows[0]).count("waiting") == 2
    Occurrence.objects.filter(schedule=rows[1]).exclude(fired_at=None).update(
        fired_at=NOON + timedelta(seconds=5, microseconds=1)
    )
    assert occurrences.plan_again(now=NOON) == 2


def test_h50_one_that_ended_by_a_wrong_clock_is_active_again(chat: ChatSession) -> None:
    """Left out as missed while the clock was a day ahead."""
    schedule = made(chat, at=ONE, missed="skip")
    fire(DUE + DAY)
    schedule.refresh_from_db()
    assert (schedule.state, states(schedule)) == ("ended", ["skipped"])
    assert occurrences.plan_again(now=NOON) == 1
    schedule.refresh_from_db()
    one = Occurrence.objects.get()
    assert (schedule.state, schedule.why) == ("active", "")
    assert (one.state, one.look_at, one.fired_at, one.was_missed) == ("waiting", DUE, None, False)
    fire(DUE)
    assert texts() == ["⏰ take the pills"]
    assert occurrences.plan_again(now=DUE) == 0


def test_h50_one_that_waits_again_has_no_tries(chat: ChatSession) -> None:
    """Its time is not taken for that of another try, which a clock set back brings near."""
    made(chat, at=ONE, missed="skip")
    Occurrence.objects.update(tries=1)
    fire(DUE + DAY)
    assert states(Schedule.objects.get()) == ["skipped"]
    assert occurrences.plan_again(now=NOON) == 1
    one = Occurrence.objects.get()
    assert (one.state, one.tries, one.look_at) == ("waiting", 0, DUE)


def test_h50_a_schedule_of_which_nothing_is_left_stays_over(chat: ChatSession) -> None:
    schedule = made(chat, at=ONE)
    fire(DUE + DAY)
    assert occurrences.plan_again(now=NOON) == 0
    schedule.refresh_from_db()
    assert (schedule.state, states(schedule)) == ("ended", ["fired"])


def test_h50_one_that_was_left_out_before_its_time_by_the_clock_stays_so(
    chat: ChatSession,
) -> None:
    """Its time has passed by the clock as it is now, too; so has that of one of another schedule
    that was left out in time.
    """
    schedule = made(chat, rule=DAILY, at=ONE, missed="skip")
    occurrence(schedule, NOON - DAY, state=State.SKIPPED, look_at=None, fired_at=NOON + DAY)
    in_time = occurrence(schedule, NOON + 9 * DAY, state=State.SKIPPED, look_at=None, fired_at=NOON)
    occurrences.plan_again(now=NOON)
    assert states(schedule) == ["skipped", "waiting", "skipped"]
    in_time.refresh_from_db()
    assert in_time.fired_at == NOON


def test_h50_looks_that_a_clock_left_far_ahead_come_soon_and_due_times_stay(
    chat: ChatSession,
) -> None:
    schedule, far = made(chat, at=datetime(2199, 1, 1, 8, 0)), timezone.now() + 400 * DAY
    waits = Occurrence.objects.get()
    looked = occurrence(schedule, NOON, state=State.FIRED, look_at=far)
    tried = occurrence(schedule, NOON + DAY, tries=1, look_at=far)
    occurrences.bring_near()
    for row in (looked, tried):
        row.refresh_from_db()
        assert row.look_at is not None
        assert minutes(4) < row.look_at - timezone.now() <= minutes(5)
    waits.refresh_from_db()
    assert waits.look_at == waits.nominal_at


def test_h23_the_rule_keeps_a_time_that_was_also_a_snooze(chat: ChatSession) -> None:
    schedule, one = fired(chat)
    row = occurrences.snooze(one, until=DUE + DAY)
    assert row is not None
    assert not row.snoozed
    assert waiting(schedule) == DUE + DAY
    Occurrence.objects.filter(pk=row.pk).update(snoozed=True)
    occurrences.plan(schedule, after=DUE)
    row.refresh_from_db()
    assert not row.snoozed


def test_h2_a_rule_is_read_in_the_time_zone_of_its_schedule_or_in_another(
    chat: ChatSession,
) -> None:
    schedule = made(chat, at=ONE, rule=DAILY, time_zone="America/New_York")
    assert occurrences.rule_of(schedule).after(NOON) == [NOON + minutes(60 * 6)]
    tokyo = occurrences.rule_in(ZoneInfo("Asia/Tokyo"), schedule)
    assert tokyo.after(NOON) == [NOON + minutes(60 * 16)]


def test_h23_a_snooze_that_is_asked_for_twice_stays_one(chat: ChatSession) -> None:
    schedule = made(chat, rule=DAILY, at=ONE)
    for _ in range(2):
        assert occurrences.wait_for(schedule, NOON, snoozed=True).snoozed
    assert Occurrence.objects.get(nominal_at=NOON).snoozed


def test_h23_one_is_acknowledged_once_and_no_other_is(chat: ChatSession) -> None:
    schedule, one = fired(chat)
    other = occurrence(schedule, DUE + minutes(10), state=State.DONE, look_at=None)
    assert occurrences.acknowledge(one)
    assert not occurrences.acknowledge(one)
    other.refresh_from_db()
    assert other.acknowledged_at is None


def test_h12_a_settled_one_has_the_time_of_its_arrival(chat: ChatSession) -> None:
    _, one = fired(chat)
    with atomic_write():
        occurrences.settle(one, state=State.DONE, executed_at=DUE, delivered_at=DUE + minutes(1))
    one.refresh_from_db()
    assert one.delivered_at == DUE + minutes(1)
