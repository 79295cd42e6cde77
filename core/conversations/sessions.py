"""Conversations of one person: list, search, rename, delete."""

from functools import reduce
from operator import or_

from django.db.models import Q, QuerySet

from core.conversations import runs
from core.database.transactions import atomic_write
from core.files import storage
from core.lib.text import one_line
from core.models import ChatSession, Message, Run, StoredFile, User

TITLE_CHARACTERS = 200
EXCERPT_BEFORE, EXCERPT_CHARACTERS = 10, 90
SEARCHED = 500
OPEN = (Run.State.QUEUED, Run.State.RUNNING)


def of(*, user: User, channel: str, limit: int = 200) -> list[tuple[ChatSession, bool]]:
    """Return a person's open sessions on a channel, latest first, each with whether it is busy."""
    found = list(open_ones(user).filter(account__channel=channel)[:limit])
    busy = at_work(found)
    return [(each, each.id in busy) for each in found]


def search(
    *, user: User, channel: str, words: str, limit: int = 50
) -> list[tuple[ChatSession, bool, str]]:
    """Return a person's open sessions on a channel whose title or messages contain ``words``.

    Latest first, each with whether a run is open and with the words in their context (empty: in the
    title). Ignores case; SQLite does so for ASCII only, so other scripts are also looked for in
    lower case, in capitals and with a capital first.
    """
    mine = open_ones(user).filter(account__channel=channel)
    spellings = {words, words.lower(), words.upper(), words.capitalize()}
    in_text = reduce(or_, (Q(text__icontains=each) for each in spellings))
    in_title = reduce(or_, (Q(title__icontains=each) for each in spellings))
    lines = Message.objects.filter(in_text, session__in=mine, role__in=("user", "assistant"))
    said: dict[int, str] = {}
    for session_id, text in lines.order_by("-id").values_list("session_id", "text")[:SEARCHED]:
        said.setdefault(session_id, excerpt(text, words))
    found = mine.filter(in_title | Q(id__in=list(said)[:limit]))
    rows = list(found[:limit])
    busy = at_work(rows)
    return [(each, each.id in busy, said.get(each.id, "")) for each in rows]


def excerpt(text: str, words: str) -> str:
    """Return the part of ``text`` around ``words``, on one line."""
    at = max(0, text.lower().find(words.lower()))
    start = max(0, at - EXCERPT_BEFORE)
    return ("…" if start else "") + one_line(text[start : start + 1000], EXCERPT_CHARACTERS)


def at_work(rows: list[ChatSession]) -> set[int]:
    """Return the ids of those sessions that have an open run."""
    open_runs = Run.objects.filter(session__in=[each.id for each in rows], state__in=OPEN)
    return set(open_runs.values_list("session_id", flat=True))


def every(*, user: User, limit: int) -> list[ChatSession]:
    """Return a person's open sessions on all channels, latest first, with their accounts."""
    return list(open_ones(user).select_related("account")[:limit])


def open_ones(user: User) -> QuerySet[ChatSession]:
    """Return a person's open sessions, latest first."""
    rows = ChatSession.objects.filter(user=user, closed_at__isnull=True)
    return rows.order_by("-last_message_at", "-id")


def rename(*, session: ChatSession, title: str) -> str:
    """Give a session a title, cut to one line; return the new title."""
    title = one_line(title, TITLE_CHARACTERS)
    if title:
        with atomic_write():
            ChatSession.objects.filter(id=session.id).update(title=title)
    return title or session.title


def delete(*, session: ChatSession) -> None:
    """Remove a session with its messages, runs, events and files; open runs are stopped first."""
    for run in Run.objects.filter(session=session, state__in=OPEN):
        runs.request_cancel(run=run)
    with atomic_write():
        stored = list(StoredFile.objects.filter(session=session))
        session.delete()
    for file in stored:
        (storage.folder() / file.path).unlink(missing_ok=True)
