"""A change on an account's page applies within seconds, without a restart ([C1]).

One case for each field of the form; a field without a case fails the first test.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from django.test import Client
from pytest_django import Settings

from allowlist.models import UnknownRequest
from channels_app.telegram.channel import CHANNEL
from channels_app.worker.runner import Runner
from core.models import ChannelAccount
from tests.channels_app.running import script, telegram_account, until
from tests.channels_app.telegram.fake_api import FakeBotApi
from tests.channels_app.telegram.local import SECRET, Local
from tests.channels_app.telegram.people import message
from tests.channels_app.telegram.test_account import browser, save

pytestmark = pytest.mark.django_db(transaction=True)
NEW_TOKEN = f"900:{'N' * 34}"
NEW_SECRET = "Whs_new"


@dataclass
class Polled:
    """An account that is polled, its page, and Telegram."""

    local: Local
    browser: Client
    row: ChannelAccount
    token: str

    def save(self, **fields: str) -> None:
        given: dict[str, Any] = {f"field_{name}": value for name, value in fields.items()}
        given = {"field_token": "", "field_webhook_secret": "", **shown(self.row), **given}
        assert save(self.browser, self.row, name=self.row.name, config="{}", **given) == ""
        self.row.refresh_from_db()

    def hears(self, text: str, *, token: str, api: FakeBotApi | None = None) -> None:
        """Check that a message that waits at Telegram for the bot with ``token`` is answered."""
        api = api or self.local.api
        with api.lock:
            api.waiting.setdefault(token, []).append(message(text, user=556))
        until(lambda: text in api.texts(token, 556))


def shown(row: ChannelAccount) -> dict[str, str]:
    """Return the fields of an account's page with their current values."""
    names = [each.name for each in CHANNEL.config.fields if not each.secret]
    return {f"field_{name}": str(row.config.get(name, "")) for name in names}


@pytest.fixture
def polled(
    local: Local, browser: Client, runner: Runner, settings: Settings, tmp_path: Path
) -> Polled:
    """Return a polled account that has answered once."""
    slowly = {"match": "slowly", "steps": [{"text": "{input}", "tokens_per_second": 6}]}
    script(settings, tmp_path, slowly)
    token = f"900:{'polled':A<34}"
    row = telegram_account(base=local.api.base, name="polled", mode="polling", token=token)
    found = Polled(local, browser, row, token)
    found.hears("before the change", token=token)
    return found


@pytest.fixture
def second_api() -> Iterator[FakeBotApi]:
    server = FakeBotApi()
    server.start()
    yield server
    server.stop()


def token(polled: Polled, second_api: FakeBotApi) -> None:
    """The old token is revoked at the platform first, which is what makes an owner paste a new
    one: the account is in error, and is to leave it at once."""
    polled.local.api.revoked.add(polled.token)
    until(lambda: status_of(polled.row) == "error")
    polled.save(token=NEW_TOKEN)
    polled.hears("to the new token", token=NEW_TOKEN)
    assert status_of(polled.row) == "running"


def webhook_secret(polled: Polled, second_api: FakeBotApi) -> None:
    """The old secret is refused and the platform gets the new one."""
    row = ChannelAccount.objects.get(name="main")
    webhook = Polled(polled.local, polled.browser, row, polled.local.tokens["main"])
    assert polled.local.post(message("old", user=556))[0] == 200
    webhook.save(webhook_secret=NEW_SECRET)
    until(lambda: polled.local.post(message("old", user=556), secret=SECRET)[0] == 403)
    assert polled.local.post(message("new", user=556), secret=NEW_SECRET)[0] == 200
    told = polled.local.api.webhooks
    until(lambda: told.get(webhook.token, {}).get("secret_token") == NEW_SECRET)


def mode(polled: Polled, second_api: FakeBotApi) -> None:
    """To a webhook and back: polling ends, the webhook is set; the webhook goes, polling begins,
    without the conflict of a webhook that is still there."""
    polled.save(mode="webhook")
    until(lambda: polled.token in polled.local.api.webhooks)
    until(lambda: ChannelAccount.objects.get(id=polled.row.id).poller == "")
    polled.save(mode="polling")
    polled.hears("polled again", token=polled.token)
    assert polled.token not in polled.local.api.webhooks
    assert status_of(polled.row) == "running"


