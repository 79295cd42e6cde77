"""The bot token never appears in a log, an error, a row that people see, or the admin's HTML."""

import logging

import pytest
from django.test import Client

from channels_app.base import ChannelError
from channels_app.worker import account_watcher
from channels_app.worker.runner import Runner
from core.models import ChannelAccount, Delivery, InboundMessage, User
from tests.channels_app.running import telegram_account, until
from tests.channels_app.telegram.local import Local

pytestmark = pytest.mark.django_db(transaction=True)
CANARY = "424242:CANARY_canary_CANARY_canary_CANARY00"


def test_the_token_stays_secret_whatever_fails(
    runner: Runner, local: Local, caplog: pytest.LogCaptureFixture, client: Client, owner: User
) -> None:
    caplog.set_level(logging.DEBUG)
    account = telegram_account(base=local.api.base, name="canary", token=CANARY)
    local.tokens["canary"] = CANARY
    url = f"{local.api.base}/bot{CANARY}/sendMessage"
    for status in (500, 404, 502):
        local.api.fail("sendMessage", status, f"Bad: {url}")
        local.say("hello", user=556, account="canary")
        until(lambda: not Delivery.objects.filter(state__in=("pending", "sending")).exists())
    local.api.fail("setMessageReaction", 400, f"Bad: {url}", times=4)
    local.api.fail("sendMessage", 400, "cut", cut=True)
    local.say("again", user=556, account="canary")
    ChannelAccount.objects.filter(id=account.id).update(
        config={"api_base": "http://127.0.0.1:9", "mode": "polling"}
    )
    account.refresh_from_db()
    with pytest.raises(ChannelError) as raised:
        account_watcher.test_now(account)
    account_watcher.mark_saved(account_id=account.id)
    until(lambda: ChannelAccount.objects.get(id=account.id).status == "error")
    owner.is_staff = owner.is_superuser = True
    owner.save()
    client.force_login(owner, backend="django.contrib.auth.backends.ModelBackend")
    pages = [
        client.get(f"/admin/core/{path}").content.decode()
        for path in (
            "channelaccount/",
            f"channelaccount/{account.id}/change/",
            "delivery/",
            "inboundmessage/",
        )
    ]
    rows = [
        *(str(vars(row)) for row in Delivery.objects.all()),
        *(str(vars(row)) for row in InboundMessage.objects.all()),
        *(str(row.status_text) + str(row.health) for row in ChannelAccount.objects.all()),
    ]
    seen = [str(raised.value), repr(raised.value.__cause__), *pages, *rows]
    logged = "\n".join(record.getMessage() + str(record.exc_text) for record in caplog.records)
    assert "delivery" in logged
    assert all("channelaccount" in page or "delivery" in page or page for page in pages)
    for text in [*seen, logged]:
        assert "CANARY" not in text.replace("canary", "")
