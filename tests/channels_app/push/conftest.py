"""People with browsers, and the push service."""

from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path

import pytest

from channels_app.push import sending
from core.conversations import push_messages, push_subscriptions
from core.conversations.push_subscriptions import Browser
from core.database import transactions
from core.lib.ids import public_id
from core.models import ChannelAccount, ChatSession, PushSubscription, Run, User
from tests.channels_app.push.service import PushService, ReadingBrowser
from tests.channels_app.webchat.conftest import sign_in


@pytest.fixture
def service(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[PushService]:
    """Run the push service, and let the gateway reach it at once."""
    with PushService(tmp_path).running() as running:
        monkeypatch.setattr(sending, "FETCHER", running.fetcher())
        monkeypatch.setattr(push_messages, "GRACE", timedelta(0))
        yield running
        transactions.close_pool()


@pytest.fixture
def ann(transactional_db: None) -> User:
    return User.objects.create(username="ann", display_name="Ann")


@pytest.fixture
def owner(transactional_db: None) -> User:
    return User.objects.create(username="owner", is_owner=True, is_staff=True)


Enable = Callable[..., tuple[ReadingBrowser, PushSubscription]]


@pytest.fixture
def enable(service: PushService) -> Enable:
    """Return ``enable(user, name)``: a browser of the user with notifications."""

    def make(user: User, name: str = "one") -> tuple[ReadingBrowser, PushSubscription]:
        reading = service.browser(name)
        given = reading.subscription
        row = push_subscriptions.keep(
            user=user,
            session_key=sign_in(user),
            browser=Browser(given["endpoint"], **given["keys"], name="Firefox on Linux"),
        )
        return reading, row

    return make


def answered(user: User, text: str, **fields: object) -> Run:
    """Return a finished run in a web chat of the user."""
    account, _ = ChannelAccount.objects.get_or_create(channel="web")
    session = ChatSession.objects.create(user=user, account=account, chat=public_id(), title="Sky")
    given = {"state": Run.State.SUCCEEDED, "result": {"text": text}, **fields}
    return Run.objects.create(session=session, user=user, origin="web", **given)
