"""Conversations of one person: list, rename, delete."""

from core import files, runs
from core.db import write
from core.models import ChatSession, Run, StoredFile, User
from core.text import one_line

TITLE_CHARACTERS = 200
OPEN = (Run.State.QUEUED, Run.State.RUNNING)


def of(*, user: User, channel: str, limit: int = 200) -> list[tuple[ChatSession, bool]]:
    """A person's open sessions on a channel, latest first, each with whether it is at work."""
    found = list(
        ChatSession.objects.filter(
            user=user, account__channel=channel, closed_at__isnull=True
        ).order_by("-last_message_at", "-id")[:limit]
    )
    open_runs = Run.objects.filter(session__in=[each.id for each in found], state__in=OPEN)
    busy = set(open_runs.values_list("session_id", flat=True))
    return [(each, each.id in busy) for each in found]


def every(*, user: User, limit: int) -> list[ChatSession]:
    """A person's open sessions on all channels, latest first, with their accounts."""
    rows = ChatSession.objects.filter(user=user, closed_at__isnull=True)
    return list(rows.select_related("account").order_by("-last_message_at", "-id")[:limit])


def rename(*, session: ChatSession, title: str) -> str:
    """Give a session a title, on one line; what it is called now."""
    title = one_line(title, TITLE_CHARACTERS)
    if title:
        with write():
            ChatSession.objects.filter(id=session.id).update(title=title)
    return title or session.title


def delete(*, session: ChatSession) -> None:
    """Remove a session with its messages, runs, events and files; open runs are stopped first."""
    for run in Run.objects.filter(session=session, state__in=OPEN):
        runs.request_cancel(run=run)
    with write():
        stored = list(StoredFile.objects.filter(session=session))
        session.delete()
    for file in stored:
        (files.folder() / file.path).unlink(missing_ok=True)
