"""The inbox: accepted messages are stored, deduplicated, batched, and become runs.

store_waiting ─► a batch (``ChatSession.flush_at``) ─flush_due, flush_before, flush─► start_run
a message that waits for no more ───────────────────────────────────────────────────────▲
"""

import hashlib
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import partial
from typing import Any

import orjson
from django.conf import settings
from django.db import IntegrityError, transaction
from django.db.models import DateTimeField, Q, QuerySet

from core import markdown
from core.conversations import assistants, traces
from core.database import transactions
from core.database.queries import Among, Instances, Param, Update, Values
from core.database.writes import Do, Insert, Set, Write, insert_or_find, write_all
from core.lib import tracing
from core.lib.ids import is_public_id, public_id
from core.lib.text import clean, one_line, shown_words
from core.lib.tokens import estimate
from core.models import (
    ChannelAccount,
    ChatSession,
    InboundMessage,
    Message,
    Route,
    Run,
    RunOptions,
    User,
)
from core.signals import wakeups

TITLE_CHARACTERS = 60
# So much of a text is read for a title, and none without a sign that Markdown may have.
TITLE_READ = 1000
MARKS = frozenset("*_`~#>[|<+-=$\\")
# The note of an ignored item of an album, kept in case another one addresses the assistant.
OF_AN_ALBUM = "an item of an album"
MAX_BATCH = 100
DUE_AT_ONCE = 500
# The columns that a repeated message replaces in the denied one.
TAKEN_OVER = (
    *("state", "user", "session", "sender_name", "text", "media", "options", "raw"),
    *("body_digest", "note", "received_at"),
)


def open_here(**more: bool) -> Q:
    """Return the open sessions of a person in one platform conversation.

    Each side of an OR has all of these conditions: they are those of the partial indexes.
    """
    return Q(
        account_id=Param("account"),
        chat=Param("chat"),
        thread=Param("thread"),
        user_id=Param("user"),
        closed_at__isnull=True,
        **more,
    )


def locked() -> QuerySet[ChatSession]:
    """Return sessions locked until the end of the transaction; SQLite has one writer."""
    return ChatSession.objects.select_for_update(no_key=True, of=("self",))


OPEN_HERE = Instances(lambda: locked().filter(open_here(for_agent=False)))
MEANT_HERE = Instances(
    lambda: (
        locked()
        .filter(
            open_here(for_agent=False)
            | open_here(for_agent=True)
            & (Q(own_topic=True) | Q(reply_until__gt=Param("now", DateTimeField())))
        )
        .order_by("-for_agent", "id")
    )
)
WAITING = Instances(
    lambda: (
        InboundMessage.objects.filter(
            session_id=Param("session"), state=InboundMessage.State.RECEIVED
        )
        .defer("raw")
        .order_by("id")
    )
)
BATCH = Update(
    lambda: (
        InboundMessage.objects.filter(Among("id", "ids"), state=InboundMessage.State.RECEIVED),
        {"state": InboundMessage.State.BATCHED, "run": Param("run")},
    )
)


@dataclass(frozen=True, slots=True)
class RepeatKey:
    """The idempotency key that a client gives its request, so that it may send the request again.

    ``scope`` names the endpoint, and the credential of a person; a sender that a bridge names is
    part of the key by :meth:`stored`. ``field`` is the client's word for the key, ``digest`` that
    of the request's body and ``session`` the session that it names, if any: the same key with
    others is an error.
    """

    scope: str
    key: str
    field: str
    digest: str
    session: str = ""

    def stored(self, sender: str) -> str:
        """Return what the inbox stores: unique for an account, at most 200 characters.

        The key of a named sender is stored as a digest: both may be long.
        """
        if not sender:
            return f"{self.scope}:{self.key}"
        pair = f"{len(sender)}:{sender}:{self.key}"
        return f"{self.scope}:{hashlib.sha256(pair.encode()).hexdigest()}"


def body_digest(*parts: object) -> str:
    """Return the digest of a request's normalised body; ``parts`` are JSON values of its fields."""
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()


