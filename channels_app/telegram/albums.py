"""The items of an album in a group, each a message of its own: one of them may address the bot.

Items that come before it are kept as ignored messages, unseen by the assistant, and received with
it; those of albums that nothing addresses are deleted by ``held_messages.sweep_ignored``.
"""

import json
import zlib

from django.db.models import QuerySet
from django.utils import timezone

from allowlist import permissions
from channels_app.telegram import updates
from core.conversations import inbox
from core.conversations.inbox import Draft
from core.database.transactions import lock_until_commit
from core.models import ChannelAccount, InboundMessage

IGNORED = InboundMessage.State.IGNORED
# The first of 2^32 numbers for lock_until_commit.
LOCKS = 1 << 40
# An album has at most ten items, which Telegram numbers one after another.
NEAR = 50


def lock(row: ChannelAccount, message: updates.TelegramMessage) -> None:
    """Lock a message's album until the transaction ends: several processes may get its items."""
    name = f"{row.pk}:{message.chat}:{message.sender.id}:{message.album}"
    lock_until_commit(LOCKS + zlib.crc32(name.encode()))


def is_addressed(row: ChannelAccount, message: updates.TelegramMessage) -> bool:
    """Return whether an item of the message's album is in the inbox already."""
    return bool(message.album) and items_of(row, message).exclude(state=IGNORED).exists()


def keep(row: ChannelAccount, update: updates.NewMessage, *, raw: bytes) -> None:
    """Keep an item of an allowed sender until one that addresses the bot comes."""
    message, chat = update.message, str(update.message.chat)
    sender = permissions.Sender(row, "im", str(message.sender.id), group=chat)
    if not permissions.decide(sender=sender, now=timezone.now()).allowed:
        return
    draft = Draft(
        account=row,
        sender=sender.value,
        chat=chat,
        update_id=str(update.update_id),
        message_id=str(message.id),
        options={"album": message.album},
        raw=raw,
    )
    inbox.store(draft=draft, state=IGNORED, now=timezone.now(), note=inbox.OF_AN_ALBUM)


def kept(row: ChannelAccount, message: updates.TelegramMessage) -> list[InboundMessage]:
    """Return the items of the album of a message that were kept, in their order."""
    found = items_of(row, message).filter(state=IGNORED)
    return sorted(found, key=lambda each: int(each.external_message_id))


def message_in(item: InboundMessage) -> updates.NewMessage | None:
    """Return the message of an item that was kept; None if it cannot be read any more."""
    try:
        update = updates.read(json.loads(bytes(item.raw)))
    except ValueError:
        return None
    return update if isinstance(update, updates.NewMessage) else None


def items_of(row: ChannelAccount, message: updates.TelegramMessage) -> QuerySet[InboundMessage]:
    """Return the stored items of the album of a message, whose ids are near."""
    near = [str(number) for number in range(message.id - NEAR, message.id + NEAR + 1)]
    rows = InboundMessage.objects.filter(account=row, chat=str(message.chat))
    # The condition of the index on a chat's messages, of which there may be very many.
    rows = rows.filter(body_digest="", external_message_id__in=near)
    rows = rows.exclude(external_message_id="")
    return rows.filter(sender=str(message.sender.id), options__album=message.album)
