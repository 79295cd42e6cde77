"""Answers on their way out: which blocks a finished run makes, and sending one delivery."""

import logging

from django.conf import settings

from channels_app import registry
from channels_app.base import Account, Channel, ChannelError, Target
from core import outbox
from core.db import in_thread
from core.markdown import markdown_to_channel
from core.models import ChannelAccount, Delivery, Run
from core.runs import Outcome

logger = logging.getLogger(__name__)


def conversation_of(*, account_id: int, chat: str, thread: str) -> str:
    """The key in whose order deliveries leave."""
    return f"{account_id}:{chat}:{thread}"


def enqueue_answer(run: Run, outcome: Outcome) -> None:
    """Put the blocks of a finished run into the outbox, if its channel has an outbound side.

    Called in the transaction that ends the run ([C3]: block 0 replies to the route's message).
    """
    channel = registry.get(run.session.account.channel)
    if channel is None:
        return
    route = run.route
    for index, text in enumerate(blocks(channel=channel, text=outcome.text or outcome.error)):
        outbox.enqueue(
            key=f"run:{run.id}:{index}",
            account_id=route["account"],
            conversation=conversation_of(
                account_id=route["account"], chat=route["chat"], thread=route["thread"]
            ),
            target={
                "chat": route["chat"],
                "thread": route["thread"],
                "reply_to": route["reply_to"] if index == 0 else "",
            },
            payload={"text": text, "format": "plain"},
            session_id=run.session_id,
            run_id=run.id,
            block_index=index,
        )


def blocks(*, channel: Channel, text: str) -> list[str]:
    """``text`` as the channel can show it, in messages of at most its limit."""
    shown = markdown_to_channel(text, settings.OUTBOUND_MARKDOWN_FORMAT)
    size = channel.text_limit
    return [shown[start : start + size] for start in range(0, len(shown), size)]


async def deliver(delivery_id: int) -> int | None:
    """Send one delivery if its turn has come; the id of the next one of its conversation."""
    delivery = await in_thread(outbox.claim, delivery_id=delivery_id)
    if delivery is None:
        return None
    channel = registry.get(delivery.account.channel)
    if channel is None:
        await in_thread(
            outbox.failed,
            delivery=delivery,
            error="This channel is not installed.",
            permanent=True,
            retry_after=None,
        )
        return None
    try:
        message_id = await channel.send_text(
            account=account_of(delivery.account),
            target=Target(**delivery.target),
            text=delivery.payload["text"],
            key=delivery.dedupe_key,
        )
    except ChannelError as error:
        await record_failure(delivery=delivery, channel=channel, error=error)
        return None
    return await in_thread(outbox.sent, delivery=delivery, external_message_id=message_id)


async def record_failure(*, delivery: Delivery, channel: Channel, error: ChannelError) -> None:
    """Write down how a delivery failed."""
    logger.warning("a delivery failed", extra={"delivery": delivery.id})
    if error.unsure:
        await in_thread(outbox.unsure, delivery=delivery, idempotent=channel.idempotent)
        return
    await in_thread(
        outbox.failed,
        delivery=delivery,
        error=str(error),
        permanent=error.permanent,
        retry_after=error.retry_after,
    )


def recover_lost() -> None:
    """Decide about deliveries whose sender disappeared."""
    for delivery in outbox.lost():
        channel = registry.get(delivery.account.channel)
        outbox.unsure(delivery=delivery, idempotent=channel is not None and channel.idempotent)


def account_of(row: ChannelAccount) -> Account:
    """The plugin's view of an account row."""
    return Account(
        id=row.id, channel=row.channel, name=row.name, config=row.config, secrets=row.open_secrets()
    )