@dataclass(frozen=True, slots=True)
class Draft:
    """A parsed message. Ids are the platform's; an empty one: no deduplication.

    ``repeat``: the key that a client chose, in place of ``update_id``. ``via_key``: the primary key
    of the API key of the request; 0 for none. ``wanted``: the assistant and the model that the
    request names for its turn; it is not kept with a denied message.
    """

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
    options: RunOptions = field(default_factory=RunOptions)
    raw: bytes = b""
    via_key: int = 0
    repeat: RepeatKey | None = None
    wanted: assistants.Wanted | None = None

    @property
    def known_by(self) -> str:
        """Return the deduplication id: the platform's, or the client's key with its sender."""
        return self.update_id if self.repeat is None else self.repeat.stored(self.sender)

    @property
    def may_come_twice(self) -> bool:
        """Return whether it has an id by which a duplicate is recognised."""
        return bool(self.known_by or self.message_id)


def find_duplicate(draft: Draft) -> InboundMessage | None:
    """Return the message that was already stored for the same update or platform message."""
    if not draft.may_come_twice:
        return None
    rows = InboundMessage.objects.filter(account=draft.account)
    # Two queries that repeat the conditions of their partial indexes: anything else reads every
    # message that the account ever had.
    if draft.known_by:
        same = rows.filter(external_update_id=draft.known_by)
        for found in same.exclude(external_update_id="")[:1]:
            return found
    if draft.message_id and draft.repeat is None:
        same = rows.filter(chat=draft.chat, external_message_id=draft.message_id, body_digest="")
        for found in same.exclude(external_message_id="")[:1]:
            return found
    return None


def message_of(
    *,
    draft: Draft,
    state: str,
    now: datetime,
    user: User | None = None,
    session: ChatSession | None = None,
    note: str = "",
) -> InboundMessage:
    """Make the message of ``draft``, which is not stored yet."""
    is_held = state == InboundMessage.State.HELD
    media = [
        {key: clean(value) if isinstance(value, str) else value for key, value in item.items()}
        for item in draft.media
    ]
    return InboundMessage(
        account=draft.account,
        user=user,
        session=session,
        kind=draft.kind,
        sender=draft.sender,
        sender_name=one_line(draft.sender_name, 200),
        chat=draft.chat,
        thread=draft.thread,
        external_update_id=draft.known_by,
        external_message_id=draft.message_id,
        text=clean(draft.text),
        media=media,
        media_bytes=len(orjson.dumps(media)) if media and is_held else 0,
        via_key=draft.via_key,
        options=draft.options,
        raw=draft.raw,
        state=state,
        note=note[:300],
        body_digest=draft.repeat.digest if draft.repeat is not None else "",
        received_at=now,
    )


def store(
    *,
    draft: Draft,
    state: str,
    now: datetime,
    user: User | None = None,
    session: ChatSession | None = None,
    note: str = "",
) -> tuple[InboundMessage, bool]:
    """Insert the message of ``draft``: (the row, whether it is new). Inside a transaction."""
    row = message_of(draft=draft, state=state, now=now, user=user, session=session, note=note)
    return insert_or_find(row, partial(find_duplicate, draft))


def take_over(
    message: InboundMessage,
    *,
    draft: Draft,
    user: User,
    session: ChatSession,
    now: datetime,
) -> bool:
    """Turn a denied message into the same request, sent again by a sender who is allowed now.

    False if it was not denied, or is taken already. Inside a transaction.
    """
    refused = (InboundMessage.State.HELD, InboundMessage.State.PURGED)
    if message.state not in refused:
        return False
    received = InboundMessage.State.RECEIVED
    anew = message_of(draft=draft, state=received, now=now, user=user, session=session)
    values = {name: getattr(anew, name) for name in TAKEN_OVER}
    if not InboundMessage.objects.filter(id=message.pk, state__in=refused).update(**values):
        message.refresh_from_db()
        return False
    for name, value in values.items():
        setattr(message, name, value)
    return True


def own_session(
    *, user: User, session_id: str, rows: QuerySet[ChatSession] | None = None
) -> ChatSession | None:
    """Return the person's open session with this public id. ``rows``: see :func:`locked`."""
    if not is_public_id(session_id):
        return None
    own = (ChatSession.objects.all() if rows is None else rows).select_related("account")
    found = own.filter(public_id=session_id, user=user, closed_at__isnull=True).first()
    if found is not None:
        found.user = user
    return found


