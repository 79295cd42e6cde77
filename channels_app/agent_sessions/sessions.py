"""Agent sessions ([S4]): opened in a chat of their user, closed with their results, and
closed automatically when idle. Messages that the user sends there go to the agent.
"""

import asyncio
from collections.abc import Coroutine
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from django.conf import settings
from django.db.models import DateTimeField, Q, QuerySet
from django.db.models.functions import Coalesce, Now

from channels_app import registry
from channels_app.agent_sessions import results
from channels_app.asgi.builtin_accounts import BUILTIN_CHANNELS, found_or_made
from channels_app.base import Capability, Channel, ChannelError, Deletes, OpensTopics
from channels_app.delivery.sending import account_of
from channels_app.owner import notice_targets
from channels_app.replies.outbound import own_words
from core.conversations import inbox, outbox
from core.database import transactions
from core.database.queries import Instances, Param
from core.database.transactions import atomic_write, in_thread
from core.lib.ids import public_id
from core.lib.text import one_line
from core.lib.tokens import estimate
from core.models import (
    ChannelAccount,
    ChannelIdentity,
    ChatSession,
    Delivery,
    InboundMessage,
    Message,
    Run,
    User,
)

CALL_SECONDS = 20.0
FOR_AGENT = "for an agent"
PASSED_ON = "Passed on to the agent."
WINDOW = timedelta(seconds=15)  # renewed while an agent waits; expires soon after it died
LOOK_SECONDS = 0.5
REPORT_SECONDS = 5.0
IDLE_AT_ONCE = 100


class NotOpened(Exception):
    """There is no such chat, or the platform refused; the text gives the reason."""


@dataclass(frozen=True, slots=True)
class Reply:
    """A user's message in a session."""

    text: str
    message_id: str
    at: datetime
    media: list[str]


def account_named(*, channel: str, name: str = "") -> ChannelAccount:
    """Return an enabled account; without a name the only one, or ``default``. Raises NotOpened."""
    rows = ChannelAccount.objects.filter(channel=channel, enabled=True).order_by("id")
    found = list(rows.filter(name=name) if name else rows)
    if len(found) > 1:
        found = list(rows.filter(name="default")) or found
    if channel in BUILTIN_CHANNELS and not found and name in {"", "default"}:
        made = found_or_made(channel)
        found = [made] if made.enabled else []
    if not found:
        what = f"{one_line(channel, 40)}/{one_line(name, 40)}" if name else one_line(channel, 40)
        raise NotOpened(f"There is no enabled account of {what}; the admin lists the accounts.")
    if len(found) > 1:
        names = ", ".join(one_line(each.name, 40) for each in found[:20])
        raise NotOpened(f"{one_line(channel, 40)} has several accounts; name one of them: {names}.")
    return found[0]


def chat_of(*, user: User, account: ChannelAccount, channel: Channel) -> str:
    """Return the chat where a user reads on an account. Raises NotOpened.

    The last private chat, else the user's own address: on known platforms a private chat has the id
    of its user. For an owner, chats of senders admitted by an open list are left out.
    """
    spoken = ChatSession.objects.filter(user=user, account=account).exclude(chat="")
    for chat in spoken.order_by("-last_message_at", "-id").values_list("chat", flat=True)[:50]:
        is_own = not user.is_owner or notice_targets.is_theirs(user, account, chat)
        if is_own and not registry.is_group(channel, chat):
            return chat
    listed = ChannelIdentity.objects.filter(
        Q(account=account) | Q(account=None, channel__in=(account.channel, "")),
        user=user,
        kind=account.sender_kind,
    )
    for value in listed.order_by("-account", "-channel", "id").values_list("value", flat=True):
        if not registry.is_group(channel, value):
            return value
    raise NotOpened(f"{user} has no address on {account}.")


