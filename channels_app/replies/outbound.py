"""The blocks of a finished run, and sending one delivery."""

import asyncio
import logging
import random
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from django.conf import settings

from channels_app import registry
from channels_app.base import (
    AnswersWhole,
    Block,
    Capability,
    Channel,
    ChannelError,
    FindsSent,
    RendersRich,
    WholeAnswer,
)
from channels_app.delivery import find_sent, sending
from channels_app.delivery.rate_limit import pacer
from channels_app.owner import notices, outages
from channels_app.rendering.links import escaped
from channels_app.rendering.translations import wording
from channels_app.replies import command_answers
from core.conversations import outbox, traces, uncertain_deliveries
from core.conversations.runs import Outcome
from core.database.batching import in_shared_transaction
from core.database.transactions import atomic_write, in_thread, patiently
from core.lib import leases, log_ids
from core.lib.text import one_line
from core.models import ChatSession, Delivery, InboundMessage, Message, Run

logger = logging.getLogger(__name__)

# The answer of a channel that cannot be loaded: it is rendered when it is sent.
UNRENDERED: Block = {"kind": "unrendered"}
# A turn that is further away than this gives the delivery back to the outbox.
PATIENCE_SECONDS = 2.0


# When the last edit of a run that was taken over is repeated.
REPEAT_SECONDS = 3.0
# Deliveries of runs that this worker took over from another one and finished.
TAKEN_OVER: deque[int] = deque(maxlen=1000)
repeating: set[asyncio.Task[None]] = set()


@dataclass(frozen=True, slots=True)
class Next:
    """A delivery to look at next, in ``seconds``."""

    delivery_id: int
    seconds: float = 0.0


# Behind the part of an answer that was sent, in the history that the model gets.
NOT_SEEN = "(The person stopped this answer here, and has seen no more of it.)"

Ended = Callable[[Delivery], None]


def ignore_end(_: Delivery) -> None: ...


def enqueue_answer(run: Run, outcome: Outcome) -> None:
    """Put the blocks of a finished run into the outbox, if its channel has an outbound side.

    Called in the transaction that ends the run ([C3]: block 0 replies to the route's message). The
    messages shown while the answer grew are edited into the final text.
    """
    channel = registry.get(run.session.account.channel)
    if channel is None:
        if run.session.account.channel in registry.installed().broken:
            # Behind those that were sent while it grew, before the channel was broken.
            put_block(run=run, index=len(partial_answer(run)), payload=UNRENDERED)
        return
    if isinstance(channel.outbound, AnswersWhole) and not answers_no_request(run):
        block = channel.outbound.render_answer(whole_answer(run, outcome))
        if block is not None:
            put_block(run=run, index=0, payload=block)
        return
    payloads = render_answer(channel, run, final_text(run, outcome))
    final = 0
    if Capability.EDIT not in channel.capabilities:
        said = partial_answer(run)
        payloads, final = after_partial_answer(run, said, payloads), len(said)
    payloads = with_attachments(channel, payloads, outcome)
    for index, payload in enumerate(payloads):
        if index >= final:
            delivery = put_block(run=run, index=index, payload=payload)
            if run.attempt > 1 and Capability.EDIT in channel.capabilities:
                TAKEN_OVER.append(delivery.id)
    outbox.retract(run_id=run.id, from_index=len(payloads))
    if outcome.state == Run.State.CANCELLED:
        command_answers.leave_out_stopping(run)


def render_late(delivery: Delivery) -> None:
    """Put an answer into the outbox that ended while its channel could not be loaded."""
    run = delivery.run
    assert run is not None  # noqa: S101 - for the type checker
    with atomic_write():
        outbox.postpone(delivery=delivery, seconds=0)  # as what is not sent yet can be retracted
        enqueue_answer(run, Outcome(**run.result))
        outbox.take_back(Delivery.objects.filter(id=delivery.id, payload=UNRENDERED))


def render_answer(channel: Channel, run: Run, text: str) -> list[Block]:
    """Return the messages of a whole answer: a rich one where the account shows it ([C13]).

    Where several are shown already, they stay.
    """
    outbound = channel.outbound
    account = sending.without_secrets(run.session.account)
    if isinstance(outbound, RendersRich) and outbound.takes_rich(account):
        shown = Delivery.objects.filter(run_id=run.id, block_index__gt=0)
        if not shown.exists():
            return outbound.render_rich(text)
    return outbound.render(text)