def api_base(polled: Polled, second_api: FakeBotApi) -> None:
    """Updates are fetched from the new server and answered there."""
    polled.save(api_base=second_api.base)
    polled.hears("at the other server", token=polled.token, api=second_api)


def denied_reply(polled: Polled, second_api: FakeBotApi) -> None:
    """The next unknown sender gets the new line."""
    polled.save(denied_reply="Not today.")
    with polled.local.api.lock:
        polled.local.api.waiting[polled.token].append(message("hello", user=777))
    until(lambda: polled.local.api.texts(polled.token, 777) == ["Not today."])


def approved_reply(polled: Polled, second_api: FakeBotApi) -> None:
    """The next approved sender gets the new line."""
    polled.save(approved_reply="Welcome.")
    with polled.local.api.lock:
        polled.local.api.waiting[polled.token].append(message("hello", user=778))
    until(lambda: UnknownRequest.objects.filter(sender="778").exists())
    asked = UnknownRequest.objects.get(sender="778")
    place = f"/admin/allowlist/unknownrequest/{asked.public_id}/decide/"
    assert polled.browser.post(place, {"verdict": "approve"}).status_code == 302
    until(lambda: "Welcome." in polled.local.api.texts(polled.token, 778))


def growing(polled: Polled, second_api: FakeBotApi) -> None:
    """The next answer is a message from its beginning."""
    polled.local.api.with_drafts.add(polled.token)
    polled.hears("as a draft, which grows slowly at its end", token=polled.token)
    assert polled.local.api.of("sendMessageDraft", 556)
    polled.save(growing="edits")
    before = len(polled.local.api.of("sendMessageDraft", 556))
    polled.hears("as a message, which grows slowly at its end", token=polled.token)
    assert len(polled.local.api.of("sendMessageDraft", 556)) == before


def answers(polled: Polled, second_api: FakeBotApi) -> None:
    """The next answer with a list is a rich message."""
    api = polled.local.api
    api.with_rich.add(polled.token)
    for value in ("text", "rich"):
        polled.save(answers=value)
        with api.lock:
            api.waiting[polled.token].append(message(f"- {value}", user=556))
        until(lambda shown=f"• {value}": shown in api.texts(polled.token, 556))
        assert len(api.of("sendRichMessage", 556)) == int(value == "rich")


CASES: dict[str, Callable[[Polled, FakeBotApi], None]] = {
    each.__name__: each
    for each in (
        token,
        webhook_secret,
        mode,
        growing,
        answers,
        api_base,
        denied_reply,
        approved_reply,
    )
}


def status_of(row: ChannelAccount) -> str:
    """Return the account's current status."""
    return ChannelAccount.objects.get(id=row.id).status


def test_every_field_of_the_form_has_a_case() -> None:
    """[C1] A new setting needs a test of changing it."""
    assert set(CASES) == {each.name for each in CHANNEL.config.fields}


@pytest.mark.parametrize("field", CASES)
def test_c1_a_changed_setting_holds_within_seconds(
    polled: Polled, second_api: FakeBotApi, field: str
) -> None:
    """[C1] Without a restart, and without the pause of an error under the old setting."""
    CASES[field](polled, second_api)


def test_c1_an_account_is_switched_off_and_on_with_another_token(polled: Polled) -> None:
    """[C1] It is polled with the settings that were saved while it was off."""
    polled.row.refresh_from_db()
    fields = {**shown(polled.row), "field_webhook_secret": "", "config": "{}", "name": "polled"}
    assert save(polled.browser, polled.row, **fields, field_token="", enabled="") == ""
    until(lambda: status_of(polled.row) == "stopped")
    assert save(polled.browser, polled.row, **fields, field_token=NEW_TOKEN) == ""
    polled.hears("back", token=NEW_TOKEN)
    with polled.local.api.lock:
        calls = polled.local.api.polls[polled.token]
    polled.hears("again", token=NEW_TOKEN)
    assert polled.local.api.polls[polled.token] == calls


__all__ = ["browser"]
