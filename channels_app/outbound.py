"""Answers on their way out: which blocks a finished run makes, and sending one delivery."""

import asyncio
import logging
import random
from dataclasses import dataclass
from functools import partial
from typing import Any

from django.conf import settings

from channels_app import notices, registry, sending
from channels_app.base import (
    AnswersWhole,
    Block,
    Capability,
    Channel,
    ChannelError,
    WholeAnswer,
)
from channels_app.pace import pacer
from channels_app.wording import wording
from core import outbox
from core.db import in_thread
from core.models import Delivery, InboundMessage, Run
from core.runs import Outcome
from core.together import committed

logger = logging.getLogger(__name__)

# A turn that is further away than this gives the delivery back to the outbox.
PATIENCE_SECONDS = 2.0


@dataclass(frozen=True, slots=True)
class Next:
    """A delivery to look at, in so many seconds."""

    delivery_id: int
    seconds: float = 0.0


def enqueue_answer(run: Run, outcome: Outcome) -> None:
    """Put the blocks of a finished run into the outbox, if its channel has an outbound side.

    Called in the transaction that ends the run ([C3]: block 0 replies to the route's message). What
    was shown while the answer grew becomes the final text by an edit.
    """
    channel = registry.get(run.session.account.channel)
    if channel is None:
        return
    if isinstance(channel.outbound, AnswersWhole):
        block = channel.outbound.render_answer(whole(run, outcome))
        if block is not None:
            put_block(run=run, index=0, payload=block)
        return
    payloads = channel.outbound.render(spoken(run, outcome))
    final = 0
    if Capability.EDIT not in channel.capabilities:
        said = what_was_said(run)
        payloads, final = after_what_was_said(run, said, payloads), len(said)
    payloads += attachments(outcome, takes_files=Capability.FILES in channel.capabilities)
    for index, payload in enumerate(payloads):
        if index >= final:
            put_block(run=run, index=index, payload=payload)
    outbox.retract(run_id=run.id, from_index=len(payloads))


def whole(run: Run, outcome: Outcome) -> WholeAnswer:
    """An answer in one piece."""
    names = [f"📎 {each.get('name', '')}" for each in outcome.files]
    return WholeAnswer(
        request=run.route["reply_to"],
        session=run.session.public_id,
        text="\n".join([spoken(run, outcome), *names]),
        error=outcome.error,
        images=outcome.images,
        options=run.options,
    )


def own_words(message: InboundMessage, text: str) -> Block:
    """A line of the gateway itself in answer to a message, with what its door kept with it."""
    channel = registry.get(message.account.channel)
    if channel is None or not isinstance(channel.outbound, AnswersWhole):
        return {"text": text}
    answer = WholeAnswer(
        request=message.external_message_id,
        session=message.session.public_id if message.session is not None else "",
        text=text,
        error="",
        images=(),
        options=message.options,
    )
    return (channel.outbound.render_answer(answer) or {}) | {"text": text}


def put_block(*, run: Run, index: int, payload: Block) -> Delivery:
    """Add block ``index`` of a run's answer, or change it. Inside a transaction."""
    route = run.route
    block = outbox.enqueue(
        key=f"run:{run.id}:{index}",
        account_id=route["account"],
        conversation=outbox.conversation(
            account_id=route["account"], chat=route["chat"], thread=route["thread"]
        ),
        target={
            "chat": route["chat"],
            "thread": route["thread"],
            "reply_to": route["reply_to"] if index == 0 else "",
        },
        payload=payload,
        session_id=run.session_id,
        run_id=run.id,
        block_index=index,
    )
    outbox.change(delivery=block, payload=payload)  # nothing, where it is new
    return block


def spoken(run: Run, outcome: Outcome) -> str:
    """What the person is told at the end, as Markdown; never nothing ([C9]: a stop is marked)."""
    words = wording(run.user.language)
    parts = [outcome.text]
    if outcome.state == Run.State.CANCELLED:
        parts.append(f"⏹ {words.stopped}")
    elif outcome.state == Run.State.FAILED and outcome.error not in outcome.text:
        parts.append(f"⚠️ {outcome.error or words.failed}")
    text = "\n\n".join(part.strip() for part in parts if part.strip())
    return text if text or outcome.images or outcome.files else words.nothing


def attachments(outcome: Outcome, *, takes_files: bool) -> list[Block]:
    """The images and files of an answer, each a message of its own ([T7]).

    The text holds a link to each file: a channel that takes no files gets nothing more.
    """
    photos: list[Block] = [
        {"kind": "photo", "image": number} for number in range(len(outcome.images))
    ]
    documents: list[Block] = [
        {"kind": "document", "file": each["id"], "caption": ""}
        for each in outcome.files
        if each.get("id") and takes_files
    ]
    return photos + documents


def what_was_said(run: Run) -> list[Block]:
    """The blocks of a run that left, or were about to, while its answer grew."""
    rows = Delivery.objects.filter(run_id=run.id).order_by("block_index")
    return [row.payload for row in rows]


