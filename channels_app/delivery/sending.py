"""Perform one delivery: call the platform as its payload says, with its file and credentials.

Payloads are JSON: a text block of the channel's own ``render`` (no ``kind``), or ``{"kind": …}``:
``photo`` (``image``: number of the run's image), ``document`` (``file``: public id of a stored
file), ``delete``, ``answer`` (``press``, ``text``: to the person who pressed a button),
``unrendered`` (see ``channels_app.replies.outbound``; never sent as it is).
"""

import asyncio
import base64
import binascii
import logging
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from typing import Any

from django.conf import settings

from channels_app import registry
from channels_app.base import (
    Account,
    AnswersButtons,
    Capability,
    Channel,
    ChannelError,
    Deletes,
    Edits,
    FileKind,
    MayNotPush,
    OpensTopics,
    OutgoingFile,
    SendsFiles,
    Target,
)
from channels_app.delivery.secret_blocks import as_sent
from core.conversations import outbox
from core.database.transactions import AWAY, in_thread
from core.files import storage
from core.lib import leases
from core.lib.encryption import DecryptError
from core.lib.text import is_clean
from core.models import ChannelAccount, Delivery, StoredFile

logger = logging.getLogger(__name__)

# The part of a lease for which a platform may take its time: then another worker takes it for lost.
PATIENCE = 0.8
UPLOAD_SECONDS = 900.0
FILES = frozenset({"photo", "document"})
PHOTOS = storage.PICTURES.keys() - {"image/gif"}  # a platform would show its first picture alone


def opened(row: ChannelAccount) -> Account:
    """Return :func:`account_of`. Raises ChannelError when its secrets cannot be decrypted."""
    try:
        return account_of(row)
    except DecryptError as error:
        raise ChannelError(str(error), trouble="auth") from error


def account_of(row: ChannelAccount) -> Account:
    """Return an account row as plugins see it. Raises DecryptError."""
    return Account(
        id=row.id, channel=row.channel, name=row.name, config=row.config, secrets=row.open_secrets()
    )


def account_named(channel: str, name: str) -> tuple[ChannelAccount, Account] | None:
    """Return an enabled account; None also where its secrets cannot be decrypted."""
    if not is_clean(name):  # PostgreSQL would refuse the question
        return None
    row = ChannelAccount.objects.filter(channel=channel, name=name, enabled=True).first()
    try:
        return (row, account_of(row)) if row is not None else None
    except DecryptError:
        return None


def without_secrets(row: ChannelAccount) -> Account:
    """Return an account row as plugins see it, for questions about its settings."""
    return Account(id=row.id, channel=row.channel, name=row.name, config=row.config, secrets={})


def can_push(row: ChannelAccount) -> bool:
    """Return whether an account can send to a user who has made no request."""
    channel = registry.get(row.channel)
    if channel is None or not row.enabled:
        return False
    if not isinstance(channel.outbound, MayNotPush):
        return True
    try:
        return channel.outbound.can_push(account_of(row))
    except DecryptError:
        return False
    except Exception:  # another package's: notices also go to other accounts
        logger.exception("the channel of %s cannot tell whether it pushes", row)
        return False


def target_of(delivery: Delivery) -> Target:
    """Return the chat and topic of a delivery."""
    return Target(**delivery.target)


async def perform(*, channel: Channel, delivery: Delivery) -> str:
    """Make the payload's call; return the platform's message id. Raises ChannelError."""
    kind = delivery.payload.get("kind", "text")
    work = KINDS.get(kind)
    if work is None:
        raise ChannelError(f"There is no payload {kind!r}.", permanent=True)
    leases.check()
    return await work(channel, opened(delivery.account), delivery)


async def send_block(channel: Channel, account: Account, delivery: Delivery) -> str:
    """Send a text, or edit it when the message exists already."""
    target, known = target_of(delivery), delivery.external_message_id
    block = as_sent(delivery.payload)
    can_edit = Capability.EDIT in channel.capabilities
    if known and can_edit and isinstance(channel.outbound, Edits):
        await channel.outbound.edit_text(
            account=account, target=target, message_id=known, block=block
        )
        return known
    send = channel.outbound.reply_text if target.reply_to else channel.outbound.send_text
    return await send(account=account, target=target, block=block, key=delivery.dedupe_key)


async def send_file(channel: Channel, account: Account, delivery: Delivery) -> str:
    """Send a photo or document; where the channel takes no files, its link or a line."""
    if delivery.external_message_id:
        return delivery.external_message_id
    found = await in_thread(outgoing, delivery)
    if found is None:
        raise ChannelError("The file is gone.", permanent=True)
    can_send = Capability.FILES in channel.capabilities
    if not (can_send and isinstance(channel.outbound, SendsFiles)):
        text = await in_thread(link_text, delivery) or found.caption or found.name
        target = target_of(delivery)
        return await channel.outbound.send_text(
            account=account, target=target, block={"text": text}, key=delivery.dedupe_key
        )
    target, key = target_of(delivery), delivery.dedupe_key
    try:
        return await channel.outbound.send_file(account=account, target=target, file=found, key=key)
    except ChannelError as error:
        is_of_chat = error.trouble and not error.is_of_message
        if found.kind == "document" or not error.permanent or is_of_chat:
            raise
    # Not a picture the platform likes (size, form): as a document it takes any.
    return await channel.outbound.send_file(
        account=account, target=target, file=replace(found, kind="document"), key=key
    )


