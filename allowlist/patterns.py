"""Block patterns: deny senders by their address, so that a flood causes no rows and no notices.

A pattern is checked after the rule has denied a sender; listed senders are never affected.
"""

import fnmatch
import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from functools import lru_cache

from django.db.models import F, Q

from allowlist import audit, held_messages, pending_count
from allowlist.models import BlockPattern, UnknownRequest
from core.database import transactions
from core.database.queries import Values
from core.models import ChannelAccount, User

MOST = 200
MOST_GROUPS = 100
FEWEST_LITERALS = 2
ANY = Values(lambda: BlockPattern.objects.values_list("id")[:1])


class InvalidPattern(ValueError):
    """The value cannot be a pattern; the text gives the reason."""


def check(pattern: str) -> str:
    """Return ``pattern`` trimmed. Raises InvalidPattern for one that matches nearly everything."""
    trimmed = pattern.strip()
    if len(trimmed.replace("*", "").replace("?", "")) < FEWEST_LITERALS:
        raise InvalidPattern("A pattern needs at least two characters other than * and ?.")
    return trimmed


def matches(pattern: str, sender: str) -> bool:
    """Return whether ``pattern`` with ``*`` and ``?`` matches ``sender``, ignoring case."""
    return _compiled(pattern).match(sender.casefold()) is not None


def hit(*, account: ChannelAccount, kind: str, sender: str, now: datetime) -> bool:
    """Return whether a pattern denies this sender, and count the hit. In a transaction."""
    row = _first(account.pk, kind, sender) if ANY() else None
    if row is not None:
        BlockPattern.objects.filter(pk=row.pk).update(hits=F("hits") + 1, last_hit_at=now)
    return row is not None


def of(row: UnknownRequest) -> BlockPattern | None:
    """Return the pattern that denies the sender of a request."""
    return _first(row.account_id, row.kind, row.sender)


def _first(account_id: int, kind: str, sender: str) -> BlockPattern | None:
    here = Q(account=None) | Q(account_id=account_id)
    rows = BlockPattern.objects.filter(here, kind__in=("", kind)).order_by("id")[:MOST]
    return next((each for each in rows if matches(each.pattern, sender)), None)


def apply(*, pattern: BlockPattern, owner: User, now: datetime) -> list[UnknownRequest]:
    """Deny the pending requests that match ``pattern``; return them.

    They are denied, not blocked: the pattern keeps the senders out, and denied rows are dropped
    first.
    """
    with transactions.atomic_write():
        waits = UnknownRequest.objects.filter(state=UnknownRequest.State.PENDING)
        matching = [
            row.pk
            for row in waits.order_by("id")
            if _is_for(pattern, row) and matches(pattern.pattern, row.sender)
        ]
        # Another owner may have decided one since.
        locked = waits.filter(pk__in=matching).select_for_update(of=("self",))
        found = list(locked.select_related("account").order_by("id"))
        waits.filter(pk__in=[row.pk for row in found]).update(
            state=UnknownRequest.State.DENIED,
            decided_at=now,
            decided_by=owner,
            decided_via="pattern",
            last_text="",
        )
        for row in found:
            held_messages.empty(held_messages.of(row), "the sender matches a block pattern")
        if found:
            pending_count.changed()
        data: dict[str, object] = {"denied": len(found)}
        audit.record(
            actor=audit.actor_of(owner),
            action="pattern.applied",
            subject=str(pattern),
            data=data,
            now=now,
        )
    return found


def suggestion(row: UnknownRequest) -> str:
    """Return a pattern for similar senders: the domain, the country code, or the address itself."""
    if row.kind == "email" and "@" in row.sender:
        return f"*@{row.sender.rpartition('@')[2]}"
    if row.kind == "phone":
        return f"{row.sender[:6]}*"
    return row.sender.replace("*", "?")  # no wish of the sender's, who may have chosen it


@dataclass(slots=True)
class Group:
    """Pending senders with a common property; ``pattern`` would deny them, empty if none fits."""

    label: str
    query: str
    kind: str = ""
    pattern: str = ""
    senders: int = 0
    messages: int = 0
    last_seen_at: datetime | None = None


def groups() -> list[Group]:
    """Group the pending requests by origin and by last message; the biggest groups first."""
    found: dict[tuple[str, str], Group] = {}
    waits = UnknownRequest.objects.filter(state=UnknownRequest.State.PENDING)
    for row in waits.only("kind", "sender", "last_text", "count", "last_seen_at").iterator():
        for group in _groups_of(row):
            kept = found.setdefault((group.kind, group.label), group)
            kept.senders += 1
            kept.messages += row.count
            kept.last_seen_at = max(kept.last_seen_at or row.last_seen_at, row.last_seen_at)
    many = [group for group in found.values() if group.senders > 1]
    return sorted(many, key=lambda group: (-group.senders, group.label))[:MOST_GROUPS]


def _groups_of(row: UnknownRequest) -> Iterator[Group]:
    pattern = suggestion(row)
    if pattern != row.sender:
        yield Group(pattern, pattern.strip("*"), row.kind, pattern)
    if row.last_text:
        yield Group(f"“{row.last_text}”", '"' + row.last_text.replace('"', " ") + '"')


def _is_for(pattern: BlockPattern, row: UnknownRequest) -> bool:
    return pattern.kind in {"", row.kind} and pattern.account_id in {None, row.account_id}


@lru_cache(maxsize=MOST)
def _compiled(pattern: str) -> re.Pattern[str]:
    # Brackets are letters here; Python's translation of * cannot run away (atomic groups).
    return re.compile(fnmatch.translate(pattern.casefold().replace("[", "[[]")))
