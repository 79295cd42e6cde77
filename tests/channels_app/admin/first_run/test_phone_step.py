"""The third step: a bot's token is tried before it is stored, and its owner is linked."""

import threading
from typing import Any

import pytest
from django.test import Client
from django.utils import timezone

from allowlist import link_codes
from allowlist.link_codes import Address
from allowlist.models import AuditEntry, LinkCode
from channels_app.worker import account_watcher
from core.database.transactions import atomic_write
from core.models import ChannelAccount, User
from tests.channels_app.telegram.fake_api import FakeBotApi
from tests.threads import SECONDS, at_once

TOKEN = f"7001:{'B' * 35}"


def posted(page: Client, **fields: str) -> dict[str, Any]:
    """Post the form as the page's script does; return the answer."""
    answer = page.post("/first-run/phone", fields, headers={"accept": "application/json"})
    assert answer.status_code == 200
    found: dict[str, Any] = answer.json()
    return found


def bots() -> list[ChannelAccount]:
    """Return the stored accounts of Telegram."""
    return list(ChannelAccount.objects.filter(channel="telegram"))


def test_a_token_that_works_is_stored_and_a_worker_starts_it(page: Client, api: FakeBotApi) -> None:
    assert posted(page, token=f" {TOKEN} ", api_base=api.base) == {"next": "/first-run/phone"}
    (row,) = bots()
    assert (row.name, row.enabled, row.status) == ("bot7001_bot", True, "starting")
    assert row.config == {"api_base": api.base, "mode": "polling"}
    assert row.open_secrets()["token"] == TOKEN
    assert TOKEN not in str(ChannelAccount.objects.values())
    shown = page.get("/first-run/phone").content.decode()
    assert "@bot7001_bot" in shown
    assert 'href="https://t.me/bot7001_bot"' in shown
    assert TOKEN not in shown
    actions = list(AuditEntry.objects.order_by("id").values_list("action", flat=True))
    assert actions == [
        "channelaccount.added",
        "channelaccount.secret_set",
        "channelaccount.secret_set",
    ]
    assert TOKEN not in str(AuditEntry.objects.values())


def test_with_a_public_address_the_platform_calls_the_gateway(
    page: Client, api: FakeBotApi, settings: Any
) -> None:
    settings.GATEWAY_HTTPS = True
    posted(page, token=TOKEN, api_base=api.base)
    (row,) = bots()
    assert row.config["mode"] == "webhook"
    assert row.open_secrets()["webhook_secret"]


@pytest.mark.parametrize(
    ("token", "words"),
    [
        ("", "Paste the token that @BotFather gave you."),
        ("123:ABC", "does not have the form"),
        (f"7009:{'R' * 35}", "does not accept this token"),
    ],
)
def test_a_wrong_token_is_told_beside_its_field(
    page: Client, api: FakeBotApi, token: str, words: str
) -> None:
    api.revoked.add(f"7009:{'R' * 35}")
    errors = posted(page, token=token, api_base=api.base)["errors"]
    assert list(errors) == ["token"]
    assert words in errors["token"][0]
    assert bots() == []
    answer = page.post("/first-run/phone", {"token": token, "api_base": api.base})
    assert answer.status_code == 422
    assert words in answer.content.decode()


def test_a_server_that_does_not_answer_is_told(page: Client) -> None:
    errors = posted(page, token=TOKEN, api_base="http://127.0.0.1:9")["errors"]
    assert list(errors) == ["token"]
    assert errors["token"][0].startswith("Telegram cannot be reached. Is this machine online")
    assert bots() == []


def test_a_bot_that_is_connected_already_is_not_stored_twice(page: Client, api: FakeBotApi) -> None:
    posted(page, token=TOKEN, api_base=api.base)
    errors = posted(page, token=TOKEN, api_base=api.base)["errors"]
    assert "has the same bot token" in errors["token"][0]
    ChannelAccount.objects.update(enabled=False)
    errors = posted(page, token=TOKEN, api_base=api.base)["errors"]
    assert "already" in errors["token"][0]
    assert len(bots()) == 1


def test_of_two_clicks_at_once_one_connects_the_bot(
    page: Client, api: FakeBotApi, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Both have asked Telegram before one of them is stored."""
    both, real = threading.Barrier(2), account_watcher.test_now

    def test_now(row: ChannelAccount) -> str:
        said = real(row)
        both.wait(timeout=SECONDS)
        return said

    monkeypatch.setattr(account_watcher, "test_now", test_now)
    told = at_once(2, lambda: posted(page, token=TOKEN, api_base=api.base))
    assert sorted("errors" in each for each in told) == [False, True]
    assert len(bots()) == 1


def test_the_owner_is_known_after_the_code_was_sent(
    page: Client, api: FakeBotApi, owner: User
) -> None:
    assert page.get("/first-run/phone/state").json() == {
        "status": "",
        "text": "",
        "is_known": False,
        "mark": "",
    }
    posted(page, token=TOKEN, api_base=api.base)
    shown = page.post("/first-run/phone", {"do": "code"}).content.decode()
    code = shown.partition("/link ")[2][:9]
    assert page.get("/first-run/phone/state").json()["is_known"] is False
    (row,) = bots()
    address = Address(account=row, kind="im", sender="5550")
    with atomic_write():
        assert link_codes.use(code=code, address=address, now=timezone.now()) == owner
    assert page.get("/first-run/phone/state").json()["is_known"] is True
    shown = page.get("/first-run/phone").content.decode()
    assert "The bot knows you." in shown
    assert page.post("/first-run/phone", {"do": "finish"})["Location"] == "/first-run/"


def test_a_waiting_page_learns_that_its_code_was_ended_by_another(
    page: Client, api: FakeBotApi
) -> None:
    posted(page, token=TOKEN, api_base=api.base)

    def made() -> str:
        return str(page.post("/chat/link-code", {}, "application/json").json()["mark"])

    def working() -> str:
        return str(page.get("/first-run/phone/state").json()["mark"])

    first = made()
    assert working() == first != ""
    second = made()
    assert working() == second != first
    LinkCode.objects.update(expires_at=timezone.now())
    assert working() == ""


def test_the_words_of_the_platform_are_shown(page: Client, api: FakeBotApi) -> None:
    posted(page, token=TOKEN, api_base=api.base)
    ChannelAccount.objects.update(status="error", status_text="A webhook is set for this bot.")
    assert "A webhook is set for this bot." in page.get("/first-run/phone").content.decode()
    state = page.get("/first-run/phone/state").json()
    assert (state["status"], state["text"]) == ("error", "A webhook is set for this bot.")


def test_where_codes_are_off_the_page_names_the_unknown_requests(
    page: Client, api: FakeBotApi, settings: Any
) -> None:
    posted(page, token=TOKEN, api_base=api.base)
    settings.LINK_CODES = "off"
    shown = page.get("/first-run/phone").content.decode()
    assert "/link" not in shown
    assert "approve" in shown