def open_session(
    *, user: User, account: ChannelAccount, chat: str = "", title: str = ""
) -> ChatSession:
    """Open an agent session of ``user``, in a topic of its own where the chat has topics.

    For synchronous callers: it calls the platform, for at most CALL_SECONDS. Raises NotOpened.
    """
    channel = registry.get(account.channel)
    name = public_id()
    title = one_line(title, 120) or "Agent"
    thread = ""
    if channel is None:
        chat = name
    else:
        chat = chat or chat_of(user=user, account=account, channel=channel)
        thread = topic(channel=channel, account=account, chat=chat, title=title)
    with atomic_write():
        return ChatSession.objects.create(
            public_id=name,
            user=user,
            account=account,
            chat=chat,
            thread=thread,
            title=title,
            for_agent=True,
            own_topic=bool(thread) or channel is None,
            last_message_at=Now(),
        )


def topic(*, channel: Channel, account: ChannelAccount, chat: str, title: str) -> str:
    """Create a topic and return its id; empty in a chat without topics. Raises NotOpened."""
    if not isinstance(channel.outbound, OpensTopics):
        return ""
    call = channel.outbound.open_topic(account=account_of(account), chat=chat, title=title)

    async def ask(call: Coroutine[Any, Any, str]) -> str:
        try:
            async with asyncio.timeout(CALL_SECONDS):
                return await call
        finally:
            await channel.gateway.close()

    try:
        return asyncio.run(ask(call))
    except (ChannelError, TimeoutError) as error:
        raise NotOpened(f"The platform refused: {error or 'no answer'}") from error


def open_sessions() -> QuerySet[ChatSession]:
    """Return the open agent sessions of all users, newest first."""
    rows = ChatSession.objects.filter(for_agent=True, closed_at__isnull=True)
    return rows.select_related("account", "user").order_by("-id")


def close(*, session: ChatSession) -> bool:
    """Close a session and remove its results where the platform allows; return False if it was
    closed already.

    Messages that are already deleted, or too old to delete, are not a failure.
    """
    with atomic_write():
        closed = ChatSession.objects.filter(id=session.id, closed_at__isnull=True)
        if not closed.update(closed_at=Now(), reply_until=None):
            return False
        inbox.drop_waiting(session=session, note="the session was closed")
        remove_results(session)
        if session.own_topic and session.thread:
            close_topic(session)
    return True


def remove_results(session: ChatSession) -> None:
    """Queue the deletion of a session's results. Inside a transaction."""
    elsewhere = Q(user_id=session.user_id, route__result_of=session.id)
    # The words of the person to the agent, and the line that they were passed on, are no results.
    shown = Run.objects.filter(Q(session=session) | elsewhere, origin=results.ORIGIN, text="")
    Message.objects.filter(run__in=shown).delete()  # they would stay without their runs
    shown.delete()
    found = results.of(session)
    outbox.take_back(found)
    left = found.filter(state__in=(*outbox.OPEN, Delivery.State.SENT)).select_related("account")
    for row in left.order_by("id"):
        channel = registry.get(row.account.channel)  # a session without a screen has no own
        if channel is not None and isinstance(channel.outbound, Deletes):
            outbox.change(delivery=row, payload={"kind": "delete", "lenient": True})


def close_topic(session: ChatSession) -> None:
    """Close the topic that was made for a session, after the deliveries that are queued for it."""
    outbox.enqueue_in_chat(
        key=f"topic:{session.public_id}",
        account_id=session.account_id,
        chat=session.chat,
        thread=session.thread,
        payload={"kind": "close_topic"},
        session_id=session.id,
    )


# In any order: by id, SQLite would read the sessions of all people.
IDLE = Instances(
    lambda: (
        open_sessions()
        .order_by()
        .annotate(last=Coalesce("last_message_at", "created_at"))
        .filter(last__lt=Param("since", DateTimeField()))[:IDLE_AT_ONCE]
    )
)
REPLIES = transactions.FarTimes(open_sessions, "reply_until")


