"""Codes and links reach the platform and are readable in no row ([A5], decision 164)."""

import re

import pytest
from django.test import Client

from allowlist.models import UnknownRequest
from channels_app.worker.runner import Runner
from core.models import ChannelIdentity, Delivery, User
from tests.channels_app.bridge.conftest import Bridge, Callback
from tests.channels_app.running import until

pytestmark = pytest.mark.django_db(transaction=True)
SENDER = "@owner:example.org"


def stored() -> str:
    """Return everything that the outbox stores."""
    return repr(list(Delivery.objects.values()))


def test_a_code_and_a_notices_link_reach_the_bridge_and_are_in_no_row(
    runner: Runner, bridge: Bridge, callback: Callback, owner: User
) -> None:
    """[A5] The real worker sends them; a request counts as notified once the bridge has it."""
    ChannelIdentity.objects.create(
        user=owner, kind="im", value=SENDER, channel="bridge", account=bridge.account
    )
    bridge.ask(text="/link", user_id=SENDER, request_id="r1")
    until(callback.texts)
    code = re.search(r"/link (\w{4}-\w{4})", callback.texts()[0])
    assert code is not None
    assert code[1] not in stored()
    assert bridge.ask(text="let me in", user_id="@eve:example.org", request_id="r2")[0] == 401
    until(lambda: len(callback.texts()) == 2)
    link = re.search(r"(/decide/\S+)$", callback.texts()[1])
    assert link is not None
    assert link[1] not in stored()
    until(lambda: UnknownRequest.objects.get().notified_at is not None)
    browser = Client()
    assert b"@eve:example.org" in browser.get(link[1]).content
    assert b"Denied by" in browser.post(link[1], {"verdict": "deny"}).content
    until(lambda: len(callback.got) == 3)
    assert "Denied by" in callback.got[2]["text"]
    assert "/decide/" not in callback.got[2]["text"]