def after_what_was_said(run: Run, said: list[Block], payloads: list[Block]) -> list[Block]:
    """The blocks where nothing can be edited: what an earlier attempt said stays as it was said.

    When it fits the answer, the rest follows; when it does not, the whole answer does.
    """
    if payloads[: len(said)] == said:
        return payloads
    return [*said, {"text": wording(run.user.language).restarted.strip("*")}, *payloads]


async def deliver(delivery_id: int) -> Next | None:
    """Send one delivery if its turn has come; what to look at next, if that is known."""
    delivery = await committed(partial(outbox.claim, delivery_id=delivery_id))
    if delivery is None:
        return None
    channel = registry.get(delivery.account.channel)
    if channel is None:
        error = ChannelError("This channel is not installed.", permanent=True)
        return await record_failure(delivery=delivery, error=error)
    chat = delivery.target.get("chat", "")
    seconds = pacer().reserve(
        account_id=delivery.account_id,
        chat=chat,
        pace=channel.pace,
        is_group=channel.is_group(chat),
        most=PATIENCE_SECONDS,
    )
    if seconds > PATIENCE_SECONDS:
        await in_thread(outbox.postpone, delivery=delivery, seconds=seconds)
        return Next(delivery.id, seconds)
    await asyncio.sleep(seconds)
    return await send_now(channel=channel, delivery=delivery)


async def send_now(*, channel: Channel, delivery: Delivery) -> Next | None:
    """Send a claimed delivery and write down what became of it."""
    try:
        # Longer than this and another worker takes it for lost.
        async with asyncio.timeout(settings.DELIVERY_LEASE_SECONDS * 0.8):
            message_id = await sending.perform(channel=channel, delivery=delivery)
    except TimeoutError:
        unknown = ChannelError("The platform did not answer in time.", unsure=True)
        return await record_failure(delivery=delivery, error=unknown)
    except ChannelError as error:
        return await record_failure(delivery=delivery, error=error)
    await committed(partial(outbox.sent, delivery=delivery, external_message_id=message_id))
    return None


async def record_failure(*, delivery: Delivery, error: ChannelError) -> Next | None:
    """Write down how a delivery failed, and tell the owner about a chat in trouble."""
    logger.warning("delivery %d failed: %s", delivery.id, error)
    if error.unsure:
        await in_thread(outbox.unsure, delivery=delivery, idempotent=is_repeatable(delivery))
        return Next(delivery.id, jitter(1.0))
    if error.trouble == "gone" and delivery.external_message_id:
        await in_thread(outbox.gone, delivery=delivery)
        return Next(delivery.id)
    if error.trouble == "migrated":
        await in_thread(follow_chat, delivery=delivery, new_chat=error.moved_to)
        return Next(delivery.id)
    if error.retry_after is not None:
        pacer().hold(
            account_id=delivery.account_id,
            chat=delivery.target.get("chat", ""),
            seconds=error.retry_after,
        )
    await in_thread(fail, delivery=delivery, error=error)
    if error.permanent:
        following = await in_thread(outbox.following, delivery)
        return Next(following) if following is not None else None
    return Next(delivery.id, error.retry_after or jitter(1.0))


def fail(*, delivery: Delivery, error: ChannelError) -> None:
    """Record a failure, and what it says about the chat."""
    outbox.failed(
        delivery=delivery,
        error=str(error),
        permanent=error.permanent,
        retry_after=error.retry_after,
    )
    if error.trouble:
        notices.trouble(
            account=delivery.account,
            chat=delivery.target.get("chat", ""),
            trouble=error.trouble,
            words=str(error),
        )


def follow_chat(*, delivery: Delivery, new_chat: str) -> None:
    """A chat got a new id: what was meant for it goes there; the owner is told."""
    chat = delivery.target.get("chat", "")
    notices.trouble(
        account=delivery.account, chat=chat, trouble="migrated", words=f"now {new_chat}"
    )
    outbox.moved(account_id=delivery.account_id, chat=chat, new_chat=new_chat)
    outbox.postpone(delivery=delivery, seconds=0)


def jitter(seconds: float) -> float:
    """Somewhere around ``seconds``, so that many do not come back at once."""
    return seconds * random.uniform(0.8, 1.4)  # noqa: S311 - no secret


def is_repeatable(delivery: Delivery) -> bool:
    """Whether sending again cannot show a message twice: edits, deletions, idempotent platforms."""
    channel = registry.get(delivery.account.channel)
    if channel is None:
        return False
    kind: Any = delivery.payload.get("kind", "text")
    known = bool(delivery.external_message_id)
    return channel.idempotent or kind in {"delete", "answer", "close_topic"} or known


def recover_lost() -> None:
    """Decide about deliveries whose sender disappeared."""
    for delivery in outbox.lost():
        outbox.unsure(delivery=delivery, idempotent=is_repeatable(delivery))
