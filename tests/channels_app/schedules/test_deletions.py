"""Schedules, after a person, a conversation or an account was deleted."""

from datetime import datetime

import pytest

from core.models import ChatSession, Delivery, Message, Occurrence, Run, Schedule, User
from tests.channels_app.schedules.making import (
    DAILY,
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

pytestmark = pytest.mark.django_db


def test_the_schedules_of_a_deleted_person_are_gone(chat: ChatSession, guest: User) -> None:
    """Those that wait, those that run and those that have ended, with their occurrences; another
    person's schedule of the same time comes.
    """
    ben = User.objects.create(username="ben")
    theirs = made(chat_of(ben, chat.account, "d"), text="water the plants")
    ben.identities.create(kind="im", value="ben")
    made(chat)
    made(chat, text="sum up the day", kind="prompt", rule=DAILY, at=datetime(2026, 11, 25, 12, 5))
    fire(NOON + minutes(5))
    assert guest.pk != ben.pk
    guest.delete()
    assert list(Schedule.objects.all()) == [theirs]
    assert {row.schedule_id for row in Occurrence.objects.all()} == {theirs.pk}
    fire(NOON + minutes(10))
    assert texts() == ["⏰ water the plants"]


@pytest.mark.parametrize("kind", ["text", "prompt"])
def test_a_schedule_goes_on_in_the_same_chat_when_its_conversation_is_deleted(
    chat: ChatSession, kind: str
) -> None:
    """In a new conversation of that chat, without a note: the person sees one chat."""
    schedule = made(chat, kind=kind, rule=DAILY, at=ONE)
    account = chat.account
    chat.delete()
    schedule.refresh_from_db()
    assert (schedule.session_id, schedule.account, schedule.chat) == (None, account, "c")
    fire(NOON + minutes(60))
    session = Run.objects.get(origin="schedule").session
    assert (session.account, session.chat, session.user) == (account, "c", schedule.user)
    assert Occurrence.objects.get(state="fired").note == ""
    assert waiting(schedule) == NOON + minutes(60 * 25)


def test_a_task_that_ran_in_a_deleted_conversation_has_failed_and_the_next_one_comes(
    chat: ChatSession,
) -> None:
    """It is not carried out again elsewhere: how far it came is not known."""
    schedule = made(chat, kind="prompt", text="sum up the day", rule=DAILY, at=ONE)
    fire(NOON + minutes(60))
    chat.delete()
    fire(NOON + minutes(61))
    lost = Occurrence.objects.get(state="failed")
    assert (lost.run, lost.note) == (None, "Its conversation was deleted.")
    assert (lost.executed_at, lost.delivered_at) == (None, None)
    fire(NOON + minutes(60 * 25))
    assert states(schedule) == ["failed", "fired", "waiting"]
    assert Run.objects.filter(origin="schedule", state="queued").count() == 1


def test_a_schedule_of_a_deleted_account_goes_on_in_the_web_chat(chat: ChatSession) -> None:
    """Each time, and in one conversation; messages of the account are gone."""
    schedule = made(chat, rule=DAILY, at=ONE)
    fire(NOON + minutes(60))
    chat.account.delete()
    schedule.refresh_from_db()
    assert (schedule.session_id, schedule.account_id, schedule.state) == (None, None, "active")
    for day in (1, 2):
        fire(NOON + minutes(60 + 60 * 24 * day))
    assert not Delivery.objects.exists()
    said = Message.objects.order_by("id")
    assert [row.session.account.channel for row in said] == ["web", "web"]
    assert len({row.session_id for row in said}) == 1
    assert all("The chat in which you asked for this is gone." in row.text for row in said)
    assert states(schedule)[0] == "done"
