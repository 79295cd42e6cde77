"""Approve pressed on Telegram, in the web chat and in the admin at the same instant [A6] [A7]."""

from datetime import timedelta
from functools import partial
from typing import Any

import pytest
from django.contrib.messages import get_messages
from django.test import Client
from django.utils import timezone

from allowlist.models import AuditEntry, UnknownRequest
from channels_app.asgi.principal import Principal
from channels_app.intake.inbound import receive_sender
from channels_app.telegram import receive
from channels_app.telegram.addressing import Bot
from channels_app.webchat import frames, operations
from core.conversations.inbox import Draft
from core.database import transactions
from core.models import ChannelAccount, ChannelIdentity, Delivery, InboundMessage, Run, User
from tests.allowlist.in_parallel import run_in_parallel

pytestmark = pytest.mark.django_db(transaction=True)

PRESSES, THREADS, OWNER_ID = 200, 18, 555
BOT = Bot(900, "latchkey_bot")


def record_request(account: ChannelAccount, text: str) -> None:
    """Receive an unknown sender's message on Telegram."""
    draft = Draft(
        account=account, sender="700", sender_name="Eve", chat="700", text=text, message_id=text
    )
    assert receive_sender(draft=draft, now=timezone.now()).outcome == "denied"


def on_telegram(account: ChannelAccount, request: str, number: int) -> str:
    """Press the button under the notice; return the text that the platform shows."""
    who = {"id": OWNER_ID, "is_bot": False, "first_name": "Ada"}
    chat = {"id": OWNER_ID, "type": "private"}
    press = {
        "id": str(number),
        "from": who,
        "data": f"approve:{request}",
        "message": {"message_id": 1, "chat": chat},
    }
    update = {"update_id": number, "callback_query": press}
    assert receive.take(row=account, bot=BOT, value=update, raw=b"") == "pressed"
    answer = Delivery.objects.get(dedupe_key=f"press:{account.pk}:{number}")
    return str(answer.payload["text"])


def in_web_chat(owner: User, request: str) -> str:
    """Press the button of the card; return the text of the answer."""
    principal = Principal(User.objects.get(pk=owner.pk), session_key="a cookie")
    shown: dict[str, Any] = operations.decide(
        frames.Decide(request, "approve"), principal=principal
    )
    return str(shown["text"])


def in_admin(client: Client, request: str) -> str:
    """Press the button of the list; return the text of the answer."""
    address = f"/admin/allowlist/unknownrequest/{request}/decide/"
    answer = client.post(address, {"verdict": "approve"})
    assert answer.status_code == 302
    return " ".join(str(each) for each in get_messages(answer.wsgi_request))


def test_a6_a7_200_simultaneous_presses_on_three_channels_are_one_decision(
    telegram: ChannelAccount, owner: User
) -> None:
    """[A6] One decision, one identity, one audit row, the notice shows it; [A7] one replay."""
    ChannelIdentity.objects.create(user=owner, kind="im", value=str(OWNER_ID))
    target = {"chat": str(OWNER_ID), "thread": ""}
    User.objects.filter(pk=owner.pk).update(last_account=telegram, last_target=target)
    for text in ("one", "two", "three"):
        record_request(telegram, text)
    request = UnknownRequest.objects.get().public_id
    notice = Delivery.objects.get(dedupe_key__startswith="notice:request:")
    assert notice.payload["buttons"]
    clients = [Client() for _ in range(THREADS)]
    for client in clients:
        client.force_login(owner)
    channels = [
        lambda number: on_telegram(telegram, request, number),
        lambda number: in_web_chat(owner, request),
        lambda number: in_admin(clients[number % THREADS], request),
    ]
    told = run_in_parallel(
        lambda number: channels[number % 3](number), times=PRESSES, threads=THREADS
    )
    transactions.close_pool()
    row = UnknownRequest.objects.get()
    assert row.state == "approved"
    assert sum("Already approved" not in each for each in told) == 1
    assert all(f"pproved by owner at {row.decided_at:%Y-%m-%d %H:%M}" in each for each in told)
    assert all(f"via {row.decided_via}" in each for each in told)
    assert ChannelIdentity.objects.filter(value="700").count() == 1
    assert User.objects.filter(identities__value="700").count() == 1
    assert AuditEntry.objects.filter(action__startswith="request.").count() == 1
    replayed = InboundMessage.objects.filter(sender="700").order_by("id")
    assert [each.text for each in replayed] == ["one", "two", "three"]
    said = [each for run in Run.objects.order_by("id") for each in run.text.split("\n")]
    assert said == ["one", "two", "three"]
    notice.refresh_from_db()
    assert "buttons" not in notice.payload
    assert notice.payload["text"].endswith(f"via {row.decided_via}.")


def test_a6_a_press_after_the_7_days_changes_nothing_and_says_so(
    telegram: ChannelAccount, owner: User
) -> None:
    """[A6] On every channel."""
    ChannelIdentity.objects.create(user=owner, kind="im", value=str(OWNER_ID))
    record_request(telegram, "hello")
    UnknownRequest.objects.update(expires_at=timezone.now() - timedelta(seconds=1))
    request = UnknownRequest.objects.get().public_id
    client = Client()
    client.force_login(owner)
    for press in (
        partial(on_telegram, telegram, request, 1),
        partial(in_web_chat, owner, request),
        partial(in_admin, client, request),
    ):
        assert "This request has expired." in press()
    assert not ChannelIdentity.objects.filter(value="700").exists()
