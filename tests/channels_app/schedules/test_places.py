"""Where the occurrences of a schedule go ([H15])."""

from datetime import timedelta

import pytest

from channels_app import registry
from channels_app.schedules import places
from channels_app.schedules.places import Place
from core.conversations import inbox
from core.database.transactions import atomic_write
from core.models import ChannelAccount, ChatSession, Schedule, User
from tests.channels_app.running import memory_account
from tests.channels_app.schedules.making import DAILY, NOON, ONE, chat_of, made

pytestmark = pytest.mark.django_db


def place_of(schedule: Schedule) -> Place:
    """Return where a schedule goes, as its stored row says."""
    with atomic_write():
        return places.place_of(Schedule.objects.get(pk=schedule.pk))


def in_topic(user: User, account: ChannelAccount, thread: str) -> ChatSession:
    """Return the conversation of a topic."""
    with atomic_write():
        return inbox.open_session(user=user, account=account, chat="c", thread=thread)


def reachable(user: User, account: ChannelAccount, *, thread: str = "") -> None:
    """Let the person have written last from a chat of ``account``."""
    user.last_account, user.last_target = account, {"chat": "d", "thread": thread}
    user.save()


def test_h15_in_the_web_chat_the_conversation_stays_while_it_is_open(guest: User) -> None:
    asked = places.web_chat(guest)
    schedule = made(asked, rule=DAILY, at=ONE)
    newer = ChatSession.objects.create(
        user=guest, account=asked.account, last_message_at=NOON, public_id="newer"
    )
    assert place_of(schedule) == Place(asked, None)
    ChatSession.objects.filter(pk=asked.pk).update(closed_at=NOON)
    assert place_of(schedule) == Place(newer, None)
    ChatSession.objects.filter(pk=asked.pk).delete()
    assert place_of(schedule) == Place(newer, None)


def test_h15_on_a_platform_it_goes_on_in_the_same_topic_in_a_new_conversation(
    guest: User,
) -> None:
    account = memory_account()
    asked = in_topic(guest, account, "9")
    schedule = made(asked, rule=DAILY, at=ONE)
    channel = registry.get("memory")
    assert place_of(schedule) == Place(asked, channel)
    ChatSession.objects.filter(pk=asked.pk).update(closed_at=NOON)
    found = place_of(schedule)
    assert found.session.pk != asked.pk
    assert (found.session.account, found.session.chat, found.session.thread) == (account, "c", "9")
    assert (found.channel, found.note) == (channel, "")
    assert place_of(schedule) == found


def test_h15_from_an_account_that_is_off_it_goes_to_the_topic_that_was_used_last(
    guest: User,
) -> None:
    off, on = memory_account(), ChannelAccount.objects.create(channel="memory", name="other")
    schedule = made(chat_of(guest, off), rule=DAILY, at=ONE)
    reachable(guest, on, thread="5")
    ChannelAccount.objects.filter(pk=off.pk).update(enabled=False)
    found = place_of(schedule)
    channel = registry.get("memory")
    assert channel is not None
    assert (found.session.account, found.session.chat, found.session.thread) == (on, "d", "5")
    assert channel.name != "MEMORY"
    assert found.note == f"You asked for this on {channel.name}, where I cannot write first."


def test_h15_a_channel_that_is_not_installed_any_more_is_named_by_its_id(guest: User) -> None:
    account = memory_account()
    schedule = made(chat_of(guest, account), rule=DAILY, at=ONE)
    ChannelAccount.objects.filter(pk=account.pk).update(channel="pigeon")
    found = place_of(schedule)
    assert found.session.account.channel == "web"
    assert found.note == "You asked for this on PIGEON, where I cannot write first."


def test_h15_a_schedule_without_a_chat_goes_where_the_person_can_be_written_to(
    guest: User,
) -> None:
    """A row of an account on which a program asked: it names no chat."""
    account = memory_account()
    schedule = made(chat_of(guest, account), rule=DAILY, at=ONE)
    Schedule.objects.update(chat="")
    reachable(guest, account)
    assert place_of(schedule).session.chat == "d"


def test_h12_besides_a_chat_is_another_one_of_the_person(guest: User) -> None:
    account = memory_account()
    deaf = chat_of(guest, account, "d")
    other = ChannelAccount.objects.create(channel="memory", name="other")
    reachable(guest, other)
    with atomic_write():
        assert places.besides(deaf).session.account == other
        reachable(guest, account)
        assert places.besides(deaf).session.account == other
        other.delete()
        assert places.besides(deaf).session.account.channel == "web"


def test_h15_the_web_chat_is_the_latest_open_conversation_of_the_person_and_of_no_agent(
    guest: User,
) -> None:
    with atomic_write():
        first = places.web_chat(guest)
        assert places.web_chat(guest) == first
    other = User.objects.create(username="ben")
    later = {"account": first.account, "last_message_at": NOON + timedelta(days=1)}
    ChatSession.objects.create(user=other, public_id="theirs", **later)
    ChatSession.objects.create(user=guest, public_id="agents", for_agent=True, **later)
    ChatSession.objects.create(user=guest, public_id="closed", closed_at=NOON, **later)
    ChatSession.objects.filter(pk=first.pk).update(last_message_at=NOON)
    earlier = ChatSession.objects.create(
        user=guest, account=first.account, last_message_at=NOON - timedelta(days=1), public_id="old"
    )
    assert places.web_chat(guest) == first
    ChatSession.objects.filter(pk=earlier.pk).update(last_message_at=NOON)
    assert places.web_chat(guest) == earlier  # of one second the one that was made last


def test_h15_no_note_says_why_where_it_is_the_reason_of_a_pause(guest: User) -> None:
    with atomic_write():
        assert places.private_place(guest).note == ""
