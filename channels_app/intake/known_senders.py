"""Whose messages those are that come at the same time, and where they belong: asked at once.

    messages of one moment ─► identities of all ─► the rule, for each ─► sessions of all (locked)
                                                                         └ others ask for themselves

PostgreSQL answers each question in a visit of its own, and two of them were two thirds of what a
message of Telegram asks (docs/decisions/156).
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import takewhile

from django.db import connection
from django.utils import timezone

from allowlist import permissions
from core.conversations import inbox
from core.conversations.inbox import Draft
from core.database import statements
from core.models import ChannelAccount, ChatSession, User

# Each side repeats the conditions of a partial index.
THEIRS = """ "core_chatsession"."account_id" = %s AND "core_chatsession"."chat" = ANY(%s)
    AND "core_chatsession"."thread" = '' AND "core_chatsession"."user_id" = ANY(%s)
    AND "core_chatsession"."closed_at" IS NULL"""
MEANT = statements.Select(
    (ChatSession, ()),
    tail=f"""WHERE ({THEIRS} AND NOT "core_chatsession"."for_agent")
    OR ({THEIRS} AND "core_chatsession"."for_agent"
    AND ("core_chatsession"."own_topic" OR "core_chatsession"."reply_until" > %s))
    ORDER BY "core_chatsession"."id" """,
)


@dataclass(frozen=True, slots=True)
class KnownSender:
    """Who may speak here, and the open session that their message is meant for at ``now``; it is
    locked."""

    user: User
    session: ChatSession
    now: datetime


def may_speak(account: ChannelAccount, sender: str) -> bool:
    """Whether the rule lets a sender of a bridge in ([A1])."""
    kind = str(account.config.get("kind", "im"))
    named = permissions.Sender(account, kind, sender)
    return permissions.decide(sender=named, now=timezone.now()).allowed


def known_at_once(asked: Sequence[Draft]) -> list[KnownSender | None]:
    """Who sent each of ``asked``, messages of people by themselves outside topics; None where that
    has to be asked anew. In the transaction that stores them, in this order.

    Told are senders whom somebody lists and who have a session, up to the first message on another
    account; only the first message of each person, because it may change the answer for the next.
    On SQLite, which lives in this process, nobody is told. Raises InvalidIdentity.
    """
    told: list[KnownSender | None] = [None] * len(asked)
    if connection.vendor == "sqlite":
        return told
    account, now = asked[0].account, timezone.now()
    here = list(takewhile(lambda each: each.account.pk == account.pk, asked))
    users = listed(here, now=now)
    if not users:
        return told
    chats = {each.chat for each in here if each.sender in users}
    sessions = meant(account, chats, users.values(), now=now)
    spoke: set[int] = set()
    for place, draft in enumerate(here):
        user = users.get(draft.sender)
        if user is None or user.pk in spoke:
            continue
        spoke.add(user.pk)
        session = sessions.get((user.pk, draft.chat))
        if session is not None:
            known = inbox.known_session(session, user, account)
            told[place] = KnownSender(user, known, now)
    return told


def listed(drafts: Iterable[Draft], *, now: datetime) -> dict[str, User]:
    """The people who list the senders of ``drafts``, by sender; not those who are nobody's."""
    senders = [permissions.Sender(each.account, each.kind, each.sender) for each in drafts]
    found: dict[str, User] = {}
    for sender, rows in zip(senders, permissions.listed_at_once(senders), strict=True):
        decision = permissions.decide(sender=sender, now=now, listed=rows) if rows else None
        if decision is not None and decision.user is not None and decision.rule == "listed":
            found[sender.value] = decision.user
    return found


def meant(
    account: ChannelAccount, chats: Iterable[str], users: Iterable[User], *, now: datetime
) -> dict[tuple[int, str], ChatSession]:
    """The open sessions that what ``users`` write in ``chats`` is meant for, by user and chat: an
    agent's that listens, else the assistant's. Locked, in the order of their ids."""
    moment = statements.prepared(ChatSession, "reply_until", now)
    here = (account.pk, sorted(chats), sorted({user.pk for user in users}))
    rows = [row for (row,) in MEANT.rows(*here, *here, moment, more=inbox.locked())]
    rows.sort(key=lambda row: (not row.for_agent, row.pk), reverse=True)
    return {(row.user_id, row.chat): row for row in rows}
