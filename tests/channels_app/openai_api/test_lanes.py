"""Which conversation of a key a request goes to, and what it costs to find out."""

import threading
from functools import partial

import pytest
from django.db import connection, transaction
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from allowlist import keys
from allowlist.models import ApiKey
from channels_app.asgi.builtin_accounts import door_account
from channels_app.asgi.principal import Principal
from channels_app.intake.inbound import Receipt
from channels_app.openai_api import endpoints, fields
from channels_app.openai_api.sessions import ORIGIN, Lane, chat_of, first_lanes, free_lane
from core.conversations import inbox
from core.database import batching
from core.models import ChannelAccount, ChatSession, Run, User
from tests import settings

CHAT = "key:1"


def principal_of(key: ApiKey) -> Principal:
    """The person behind a key."""
    return Principal(key.user, key_id=key.pk, scopes=key.scopes)


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


on_postgresql = pytest.mark.skipif(
    settings.TEST_DATABASE == "sqlite", reason="SQLite has one writer at a time"
)


@on_postgresql
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


def new_key(name: str) -> ApiKey:
    """A key of a new person."""
    user = User.objects.create(username=name)
    return keys.create(name=name, user=user, scopes=["chat"])[0]


def conversation(key: ApiKey) -> ChatSession:
    """The key's own."""
    assert key.user is not None
    return inbox.open_session(user=key.user, account=door_account(ORIGIN), chat=chat_of(key.pk))


@on_postgresql
def test_the_lanes_of_several_keys_are_one_question(transactional_db: None) -> None:
    """A key that is there twice is told once: what its first request stores changes the answer."""
    free, busy, new, moved = (new_key(name) for name in ("free", "busy", "new", "moved"))
    session = conversation(free)
    begin(session, "succeeded")
    for state in ("running", "queued"):
        begin(conversation(busy), state)
    ChatSession.objects.filter(id=conversation(moved).id).update(user=new.user)
    with transaction.atomic(), CaptureQueriesContext(connection) as seen:
        found = first_lanes([principal_of(key) for key in (free, busy, new, free, moved)])
    assert found[0] == Lane(session, is_busy=False)
    assert found[1] is not None
    assert found[1].is_busy
    assert found[2:] == [Lane(None, is_busy=False), None, None]
    assert [each["sql"].split()[0] for each in seen if "core_" in each["sql"]] == ["SELECT"]


@on_postgresql
def test_they_are_locked_as_one_alone_is(transactional_db: None) -> None:
    key = new_key("ann")
    session = conversation(key)
    with transaction.atomic():
        [lane] = first_lanes([principal_of(key)])
        assert lane is not None
        with CaptureQueriesContext(connection) as seen:
            free_lane(account=session.account, chat=session.chat, user=session.user, first=lane)
        assert not seen, "nothing is asked again"
        assert is_locked(session)
    assert not is_locked(session)


def is_locked(session: ChatSession) -> bool:
    """Whether somebody else has to wait for it."""
    outcome: list[bool] = []

    def look() -> None:
        with transaction.atomic():
            rows = ChatSession.objects.select_for_update(no_key=True, skip_locked=True)
            outcome.append(not rows.filter(id=session.id).exists())
        connection.close()

    thread = threading.Thread(target=look)
    thread.start()
    thread.join(30)
    return outcome[0]


def test_each_of_the_requests_of_one_moment_has_a_lane_of_its_own(transactional_db: None) -> None:
    """Three of one key, of which one is running already, and one of another: no run waits for
    another, and each lies in a conversation of its own person."""
    ann, bea = new_key("ann"), new_key("bea")
    begin(conversation(ann), "running")
    conversation(bea)
    model = next(iter(fields.models()))
    asked = fields.read({"model": model, "messages": [{"role": "user", "content": "hello"}]})

    def accept(key: ApiKey, lane: Lane | None) -> Receipt:
        return endpoints.accept(principal_of(key), asked, "", None, lane)

    works = [
        batching.Informed(partial(accept, key), asked=principal_of(key), find=first_lanes)
        for key in (ann, bea, ann, ann)
    ]
    receipts = [each for each in batching.all_of(works) if isinstance(each, Receipt)]
    lanes = [(each.session.chat, each.session.thread) for each in receipts if each.session]
    assert lanes == [
        (chat_of(ann.pk), "2"),
        (chat_of(bea.pk), ""),
        (chat_of(ann.pk), "3"),
        (chat_of(ann.pk), "4"),
    ]
    assert [each.run.user_id for each in receipts if each.run] == [
        ann.user_id,
        bea.user_id,
        ann.user_id,
        ann.user_id,
    ]
