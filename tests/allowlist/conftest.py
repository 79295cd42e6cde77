"""Fixtures of the tests of the allowlist."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime

import pytest
from django.db import DatabaseError, connection

from allowlist import unknown_requests
from allowlist.models import UnknownRequest
from core.models import ChannelAccount, ChannelIdentity, ChatSession, InboundMessage, Run, User

NOW = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)


@contextmanager
def broken_database() -> Iterator[None]:
    """Fail every statement."""

    def broken(*_: object) -> None:
        raise DatabaseError("the disk is gone")

    with connection.execute_wrapper(broken):
        yield


def settle(
    row: UnknownRequest,
    *,
    verdict: unknown_requests.Choice,
    owner: User,
    now: datetime,
    everywhere: bool = False,
) -> UnknownRequest:
    """Decide a request in the admin without replaying; return its new state."""
    return unknown_requests.decide(
        request=row.public_id,
        verdict=verdict,
        owner=owner,
        via="admin",
        now=now,
        replay=lambda _: None,
        everywhere=everywhere,
    ).request


def request_of(account: ChannelAccount, now: datetime, **fields: str) -> UnknownRequest:
    """Make the request of im sender 7, pending, unless told otherwise."""
    times = dict.fromkeys(("first_seen_at", "last_seen_at", "expires_at"), now)
    names = {"kind": "im", "sender": "7"} | fields
    return UnknownRequest.objects.create(account=account, **times, **names)


@pytest.fixture
def now() -> datetime:
    """Return a fixed time; these tests never read the clock."""
    return NOW


@pytest.fixture
def telegram(db: None) -> ChannelAccount:
    """Return a Telegram account."""
    return ChannelAccount.objects.create(channel="telegram", name="main")


@pytest.fixture
def owner(db: None) -> User:
    """Return the owner."""
    return User.objects.create(username="owner", is_owner=True, is_staff=True, is_superuser=True)


MakeUser = Callable[..., User]


@pytest.fixture
def make_user(db: None) -> MakeUser:
    """Make a person; ``im``, ``email``, ``phone`` are lists of identities of any channel."""

    def make(
        username: str, *, only_listed: bool = True, active: bool = True, **lists: list[str]
    ) -> User:
        user = User.objects.create(username=username, only_listed=only_listed, is_active=active)
        for kind, values in lists.items():
            for value in values:
                ChannelIdentity.objects.create(user=user, kind=kind, value=value)
        return user

    return make


Hold = Callable[..., InboundMessage]


@pytest.fixture
def hold(telegram: ChannelAccount) -> Hold:
    """Store a held message, as the inbox does for a denied sender."""

    def make(
        *, sender: str, text: str, at: datetime = NOW, account: ChannelAccount = telegram
    ) -> InboundMessage:
        return InboundMessage.objects.create(
            account=account,
            sender=sender,
            chat=sender,
            text=text,
            raw=text.encode(),
            media=[{"id": "photo"}],
            state=InboundMessage.State.HELD,
            received_at=at,
        )

    return make


@pytest.fixture
def start(telegram: ChannelAccount, now: datetime) -> Callable[..., Run]:
    """Return a function that creates a queued run of a person, started by a sender."""

    def make(user: User, sender: str, *, via_key: int = 0) -> Run:
        session, _ = ChatSession.objects.get_or_create(user=user, account=telegram, chat=sender)
        run = Run.objects.create(session=session, user=user, origin="telegram")
        for text in ("one", "two"):
            InboundMessage.objects.create(
                account=telegram,
                user=user,
                sender=sender,
                text=text,
                run=run,
                via_key=via_key,
                received_at=now,
            )
        return run

    return make


def identities(*rows: dict[str, str], initial: int = 0) -> dict[str, str]:
    """Return the form of the identities of a person."""
    data = {"identities-TOTAL_FORMS": str(len(rows)), "identities-INITIAL_FORMS": str(initial)}
    for number, row in enumerate(rows):
        data |= {f"identities-{number}-{name}": value for name, value in row.items()}
    return data
