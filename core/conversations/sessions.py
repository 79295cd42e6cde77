"""Conversations of one person: list, search, rename, delete, and their turns."""

from collections.abc import Iterable
from typing import TypeVar

from django.db.models import QuerySet
from django.utils import timezone

from core.conversations import runs
from core.database import dependents, text_search
from core.database.transactions import after_commit, atomic_write
from core.files import storage
from core.lib.text import one_line
from core.models import ChatSession, Message, Run, StoredFile, User
from core.signals import pubsub

TITLE_CHARACTERS = 200
EXCERPT_BEFORE, EXCERPT_CHARACTERS = 10, 90
# Read without an index: chats, and the last messages of each.
SEARCHED_CHATS, SEARCHED, SEARCHED_FOR_SHORT = 200, 200, 1000

M = TypeVar("M", bound=Message)


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
    title). Ignores case, in every script. The last messages of the latest chats are read; earlier
    ones are found by an index, which knows no words of one or two characters: for those, more are
    read.
    """
    mine = open_ones(user).filter(account__channel=channel)
    titles = dict(mine.values_list("id", "title"))
    hits = mentions(user_id=user.id, sessions=list(titles), words=words, limit=limit)
    found = [each for each in titles if each in hits or text_search.is_in(titles[each], words)]
    rows = list(mine.filter(id__in=found[:limit]))
    shown = Message.objects.filter(id__in=[hits[row.id] for row in rows if row.id in hits])
    said = {row.session_id: excerpt(row.shown, words) for row in shown}
    busy = at_work(rows)
    return [(each, each.id in busy, said.get(each.id, "")) for each in rows]


def mentions(*, user_id: int, sessions: list[int], words: str, limit: int) -> dict[int, int]:
    """Return the newest message with ``words`` of each of a person's ``sessions``, by session.

    The sessions come latest first; the earlier messages are not looked at when there are ``limit``
    hits without them.
    """
    is_short = len(words) < text_search.SHORTEST_INDEXED
    hits = text_search.in_newest(
        sessions=sessions[:SEARCHED_CHATS],
        words=words,
        messages=SEARCHED_FOR_SHORT if is_short else SEARCHED,
    )
    rest = [each for each in sessions if each not in hits]
    if rest and not is_short and len(hits) < limit:
        hits |= text_search.in_all(user_id=user_id, sessions=rest, words=words)
    return hits


def excerpt(text: str, words: str) -> str:
    """Return the part of ``text`` around ``words``, on one line; it begins with a whole word."""
    at = text_search.folded_place(text, words)
    start = max(0, at - EXCERPT_BEFORE)
    if start:
        start = text.find(" ", start - 1, at) + 1 or start
    return ("…" if start else "") + one_line(text[start : start + 1000], EXCERPT_CHARACTERS)


def at_work(rows: list[ChatSession]) -> set[int]:
    """Return the ids of those sessions that have an open run."""
    open_runs = Run.objects.filter(session__in=[each.id for each in rows], state__in=Run.UNFINISHED)
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
            tell_pages(session.user_id)
    return title or session.title


def mark_shortened(session: ChatSession) -> bool:
    """Record that a person is told that old messages are left out; False if it was before."""
    now = timezone.now()
    with atomic_write():
        told = ChatSession.objects.filter(pk=session.pk, shortened_at__isnull=True)
        is_first = told.update(shortened_at=now) == 1
    session.shortened_at = now
    return is_first


def delete(*, session: ChatSession) -> None:
    """Remove a session with its messages, runs, events and files; open runs are stopped first.

    In short transactions: after years there are so many that others could not write meanwhile.
    """
    for run in Run.objects.filter(session=session, state__in=Run.UNFINISHED):
        runs.request_cancel(run=run)
    stored = list(StoredFile.objects.filter(session=session))
    dependents.remove_before(session)
    # Locked first: a message that comes at this moment goes with it.
    dependents.remove(ChatSession.objects.filter(pk=session.pk))
    for file in stored:
        (storage.folder() / file.path).unlink(missing_ok=True)
    tell_pages(session.user_id)


def tell_pages(user_id: int) -> None:
    """Let a person's open pages read their list of chats again, after the commit."""
    after_commit(pubsub.publish, [{"keys": [f"user:{user_id}"], "kind": "chats"}])


def in_turns(rows: Iterable[M]) -> list[list[M]]:
    """Group rows by run, in the order of the first row of each: an answer follows its question, not
    what was asked meanwhile. A row without a run is a turn of its own.
    """
    by_run: dict[tuple[int, int], list[M]] = {}
    for row in rows:
        by_run.setdefault((row.run_id or 0, 0 if row.run_id else row.id), []).append(row)
    return list(by_run.values())
