"""A request that is repeated after the upgrade is still known: migration 0010 of ``core``."""

from datetime import timedelta
from importlib import import_module
from types import SimpleNamespace
from typing import Any

import pytest
from django.apps import apps
from django.db import connection
from django.utils import timezone

from core.conversations.inbox import RepeatKey
from core.models import ChannelAccount, InboundMessage

pytestmark = pytest.mark.django_db
scope_keys: Any = import_module("core.migrations.0010_keys_of_clients").scope_keys


def upgrade() -> None:
    """Run the migration on the rows."""
    scope_keys(apps, SimpleNamespace(connection=connection))


@pytest.mark.parametrize(
    ("before", "scope", "options"),
    [
        ("key:7:{key}", "inbound", {}),
        ("key:7:{key}", "v1", {"messages": []}),
        ("ws:7:{key}", "ws", {}),
        ("process:{key}", "process", {}),
    ],
)
def test_keys_of_bridges_senders_are_those_that_a_repeated_request_has(
    before: str, scope: str, options: dict[str, Any]
) -> None:
    account = ChannelAccount.objects.create(channel="bridge", name="a")
    key, sender = "a key: with colons", "@ann:example.org"
    row = InboundMessage.objects.create(
        account=account,
        sender=sender,
        external_update_id=before.format(key=key),
        options=options,
        received_at=timezone.now(),
    )
    upgrade()
    row.refresh_from_db()
    assert row.external_update_id == RepeatKey(scope, key, "", "").stored(sender)
    assert row.body_digest == ""


def test_all_others_stay_as_they_are() -> None:
    """Platforms' updates, users' own keys, old rows; of two with one key the later is found."""
    account = ChannelAccount.objects.create(channel="bridge", name="a")
    now = timezone.now()

    def message(update: str, *, sender: str = "ann", days: int = 0) -> InboundMessage:
        return InboundMessage.objects.create(
            account=account,
            sender=sender,
            external_update_id=update,
            received_at=now - timedelta(days=days),
        )

    kept = [
        message("123456"),
        message("key:7:mine", sender=""),
        message("web:7:mine", sender=""),
        message("process:old", days=9),
        message("ws:7:twice"),
    ]
    later = message("ws:8:twice")
    names = [row.external_update_id for row in kept]
    upgrade()
    for row, name in zip(kept, names, strict=True):
        row.refresh_from_db()
        assert row.external_update_id == name
    later.refresh_from_db()
    assert later.external_update_id == RepeatKey("ws", "twice", "", "").stored("ann")
    upgrade()
    assert InboundMessage.objects.count() == len(kept) + 1