def close_idle(*, now: datetime) -> int:
    """Close agent sessions that were idle for AGENT_SESSION_IDLE_HOURS. A chore."""
    if not settings.AGENT_SESSION_IDLE_HOURS:
        return 0
    since = now - timedelta(hours=settings.AGENT_SESSION_IDLE_HOURS)
    return sum(close(session=each) for each in IDLE.all(since=since))


def bring_near() -> None:
    """Shorten waits for a reply that end in the far future because the clock was set back."""
    REPLIES.bring_near(most=WINDOW)


def listens(session: ChatSession, *, now: datetime) -> bool:
    """Return whether a message in this session now goes to an agent."""
    waits = session.reply_until is not None and session.reply_until > now
    return waits or (session.for_agent and session.own_topic)


def hand_over(*, message: InboundMessage, session: ChatSession) -> Run | None:
    """Keep a stored message for the agent; return the answer for endpoints that always give one.

    Inside the transaction that stored it.
    """
    InboundMessage.objects.filter(id=message.id).update(note=FOR_AGENT)
    ChatSession.objects.filter(id=session.id).update(last_message_at=Now(), reply_until=None)
    channel = registry.get(session.account.channel)
    if channel is not None:
        Message.objects.create(
            session=session, role="user", text=message.text, tokens=estimate(message.text)
        )
        if Capability.WHOLE in channel.capabilities:  # every request gets an answer
            pass_on(message)
        return None
    return results.settled_run(session=session, text=PASSED_ON, asked=message.text)


def pass_on(message: InboundMessage) -> None:
    """Tell the sender that an agent has the message. Inside a transaction."""
    outbox.enqueue_in_chat(
        key=f"passed:{message.id}",
        account_id=message.account_id,
        chat=message.chat,
        thread=message.thread,
        reply_to=message.external_message_id,
        payload=own_words(message, PASSED_ON),
        session_id=message.session_id,
    )


async def wait_for_reply(
    *, session: ChatSession, seconds: float, report: results.Report
) -> Reply | None:
    """Wait for the user's next message in a session; return None when none came in time.

    A message that arrives while no agent waits is returned by the next call.
    """
    loop = asyncio.get_running_loop()
    began = loop.time()
    said = began
    try:
        while True:
            reply = await in_thread(next_reply, session)
            if reply is not None:
                return reply
            if loop.time() - began >= seconds:
                return None
            if loop.time() - said >= REPORT_SECONDS or said == began:
                said = loop.time()
                await report(f"Waiting for the user ({said - began:.0f} s)")
            await asyncio.sleep(min(LOOK_SECONDS, max(0.0, began + seconds - loop.time())))
    finally:
        await asyncio.shield(in_thread(stop_listening, session))


def next_reply(session: ChatSession) -> Reply | None:
    """Return the oldest message kept for a session's agent; without one, start to listen.

    Raises NotSentError when the session was closed.
    """
    kept = InboundMessage.objects.filter(
        session=session, state=InboundMessage.State.RECEIVED, note=FOR_AGENT
    )
    with atomic_write():
        for row in kept.order_by("id")[:1]:
            if not kept.filter(id=row.id).update(state=InboundMessage.State.ANSWERED):
                continue  # another agent that waits here has it
            media = [str(item.get("name") or item.get("kind", "file")) for item in row.media]
            message_id = row.external_message_id or str(row.id)
            return Reply(row.text, message_id, row.received_at, media)
        open_now = ChatSession.objects.filter(id=session.id, closed_at__isnull=True)
        if not open_now.update(reply_until=Now() + WINDOW, last_message_at=Now()):
            raise results.NotSentError("This session is closed.")
    return None


def stop_listening(session: ChatSession) -> None:
    """Stop listening: messages go to the assistant again."""
    with atomic_write():
        ChatSession.objects.filter(id=session.id).update(reply_until=None)
