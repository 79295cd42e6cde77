"""The inbox: what was accepted is committed, deduplicated, batched, and becomes a run."""

from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from django.conf import settings
from django.db import IntegrityError, transaction
from django.db.models import Q
from django.db.models.functions import Now

from core import wake
from core.ids import is_public_id, public_id
from core.models import ChannelAccount, ChatSession, InboundMessage, Message, Run, User
from core.text import clean, one_line
from core.tokens import estimate

TITLE_CHARACTERS = 60
MAX_BATCH = 100
DUE_AT_ONCE = 500


@dataclass(frozen=True, slots=True)
class Draft:
    """What a door understood of one message. Ids are the platform's; empty: no deduplication."""

    account: ChannelAccount
    kind: str = "im"
    sender: str = ""
    sender_name: str = ""
    chat: str = ""
    thread: str = ""
    update_id: str = ""
    message_id: str = ""
    text: str = ""
    media: list[dict[str, Any]] = field(default_factory=list)
    options: dict[str, Any] = field(default_factory=dict)
    raw: bytes = b""


def find_duplicate(draft: Draft) -> InboundMessage | None:
    """The message that was already stored for the same update or platform message."""
    rows = InboundMessage.objects.filter(account=draft.account)
    # Two queries that repeat the conditions of their partial indexes: anything else reads every
    # message that the account ever had.
    if draft.update_id:
        same = rows.filter(external_update_id=draft.update_id)
        for found in same.exclude(external_update_id="")[:1]:
            return found
    if draft.message_id:
        same = rows.filter(chat=draft.chat, external_message_id=draft.message_id)
        for found in same.exclude(external_message_id="")[:1]:
            return found
    return None


def store(
    *,
    draft: Draft,
    state: str,
    now: datetime,
    user: User | None = None,
    session: ChatSession | None = None,
) -> tuple[InboundMessage, bool]:
    """Insert the message of ``draft``: (the row, whether it is new). Inside a transaction."""
    row = InboundMessage(
        account=draft.account,
        user=user,
        session=session,
        kind=draft.kind,
        sender=draft.sender,
        sender_name=one_line(draft.sender_name, 200),
        chat=draft.chat,
        thread=draft.thread,
        external_update_id=draft.update_id,
        external_message_id=draft.message_id,
        text=clean(draft.text),
        media=draft.media,
        options=draft.options,
        raw=draft.raw,
        state=state,
        received_at=now,
    )
    if not (draft.update_id or draft.message_id):
        row.save(force_insert=True)
        return row, True
    try:
        with transaction.atomic():
            row.save(force_insert=True)
    except IntegrityError:
        duplicate = find_duplicate(draft)
        if duplicate is None:
            raise
        return duplicate, False
    return row, True


def own_session(*, user: User, session_id: str) -> ChatSession | None:
    """The open session with this public id, if it is the person's own."""
    if not is_public_id(session_id):
        return None
    own = ChatSession.objects.select_related("account")
    found = own.filter(public_id=session_id, user=user, closed_at__isnull=True).first()
    if found is not None:
        found.user = user
    return found


def open_session(
    *, user: User, account: ChannelAccount, chat: str = "", thread: str = "", title: str = ""
) -> ChatSession:
    """The open session of a platform conversation, made when there is none; no chat: a new one."""
    if not chat:
        name = public_id()
        return ChatSession.objects.create(
            user=user, account=account, public_id=name, chat=name, title=title
        )
    place = {"account": account, "chat": chat, "thread": thread, "user": user}
    open_here = ChatSession.objects.filter(**place, closed_at__isnull=True, for_agent=False)
    found = open_here.first()
    if found:
        found.user, found.account = user, account  # known already: two queries less
        return found
    try:
        with transaction.atomic():
            return ChatSession.objects.create(**place)
    except IntegrityError:
        return open_here.get()


def session_of_agent(
    *, user: User, account: ChannelAccount, chat: str, thread: str, now: datetime
) -> ChatSession | None:
    """The agent's session that what a person writes here is meant for; None: the assistant's."""
    listens = Q(own_topic=True) | Q(reply_until__gt=now)
    return (
        ChatSession.objects.filter(listens, user=user, account=account, chat=chat, thread=thread)
        .filter(for_agent=True, closed_at__isnull=True)
        .order_by("id")
        .first()
    )


def close_session(*, session: ChatSession) -> None:
    """Close a conversation: nothing more is accepted in it. Inside a transaction."""
    ChatSession.objects.filter(id=session.id, closed_at__isnull=True).update(closed_at=Now())


def wait_for_more(
    *,
    session: ChatSession,
    now: datetime,
    idle_milliseconds: int | None = None,
    max_milliseconds: int | None = None,
) -> None:
    """Put off the flush of a batch: idle window, hard cap from the first message ([C2])."""
    idle = timedelta(milliseconds=idle_milliseconds or settings.DEBOUNCE_IDLE_MILLISECONDS)
    cap = timedelta(milliseconds=max_milliseconds) if max_milliseconds else longest_wait()
    row = ChatSession.objects.select_for_update().get(id=session.id)
    started = row.batch_started_at or now
    ChatSession.objects.filter(id=session.id).update(
        batch_started_at=started, flush_at=min(now + idle, started + cap)
    )
    wake.batch(session.id)


