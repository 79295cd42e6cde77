"""A process that was suspended past its lease makes no call under it ([RC8])."""

import asyncio
import socket
from typing import Any

import pytest

from channels_app import registry
from channels_app.base import Target
from channels_app.delivery import sending
from channels_app.replies import outbound
from channels_app.telegram import bot_api
from channels_app.telegram.outbound import OUTBOUND
from channels_app.worker.runner import Runner
from core.conversations import outbox
from core.database.transactions import atomic_write, close_pool
from core.lib import leases
from core.models import ChannelAccount, Delivery
from tests.channels_app.running import until
from tests.channels_app.telegram.local import Local

pytestmark = pytest.mark.django_db(transaction=True)


def put() -> Delivery:
    """Queue a message for the chat 556."""
    account = ChannelAccount.objects.get(name="main")
    with atomic_write():
        return outbox.enqueue(
            key="x",
            account_id=account.pk,
            conversation="x",
            target={"chat": "556", "thread": "", "reply_to": ""},
            payload={"text": "hello"},
        )


def over() -> leases.Lease:
    """Return a lease that is over."""
    return leases.Lease(seconds=1, began=leases.elapsed() - 2)


CALLS: dict[str, Any] = {
    "send_text": {"block": {"text": "x"}, "key": "k"},
    "edit_text": {"block": {"text": "x"}, "message_id": "1"},
    "delete_message": {"message_id": "1"},
    "is_ours": {"block": {"text": "x"}, "message_id": "1"},
    "add_reaction": {"message_id": "1"},
    "send_typing": {},
}


@pytest.mark.parametrize("name", CALLS)
def test_no_call_of_the_bot_api_is_made_past_a_lease(local: Local, name: str) -> None:
    account = sending.account_of(ChannelAccount.objects.get(name="main"))
    target = Target("556")

    async def call() -> None:
        with leases.under(over()), pytest.raises(leases.LeaseOverError):
            await getattr(OUTBOUND, name)(account=account, target=target, **CALLS[name])
        await bot_api.close()

    asyncio.run(call())
    assert not local.api.calls


def test_no_call_is_made_when_the_lease_ends_while_its_connection_opens(
    local: Local, monkeypatch: pytest.MonkeyPatch
) -> None:
    row = ChannelAccount.objects.get(name="main")
    row.config["api_base"] = local.api.base.replace("127.0.0.1", "localhost")
    lease, resolved = leases.Lease(seconds=60), socket.getaddrinfo

    def suspended(*given: Any, **named: Any) -> Any:
        lease.until = leases.elapsed() - 1
        return resolved(*given, **named)

    async def call() -> None:
        with leases.under(lease), pytest.raises(leases.LeaseOverError):
            await OUTBOUND.send_text(
                account=sending.account_of(row), target=Target("556"), **CALLS["send_text"]
            )
        await bot_api.close()

    monkeypatch.setattr(socket, "getaddrinfo", suspended)
    asyncio.run(call())
    assert lease.left < 0
    assert not local.api.calls


def test_a_delivery_whose_sender_stood_still_is_sent_by_the_next_one(local: Local) -> None:
    row = put()
    claimed = outbox.claim(delivery_id=row.id)
    channel = registry.get("telegram")
    assert claimed is not None
    assert channel is not None
    claimed.lease = over()
    asyncio.run(outbound.send_now(channel=channel, delivery=claimed, ended=outbound.ignore_end))
    close_pool()
    assert not local.api.calls
    row.refresh_from_db()
    assert (row.doubt_chat, row.tries) == ("", 0)


def test_the_last_edit_of_a_run_that_was_taken_over_is_repeated_once(
    runner: Runner, local: Local, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(outbound, "REPEAT_SECONDS", 0.1)
    row = put()
    until(lambda: Delivery.objects.filter(state="sent").exists())
    outbound.TAKEN_OVER.append(row.id)
    with atomic_write():
        outbox.change(delivery=Delivery.objects.get(), payload={"text": "whole"})
    until(lambda: len(local.api.of("editMessageText")) == 2)
    until(lambda: Delivery.objects.get().state == "sent")
    assert row.id not in outbound.TAKEN_OVER
