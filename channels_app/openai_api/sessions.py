"""Which conversation a request belongs to, when its client keeps the history itself.

`X-Session-Id` names one of the person's own sessions, or any name of the client's own choice, a
session of that key. Without it a key has one session; requests that come at the same time get
lanes beside it, because runs of one session wait for each other.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from django.conf import settings
from django.db import connection

from channels_app.asgi.builtin_accounts import door_account
from channels_app.asgi.chat_messages import refused
from channels_app.asgi.fields import MAX_SESSION_NAME
from channels_app.asgi.principal import Principal
from core.conversations import inbox
from core.database import statements
from core.database.queries import Param, Values
from core.models import ChannelAccount, ChatSession, Run, User

ORIGIN = "openai"
HEADER = "X-Session-Id"


BUSY = Values(
    lambda: ChatSession.objects.filter(
        account_id=Param("account"),
        chat=Param("chat"),
        user_id=Param("user"),
        closed_at__isnull=True,
        runs__state__in=(Run.State.QUEUED, Run.State.RUNNING),
    ).values_list("thread")
)
# With its open runs, if it has any: what is asked of every request, in one visit.
WITH_RUNS = """LEFT JOIN "core_run" ON "core_run"."session_id" = "core_chatsession"."id"
    AND "core_run"."state" IN ('queued', 'running')
    WHERE "core_chatsession"."account_id" = %s AND "core_chatsession"."thread" = ''
    AND "core_chatsession"."closed_at" IS NULL AND NOT "core_chatsession"."for_agent" AND """
FIRST_LANE = statements.Select(
    (ChatSession, ()),
    (Run, ("id",)),
    tail=WITH_RUNS
    + """"core_chatsession"."chat" = %s AND "core_chatsession"."user_id" = %s LIMIT 1""",
)
FIRST_LANES = statements.Select(
    (ChatSession, ()),
    (Run, ("id",)),
    tail=WITH_RUNS + """"core_chatsession"."chat" = ANY(%s) ORDER BY "core_chatsession"."id" """,
)


@dataclass(frozen=True, slots=True)
class Lane:
    """The nameless lane of a key: its open session (locked), if it has one, and whether something
    runs there."""

    session: ChatSession | None
    is_busy: bool


def checked(name: str) -> str:
    """The header's value. Raises RefusedError 400."""
    if len(name) > MAX_SESSION_NAME or not name.isascii() or not (name == "" or name.isprintable()):
        raise refused(f"must be at most {MAX_SESSION_NAME} printable ASCII characters", HEADER)
    return name


def chat_of(key_id: int) -> str:
    """The conversation of a key."""
    return f"key:{key_id}"


def named_thread(name: str) -> str:
    """The thread of a name that a client chose."""
    return f"={name}" if name else ""


def own(*, user: User, name: str) -> str:
    """``name`` when it is the public id of an open session of this person, else nothing."""
    return name if inbox.own_session(user=user, session_id=name) else ""


def free_lane(
    *, account: ChannelAccount, chat: str, user: User, first: Lane | None = None
) -> tuple[str, ChatSession | None]:
    """The first thread of ``chat`` where nothing runs, with its open session where that was looked
    up on the way (locked, as :func:`core.conversations.inbox.session_here` does).
    Inside a transaction.

    ``first``: the nameless lane, where somebody has looked at it already.
    """
    lane = first_lane(account=account, chat=chat, user=user) if first is None else first
    if lane.is_busy:
        return next_lane(account=account, chat=chat, user=user), None
    if lane.session is None:
        return "", None
    return "", inbox.known_session(lane.session, user, account)


def first_lane(*, account: ChannelAccount, chat: str, user: User) -> Lane:
    """The nameless lane of one key."""
    for session, run in FIRST_LANE.rows(account.pk, chat, user.pk, more=inbox.locked()):
        return Lane(session, is_busy=run.pk is not None)
    return Lane(None, is_busy=False)


def first_lanes(asked: Sequence[Principal]) -> list[Lane | None]:
    """The nameless lanes of these keys of people, in one visit to PostgreSQL; None where that is
    not known yet: of a key that is there more than once only the first is told. On SQLite, which
    lives in this process, nobody is. Inside a transaction.

    What comes in another process in this very moment may not be seen: a run then waits for its.
    """
    if connection.vendor == "sqlite":
        return [None] * len(asked)
    chats = [chat_of(each.key_id) for each in asked]
    found: dict[str, Lane | None] = dict.fromkeys(chats, Lane(None, is_busy=False))
    owners = {chat: each.person.pk for chat, each in zip(chats, asked, strict=True)}
    account = door_account(ORIGIN)
    for session, run in FIRST_LANES.rows(account.pk, sorted(found), more=inbox.locked()):
        theirs = session.user_id == owners[session.chat]
        found[session.chat] = Lane(session, is_busy=run.pk is not None) if theirs else None
    return [found.pop(chat, None) for chat in chats]


def next_lane(*, account: ChannelAccount, chat: str, user: User) -> str:
    """The first thread of ``chat`` where nothing runs; asked when the nameless one is busy."""
    busy = {row[0] for row in BUSY(account=account.pk, chat=chat, user=user.pk)}
    if "" not in busy:
        return ""
    lanes = (str(number) for number in range(2, settings.MAX_STREAMS_PER_USER + 1))
    return next((each for each in lanes if each not in busy), "")
