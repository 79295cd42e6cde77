"""Fixtures of the tests of core: a person in a conversation, and threads that end with the test."""

import signal
from collections.abc import Callable, Iterator
from contextlib import nullcontext, suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, TypeVar

import pytest
from django.db import transaction
from django.db.models.functions import Now
from pytest_django import Settings

from core.conversations import events, inbox
from core.database import transactions
from core.database.transactions import atomic_write
from core.models import ChannelAccount, ChatSession, InboundMessage, Job, Run, User
from core.signals import wakeups
from tests.servers import Valkey

Row = TypeVar("Row", Run, Job)
HERE = Path(__file__).parent
NOW = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark the tests with an account: pytest-django makes tables only where a mark asks for them,
    so that one such test, run alone, would have none."""
    for item in items:
        ours = HERE in item.path.parents and "account" in getattr(item, "fixturenames", ())
        if ours and not item.get_closest_marker("django_db"):
            item.add_marker(pytest.mark.django_db)


@pytest.fixture(autouse=True)
def quiet_threads() -> Iterator[None]:
    """End the writer and the database threads after the test, and close their connections."""
    yield
    events.close_writer()
    transactions.close_pool()


@pytest.fixture
def woken(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, int]]:
    """Return the wake-ups, which are recorded and not sent."""
    sent: list[tuple[str, int]] = []

    def send(task: str, row_id: int, *, queue_name: str = "runs") -> None:
        del queue_name
        sent.append((task.removeprefix("core.runs."), row_id))

    monkeypatch.setattr(wakeups, "send", send)
    return sent


@pytest.fixture
def commits_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Call on-commit callbacks at once: a test in a transaction of its own is fast, but never
    commits.

    As after a real commit, only ``robust`` callbacks may fail.
    """

    def at_once(call: Callable[[], object], *, robust: bool = False) -> None:
        with suppress(Exception) if robust else nullcontext():
            call()

    monkeypatch.setattr(transaction, "on_commit", at_once)


@pytest.fixture
def account(request: pytest.FixtureRequest) -> ChannelAccount:
    """Return an account of a platform."""
    if "transactional_db" not in request.fixturenames:
        request.getfixturevalue("db")
    return ChannelAccount.objects.create(channel="platform", name="main")


@pytest.fixture
def user(account: ChannelAccount) -> User:
    """Return a person."""
    return User.objects.create(username="ada")


@pytest.fixture
def session(account: ChannelAccount, user: User) -> ChatSession:
    """Return that person's conversation."""
    with atomic_write():
        return inbox.open_session(user=user, account=account, chat="42")


Say = Callable[..., Run]


@pytest.fixture
def say(session: ChatSession) -> Say:
    """Return ``say("text")``: it puts a message into the inbox, which becomes a queued run."""

    def make(text: str, *, into: ChatSession = session, **draft: Any) -> Run:
        given = inbox.Draft(account=into.account, chat=into.chat, text=text, **draft)
        with atomic_write():
            message, _ = inbox.store(
                draft=given,
                state=InboundMessage.State.RECEIVED,
                now=NOW,
                user=into.user,
                session=into,
            )
            run = inbox.start_run(session=into, messages=[message], now=NOW)
        assert run is not None
        return run

    return make


def now_of(row: Row) -> Row:
    """Return ``row`` as the database has it."""
    return type(row)._default_manager.get(pk=row.pk)


def expire(row: Run | Job) -> None:
    """Make the lease of ``row`` end now."""
    type(row)._default_manager.filter(pk=row.pk).update(lease_until=Now() - timedelta(seconds=1))


@pytest.fixture
def broker(tmp_path: Path, settings: Settings) -> Iterator[Valkey]:
    """Start a broker of this test's own, which it may break."""
    server = Valkey(folder=tmp_path / "broker")
    server.start()
    settings.REDIS_URL = server.url
    yield server
    assert server.process.running
    server.process.running.send_signal(signal.SIGCONT)
    server.stop()