def answers_no_request(run: Run) -> bool:
    """Return whether a run answers no request: a schedule, or the run after a pause."""
    return bool(run.options.get("schedule") or run.options.get("continues"))


def stop_rest(session: ChatSession) -> int:
    """Send no more of a session's answers that are written; return how many messages are left out.
    The model is told what its person has seen.
    """
    rest = outbox.rest_of_answers(session).filter(doubt_chat="")  # those in doubt are still sent
    with atomic_write(joins=True):
        first_left_out = {
            row.run_id: row.block_index
            for row in rest.select_for_update(of=("self",)).order_by("-block_index")
            if row.run_id is not None and "text" in row.payload and "kind" not in row.payload
        }
        count = outbox.take_back(rest)
        for run_id, index in first_left_out.items():
            sent = Delivery.objects.filter(run_id=run_id, block_index__lt=index)
            seen = [row.payload.get("text", "") for row in sent.order_by("block_index")]
            for answer in Message.objects.filter(run_id=run_id, role="assistant"):
                answer.tell_model("\n\n".join([*seen, NOT_SEEN]))
                answer.save(update_fields=["data", "text", "tokens"])
    return count


def whole_answer(run: Run, outcome: Outcome) -> WholeAnswer:
    """Return an answer as one block, for channels that answer whole."""
    names = [f"📎 {escaped(str(each.get('name', '')))}" for each in outcome.files]
    return WholeAnswer(
        request=run.route["reply_to"],
        session=run.session.public_id,
        text="\n".join([final_text(run, outcome), *names]),
        error=outcome.error,
        images=outcome.images,
        options=run.options,
        code=outcome.code,
    )


def own_words(message: InboundMessage, text: str) -> Block:
    """Return a block of the gateway itself in answer to a message, in its channel's form."""
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
    block = outbox.enqueue_in_chat(
        key=f"run:{run.id}:{index}",
        account_id=route["account"],
        chat=route["chat"],
        thread=route["thread"],
        reply_to=route["reply_to"] if index == 0 else "",
        payload=payload,
        session_id=run.session_id,
        run_id=run.id,
        block_index=index,
    )
    outbox.change(delivery=block, payload=payload)  # nothing, where it is new
    return block


def final_text(run: Run, outcome: Outcome) -> str:
    """Return the final text as Markdown, never empty ([C9]: a stop is marked)."""
    words = wording(run.user.language)
    parts = [outcome.text]
    if outcome.state == Run.State.CANCELLED:
        parts.append(f"⏹ {words.stopped}")
    elif outcome.state == Run.State.FAILED and outcome.error not in outcome.text:
        parts.append(f"⚠️ {outcome.error or words.failed}")
    text = "\n\n".join(part.strip() for part in parts if part.strip())
    return text if text or outcome.images or outcome.files else words.nothing


def with_attachments(channel: Channel, payloads: list[Block], outcome: Outcome) -> list[Block]:
    """Return the blocks of an answer with its images and files, as its channel takes them."""
    if Capability.WHOLE in channel.capabilities:
        return with_images(payloads, outcome.images)
    takes_files = Capability.FILES in channel.capabilities
    return [*payloads, *attachments(outcome, takes_files=takes_files)]