def longest_wait() -> timedelta:
    """How long the first message of a batch waits at most."""
    return timedelta(milliseconds=settings.DEBOUNCE_MAX_MILLISECONDS)


def flush_before(*, session_id: int, now: datetime) -> Run | None:
    """Flush the batch that a new message comes too late for. Inside a transaction.

    A message in the very moment of the idle window's end is too late, in that of the cap it is not.
    """
    joins = ChatSession.objects.filter(
        id=session_id, flush_at=now, batch_started_at=now - longest_wait()
    )
    return None if joins.exists() else flush_due(session_id=session_id, now=now)


def flush_due(*, session_id: int, now: datetime) -> Run | None:
    """Make a run of the waiting batch of a session when its time has come. Inside a transaction.

    More than MAX_BATCH messages become several runs; the last one is returned.
    """
    taken = ChatSession.objects.filter(id=session_id, flush_at__lte=now).update(
        flush_at=None, batch_started_at=None
    )
    if not taken:
        return None
    session = ChatSession.objects.select_related("user", "account").get(id=session_id)
    waiting = list(
        InboundMessage.objects.filter(
            session_id=session_id, state=InboundMessage.State.RECEIVED
        ).order_by("id")
    )
    run = None
    for start in range(0, len(waiting), MAX_BATCH):
        run = start_run(session=session, messages=waiting[start : start + MAX_BATCH], now=now)
    return run


def due_sessions(*, now: datetime) -> list[int]:
    """The sessions whose batch should have been flushed by now."""
    due = ChatSession.objects.filter(flush_at__lte=now).order_by("flush_at")
    return list(due.values_list("id", flat=True)[:DUE_AT_ONCE])


def start_run(
    *, session: ChatSession, messages: list[InboundMessage], now: datetime, origin: str = ""
) -> Run | None:
    """One run for ``messages``, with its route taken now ([C3]); None when there are none.

    Inside a transaction. A ``runs`` worker is woken after the commit.
    """
    if not messages:
        return None
    last = messages[-1]
    text = "\n".join(message.text for message in messages if message.text)
    run = Run.objects.create(
        session=session,
        user=session.user,
        origin=origin or session.account.channel,
        text=text,
        options=last.options,
        route={
            "account": session.account_id,
            "chat": last.chat or session.chat,
            "thread": last.thread,
            "reply_to": last.external_message_id,
            "acks": [m.external_message_id for m in messages if m.external_message_id],
            "media": [item for message in messages for item in message.media],
        },
    )
    InboundMessage.objects.filter(
        id__in=[message.id for message in messages], state=InboundMessage.State.RECEIVED
    ).update(state=InboundMessage.State.BATCHED, run=run)
    Message.objects.create(
        session=session,
        run=run,
        role="user",
        text=text,
        tokens=estimate(text),
        data={"media": run.route["media"]},
    )
    session.last_message_at = now
    session.title = session.title or one_line(text, TITLE_CHARACTERS)
    session.save(update_fields=["last_message_at", "title"])
    wake.run(run.id)
    return run


def edit_waiting(
    *, account: ChannelAccount, chat: str, message_id: str, sender: str, text: str
) -> bool:
    """Change a message that no run has begun to answer yet; whether there was one.

    Only its own sender can. Inside a transaction.
    """
    row = InboundMessage.objects.filter(
        account=account, chat=chat, external_message_id=message_id, sender=sender
    ).first()
    waiting = {InboundMessage.State.RECEIVED, InboundMessage.State.HELD}
    if row is None or not (row.state in waiting or row.state == InboundMessage.State.BATCHED):
        return False
    untouched = Run.objects.select_for_update().filter(
        inbound=row, state=Run.State.QUEUED, attempt=0
    )
    if row.state == InboundMessage.State.BATCHED and not untouched.exists():
        return False
    InboundMessage.objects.filter(id=row.id).update(text=clean(text))
    if row.run_id is not None:
        texts = InboundMessage.objects.filter(run_id=row.run_id).order_by("id")
        joined = "\n".join(each for each in texts.values_list("text", flat=True) if each)
        Run.objects.filter(id=row.run_id).update(text=joined)
        Message.objects.filter(run_id=row.run_id, role="user").update(
            text=joined, tokens=estimate(joined)
        )
    return True


def drop_waiting(*, session: ChatSession, note: str) -> int:
    """Put away what waits in a session and was not given to a run; how many. In a transaction."""
    ChatSession.objects.filter(id=session.id).update(flush_at=None, batch_started_at=None)
    return InboundMessage.objects.filter(
        session=session, state=InboundMessage.State.RECEIVED
    ).update(state=InboundMessage.State.ANSWERED, note=note)