def open_session(
    *, user: User, account: ChannelAccount, chat: str = "", thread: str = "", title: str = ""
) -> ChatSession:
    """Return the open session of a platform chat, made if there is none; no chat: a new one."""
    if not chat:
        name = public_id()
        return ChatSession.objects.create(
            user=user, account=account, public_id=name, chat=name, title=title
        )
    found = session_here(user=user, account=account, chat=chat, thread=thread)
    if found is not None:
        return found
    try:
        with transaction.atomic():
            return ChatSession.objects.create(user=user, account=account, chat=chat, thread=thread)
    except IntegrityError:
        found = session_here(user=user, account=account, chat=chat, thread=thread)
        if found is None:
            raise
        return found


def session_here(
    *, user: User, account: ChannelAccount, chat: str, thread: str, meant_at: datetime | None = None
) -> ChatSession | None:
    """Return the open session of a platform chat: the assistant's, or with ``meant_at`` that for
    which a person's message of then is, an agent's that listens before the assistant's.

    On PostgreSQL its row is locked until the end of the transaction: of two concurrent messages one
    starts the batch.
    """
    here = {"account": account.pk, "chat": chat, "thread": thread, "user": user.pk}
    found = MEANT_HERE.first(**here, now=meant_at) if meant_at else OPEN_HERE.first(**here)
    if found is not None:
        found.user, found.account = user, account  # saves two queries
    return found


@dataclass(frozen=True, slots=True)
class Wait:
    """How long a batch waits: the idle window, and the hard cap from its first message ([C2])."""

    idle: timedelta
    most: timedelta


def usual_wait() -> Wait:
    """Return the wait that the settings define."""
    idle, most = settings.DEBOUNCE_IDLE_MILLISECONDS, settings.DEBOUNCE_MAX_MILLISECONDS
    return Wait(timedelta(milliseconds=idle), timedelta(milliseconds=most))


# The items of an album come one by one, without an end marker.
ALBUM = Wait(timedelta(seconds=1), timedelta(seconds=10))


def store_waiting(
    *,
    draft: Draft,
    session: ChatSession,
    now: datetime,
    wait: Wait,
    also: Sequence[Set] = (),
) -> tuple[InboundMessage, bool]:
    """Store a message of ``session`` that waits for more, and postpone the flush of its batch.

    Returns the row, and whether it is new; only then ``also`` is written with it. Inside the
    transaction that found ``session``.
    """
    row = message_of(
        draft=draft,
        state=InboundMessage.State.RECEIVED,
        now=now,
        user=session.user,
        session=session,
    )
    began = min(session.batch_started_at or now, now)  # later than now: the clock was set back
    batch = {"batch_started_at": began, "flush_at": min(now + wait.idle, began + wait.most)}
    put_off = Set(ChatSession, session.pk, batch)
    message, is_new = insert_or_find(row, partial(find_duplicate, draft), *also, put_off)
    if is_new:
        session.batch_started_at, session.flush_at = batch["batch_started_at"], batch["flush_at"]
        wakeups.batch(session.id)
    return message, is_new


def furthest_flush() -> timedelta:
    """Return how far ahead a flush is at most: the longest window that a message opens."""
    return max(usual_wait().most, ALBUM.idle)


def flush_before(*, session: ChatSession, now: datetime) -> Run | None:
    """Flush the batch whose window ended before a new message. Inside the transaction that found
    ``session``.

    A message at the exact end of the idle window is too late, at that of the cap it is not.
    """
    if session.flush_at is None or session.flush_at > now:
        return None
    if session.flush_at == now and session.batch_started_at == now - usual_wait().most:
        return None
    return flush(session=session, now=now)


def flush(*, session: ChatSession, now: datetime) -> Run | None:
    """Start a run for the batch that waits. Inside the transaction that found ``session``."""
    if session.flush_at is None:
        return None
    write_all(Set(ChatSession, session.pk, {"flush_at": None, "batch_started_at": None}))
    session.flush_at = session.batch_started_at = None
    return run_waiting(session=session, now=now)


def with_due_batch() -> QuerySet[ChatSession]:
    """Return the sessions whose batch is due ``now``, or is further ahead than it can be."""
    return ChatSession.objects.filter(
        Q(flush_at__lte=Param("now", DateTimeField()))
        | Q(flush_at__gt=Param("furthest", DateTimeField()))
    )