def attachments(outcome: Outcome, *, takes_files: bool) -> list[Block]:
    """Return the images and files of an answer, each as a message of its own ([T7]).

    The text has a link to each file: a channel without files gets nothing more.
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


def with_images(payloads: list[Block], images: Sequence[str]) -> list[Block]:
    """Return the blocks of an answer to no request where an answer has its images in it ([T7])."""
    if not images:
        return payloads
    first, *rest = payloads or [{"text": ""}]
    return [{**first, "images": list(images)}, *rest]


def partial_answer(run: Run) -> list[Block]:
    """Return the blocks of a run that were sent, or queued, while its answer grew."""
    rows = Delivery.objects.filter(run_id=run.id).order_by("block_index")
    return [row.payload for row in rows if row.payload != UNRENDERED]


def after_partial_answer(run: Run, said: list[Block], payloads: list[Block]) -> list[Block]:
    """Return the blocks where nothing can be edited: those of an earlier attempt stay.

    If the answer begins with it, the rest follows; if not, the whole answer does.
    """
    if payloads[: len(said)] == said:
        return payloads
    return [*said, {"text": wording(run.user.language).restarted.strip("*")}, *payloads]


@dataclass(slots=True)
class Slot:
    """The time when the rate limit allows a delivery: in ``seconds``."""

    seconds: float = 0.0

    def __call__(self, delivery: Delivery) -> bool:
        """Return whether it is due now; a time in the near future is reserved already."""
        channel = registry.get(delivery.account.channel)
        if channel is None:
            return True
        chat = delivery.target["chat"]
        self.seconds = pacer().reserve(
            account_id=delivery.account_id,
            chat=chat,
            pace=channel.pace,
            is_group=registry.is_group(channel, chat),
            most=PATIENCE_SECONDS,
        )
        return self.seconds <= 0


async def deliver(delivery_id: int, *, ended: Ended = ignore_end) -> Next | None:
    """Send one delivery if it is due; return the next delivery, if it is known.

    ``ended`` is called with a delivery that was sent or given up.
    """
    # The rate limit first: a claimed delivery is sent at once; a pause counts as no attempt.
    slot = Slot()
    delivery = await in_shared_transaction(
        partial(outbox.claim, delivery_id=delivery_id, ready=slot)
    )
    if slot.seconds > PATIENCE_SECONDS:
        return Next(delivery_id, slot.seconds)
    if delivery is None and slot.seconds > 0:
        await asyncio.sleep(slot.seconds)
        delivery = await in_shared_transaction(partial(outbox.claim, delivery_id=delivery_id))
    if delivery is None:
        return None
    log_ids.begin(
        run=getattr(delivery, "run_public_id", None) or "",
        session=getattr(delivery, "session_public_id", None) or "",
    )
    channel = registry.get(delivery.account.channel)
    if channel is None:
        error = ChannelError("This channel is not installed.", permanent=True)
        # A broken one is mended, as an update is taken back; its messages wait for that.
        if delivery.account.channel in registry.installed().broken:
            error = ChannelError("This channel cannot be loaded: see `manage.py doctor`.")
        return await record_failure(delivery=delivery, error=error, ended=ended)
    if delivery.payload == UNRENDERED:
        await in_thread(render_late, delivery)
        return Next(delivery.id)
    with traces.delivery(delivery):
        return await send_now(channel=channel, delivery=delivery, ended=ended)


async def send_now(*, channel: Channel, delivery: Delivery, ended: Ended) -> Next | None:
    """Send a claimed delivery and record the outcome."""
    lease = delivery.lease
    assert lease is not None  # noqa: S101 - for the type checker: it is claimed
    is_sending = False
    try:
        longest = min(settings.DELIVERY_LEASE_SECONDS * sending.PATIENCE, lease.left)
        with leases.under(lease):
            async with asyncio.timeout(longest) as limit:
                if delivery.doubt_chat:
                    await find_sent.clear_doubt(channel=channel, delivery=delivery)
                is_sending = True
                async with sending.kept(delivery, limit):
                    message_id = await sending.perform(channel=channel, delivery=delivery)
    except find_sent.NotYetError as error:
        await in_thread(outbox.postpone, delivery=delivery, seconds=error.seconds)
        return Next(delivery.id, error.seconds)
    except leases.LeaseOverError:
        logger.warning("delivery %d: this process stood still past its lease", delivery.id)
        await in_thread(outbox.postpone, delivery=delivery, seconds=0)
        return Next(delivery.id)
    except TimeoutError:
        unknown = ChannelError("The platform did not answer in time.", unsure=is_sending)
        return await record_failure(delivery=delivery, error=unknown, ended=ended)
    except ChannelError as error:
        return await record_failure(delivery=delivery, error=error, ended=ended)
    await record_sent(channel=channel, delivery=delivery, message_id=message_id)
    logger.info("delivery %d was sent", delivery.id)
    traces.ended("sent")
    ended(delivery)
    return None


async def record_sent(*, channel: Channel, delivery: Delivery, message_id: str) -> None:
    """Record that a delivery was sent.

    The id of a new message is not batched with other writes: without it the message has to be found
    again. So a database that is away is waited for.
    """
    record = partial(outbox.sent, delivery=delivery, external_message_id=message_id)
    if message_id == delivery.external_message_id:
        await in_shared_transaction(record)
    else:
        await patiently(record)
    if delivery.may_repeat and (delivery.settles_doubt or not delivery.doubt_chat):
        await in_thread(notify_of_repeat, channel=channel, delivery=delivery)
    if delivery.tries:
        await in_thread(outbox.resume, account_id=delivery.account_id)
    if delivery.id in TAKEN_OVER and delivery.external_message_id:
        TAKEN_OVER.remove(delivery.id)
        repeat_later(delivery.id)


def repeat_later(delivery_id: int) -> None:
    """Repeat a run's last edit soon: one of the earlier worker may still have been in flight."""
    loop = asyncio.get_running_loop()

    def begin() -> None:
        task = loop.create_task(in_thread(outbox.repeat, delivery_id=delivery_id))
        repeating.add(task)
        task.add_done_callback(repeating.discard)

    loop.call_later(REPEAT_SECONDS, begin)


