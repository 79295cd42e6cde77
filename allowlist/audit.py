"""The audit trail: append-only rows, each with a digest over itself and the previous digest.

:func:`check` finds a change, a removal or a swap of rows inside the chain. Rows cut off at the end
leave a valid chain: to detect that, keep the last digest elsewhere (``audit_verify`` prints it and
accepts it as ``--anchor``).

Texts of a person who is forgotten (decision 206), and old ones by a rule of the owner (205), are
blanked. Such a row keeps its digest; a later row, BLANKED, has the digest of what is left of it.
"""

import hashlib
import json
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import partial

from django.contrib.auth.models import AnonymousUser
from django.db.models import Model

from allowlist.models import AuditEntry
from core.database import transactions
from core.lib.text import clean, is_number
from core.models import User

# A number that no other advisory lock uses: "audit" in ASCII.
CHAIN_LOCK = 0x6175646974
BLANKED = "audit.blanked"
BLANKED_AT_ONCE = 100
# The number of a row, at the beginning of an actor or a subject; senders are no rows.
NUMBER = re.compile(r"(?!(?:im|email|phone|any):)[a-z_]+:[0-9]+(?![^ ])", re.ASCII)


@dataclass(frozen=True, slots=True)
class Check:
    """The result of reading the chain; ``blanked``: how many rows have blanked texts."""

    broken: int | None
    rows: int
    last: str
    anchored: bool
    blanked: int = 0


def actor_of(user: User | AnonymousUser) -> str:
    """Return a user as the ``actor`` of a row; the number stays when the user is renamed."""
    return f"user:{user.pk} {user}"