FLUSH = Update(
    lambda: (
        with_due_batch().filter(id=Param("id")),
        {"flush_at": None, "batch_started_at": None},
    )
)
DUE = Values(lambda: with_due_batch().order_by("flush_at").values_list("id")[:DUE_AT_ONCE])
HELD_MESSAGES = transactions.FarTimes(
    lambda: InboundMessage.objects.filter(state=InboundMessage.State.HELD), "received_at"
)
FLUSH_AT = Values(lambda: ChatSession.objects.filter(id=Param("id")).values_list("flush_at"))
WITH_ACCOUNTS = Instances(
    lambda: ChatSession.objects.select_related("account").filter(Among("id", "ids"))
)
# With the person: whether it is an owner belongs to the decision which assistant answers.
TO_FLUSH = Instances(
    lambda: ChatSession.objects.select_related("account", "user").filter(id=Param("id"))
)


def flush_at(session_id: int) -> datetime | None:
    """Return when the batch that waits in a session is due; None when there is none."""
    return FLUSH_AT.first(id=session_id)


def flush_due(*, session_id: int, now: datetime) -> Run | None:
    """Make a run of the waiting batch of a session if it is due. Inside a transaction.

    A time further ahead than it can be set is due as well: the clock was set back. More than
    MAX_BATCH messages become several runs; the last one is returned.
    """
    due = FLUSH(id=session_id, now=now, furthest=now + furthest_flush())
    session = TO_FLUSH.first(id=session_id) if due else None
    return run_waiting(session=session, now=now) if session is not None else None


def run_waiting(*, session: ChatSession, now: datetime) -> Run | None:
    """Make runs of a session's waiting messages; return the last one. Inside a transaction."""
    waiting = WAITING.all(session=session.pk)
    run = None
    for start in range(0, len(waiting), MAX_BATCH):
        some, first_at = waiting[start : start + MAX_BATCH], waiting[0].received_at
        run = start_run(session=session, messages=some, now=now, first_at=first_at)
    return run


def first_file_name(messages: Sequence[InboundMessage]) -> str:
    """Return the name of the first file of messages without words; empty without a name."""
    names = (item.get("name") for message in messages for item in message.media)
    return next((each for each in names if isinstance(each, str) and each), "")


def title_of(text: str) -> str:
    """Return the title of a conversation that begins with ``text``, without Markdown and quotes."""
    if "<quoted" in text:
        text = shown_words(text)
    start = text[:TITLE_READ]
    shown = start if MARKS.isdisjoint(start) else markdown.to_telegram(start).text
    return one_line(shown, TITLE_CHARACTERS)


def due_sessions(*, now: datetime) -> list[int]:
    """Return the sessions whose batch should have been flushed by now."""
    return DUE.column(now=now, furthest=now + furthest_flush())


def start_run(
    *,
    session: ChatSession,
    messages: list[InboundMessage],
    now: datetime,
    origin: str = "",
    also: Sequence[Set] = (),
    chosen: assistants.Choice | None = None,
    first_at: datetime | None = None,
) -> Run | None:
    """Store one run for ``messages``, with its route taken now ([C3]); None when there are none.

    Messages that are not stored yet are stored as the run's; ``also`` is written with it. Inside a
    transaction. A ``runs`` worker is woken after the commit. ``chosen``: the assistant and
    model that the request names; without it they are decided here. ``first_at``: when the batch
    began, if not with the first of ``messages``.
    """
    if not messages:
        return None
    last = messages[-1]
    text = "\n".join(message.text for message in messages if message.text)
    chosen = chosen or assistants.choose_for(session, key_id=last.via_key)
    route: Route = {
        "account": session.account_id,
        "chat": last.chat or session.chat,
        "thread": last.thread,
        "reply_to": last.external_message_id,
        "acks": [m.external_message_id for m in messages if m.external_message_id],
        "media": [item for message in messages for item in message.media],
        "history_from": session.history_from,
    }
    if tracing.is_on():
        trace = traces.of_batch(session, first_at or messages[0].received_at)
        route["trace"] = f"{trace:032x}"
    run = Run(
        session=session,
        user_id=session.user_id,
        via_key=last.via_key,
        assistant_id=chosen.assistant.id,
        assistant_version=chosen.assistant.version,
        model_id=chosen.model_id,
        origin=origin or session.account.channel,
        text=text,
        options=last.options,
        route=route,
    )
    said = question_of(run)
    session.last_message_at = now
    changes: dict[str, object] = {"last_message_at": now}
    if not session.title:  # else its person may change it at this moment
        session.title = changes["title"] = title_of(text or first_file_name(messages))
    write_all(
        Insert(run),
        *assignments_to(run, messages),
        Insert(said),
        *also,
        Set(ChatSession, session.pk, changes),  # the last is locked first: a session, its person
    )
    wakeups.run(run.pk)
    return run


