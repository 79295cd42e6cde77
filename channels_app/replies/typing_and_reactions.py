"""Feedback while a message waits ([C4]): a reaction on it, and "typing…".

A reaction is added when a message waits, and removed when its run has ended and the answer was
delivered or given up. The database records the messages that have one: after a crash the sweeper
removes them. Typing is repeated by the worker that holds the work (a batch that waits, a run's
lease) and ends with it.
"""

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from django.conf import settings
from django.db.models import Exists, OuterRef, QuerySet

from channels_app import registry
from channels_app.base import Account, Channel, ChannelError, Reacts, Target, Types
from channels_app.delivery.sending import account_of
from core.conversations import outbox
from core.database.batching import MAX_BATCH, attempt, in_shared_call, in_shared_transaction
from core.database.queries import Among, Instances, Param, Update, Values
from core.database.transactions import atomic_write_statement
from core.models import ChannelAccount, ChatSession, Delivery, InboundMessage, Run

logger = logging.getLogger(__name__)

TYPING_SECONDS = 4.2
CALL_SECONDS = 10.0
MOST = 100

Ack = InboundMessage.Ack
WAITING = (InboundMessage.State.RECEIVED, InboundMessage.State.BATCHED)


def to_mark() -> QuerySet[InboundMessage]:
    """Return the query for messages of some sessions whose reaction must be added or removed.

    A union of three queries, each with its index: nearly all messages of a session are answered and
    need nothing. Those to be added come first.
    """
    messages = InboundMessage.objects.filter(Among("session_id", "sessions"))
    unmarked = {"ack": "", "external_message_id__gt": ""}
    received = messages.filter(state=InboundMessage.State.RECEIVED, **unmarked)
    open_runs = Run.objects.filter(Among("session_id", "sessions"), state__in=Run.OPEN)
    in_open_run = InboundMessage.objects.filter(
        run__in=open_runs, state=InboundMessage.State.BATCHED, **unmarked
    )
    undelivered = Delivery.objects.filter(run_id=OuterRef("run_id"), state__in=outbox.OPEN)
    answered = messages.filter(~Exists(undelivered), ack=Ack.SHOWN).exclude(state__in=WAITING)
    ids = [each.values("id") for each in (received, in_open_run, answered)]
    return (
        InboundMessage.objects.filter(id__in=ids[0].union(*ids[1:], all=True))
        .select_related("account")
        .defer("raw", "text", "media")
        .order_by("ack", "id")[: MOST * MAX_BATCH]
    )


TO_MARK = Instances(to_mark)
SHOWN = Update(
    lambda: (
        InboundMessage.objects.filter(Among("id", "ids"), state__in=WAITING, ack=""),
        {"ack": Ack.SHOWN},
    )
)
CLEARED = Update(lambda: (InboundMessage.objects.filter(id=Param("id")), {"ack": Ack.CLEARED}))
STILL_WAITING = Values(
    lambda: InboundMessage.objects.filter(Among("id", "ids"), state__in=WAITING).values_list("id")
)


@dataclass(frozen=True, slots=True)
class Mark:
    """A message whose reaction is to be added or removed."""

    id: int
    reacts: Reacts
    account: Account
    target: Target
    message_id: str
    show: bool


@dataclass(frozen=True, slots=True)
class Place:
    """A conversation on a platform."""

    channel: Channel
    account: Account
    target: Target


def place_of(session: ChatSession) -> Place | None:
    """Return the chat of a session; None when its channel has no outbound side."""
    return place_in(session.account, Target(session.chat, session.thread))


def place_of_run(run: Run) -> Place | None:
    """Return the chat of a run's answer; None when its channel has no outbound side."""
    return place_in(run.session.account, Target(run.route["chat"], run.route["thread"]))


def place_in(row: ChannelAccount, target: Target) -> Place | None:
    """Return a chat of an account; None when its channel has no outbound side."""
    channel = registry.get(row.channel)
    return None if channel is None else Place(channel, account_of(row), target)


