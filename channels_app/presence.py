"""What people see while they wait ([C4]): the reaction on their message, and "typing…".

A reaction is put on when a message waits and taken off when its run has ended; which messages wear
it is in the database, so a worker that dies leaves none behind: the sweeper takes them off. Typing
is repeated by whoever holds the work (a batch that waits, a run's lease) and ends with it.
"""

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import partial

from django.conf import settings
from django.db.models import Q

from channels_app import registry
from channels_app.base import Account, Channel, ChannelError, Reacts, Target, Types
from channels_app.sending import account_of
from core import inbox
from core.compiled import Change, Given, Rows, Select
from core.db import in_thread, write
from core.models import InboundMessage, Run
from core.together import committed, one_by_one

logger = logging.getLogger(__name__)

TYPING_SECONDS = 4.2
CALL_SECONDS = 10.0
MOST = 100

Ack = InboundMessage.Ack
WAITING = (InboundMessage.State.RECEIVED, InboundMessage.State.BATCHED)
TO_MARK = Select(
    lambda: InboundMessage.objects.filter(
        (Q(ack="", state__in=WAITING) & ~Q(external_message_id=""))
        | (Q(ack=Ack.SHOWN) & ~Q(state__in=WAITING)),
        session_id=Given("session"),
    ).order_by("id")[:MOST]
)
SHOWN = Change(
    lambda: (
        InboundMessage.objects.filter(id=Given("id"), state__in=WAITING, ack=""),
        {"ack": Ack.SHOWN},
    )
)
CLEARED = Change(lambda: (InboundMessage.objects.filter(id=Given("id")), {"ack": Ack.CLEARED}))
STILL_WAITING = Rows(
    lambda: InboundMessage.objects.filter(id=Given("id"), state__in=WAITING).values_list("id")
)


@dataclass(frozen=True, slots=True)
class Mark:
    """A message whose reaction is to be put on or taken off."""

    id: int
    target: Target
    message_id: str
    show: bool


@dataclass(frozen=True, slots=True)
class Place:
    """A conversation on a platform."""

    channel: Channel
    account: Account
    target: Target


def place_of(session_id: int) -> Place | None:
    """Where a session is; None when its channel shows nothing while people wait."""
    session = inbox.WITH_ACCOUNT.first(id=session_id)
    channel = registry.get(session.account.channel) if session is not None else None
    if session is None or channel is None:
        return None
    return Place(channel, account_of(session.account), Target(session.chat, session.thread))


def place_of_run(run: Run) -> Place | None:
    """Where the answer of a run goes; None when its channel has no outbound side."""
    channel = registry.get(run.session.account.channel)
    if channel is None:
        return None
    target = Target(run.route["chat"], run.route["thread"])
    return Place(channel, account_of(run.session.account), target)


async def refresh(session_id: int) -> None:
    """Put reactions on what waits in a session and take them off what was answered."""
    found = await one_by_one(partial(marks_of, session_id))
    if found is None:
        return
    channel, account, marks = found
    if isinstance(channel.outbound, Reacts):
        reacts = channel.outbound
        await asyncio.gather(*(apply(reacts, account, mark) for mark in marks))


def marks_of(session_id: int) -> tuple[Channel, Account, list[Mark]] | None:
    """The changes due in a session. What is to be shown is written down before it is shown."""
    session = inbox.WITH_ACCOUNT.first(id=session_id)
    channel = registry.get(session.account.channel) if session is not None else None
    if session is None or channel is None or not isinstance(channel.outbound, Reacts):
        return None
    rows = TO_MARK.all(session=session_id)
    if not rows:
        return None
    fresh = [row.id for row in rows if row.ack == ""]
    if fresh:
        with write():
            for message_id in fresh:
                SHOWN(id=message_id)
    marks = [
        Mark(row.id, Target(row.chat, row.thread), row.external_message_id, show=row.ack == "")
        for row in rows
    ]
    return channel, account_of(session.account), marks


async def apply(reacts: Reacts, account: Account, mark: Mark) -> None:
    """Put one reaction on, or take it off. A platform that will not is not asked again."""
    change = reacts.add_reaction if mark.show else reacts.remove_reaction
    try:
        async with asyncio.timeout(CALL_SECONDS):
            await change(account=account, target=mark.target, message_id=mark.message_id)
    except (ChannelError, TimeoutError) as error:
        logger.info("a reaction could not be changed: %s", error)
        if not (isinstance(error, ChannelError) and error.permanent):
            return  # it stays marked as shown: the sweeper takes it off in the end
        await committed(partial(cleared, mark.id))
        return
    if not mark.show:
        await committed(partial(cleared, mark.id))
    elif await in_thread(was_answered, mark.id):
        # The run ended while the reaction was on its way, and was cleared before it was there.
        await apply(reacts, account, Mark(mark.id, mark.target, mark.message_id, show=False))


def cleared(message_id: int) -> None:
    """Write down that a message wears no reaction any more."""
    with write(joins=True):
        CLEARED(id=message_id)


def was_answered(message_id: int) -> bool:
    """Whether the message does not wait any more."""
    return not STILL_WAITING(id=message_id)


def leftovers() -> list[int]:
    """Sessions with reactions that nobody took off: the worker that should have is gone."""
    rows = InboundMessage.objects.filter(ack=Ack.SHOWN).exclude(state__in=WAITING)
    return list(rows.values_list("session_id", flat=True).distinct()[:MOST])


@dataclass(slots=True)
class Typists:
    """Who is typing where, in this process: one task a conversation, however many runs hold it."""

    tasks: dict[tuple[int, Target], asyncio.Task[None]] = field(default_factory=dict)
    holders: dict[tuple[int, Target], int] = field(default_factory=dict)

    @asynccontextmanager
    async def typing(self, place: Place | None) -> AsyncIterator[None]:
        """Show "typing…" while the block runs, on channels that can."""
        if place is None or not isinstance(place.channel.outbound, Types):
            yield
            return
        key = (place.account.id, place.target)
        self.holders[key] = self.holders.get(key, 0) + 1
        if key not in self.tasks:
            self.tasks[key] = asyncio.create_task(
                repeat(place.channel.outbound, place.account, place.target)
            )
        try:
            yield
        finally:
            self.holders[key] -= 1
            if not self.holders[key]:
                del self.holders[key]
                self.tasks.pop(key).cancel()


async def repeat(types: Types, account: Account, target: Target) -> None:
    """Send "typing…" again and again; at the latest it ends with the longest possible run."""
    async with asyncio.timeout(settings.AGENT_RUN_SECONDS + TYPING_SECONDS):
        while True:
            try:
                async with asyncio.timeout(CALL_SECONDS):
                    await types.send_typing(account=account, target=target)
            except (ChannelError, TimeoutError) as error:
                logger.info("typing could not be shown: %s", error)
                if isinstance(error, ChannelError) and error.permanent:
                    return
            await asyncio.sleep(TYPING_SECONDS)