def notify_of_repeat(*, channel: Channel, delivery: Delivery) -> None:
    """Notify the conversation that a message in it may be a repeat."""
    session = delivery.session
    words = wording(session.user.language if session is not None else "")
    with atomic_write():
        for block in channel.outbound.render(words.repeated)[:1]:
            outbox.enqueue(
                key=f"repeated:{delivery.id}:{delivery.attempt}",
                account_id=delivery.account_id,
                conversation=delivery.conversation,
                target={**delivery.target, "reply_to": ""},
                payload=block,
                session_id=delivery.session_id,
            )


async def record_failure(*, delivery: Delivery, error: ChannelError, ended: Ended) -> Next | None:
    """Record a failed delivery, and notify the owner about a chat in trouble."""
    traces.ended("failed", code=error.trouble or ("unsure" if error.unsure else "failed"))
    if error.trouble == "gone" and delivery.external_message_id:
        await in_thread(outbox.gone, delivery=delivery)
        return Next(delivery.id)
    if error.trouble == "migrated":
        await in_thread(follow_chat, delivery=delivery, new_chat=error.moved_to)
        return Next(delivery.id)
    if error.trouble == "form":
        await in_thread(use_ordinary_form, delivery=delivery, error=error)
        return Next(delivery.id)
    if error.trouble == "too_large" and await in_thread(use_link, delivery=delivery, error=error):
        return Next(delivery.id)
    if error.retry_after is not None:
        pacer().hold(
            account_id=delivery.account_id,
            chat=delivery.target["chat"],
            seconds=error.retry_after,
        )
    seconds = await in_thread(fail, delivery=delivery, error=error)
    if seconds is not None:
        return Next(delivery.id, seconds)
    if error.trouble == "auth":
        return None  # the account goes on when it is saved, or well again
    ended(delivery)
    following = await in_thread(outbox.following, delivery)
    return Next(following) if following is not None else None


def fail(*, delivery: Delivery, error: ChannelError) -> float | None:
    """Record a failure and the state of its chat; return the seconds until the next try."""
    words, may_have_arrived = str(error), False
    if error.trouble == "auth":
        logger.warning("%s is held: %s", log_name(delivery), words)
        outbox.hold(delivery=delivery, error=words)
        report_trouble(delivery, error, chat="")
        return None
    if error.unsure:
        repeatable = is_repeatable(delivery)
        may_have_arrived = not repeatable
        seconds = outbox.unsure(
            delivery=delivery,
            error=words,
            repeatable=repeatable,
            after_id=None if repeatable else last_known(delivery),
        )
    else:
        seconds = outbox.failed(
            delivery=delivery,
            error=words,
            permanent=error.permanent,
            retry_after=error.retry_after,
        )
    if seconds is None:
        logger.warning("%s was given up: %s", log_name(delivery), words)
    else:
        seconds = seconds if error.retry_after is not None else jitter(seconds)
        logger.warning("%s failed, again in %.0f s: %s", log_name(delivery), seconds, words)
    if error.trouble and not error.is_of_message:
        report_trouble(delivery, error, chat=delivery.target["chat"])
    elif seconds is None:
        outages.given_up(delivery=delivery, may_have_arrived=may_have_arrived)
    return seconds


