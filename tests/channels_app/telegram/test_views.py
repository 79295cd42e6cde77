"""Which requests reach a bot's inbox, and how each is answered ([D6])."""

import json
from types import SimpleNamespace
from typing import Any
from urllib.parse import unquote

import pytest

from channels_app.delivery.sending import account_of
from channels_app.telegram import views
from channels_app.telegram.channel import webhook_url
from core.lib import ttl_cache
from core.lib.encryption import encrypt
from core.models import ChannelAccount, InboundMessage
from tests.channels_app.running import telegram_account
from tests.channels_app.telegram.local import SECRET, Local
from tests.channels_app.telegram.people import Params, message

pytestmark = pytest.mark.django_db(transaction=True)
GUEST, GROUP = 556, -100
NO_ACCOUNT = "There is no such account."


def error(answer: tuple[int, Params]) -> tuple[int, str]:
    """Return the status of a refusal and its reason."""
    return answer[0], str(answer[1]["error"])


def test_an_update_is_answered_with_its_outcome_when_it_is_stored(local: Local) -> None:
    update = message("hello", user=GUEST)
    assert local.post(update) == (200, {"ok": True, "outcome": "accepted"})
    kept = InboundMessage.objects.get()
    assert (kept.account.name, kept.text) == ("main", "hello")
    assert json.loads(bytes(kept.raw)) == update
    assert local.post(update) == (200, {"ok": True, "outcome": "duplicate"})


@pytest.mark.parametrize("name", ["My bot", "Büro", "a/b", "50 %", "x" * 64])
def test_an_account_may_have_any_name(local: Local, name: str) -> None:
    """Telegram calls the address that it was given, which has the name."""
    row = telegram_account(base=local.api.base, name=name)
    address = webhook_url(account_of(row), base_url="https://a")
    assert address.isascii()
    assert " " not in address
    assert local.post(message("hello", user=GUEST), account=name)[0] == 200
    assert unquote(address) == f"https://a/telegram/{name}/webhook"


@pytest.mark.parametrize("name", ["\x00", "a\x00b", "\ud800"])
def test_a_name_that_no_database_holds_is_that_of_no_account(local: Local, name: str) -> None:
    assert error(local.post(message("hello", user=GUEST), account=name)) == (404, NO_ACCOUNT)


def test_in_a_group_the_bot_is_asked_for_its_name_and_else_it_is_not(local: Local) -> None:
    local.post(message("hello", user=GUEST))
    assert not local.api.of("getMe")
    name = f"@bot{local.tokens['main'].partition(':')[0]}_bot"
    assert local.post(message(f"{name} hi", user=GUEST, chat=GROUP))[1]["outcome"] == "accepted"
    assert len(local.api.of("getMe")) == 1
    assert local.post(message("hi", user=GUEST, chat=GROUP))[1]["outcome"] == "not addressed"


def test_a_message_of_a_group_comes_again_while_the_name_of_the_bot_is_unknown(
    local: Local,
) -> None:
    """A message to the bot would be passed over as one to others."""
    local.api.fail("getMe", 502, times=2)
    name = f"@bot{local.tokens['main'].partition(':')[0]}_bot"
    update = message(f"{name} hi", user=GUEST, chat=GROUP)
    assert error(local.post(update)) == (503, "The bot's name is not known yet.")
    assert local.post(message("hi", user=GUEST))[0] == 200
    assert local.post(update)[0] == 503
    assert local.post(update)[1]["outcome"] == "accepted"


@pytest.mark.parametrize("secret", [None, "", "wrong", f"{SECRET}x"])
def test_without_the_secret_nothing_is_read(local: Local, secret: str | None) -> None:
    answer = local.post(message("hello", user=GUEST), secret=secret)
    assert error(answer) == (403, "Permission denied")
    assert not local.body_was_read
    assert not InboundMessage.objects.exists()


@pytest.mark.parametrize(
    ("body", "status", "said"),
    [
        (b"{", 400, "Bad JSON: the body is not valid JSON."),
        (b'{"a":1,"a":2}', 400, "Bad JSON: an object has the same key twice."),
        (b"[" * 33 + b"]" * 33, 400, "Bad JSON: the JSON is nested too deeply."),
        (b"[" * 32 + b"]" * 32, 200, ""),
        (b'{"update_id": 5, "message": "\\u0000"}', 200, ""),
        (b" " * 100 + b"1", 413, "The body is larger than 100 bytes."),
        (b" " * 99 + b"1", 200, ""),
    ],
)
def test_a_body_that_is_no_json_or_too_large_is_refused(
    local: Local, settings: pytest.FixtureRequest, body: bytes, status: int, said: str
) -> None:
    """Anything else is kept, whatever it holds: Telegram sends again what is refused."""
    for name, value in (("MAX_JSON_DEPTH", 32), ("TELEGRAM_MAX_BODY_BYTES", 100)):
        setattr(settings, name, value)
    answer = local.post(body)
    if said:
        assert error(answer) == (status, said)
        assert not InboundMessage.objects.exists()
    else:
        assert answer == (status, {"ok": True, "outcome": "quarantined"})
        assert bytes(InboundMessage.objects.get().raw) == body


def test_an_account_is_looked_for_every_two_seconds(
    local: Local, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One that is changed counts as it was until then."""
    now = [100.0]
    monkeypatch.setattr(ttl_cache, "time", SimpleNamespace(monotonic=lambda: now[0]))
    assert local.post(message("one", user=GUEST))[0] == 200
    ChannelAccount.objects.filter(name="main").update(enabled=False)
    now[0] += 1.9
    assert local.post(message("two", user=GUEST))[0] == 200
    now[0] += 0.1
    assert error(local.post(message("three", user=GUEST))) == (404, NO_ACCOUNT)
    ChannelAccount.objects.filter(name="main").update(enabled=True)
    assert local.post(message("three", user=GUEST))[0] == 200


@pytest.mark.parametrize(
    "change",
    [
        {"enabled": False},
        {"channel": "memory"},
        {"name": "renamed"},
        {"secrets": ""},
        {"secrets": "x"},
        {"secrets": {"token": "900:x"}},
        {"secrets": {"token": "900:x", "webhook_secret": ""}},
    ],
    ids=str,
)
def test_an_account_that_cannot_receive_does_not_exist(
    local: Local, change: dict[str, Any]
) -> None:
    if isinstance(change.get("secrets"), dict):
        change = {"secrets": encrypt(change["secrets"])}
    ChannelAccount.objects.filter(name="main").update(**change)
    for secret in (SECRET, "", None):
        answer = local.post(message("hello", user=GUEST), secret=secret)
        assert error(answer) == (404, NO_ACCOUNT)
    assert local.post(message("hello", user=GUEST), account="other")[0] == 200


def test_a_cleared_cache_looks_again(local: Local) -> None:
    assert local.post(message("one", user=GUEST))[0] == 200
    ChannelAccount.objects.filter(name="main").update(enabled=False)
    views.accounts.clear()
    assert local.post(message("two", user=GUEST))[0] == 404
