"""Gateways with bots on a fake Bot API."""

from collections.abc import Callable, Iterator

import pytest

from channels_app.telegram import outbound, receive, views
from core.database import transactions
from core.models import ChannelIdentity, User
from tests.channels_app.running import guest, owner, runner, telegram_account
from tests.channels_app.telegram.fake_api import FakeBotApi
from tests.channels_app.telegram.local import Local
from tests.channels_app.telegram.people import Bots
from tests.gateways import Gateway
from tests.loops import Loop

FAST = {
    "SWEEP_SECONDS": "1",
    "DELIVERY_LEASE_SECONDS": "5",
    "GATEWAY_ENCRYPTION_KEYS": "key-of-a-test",
}


@pytest.fixture(scope="module")
def bots(module_gateways: Callable[..., Gateway], api: FakeBotApi) -> Bots:
    """Start a gateway of the module with three bots: ``main`` and ``other`` by webhook."""
    found = Bots(module_gateways(**FAST), api)
    found.add(
        "main",
        "other",
        people=[
            {"name": "owner", "id": 555, "owner": True},
            {"name": "guest", "id": 556},
            {"name": "third", "id": 557},
        ],
        groups=[-100],
    )
    return found


@pytest.fixture
def local(owner: User, guest: User) -> Iterator[Local]:
    """Start the webhook in this process, with two bots, an owner (555), a guest (556), and the
    group -100.
    """
    views.accounts.clear()
    receive.bots.clear()
    outbound.without_drafts.clear()
    api = FakeBotApi()
    api.start()
    found = Local(api, Loop())
    for name in ("main", "other"):
        account = telegram_account(base=api.base, name=name)
        found.tokens[name] = account.open_secrets()["token"]
    ChannelIdentity.objects.create(user=owner, kind="im", channel="telegram", value="-100")
    yield found
    found.loop.close()
    transactions.close_pool()
    api.stop()


__all__ = ["guest", "owner", "runner"]
