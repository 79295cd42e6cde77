"""Which conversation of a key a request goes to, and what it costs to find out."""

import threading

import pytest
from django.db import connection, transaction
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from channels_app.openai_api.sessions import free_lane
from core import inbox
from core.models import ChannelAccount, ChatSession, Run, User
from tests import settings

CHAT = "key:1"


@pytest.fixture
def account(transactional_db: None) -> ChannelAccount:
    """The door's account."""
    return ChannelAccount.objects.create(channel="openai", name="door")


@pytest.fixture
def user(account: ChannelAccount) -> User:
    """A person."""
    return User.objects.create(username="ada")


@pytest.fixture
def session(account: ChannelAccount, user: User) -> ChatSession:
    """The conversation of their key."""
    return inbox.open_session(user=user, account=account, chat=CHAT)


def found(account: ChannelAccount, user: User) -> tuple[str, ChatSession | None, int]:
    """The lane, its session, and how many statements that took."""
    with transaction.atomic(), CaptureQueriesContext(connection) as seen:
        lane, session = free_lane(account=account, chat=CHAT, user=user)
    return lane, session, len(seen)


def begin(session: ChatSession, state: str) -> Run:
    """A run in that session."""
    return Run.objects.create(session=session, user=session.user, origin="test", state=state)


def test_a_key_that_never_asked_has_the_first_lane(account: ChannelAccount, user: User) -> None:
    assert found(account, user) == ("", None, 1)


def test_a_free_lane_comes_with_its_session_in_one_statement(session: ChatSession) -> None:
    begin(session, "succeeded")
    lane, known, statements = found(session.account, session.user)
    assert (lane, known, statements) == ("", session, 1)
    assert known is not None
    assert (known.user, known.account) == (session.user, session.account)


@pytest.mark.parametrize("state", ["queued", "running"])
def test_beside_a_busy_lane_there_is_another(session: ChatSession, state: str) -> None:
    begin(session, state)
    assert found(session.account, session.user)[:2] == ("2", None)
    other = inbox.open_session(user=session.user, account=session.account, chat=CHAT, thread="2")
    begin(other, state)
    assert found(session.account, session.user)[:2] == ("3", None)


def test_a_closed_conversation_is_none(session: ChatSession) -> None:
    begin(session, "queued")
    inbox.close_session(session=session)
    assert found(session.account, session.user)[:2] == ("", None)


@pytest.mark.skipif(settings.TEST_DATABASE == "sqlite", reason="SQLite has one writer at a time")
def test_what_changes_in_the_same_moment_is_waited_for(session: ChatSession) -> None:
    """A name given, an agent that listens, a conversation closed: none of it is undone."""
    lanes: list[ChatSession | None] = []
    began = threading.Event()

    def look() -> None:
        with transaction.atomic():
            began.set()
            lanes.append(free_lane(account=session.account, chat=CHAT, user=session.user)[1])
        connection.close()

    thread = threading.Thread(target=look)
    until = timezone.now()
    with transaction.atomic():
        changed = ChatSession.objects.filter(id=session.id)
        changed.update(title="named", reply_until=until)
        thread.start()
        assert began.wait(30)
        thread.join(0.5)
        assert not lanes, "it waits"
    thread.join(30)
    [known] = lanes
    assert known is not None
    assert (known.title, known.reply_until) == ("named", until)