async def refresh(session_id: int) -> None:
    """Add reactions to the waiting messages of a session, and remove those of answered ones."""
    marks = await in_shared_call(marks_of, session_id)
    await asyncio.gather(*(apply(mark) for mark in marks))


def marks_of(session_ids: list[int]) -> list[list[Mark] | Exception]:
    """Return the changes due in each session. Reactions are recorded before they are added."""
    due: dict[int | None, list[InboundMessage]] = {session_id: [] for session_id in session_ids}
    for row in TO_MARK.all(sessions=session_ids):
        due[row.session_id].append(row)
    found = [attempt(partial(marks_in, due[session_id][:MOST])) for session_id in session_ids]
    known = (marks for marks in found if not isinstance(marks, Exception))
    fresh = [mark.id for marks in known for mark in marks if mark.show]
    if fresh:
        with atomic_write_statement():
            SHOWN(ids=fresh)
    return found


def marks_in(rows: list[InboundMessage]) -> list[Mark]:
    """Return the changes that are due for messages of one session. Raises DecryptError."""
    channel = registry.get(rows[0].account.channel) if rows else None
    if channel is None or not isinstance(channel.outbound, Reacts):
        return []
    reacts, account = channel.outbound, account_of(rows[0].account)
    return [
        Mark(
            id=row.id,
            reacts=reacts,
            account=account,
            target=Target(row.chat, row.thread),
            message_id=row.external_message_id,
            show=row.ack == "",
        )
        for row in rows
    ]


async def apply(mark: Mark) -> None:
    """Add or remove one reaction. After a permanent refusal it is not tried again."""
    change = mark.reacts.add_reaction if mark.show else mark.reacts.remove_reaction
    try:
        async with asyncio.timeout(CALL_SECONDS):
            await change(account=mark.account, target=mark.target, message_id=mark.message_id)
    except (ChannelError, TimeoutError) as error:
        logger.info("a reaction could not be changed: %s", error)
        if not (isinstance(error, ChannelError) and error.permanent):
            return  # it stays marked as shown: the sweeper removes it later
        await in_shared_transaction(partial(record_cleared, mark.id))
        return
    if not mark.show:
        await in_shared_transaction(partial(record_cleared, mark.id))
    elif await in_shared_call(were_answered, mark.id):
        # The run ended while the reaction was on its way, and was cleared before it was there.
        await apply(replace(mark, show=False))


def record_cleared(message_id: int) -> None:
    """Record that a message has no reaction any more."""
    with atomic_write_statement():
        CLEARED(id=message_id)


def were_answered(message_ids: list[int]) -> list[bool]:
    """Return for each of these messages whether it no longer waits."""
    waiting = {row[0] for row in STILL_WAITING(ids=message_ids)}
    return [message_id not in waiting for message_id in message_ids]


def left_over() -> QuerySet[InboundMessage, Any]:
    """Return the sessions of messages whose reaction should have been removed."""
    on_its_way = Delivery.objects.filter(run_id=OuterRef("run_id"), state__in=outbox.OPEN)
    rows = InboundMessage.objects.filter(ack=Ack.SHOWN).exclude(state__in=WAITING)
    return rows.exclude(Exists(on_its_way)).values_list("session_id").distinct()[:MOST]


LEFT_OVER = Values(left_over)


def leftovers() -> list[int]:
    """Return sessions with left-over reactions: the worker that would remove them has died."""
    return LEFT_OVER.column()


@dataclass(slots=True)
class Typists:
    """The "typing…" of this process: one task per conversation, for all of its runs."""

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
    longest = settings.AGENT_RUN_SECONDS + settings.AGENT_MAX_STEPS * settings.JOB_SECONDS
    async with asyncio.timeout(longest + TYPING_SECONDS):
        while True:
            try:
                async with asyncio.timeout(CALL_SECONDS):
                    await types.send_typing(account=account, target=target)
            except (ChannelError, TimeoutError) as error:
                logger.info("typing could not be shown: %s", error)
                if isinstance(error, ChannelError) and error.permanent:
                    return
            await asyncio.sleep(TYPING_SECONDS)