def question_of(run: Run) -> Message:
    """Return what a run is asked as a message of its conversation. Media without words are one,
    too: with no text, those who ask about them later would ask about nothing.
    """
    media = run.route["media"]
    text = run.text or "\n".join(f"[{item['kind']} message received]" for item in media)
    shown = {} if run.text else {"said": ""}
    return Message(
        session=run.session,
        run=run,
        role="user",
        text=text,
        tokens=estimate(text),
        data={"media": media, **shown},
    )


def assignments_to(run: Run, messages: list[InboundMessage]) -> Iterator[Write]:
    """Yield the writes that assign the messages to a run."""
    stored = [message.pk for message in messages if message.pk is not None]
    if stored:
        yield Do(BATCH, {"run": run, "ids": stored})
    for message in messages:
        if message.pk is None:
            message.run, message.state = run, InboundMessage.State.BATCHED
            yield Insert(message)


def edit_waiting(
    *, account: ChannelAccount, chat: str, message_id: str, sender: str, text: str
) -> bool:
    """Change a message whose run has not started; return whether there was one.

    Only its own sender can. Inside a transaction.
    """
    rows = InboundMessage.objects.filter(
        account=account, chat=chat, external_message_id=message_id, sender=sender, body_digest=""
    )
    rows = rows.exclude(external_message_id="")  # the conditions of the partial index
    row = rows.first()
    if row is not None and row.session_id is not None:
        locked().filter(id=row.session_id).first()  # under this lock it becomes a part of a run
        row = rows.first()
    state = InboundMessage.State
    if row is None or row.state not in {state.RECEIVED, state.HELD, state.BATCHED}:
        return False
    untouched = Run.objects.select_for_update().filter(
        inbound=row, state=Run.State.QUEUED, attempt=0
    )
    if row.state == state.BATCHED and not untouched.exists():
        return False
    if not rows.filter(id=row.id, state=row.state).update(text=clean(text)):
        return False  # its sender is let in at this moment
    if row.run_id is not None:
        texts = InboundMessage.objects.filter(run_id=row.run_id).order_by("id")
        joined = "\n".join(each for each in texts.values_list("text", flat=True) if each)
        Run.objects.filter(id=row.run_id).update(text=joined)
        said = question_of(Run.objects.select_related("session").get(id=row.run_id))
        for stored in Message.objects.filter(run_id=row.run_id, role="user"):
            stored.text, stored.tokens = said.text, said.tokens
            stored.data = {**stored.data, "said": joined}
            stored.save(update_fields=["text", "tokens", "data"])
    return True


def bring_near() -> None:
    """Count the age of held messages from now, where they were received in the future."""
    HELD_MESSAGES.bring_near(most=timedelta(minutes=1))


def drop_waiting(*, session: ChatSession, note: str) -> int:
    """Drop a session's waiting messages that have no run; return how many. In a transaction."""
    ChatSession.objects.filter(id=session.id).update(flush_at=None, batch_started_at=None)
    return drop(InboundMessage.objects.filter(session=session), note=note)


def in_batches(sessions: Q) -> QuerySet[InboundMessage]:
    """Return the messages of waiting batches, in the sessions with this condition."""
    batches = ChatSession.objects.filter(sessions, flush_at__isnull=False)
    return InboundMessage.objects.filter(session__in=batches, state=InboundMessage.State.RECEIVED)


def drop(rows: QuerySet[InboundMessage], *, note: str) -> int:
    """Drop those of ``rows`` that wait and have no run; return how many. In a transaction."""
    waiting = rows.filter(state=InboundMessage.State.RECEIVED)
    return waiting.update(state=InboundMessage.State.ANSWERED, note=note)
