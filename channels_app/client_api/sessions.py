"""Choose the session of a request to the OpenAI API, whose clients keep the history themselves.

`X-Session-Id` is the public id of one of the person's own sessions, or any name of the client's
choice: a session of that key. Without it a key has one main session; requests that come at the same
time get parallel sessions, because runs of one session wait for each other.
"""

from django.conf import settings
from django.db.models import Exists, OuterRef

from channels_app.asgi.builtin_accounts import PROGRAMS
from channels_app.asgi.chat_messages import refused
from channels_app.asgi.fields import MAX_SESSION_NAME
from core.conversations import inbox
from core.database.queries import Instances, Param, Values
from core.models import ChannelAccount, ChatSession, Run, User

ORIGIN = PROGRAMS
HEADER = "X-Session-Id"


# The threads of a conversation in which a run is queued or running.
BUSY = Values(
    lambda: ChatSession.objects.filter(
        account_id=Param("account"),
        chat=Param("chat"),
        user_id=Param("user"),
        closed_at__isnull=True,
        runs__state__in=Run.OPEN,
    ).values_list("thread")
)
# The main session of a key, and whether it has an open run.
MAIN = Instances(
    lambda: (
        inbox.locked()
        .filter(inbox.open_here(for_agent=False))
        .annotate(is_busy=Exists(Run.objects.filter(session=OuterRef("id"), state__in=Run.OPEN)))
    )
)


def checked(name: str) -> str:
    """Return the value of the header. Raises RefusedError 400."""
    if len(name) > MAX_SESSION_NAME or not name.isascii() or not (name == "" or name.isprintable()):
        raise refused(f"must be at most {MAX_SESSION_NAME} printable ASCII characters", HEADER)
    return name


def chat_of(key_id: int) -> str:
    return f"key:{key_id}"


def named_thread(name: str) -> str:
    """Return the thread of a name that a client chose."""
    return f"={name}" if name else ""


def own(*, user: User, name: str) -> str:
    """Return ``name`` if it is the public id of an open session of this person, else ""."""
    return name if inbox.own_session(user=user, session_id=name) else ""


def free_session(
    *, account: ChannelAccount, chat: str, user: User
) -> tuple[str, ChatSession | None]:
    """Return the first thread of ``chat`` without an open run, and its session.

    The session is None where it is not known or does not exist yet; else it is locked as
    :func:`core.conversations.inbox.session_here` locks it. Inside a transaction. A run that another
    process stores in the same moment may not be seen: the two runs then take turns.
    """
    main = MAIN.first(account=account.pk, chat=chat, thread="", user=user.pk)
    if main is None:
        return "", None
    if main.is_busy:  # type: ignore[attr-defined]  # an annotation
        return parallel_thread(account=account, chat=chat, user=user), None
    main.user, main.account = user, account  # saves two queries
    return "", main


def parallel_thread(*, account: ChannelAccount, chat: str, user: User) -> str:
    """Return the first thread of ``chat`` without an open run; the main one when all are busy."""
    busy = {row[0] for row in BUSY(account=account.pk, chat=chat, user=user.pk)}
    if "" not in busy:
        return ""
    threads = (str(number) for number in range(2, settings.MAX_STREAMS_PER_USER + 1))
    return next((each for each in threads if each not in busy), "")