async def delete(channel: Channel, account: Account, delivery: Delivery) -> str:
    """Delete a message that the final answer does not contain any more."""
    known = delivery.external_message_id
    if known and isinstance(channel.outbound, Deletes):
        try:
            await channel.outbound.delete_message(
                account=account, target=target_of(delivery), message_id=known
            )
        except ChannelError as error:
            # "Where the platform allows" ([S4]): Telegram removes nothing older than two days.
            if not (delivery.payload.get("lenient") and error.permanent):
                raise
            logger.info("a message was not removed: %s", error)
    return known


async def close_topic(channel: Channel, account: Account, delivery: Delivery) -> str:
    """Close a topic that was made for a session."""
    if isinstance(channel.outbound, OpensTopics):
        target = target_of(delivery)
        await channel.outbound.close_topic(account=account, chat=target.chat, thread=target.thread)
    return delivery.external_message_id


async def answer_press(channel: Channel, account: Account, delivery: Delivery) -> str:
    """Send a short text to the person who pressed a button."""
    if isinstance(channel.outbound, AnswersButtons):
        payload = delivery.payload
        await channel.outbound.answer_button(
            account=account, press=payload["press"], text=payload["text"]
        )
    return ""


@asynccontextmanager
async def kept(delivery: Delivery, limit: asyncio.Timeout) -> AsyncIterator[None]:
    """Renew the lease while a file is sent in this block, and extend ``limit`` with it."""
    if delivery.payload.get("kind") not in FILES:
        yield
        return
    task = asyncio.create_task(keep(delivery, limit))
    try:
        yield
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def keep(delivery: Delivery, limit: asyncio.Timeout) -> None:
    """Renew a lease and put off ``limit``, for UPLOAD_SECONDS at most."""
    loop = asyncio.get_running_loop()
    seconds = settings.DELIVERY_LEASE_SECONDS
    ends = loop.time() + UPLOAD_SECONDS
    while loop.time() < ends:
        await asyncio.sleep(seconds / 4)
        with suppress(*AWAY):
            if not await in_thread(outbox.keep, delivery=delivery) or limit.expired():
                return
            limit.reschedule(loop.time() + seconds * PATIENCE)


Work = Callable[[Channel, Account, Delivery], Coroutine[Any, Any, str]]
KINDS: dict[str, Work] = {
    "text": send_block,
    "photo": send_file,
    "document": send_file,
    "delete": delete,
    "answer": answer_press,
    "close_topic": close_topic,
}


def outgoing(delivery: Delivery) -> OutgoingFile | None:
    """Return the file of a ``photo`` or ``document``; None when it does not exist any more."""
    payload = delivery.payload
    if payload["kind"] == "photo":
        return picture(delivery, int(payload["image"]))
    row = StoredFile.objects.filter(public_id=payload["file"], revoked_at__isnull=True).first()
    if row is None:
        return None
    try:
        content = storage.read(row)
    except OSError:
        return None
    return OutgoingFile(
        kind=kind_of(row.content_type),
        name=row.name,
        content=content,
        content_type=row.content_type,
        caption=payload.get("caption", ""),
    )


def kind_of(content_type: str) -> FileKind:
    """Return how a platform is to show a file."""
    if content_type in PHOTOS:
        return "photo"
    return "audio" if content_type.startswith("audio/") else "document"


def link_text(delivery: Delivery) -> str:
    """Return the text with the link to a stored file; "" when there is none (any more)."""
    name = delivery.payload.get("file", "")
    row = StoredFile.objects.filter(public_id=name, revoked_at__isnull=True).first()
    if row is None:
        return ""
    caption = delivery.payload.get("caption", "")
    lines = (caption if caption != row.name else "", f"📎 {row.name}", storage.link(row))
    return "\n".join(line for line in lines if line)


def picture(delivery: Delivery, number: int) -> OutgoingFile | None:
    """Return the image ``number`` of the delivery's run, from its data URL."""
    images = delivery.run.result.get("images", []) if delivery.run is not None else []
    if number >= len(images):
        return None
    head, _, data = images[number].partition(",")
    content_type = head.removeprefix("data:").partition(";")[0]
    try:
        content = base64.b64decode(data, validate=True)
    except binascii.Error:
        return None
    return OutgoingFile(
        kind=kind_of(content_type),
        name=f"image-{number + 1}.{storage.PICTURES.get(content_type, 'bin')}",
        content=content,
        content_type=content_type,
    )