def record(
    *,
    actor: str,
    action: str,
    subject: str = "",
    data: dict[str, object] | None = None,
    now: datetime,
) -> AuditEntry:
    """Append a row, in the caller's transaction when there is one.

    ``data`` holds JSON values and no secrets. Writers queue at the end of the chain, so call it
    last in a transaction.
    """
    with transactions.atomic_write():
        transactions.lock_until_commit(CHAIN_LOCK)
        previous = AuditEntry.objects.order_by("-id").values_list("digest", flat=True).first()
        entry = AuditEntry(
            # Milliseconds: JSON, in which `dumpdata` moves rows, keeps no more.
            at=now.astimezone(UTC).replace(microsecond=now.microsecond // 1000 * 1000),
            actor=clean(actor)[:200],
            action=action[:64],
            subject=clean(subject)[:400],
            data=_storable(data or {}),
            previous=previous or "",
        )
        entry.digest = digest(entry)
        entry.save(force_insert=True)
    return entry


def record_row(
    row: Model, action: str, *, by: User | AnonymousUser, data: dict[str, object], now: datetime
) -> None:
    """Append a row about a row of another table: its kind, number and name."""
    about(row, action, by=by, data=data, now=now)()


def about(
    row: Model, action: str, *, by: User | AnonymousUser, data: dict[str, object], now: datetime
) -> Callable[[], AuditEntry]:
    """Return a call that appends it later, with the number and the name that the row has now."""
    kind = row._meta.model_name
    return partial(
        record,
        actor=actor_of(by),
        action=f"{kind}.{action}",
        subject=f"{kind}:{row.pk} {row}",
        data=data,
        now=now,
    )


def blank(edit: Callable[[AuditEntry], bool], *, actor: str, now: datetime) -> int:
    """Blank texts of rows; return how many.

    ``edit`` changes actor, subject and data of an unsaved copy, and returns whether it did. A row
    that was altered before is blanked, but stays broken. In short transactions; idempotent when
    ``edit`` is.
    """
    done, last = 0, 0
    while rows := list(AuditEntry.objects.filter(pk__gt=last).order_by("id")[:BLANKED_AT_ONCE]):
        last = rows[-1].pk
        intact = intact_of(rows)
        if changed := [row for row in rows if edit(row)]:
            store_blanked(changed, intact, actor=actor, now=now)
            done += len(changed)
    return done


def number_of(text: str) -> str:
    """Return the number of a row, such as ``user:5``, at the beginning of ``text``; else ""."""
    found = NUMBER.match(text)
    return found[0] if found else ""


def intact_of(rows: list[AuditEntry]) -> set[int]:
    """Return the ids of those of ``rows`` that are as they were written or left."""
    intact = {row.pk for row in rows if digest(row) == row.digest}
    if len(intact) < len(rows):
        known = attested()
        intact |= {row.pk for row in rows if is_intact(row, known)}
    return intact


def store_blanked(rows: list[AuditEntry], intact: set[int], *, actor: str, now: datetime) -> None:
    """Store what is left of ``rows``, with the row that says so; ``intact``: see
    :func:`intact_of`, before they were changed.
    """
    left: dict[str, object] = {str(row.pk): digest(row) for row in rows if row.pk in intact}
    with transactions.atomic_write():
        transactions.lock_until_commit(CHAIN_LOCK)
        for row in rows:
            values = {"actor": row.actor, "subject": row.subject, "data": row.data}
            AuditEntry.objects.filter(pk=row.pk).update(**values)
        record(actor=actor, action=BLANKED, data={"rows": left, "last": rows[-1].pk}, now=now)


def attested() -> dict[int, str]:
    """Return the digest of what is left of each blanked row, by id, as the latest row about it
    says; that one must come after it.
    """
    found: dict[int, str] = {}
    told = AuditEntry.objects.filter(action=BLANKED).order_by("id")
    for pk, data in told.values_list("id", "data"):
        rows = data.get("rows") if isinstance(data, dict) else None
        if isinstance(rows, dict):
            before = [each for each in rows if is_number(each) and int(each) < pk]
            found |= {int(each): str(rows[each]) for each in before}
    return found


def check(*, anchor: str = "") -> Check:
    """Read the whole chain; ``anchor`` is a digest that must still be part of it."""
    previous, rows, blanked, anchored = "", 0, 0, not anchor
    known = attested()
    for entry in AuditEntry.objects.order_by("id").iterator(chunk_size=1000):
        rows += 1
        if entry.previous != previous or not is_intact(entry, known):
            return Check(entry.pk, rows, previous, anchored, blanked)
        blanked += entry.pk in known
        previous = entry.digest
        anchored = anchored or previous == anchor
    return Check(None, rows, previous, anchored, blanked)


def is_intact(entry: AuditEntry, known: dict[int, str]) -> bool:
    """Return whether ``entry`` is as it was written, or as blanking left it."""
    return matches(entry, known.get(entry.pk, entry.digest))


def matches(entry: AuditEntry, wanted: str) -> bool:
    """Return whether the digest of ``entry`` is ``wanted``.

    Rows of earlier versions were hashed with microseconds, which JSON dumps cut to milliseconds:
    for those, try each of the thousand possible times.
    """
    if digest(entry) == wanted:
        return True
    at = entry.at
    if at.microsecond % 1000:
        return False
    moments = (at + timedelta(microseconds=each) for each in range(1, 1000))
    return any(digest(entry, at=each) == wanted for each in moments)


def digest(entry: AuditEntry, *, at: datetime | None = None) -> str:
    """Return SHA-256, in hexadecimal, over every column of ``entry``; ``at`` replaces its time."""
    body = {name: value for name, value in as_dict(entry).items() if name not in {"id", "digest"}}
    if at is not None:
        body["at"] = moment(at)
    text = json.dumps(body, sort_keys=True, ensure_ascii=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()


def moment(at: datetime) -> str:
    """Format a time for the digest: UTC, microseconds."""
    return at.astimezone(UTC).isoformat(timespec="microseconds")


def as_dict(entry: AuditEntry) -> dict[str, object]:
    """Return ``entry`` as JSON values; ``at`` in UTC with microseconds."""
    return {
        "id": entry.pk,
        "at": moment(entry.at),
        "actor": entry.actor,
        "action": entry.action,
        "subject": entry.subject,
        "data": entry.data,
        "previous": entry.previous,
        "digest": entry.digest,
    }


def lines(*, after: int = 0) -> Iterator[str]:
    """Yield the rows after id ``after``, a JSON object per line, for an export."""
    for entry in AuditEntry.objects.filter(pk__gt=after).order_by("id").iterator(chunk_size=1000):
        yield json.dumps(as_dict(entry), sort_keys=True, ensure_ascii=True)


def _storable(data: dict[str, object]) -> dict[str, object]:
    """Return ``data`` as any database will return it; non-JSON values become text."""
    stored: dict[str, object] = json.loads(json.dumps(_clean(data), default=str))
    return stored


def _clean(value: object) -> object:
    if isinstance(value, str):
        return clean(value)
    if isinstance(value, float):
        return str(value)
    if isinstance(value, dict):
        return {clean(str(name)): _clean(inner) for name, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_clean(inner) for inner in value]
    return value
