"""Before a delivery in doubt is sent: find out whether an earlier attempt left a message.

Where the channel can find one (capability FIND), the ids at which it may be are tried, and the
delivery goes on as an edit of what was found. Where it was sent anew meanwhile, an earlier message
that is found is removed. Other channels are only asked whether they are well (decision 162), and so
is each one while messages that were sent after the copy of a restored database may be in between.
"""

import asyncio
import logging

from channels_app import registry
from channels_app.base import Account, Block, Channel, ChannelError, Deletes, FindsSent
from channels_app.delivery.rate_limit import pacer
from channels_app.delivery.secret_blocks import as_sent
from channels_app.delivery.sending import opened, target_of
from core.conversations import outbox, uncertain_deliveries
from core.database.transactions import in_thread
from core.lib import leases
from core.models import Delivery

logger = logging.getLogger(__name__)

# The share of a lease left when a search is interrupted: enough for the calls that follow.
RESERVE = 0.25


class NotYetError(Exception):
    """The search continues later; its progress is stored."""

    def __init__(self, seconds: float) -> None:
        super().__init__(f"in {seconds:.1f} s")
        self.seconds = seconds


async def clear_doubt(*, channel: Channel, delivery: Delivery) -> None:
    """Find the message of an earlier attempt of a claimed delivery.

    Afterwards its message id is known, or it may be sent. Raises ChannelError, NotYetError.
    """
    account = opened(delivery.account)
    if not isinstance(channel.outbound, FindsSent) or delivery.after_id is None:
        if not delivery.external_message_id:
            await ask_health(channel, account)
            delivery.may_repeat = delivery.settles_doubt = True
        return
    search = Search(channel=channel, finder=channel.outbound, account=account, delivery=delivery)
    await search.run()


async def ask_health(channel: Channel, account: Account) -> None:
    """Raise ChannelError while the platform does not answer: then no possible repeat is sent."""
    try:
        await channel.gateway.check(account)
    except ChannelError as error:
        raise ChannelError(
            str(error), retry_after=error.retry_after, trouble=error.trouble
        ) from error


def shares(finder: FindsSent, delivery: Delivery) -> uncertain_deliveries.Shares:
    """Return a test for chats that share one sequence of message ids with ``delivery``."""
    sequence = finder.sequence(delivery.target.get("chat", ""))
    return lambda chat: finder.sequence(chat) == sequence


class Search:
    """The search for the message of an earlier attempt of one delivery."""

    def __init__(
        self, *, channel: Channel, finder: FindsSent, account: Account, delivery: Delivery
    ) -> None:
        self.channel, self.finder = channel, finder
        self.account, self.delivery = account, delivery
        self.block = shown_by(delivery)

    async def run(self) -> None:
        """Run the search; see :func:`clear_doubt`."""
        row = self.delivery
        span = await in_thread(
            uncertain_deliveries.span, delivery=row, shares=shares(self.finder, row)
        )
        ids, complete = span.unknown()
        passed = row.after_id or 0
        if not complete:  # kept with the row: a search may go on in another process
            await in_thread(uncertain_deliveries.incomplete, delivery=row)
        try:
            for number in ids:
                if await self.take_turn_for(number) and await self.has(number):
                    return
                passed = number
            # A request that is carried out late makes an id after the newest: tried once more when
            # the next message's id is known.
            passed = passed if span.closed else min(passed, span.newest)
        finally:
            if row.doubt_chat and passed != (row.after_id or 0):
                await in_thread(uncertain_deliveries.passed, delivery=row, after_id=passed)
        if span.closed or row.payload.get("kind") == "delete":
            await in_thread(uncertain_deliveries.resolved, delivery=row)
        row.may_repeat = row.error == outbox.REPEATED

    async def has(self, number: int) -> bool:
        """Return whether the bot's message ``number`` is the delivery's; remove an obsolete one."""
        row = self.delivery
        logger.info("delivery %d: a message of an earlier try was found", row.id)
        if row.external_message_id:
            await self.remove(number)
            return False
        await in_thread(uncertain_deliveries.found, delivery=row, external_message_id=str(number))
        return True

    async def take_turn_for(self, number: int) -> bool:
        """Return whether message ``number`` is the bot's, within the platform's rate limit."""
        row = self.delivery
        assert row.lease is not None  # noqa: S101 - for the type checker: it is claimed
        chat = row.target.get("chat", "")
        most = row.lease.left - RESERVE * row.lease.seconds
        seconds = pacer().reserve(
            account_id=row.account_id,
            chat=chat,
            pace=self.channel.pace,
            is_group=registry.is_group(self.channel, chat),
            most=most,
            kind="search",
        )
        if seconds > most:
            raise NotYetError(seconds)
        await asyncio.sleep(seconds)
        leases.check()
        return await self.finder.is_ours(
            account=self.account,
            target=target_of(row),
            message_id=str(number),
            block=self.block,
        )

    async def remove(self, number: int) -> None:
        """Remove an earlier attempt's message, which was sent again since."""
        if not isinstance(self.channel.outbound, Deletes):
            await in_thread(uncertain_deliveries.incomplete, delivery=self.delivery)
            return
        try:
            await self.channel.outbound.delete_message(
                account=self.account, target=target_of(self.delivery), message_id=str(number)
            )
        except ChannelError as error:
            if not error.permanent or error.trouble:
                raise
            # It stays; its failure must not affect the message that was sent since.
            await in_thread(uncertain_deliveries.incomplete, delivery=self.delivery)


def shown_by(delivery: Delivery) -> Block:
    """Return the content of a delivery's message, for :class:`FindsSent`.

    Raises ChannelError for an encrypted one that cannot be decrypted any more.
    """
    payload: Block = delivery.payload
    if payload.get("kind") in {"photo", "document"}:
        return {"kind": payload["kind"], "caption": payload.get("caption", "")}
    return as_sent(payload)
