"""Which session of a key a request gets, and how many statements finding it takes."""

import threading
from functools import partial

import pytest
from django.db import connection, transaction
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from allowlist import keys
from allowlist.models import ApiKey
from channels_app.asgi.builtin_accounts import builtin_account
from channels_app.asgi.principal import Principal
from channels_app.client_api import acceptance, models
from channels_app.client_api.openai import fields
from channels_app.client_api.sessions import ORIGIN, chat_of, free_session
from channels_app.intake.inbound import Receipt
from core.conversations import inbox
from core.database import batching
from core.models import ChannelAccount, ChatSession, Run, User
from tests import settings

CHAT = "key:1"


def principal_of(key: ApiKey) -> Principal:
    """Return the user behind a key."""
    return Principal(key.user, key_id=key.pk, scopes=key.scopes)


@pytest.fixture
def account(transactional_db: None) -> ChannelAccount:
    """Return the account of the OpenAI endpoints."""
    return ChannelAccount.objects.create(channel="openai", name="openai")


@pytest.fixture
def user(account: ChannelAccount) -> User:
    return User.objects.create(username="ada")


@pytest.fixture
def session(account: ChannelAccount, user: User) -> ChatSession:
    """Return the main session of that person's key."""
    return inbox.open_session(user=user, account=account, chat=CHAT)


def found(account: ChannelAccount, user: User) -> tuple[str, ChatSession | None, int]:
    """Return the free thread, its session, and how many statements that took."""
    with transaction.atomic(), CaptureQueriesContext(connection) as seen:
        thread, session = free_session(account=account, chat=CHAT, user=user)
    return thread, session, len(seen)


def begin(session: ChatSession, state: str) -> Run:
    """Create a run in a session."""
    return Run.objects.create(session=session, user=session.user, origin="test", state=state)


def test_a_new_key_gets_its_main_session(account: ChannelAccount, user: User) -> None:
    assert found(account, user) == ("", None, 1)


def test_a_free_session_is_found_in_one_statement(session: ChatSession) -> None:
    begin(session, "succeeded")
    thread, known, statements = found(session.account, session.user)
    assert (thread, known, statements) == ("", session, 1)
    assert known is not None
    assert (known.user, known.account) == (session.user, session.account)


@pytest.mark.parametrize("state", ["queued", "running"])
def test_a_key_with_an_open_run_gets_a_parallel_session(session: ChatSession, state: str) -> None:
    begin(session, state)
    assert found(session.account, session.user)[:2] == ("2", None)
    other = inbox.open_session(user=session.user, account=session.account, chat=CHAT, thread="2")
    begin(other, state)
    assert found(session.account, session.user)[:2] == ("3", None)


def test_a_closed_session_is_not_returned(session: ChatSession) -> None:
    begin(session, "queued")
    ChatSession.objects.filter(pk=session.pk).update(closed_at=timezone.now())
    assert found(session.account, session.user)[:2] == ("", None)


on_postgresql = pytest.mark.skipif(
    settings.TEST_DATABASE == "sqlite", reason="SQLite has one writer at a time"
)


@on_postgresql
def test_concurrent_changes_of_the_session_are_waited_for_and_kept(session: ChatSession) -> None:
    """A new title, an agent that listens, a closed session: none of it is undone."""
    sessions: list[ChatSession | None] = []
    began = threading.Event()

    def look() -> None:
        with transaction.atomic():
            began.set()
            found = free_session(account=session.account, chat=CHAT, user=session.user)
            sessions.append(found[1])
        connection.close()

    thread = threading.Thread(target=look)
    until = timezone.now()
    with transaction.atomic():
        changed = ChatSession.objects.filter(id=session.id)
        changed.update(title="named", reply_until=until)
        thread.start()
        assert began.wait(30)
        thread.join(0.5)
        assert not sessions, "it waits"
    thread.join(30)
    [known] = sessions
    assert known is not None
    assert (known.title, known.reply_until) == ("named", until)


def new_key(name: str) -> ApiKey:
    """Create a key of a new person."""
    user = User.objects.create(username=name)
    return keys.create(name=name, user=user, scopes=["chat"])[0]


def main_session(key: ApiKey) -> ChatSession:
    """Open the main session of a key."""
    assert key.user is not None
    return inbox.open_session(user=key.user, account=builtin_account(ORIGIN), chat=chat_of(key.pk))


@on_postgresql
def test_a_free_session_is_locked_until_the_end_of_the_transaction(session: ChatSession) -> None:
    with transaction.atomic():
        free_session(account=session.account, chat=session.chat, user=session.user)
        assert is_locked(session)
    assert not is_locked(session)


def is_locked(session: ChatSession) -> bool:
    """Return whether another transaction would have to wait for the row."""
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


def test_requests_that_share_a_transaction_get_parallel_sessions(transactional_db: None) -> None:
    """Three of one key, in whose main session a run is open, and one of another key: no run waits
    for another, and each belongs to a session of its own person."""
    ann, bea = new_key("ann"), new_key("bea")
    begin(main_session(ann), "running")
    main_session(bea)
    model = next(iter(models.always()))
    asked = fields.read({"model": model, "messages": [{"role": "user", "content": "hello"}]})

    def accept(key: ApiKey) -> Receipt:
        return acceptance.accept(principal_of(key), asked, "", None)

    works = [partial(accept, key) for key in (ann, bea, ann, ann)]
    receipts = [each for each in batching.run_in_transaction(works) if isinstance(each, Receipt)]
    sessions = [(each.session.chat, each.session.thread) for each in receipts if each.session]
    assert sessions == [
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