def report_trouble(delivery: Delivery, error: ChannelError, *, chat: str) -> None:
    """Notify the owner about a chat, or without one about the account."""
    notices.trouble(account=delivery.account, chat=chat, trouble=error.trouble, words=str(error))


def log_name(delivery: Delivery) -> str:
    """Return a description of a delivery for the log: its account, user and run."""
    run = delivery.run
    session = delivery.session
    person = run.user if run is not None else session.user if session is not None else None
    chat = one_line(delivery.target["chat"], 64)
    return (
        f"delivery {delivery.id} ({delivery.account}, chat {chat}, "
        f"person {person or 'none'}, run {run.public_id if run is not None else 'none'})"
    )


def last_known(delivery: Delivery) -> int | None:
    """Return the last message id known before a delivery; None where sent ones are not found."""
    channel = registry.get(delivery.account.channel)
    if channel is None or not isinstance(channel.outbound, FindsSent):
        return None
    shares = find_sent.shares(channel.outbound, delivery)
    return uncertain_deliveries.last_known(delivery=delivery, shares=shares)


def use_ordinary_form(*, delivery: Delivery, error: ChannelError) -> None:
    """Replace a claimed rich block by ordinary messages ([C13]); later files move back."""
    logger.warning("%s is sent in the ordinary form: %s", log_name(delivery), error)
    block = dict(delivery.payload)
    more = block.pop("more", [])
    block.pop("rich", None)
    send_instead(delivery, block, more)


def use_link(*, delivery: Delivery, error: ChannelError) -> bool:
    """Replace a stored file by the text with its link; return whether there is one."""
    text = sending.link_text(delivery)
    if not text:
        return False
    logger.warning("%s is sent as a link: %s", log_name(delivery), error)
    send_instead(delivery, {"text": text}, [])
    return True


def send_instead(delivery: Delivery, block: Block, more: list[Block]) -> None:
    """Give a claimed delivery another block, with ``more`` behind it."""
    with atomic_write():
        row = Delivery.objects.select_for_update().get(id=delivery.id)
        if row.payload == delivery.payload:  # the answer has not changed meanwhile
            outbox.change(delivery=row, payload=block)
            put_behind(row, more)
        outbox.postpone(delivery=delivery, seconds=0)


def put_behind(row: Delivery, payloads: list[Block]) -> None:
    """Put blocks behind one of a run, in front of those that are not sent yet. In a transaction."""
    run = row.run
    if run is None or not payloads:
        return
    blocks = list(Delivery.objects.filter(run_id=run.id).order_by("block_index"))
    sent = [each.block_index for each in blocks if each.state == Delivery.State.SENT]
    start = max([row.block_index, *sent]) + 1
    waiting = [each.payload for each in blocks if each.block_index >= start]
    for index, payload in enumerate([*payloads, *waiting], start):
        put_block(run=run, index=index, payload=payload)


def follow_chat(*, delivery: Delivery, new_chat: str) -> None:
    """Move what belongs to a chat, with its pending deliveries, to its new id."""
    notices.moved(account=delivery.account, chat=delivery.target["chat"], new_chat=new_chat)
    outbox.postpone(delivery=delivery, seconds=0)


def jitter(seconds: float) -> float:
    """Return a little more than ``seconds``, so that retries are spread."""
    return seconds * random.uniform(1.0, 1.4)  # noqa: S311 - no secret


def is_repeatable(delivery: Delivery) -> bool:
    """Return whether sending again cannot show a message twice."""
    channel = registry.get(delivery.account.channel)
    if channel is None:
        return False
    kind: Any = delivery.payload.get("kind")
    known = bool(delivery.external_message_id)
    harmless = kind in {"answer", "close_topic"}
    # A delete without an id searches for the message to remove.
    return channel.idempotent or harmless or known or (kind == "delete" and not delivery.doubt_chat)


def recover_lost() -> None:
    """Make deliveries of a dead worker due again, or uncertain; they are due at once."""
    for delivery in outbox.lost():
        repeatable = is_repeatable(delivery)
        seconds = outbox.unsure(
            delivery=delivery,
            error="The worker that sent it is gone.",
            repeatable=repeatable,
            after_id=None if repeatable else last_known(delivery),
            at_once=True,
        )
        if seconds is None:
            outages.given_up(delivery=delivery, may_have_arrived=not repeatable)
