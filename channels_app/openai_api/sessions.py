"""Which conversation a request belongs to, when its client keeps the history itself.

`X-Session-Id` names one of the person's own sessions, or any name of the client's own choice, a
session of that key. Without it a key has one session; requests that come at the same time get
lanes beside it, because runs of one session wait for each other.
"""

from django.conf import settings

from allowlist.models import ApiKey
from channels_app.chat_messages import refused
from core import inbox, statements
from core.compiled import Given, Rows
from core.models import ChannelAccount, ChatSession, Run, User

HEADER = "X-Session-Id"
MAX_NAME = 100


BUSY = Rows(
    lambda: ChatSession.objects.filter(
        account_id=Given("account"),
        chat=Given("chat"),
        user_id=Given("user"),
        closed_at__isnull=True,
        runs__state__in=(Run.State.QUEUED, Run.State.RUNNING),
    ).values_list("thread")
)
# With one of its open runs, if it has any: what is asked of every request, in one visit.
FIRST_LANE = statements.Select(
    (ChatSession, ()),
    (Run, ("id",)),
    tail="""LEFT JOIN "core_run" ON "core_run"."session_id" = "core_chatsession"."id"
    AND "core_run"."state" IN ('queued', 'running')
    WHERE "core_chatsession"."account_id" = %s AND "core_chatsession"."chat" = %s
    AND "core_chatsession"."thread" = '' AND "core_chatsession"."user_id" = %s
    AND "core_chatsession"."closed_at" IS NULL AND NOT "core_chatsession"."for_agent" LIMIT 1""",
)


def checked(name: str) -> str:
    """The header's value. Raises RefusedError 400."""
    if len(name) > MAX_NAME or not name.isascii() or not (name == "" or name.isprintable()):
        raise refused(f"must be at most {MAX_NAME} printable ASCII characters", HEADER)
    return name


def chat_of(key: ApiKey) -> str:
    """The conversation of a key."""
    return f"key:{key.pk}"


def named_thread(name: str) -> str:
    """The thread of a name that a client chose."""
    return f"={name}" if name else ""


def own(*, user: User, name: str) -> str:
    """``name`` when it is the public id of an open session of this person, else nothing."""
    return name if inbox.own_session(user=user, session_id=name) else ""


def free_lane(*, account: ChannelAccount, chat: str, user: User) -> tuple[str, ChatSession | None]:
    """The first thread of ``chat`` where nothing runs, with its open session where that was looked
    up on the way (locked, as :func:`core.inbox.session_here` does). Inside a transaction."""
    for session, run in FIRST_LANE.rows(account.pk, chat, user.pk, more=inbox.locked()):
        if run.pk is None:
            return "", inbox.known_session(session, user, account)
        return next_lane(account=account, chat=chat, user=user), None
    return "", None


def next_lane(*, account: ChannelAccount, chat: str, user: User) -> str:
    """The first thread of ``chat`` where nothing runs; asked when the nameless one is busy."""
    busy = {row[0] for row in BUSY(account=account.pk, chat=chat, user=user.pk)}
    if "" not in busy:
        return ""
    lanes = (str(number) for number in range(2, settings.MAX_STREAMS_PER_USER + 1))
    return next((each for each in lanes if each not in busy), "")
