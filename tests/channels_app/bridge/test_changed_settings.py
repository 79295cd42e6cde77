"""A change on a bridge's page applies to the next request and the next callback."""

import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from django.test import Client
from django.utils import timezone

from allowlist import keys
from allowlist.models import ApiKey
from channels_app.bridge import signing
from channels_app.bridge.channel import CHANNEL
from channels_app.worker.runner import Runner
from core.models import ChannelAccount, ChannelIdentity, Delivery, User
from tests.channels_app.bridge.conftest import Bridge, Callback, tick
from tests.channels_app.running import until
from tests.channels_app.telegram.test_account import browser

pytestmark = pytest.mark.django_db(transaction=True)
NEW_SECRET = "another-secret-of-this-bridge"


@pytest.fixture
def other_callback() -> Iterator[Callback]:
    """Start the bridge's server at another address."""
    found = Callback()
    found.start()
    yield found
    found.stop()


@pytest.fixture
def page(
    browser: Client, account: ChannelAccount, bridge: Bridge, callback: Callback, runner: Runner
) -> Callable[..., None]:
    """Save the account's page with these fields changed; one request was answered before."""
    assert bridge.ask(text="before the change")[0] == 202
    until(lambda: callback.texts() == ["before the change"])

    def save(**fields: str) -> None:
        account.refresh_from_db()
        given: dict[str, Any] = {
            f"field_{each.name}": "" if each.secret else str(account.config.get(each.name, ""))
            for each in CHANNEL.config.fields
        }
        given["field_kind"] = given["field_kind"] or "im"
        given |= {f"field_{name}": value for name, value in fields.items()}
        given |= {"name": account.name, "enabled": "on", "config": "{}"}
        answer = browser.post(f"/admin/core/channelaccount/{account.pk}/change/", given)
        assert answer.status_code == 302, answer.content.decode()

    return save


Page = Callable[..., None]


def callback_url(page: Page, bridge: Bridge, callback: Callback, other: Callback) -> None:
    """The next answer goes to the new address."""
    page(callback_url=other.url)
    assert bridge.ask(text="after")[0] == 202
    until(lambda: other.texts() == ["after"])
    assert callback.texts() == ["before the change"]


def signing_secret(page: Page, bridge: Bridge, callback: Callback, other: Callback) -> None:
    """The old signature is refused; the new one is taken, and signs the callback."""
    page(signing_secret=NEW_SECRET)
    assert bridge.ask(text="old")[0] == 401
    data = json.dumps({"user_id": "555", "text": "new"}).encode()
    signed = signing.headers(secret=NEW_SECRET, now=tick(), body=data)
    assert bridge.post(data, signed)[0] == 202
    until(lambda: callback.texts() == ["before the change", "new"])
    given = callback.headers[-1]
    signing.check(
        secret=NEW_SECRET,
        timestamp=given[signing.TIMESTAMP],
        signature=given[signing.SIGNATURE],
        body=callback.bodies[-1],
        now=tick(),
    )


def allow_private(page: Page, bridge: Bridge, callback: Callback, other: Callback) -> None:
    """Without the tick the next callback to this machine is not made."""
    page(allow_private="")
    assert bridge.ask(text="after")[0] == 202
    until(lambda: last_delivery_state() == "dead")
    assert callback.texts() == ["before the change"]


def kind(page: Page, bridge: Bridge, callback: Callback, other: Callback) -> None:
    """Senders are looked up in the other list."""
    page(kind="email")
    assert bridge.ask(text="after")[0] == 401
    person = User.objects.get(username="owner")
    ChannelIdentity.objects.create(user=person, kind="email", value="555@example.org")
    assert bridge.ask(text="mail", user_id="555@example.org")[0] == 202


def last_delivery_state() -> str:
    """Return the state of the newest delivery."""
    return str(Delivery.objects.latest("id").state)


CASES: dict[str, Callable[[Page, Bridge, Callback, Callback], None]] = {
    each.__name__: each for each in (callback_url, signing_secret, allow_private, kind)
}


def test_every_field_of_the_form_has_a_case() -> None:
    """[C1] A new setting needs a test of changing it."""
    assert set(CASES) == {each.name for each in CHANNEL.config.fields}


@pytest.mark.parametrize("field", CASES)
def test_c1_a_changed_setting_holds_at_once(
    page: Page,
    bridge: Bridge,
    callback: Callback,
    other_callback: Callback,
    owner: User,
    field: str,
) -> None:
    """[C1] Without a restart or stale caches."""
    CASES[field](page, bridge, callback, other_callback)


@pytest.mark.parametrize("change", ["revoked", "expired", "scopes", "account"])
def test_a10_a_changed_key_holds_for_the_next_request(
    bridge: Bridge, owner: User, change: str
) -> None:
    """[A10] Any change of the key or its account applies to the next request."""
    assert bridge.ask(text="before")[0] == 202
    key = ApiKey.objects.get()
    match change:
        case "revoked":
            keys.revoke(key=key, actor="owner", now=timezone.now())
        case "expired":
            ApiKey.objects.update(expires_at=timezone.now())
        case "scopes":
            ApiKey.objects.update(scopes=["chat"])
        case _:
            ChannelAccount.objects.update(enabled=False)
    assert bridge.ask(text="after")[0] == (403 if change == "scopes" else 401)


__all__ = ["browser"]
