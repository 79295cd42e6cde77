"""A platform that is unavailable for hours, and a token that is refused."""

from typing import Any

import pytest
from django.utils import timezone

from channels_app.ops import health
from channels_app.owner import outages
from channels_app.worker import account_watcher
from channels_app.worker.runner import Runner
from core.conversations import outbox
from core.lib.encryption import encrypt
from core.models import ChannelAccount, Delivery, User
from tests.channels_app.running import hours_pass, until
from tests.channels_app.telegram.local import Local
from tests.channels_app.telegram.people import message, number, person

pytestmark = pytest.mark.django_db(transaction=True)
OUTAGES: dict[str, dict[str, Any]] = {
    "cut before": {"status": 500, "cut": True},
    "cut after the effect": {"status": 500, "cut": True, "effect": True},
    "502": {"status": 502},
    "500": {"status": 500},
}


def told(chat_account: ChannelAccount) -> list[str]:
    """Return the notices about ``chat_account`` in the outbox."""
    rows = Delivery.objects.filter(dedupe_key__startswith="notice:outage").order_by("id")
    return [row.payload["text"] for row in rows if str(chat_account) in row.payload["text"]]


@pytest.mark.parametrize("kind", OUTAGES)
def test_twelve_hours_of_an_outage_lose_nothing_and_the_owner_is_told_once(
    runner: Runner, local: Local, owner: User, kind: str
) -> None:
    main = ChannelAccount.objects.get(name="main")
    owner.last_account = ChannelAccount.objects.get(name="other")
    owner.last_target = {"chat": "555", "thread": ""}
    owner.save()
    away: dict[str, bool] = {"now": True}
    for method in ("sendMessage", "editMessageText"):
        local.api.fail(
            method,
            description="away",
            times=10_000,
            when=lambda params: away["now"] and params["chat_id"] == 556,
            **OUTAGES[kind],
        )
    for text in ("first", "second"):
        local.say(text, user=556)
        until(lambda: not Delivery.objects.filter(state="sending").exists())
    until(lambda: Delivery.objects.filter(account=main, tries__gt=0).exists())
    for _ in range(4):
        hours_pass(3)
        outages.look(now=timezone.now())
    assert not Delivery.objects.filter(state__in=outbox.GIVEN_UP).exists()
    assert len(told(main)) == 1
    assert any("telegram/main" in each for each in health.problems_now())
    away["now"] = False
    hours_pass(0)
    until(
        lambda: not Delivery.objects.filter(account=main).exclude(state="sent").exists(), seconds=60
    )
    assert "\n".join(local.texts(556)) == "first\nsecond"
    outages.look(now=timezone.now())
    outages.look(now=timezone.now())
    assert len(told(main)) == 2
    until(lambda: not local.api.reactions)


def test_a_refused_token_holds_the_deliveries_until_another_one_is_saved(
    runner: Runner, local: Local
) -> None:
    token = local.tokens["main"]
    local.api.revoked.add(token)
    local.say("hello", user=556)
    until(lambda: ChannelAccount.objects.get(name="main").deliveries_held != "")
    assert set(Delivery.objects.filter(run__isnull=False).values_list("state", flat=True)) == {
        "pending"
    }
    row = ChannelAccount.objects.get(name="main")
    new = "901:" + "n" * 34
    secrets = encrypt(row.open_secrets() | {"token": new})
    ChannelAccount.objects.filter(id=row.pk).update(secrets=secrets)
    account_watcher.mark_saved(account_id=row.pk)
    until(lambda: local.api.texts(new, 556) == ["hello"])


def test_only_an_owner_sends_dead_deliveries_again_by_the_button(
    runner: Runner, local: Local, owner: User
) -> None:
    main = ChannelAccount.objects.get(name="main")
    local.api.fail("sendMessage", 400, "Bad Request: no such thing", chat=556)
    local.say("hi", user=555)
    local.say("hello", user=556)
    until(lambda: Delivery.objects.filter(state="dead").exists())
    until(lambda: any("will not be retried" in each for each in local.texts(555)))
    (notice,) = [each for each in local.api.shown(local.tokens["main"], 555) if each.keyboard]
    data = notice.keyboard[0][0]["callback_data"]
    assert local.texts(556) == []
    for who in (556, 555):
        press = {"id": str(number()), "from": person(who), "data": data, "chat_instance": "1"}
        body = message("x", user=who)["message"] | {"message_id": notice.id}
        local.post({"update_id": number(), "callback_query": press | {"message": body}})
        if who == 556:
            assert Delivery.objects.filter(state="dead", account=main).exists()
    until(lambda: local.texts(556) == ["hello"])
