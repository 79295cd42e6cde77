"""Rate limits of a bridge's endpoints: for each sender, and for the key that they share [RI17]."""

import json
from collections.abc import Callable
from secrets import token_hex

import pytest
from pytest_django import Settings

from channels_app.asgi import throttling
from channels_app.asgi.http import RefusedError
from channels_app.asgi.principal import Principal
from channels_app.webchat import frames, operations
from tests.channels_app.bridge.conftest import Bridge

pytestmark = pytest.mark.django_db(transaction=True)
Ask = Callable[[str], int]
DOORS = ["/inbound", "/process", "/ws"]


@pytest.fixture(autouse=True)
def fresh_counters(monkeypatch: pytest.MonkeyPatch) -> None:
    """Reset the limits, and the counts of other tests."""
    for name in ("addresses", "people", "keys", "failures"):
        monkeypatch.setattr(throttling, name, throttling.Rate())


@pytest.fixture
def ask(bridge: Bridge, request: pytest.FixtureRequest) -> Ask:
    """Send a message as a sender; return the status."""
    door: str = request.param
    principal = Principal(user=None, account=bridge.account, key_id=7)

    def inbound(sender: str) -> int:
        return bridge.inbound(text="hello", user_id=sender)[0]

    def process(sender: str) -> int:
        return bridge.ask(text=f"hello {token_hex(4)}", user_id=sender)[0]

    def socket(sender: str) -> int:
        try:
            operations.accept(
                frames.Say(text="hello", user_id=sender, plain=True), principal=principal
            )
        except RefusedError as error:
            return error.status
        return 200

    return {"/inbound": inbound, "/process": process, "/ws": socket}[door]


@pytest.mark.parametrize("ask", DOORS, indirect=True)
def test_ri17_a_flood_of_one_sender_does_not_limit_the_others(ask: Ask, settings: Settings) -> None:
    """However the name is written: the rule takes them for the same."""
    settings.RATE_PER_MINUTE_USER = 3
    assert [ask("eve") for _ in range(3)] == [401] * 3
    assert ask("eve") == 429
    assert ask(" Eve ") == 429
    assert ask("ann") == 401


@pytest.mark.parametrize("ask", DOORS, indirect=True)
def test_ri17_the_key_of_a_bridge_has_a_limit_for_all_of_them(ask: Ask, settings: Settings) -> None:
    """A thousand names do not help."""
    settings.RATE_PER_MINUTE_KEY = 5
    statuses = [ask(f"eve-{number}") for number in range(8)]
    assert statuses == [401] * 5 + [429] * 3


def test_ri17_a_refusal_says_when_to_come_back(bridge: Bridge, settings: Settings) -> None:
    """[D1] In the endpoint's own shape."""
    settings.RATE_PER_MINUTE_USER = 1
    bridge.inbound(text="a", user_id="eve")
    status, raw = bridge.inbound(text="b", user_id="eve")
    body = json.loads(raw)
    assert (status, body["ok"], body["status"], body["text"]) == (429, False, 429, "")
    assert "Try again in" in body["error"]
