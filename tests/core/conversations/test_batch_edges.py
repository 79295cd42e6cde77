"""[C2] A batch that waits: its times on a clock that was set back, and what is stored with it."""

from datetime import datetime, timedelta, timezone

import pytest
from pytest_django import Settings

from core.conversations import inbox
from core.database.transactions import atomic_write
from core.database.writes import Set
from core.models import ChannelAccount, ChatSession, InboundMessage, Message, Run, User
from tests.core.conftest import NOW

pytestmark = pytest.mark.django_db
IDLE, MOST = timedelta(milliseconds=500), timedelta(seconds=2)
WAIT = inbox.Wait(IDLE, MOST)
MOMENT = timedelta(milliseconds=1)
HOUR = timedelta(hours=1)


def put(
    session: ChatSession, *, at: datetime = NOW, wait: inbox.Wait = WAIT, number: str = "1"
) -> tuple[InboundMessage, bool]:
    """Store a message that waits; return its row, and whether it is new."""
    draft = inbox.Draft(account=session.account, chat=session.chat, text="a", update_id=number)
    also = [Set(User, session.user_id, {"display_name": f"Ada {number}"})]
    with atomic_write():
        return inbox.store_waiting(draft=draft, session=session, now=at, wait=wait, also=also)


def stored(session: ChatSession) -> ChatSession:
    """Return the row as the database has it."""
    return ChatSession.objects.get(pk=session.pk)


def times(session: ChatSession) -> tuple[datetime | None, datetime | None]:
    """Return when the stored batch is due, and when it began."""
    row = stored(session)
    return row.flush_at, row.batch_started_at


def flush(session: ChatSession, *, at: datetime) -> Run | None:
    """Flush the batch if it is due."""
    with atomic_write():
        return inbox.flush_due(session_id=session.id, now=at)


def flush_for_the_next(session: ChatSession, *, at: datetime) -> Run | None:
    """Flush the batch whose window ended before a message that comes now."""
    with atomic_write():
        return inbox.flush_before(session=session, now=at)


def test_a_message_is_stored_with_its_batch_and_the_writes_beside_it(
    session: ChatSession, user: User, woken: list[tuple[str, int]], commits_at_once: None
) -> None:
    row, is_new = put(session)
    assert (is_new, row.user, row.session) == (True, user, session)
    assert times(session) == (NOW + IDLE, NOW)
    assert (session.flush_at, session.batch_started_at) == (NOW + IDLE, NOW)
    assert inbox.flush_at(session.id) == NOW + IDLE
    assert User.objects.get().display_name == "Ada 1"
    assert woken == [("wake_batch", session.id)]


def test_a_repeated_message_changes_nothing(
    session: ChatSession, woken: list[tuple[str, int]], commits_at_once: None
) -> None:
    first, _ = put(session)
    User.objects.update(display_name="Ada")
    again, is_new = put(session, at=NOW + MOMENT)
    assert (is_new, again.pk) == (False, first.pk)
    assert times(session) == (NOW + IDLE, NOW)
    assert (session.flush_at, session.batch_started_at) == (NOW + IDLE, NOW)
    assert User.objects.get().display_name == "Ada"
    assert woken == [("wake_batch", session.id)]


def test_the_batch_of_another_conversation_has_a_time_of_its_own(
    session: ChatSession, account: ChannelAccount, user: User
) -> None:
    with atomic_write():
        other = inbox.open_session(user=user, account=account, chat="43")
    put(session)
    assert inbox.flush_at(other.id) is None
    put(other, at=NOW + MOMENT, number="2")
    assert inbox.flush_at(session.id) == NOW + IDLE
    assert inbox.flush_at(other.id) == NOW + MOMENT + IDLE


def test_a_batch_that_began_later_than_now_begins_now(session: ChatSession) -> None:
    """The clock was set back by an hour: its messages wait for no hour."""
    put(session)
    before = NOW - HOUR
    put(session, at=before, number="2")
    assert times(session) == (before + IDLE, before)


@pytest.mark.parametrize(
    ("ahead", "is_due"),
    [(-MOMENT, True), (timedelta(0), True), (MOMENT, False), (MOST, False), (MOST + MOMENT, True)],
)
def test_a_batch_is_due_at_its_time_and_when_that_is_further_ahead_than_it_can_be(
    ahead: timedelta, is_due: bool, session: ChatSession, settings: Settings
) -> None:
    settings.DEBOUNCE_MAX_MILLISECONDS = 2000
    put(session)
    ChatSession.objects.update(flush_at=NOW + ahead)
    assert inbox.due_sessions(now=NOW) == ([session.id] if is_due else [])
    run = flush(session, at=NOW)
    assert (run is not None) == is_due
    left = None if is_due else NOW + ahead
    assert inbox.flush_at(session.id) == left
    assert (stored(session).batch_started_at is None) == is_due
    if run is not None:
        assert stored(session).last_message_at == NOW
    assert flush(session, at=NOW) is None


def test_a_time_of_another_zone_is_the_same_moment(session: ChatSession) -> None:
    put(session)
    there = timezone(timedelta(hours=5))
    assert flush(session, at=(NOW + IDLE - MOMENT).astimezone(there)) is None
    assert inbox.due_sessions(now=(NOW + IDLE - MOMENT).astimezone(there)) == []
    assert inbox.due_sessions(now=(NOW + IDLE).astimezone(there)) == [session.id]
    assert flush(session, at=(NOW + IDLE).astimezone(there)) is not None
    put(session, number="2")
    ChatSession.objects.update(flush_at=NOW + inbox.furthest_flush() + MOMENT)
    assert inbox.due_sessions(now=NOW.astimezone(there)) == [session.id]


def test_an_album_waits_longer_than_short_batches(session: ChatSession, settings: Settings) -> None:
    settings.DEBOUNCE_IDLE_MILLISECONDS = settings.DEBOUNCE_MAX_MILLISECONDS = 100
    assert inbox.usual_wait() == inbox.Wait(*[timedelta(milliseconds=100)] * 2)
    put(session, wait=inbox.Wait(inbox.ALBUM.idle, inbox.ALBUM.idle))
    assert flush(session, at=NOW) is None
    assert flush(session, at=NOW - MOMENT) is not None


def test_a_batch_of_the_past_is_flushed_before_the_next_message(
    session: ChatSession, settings: Settings
) -> None:
    settings.DEBOUNCE_MAX_MILLISECONDS = 2000
    assert flush_for_the_next(session, at=NOW) is None
    put(session)
    assert flush_for_the_next(session, at=NOW + IDLE - MOMENT) is None
    run = flush_for_the_next(session, at=NOW + IDLE)
    assert run is not None
    assert times(session) == (None, None)
    assert (session.flush_at, session.batch_started_at) == (None, None)
    assert stored(session).last_message_at == NOW + IDLE
    put(session, at=NOW + IDLE, number="2")
    assert times(session) == (NOW + IDLE + IDLE, NOW + IDLE)
    assert Message.objects.count() == 1


def test_a_message_at_the_exact_end_of_the_cap_belongs_to_the_batch(
    session: ChatSession, settings: Settings
) -> None:
    settings.DEBOUNCE_MAX_MILLISECONDS = 2000
    put(session, wait=inbox.Wait(MOST, MOST))
    assert flush_for_the_next(session, at=NOW + MOST) is None
    assert flush_for_the_next(session, at=NOW + MOST + MOMENT) is not None
