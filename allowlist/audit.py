"""The audit trail: append-only rows, each with a digest over itself and the previous digest.

:func:`check` finds a change, a removal or a swap of rows inside the chain. Rows cut off at the end
leave a valid chain: to detect that, keep the last digest elsewhere (``audit_verify`` prints it and
accepts it as ``--anchor``).

The texts of old rows may be blanked by a rule of the owner (``audit_blanking``). Their digests
stay, and a later row has a digest over them as they are since: no other blank row is accepted.
"""

import hashlib
import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from django.contrib.auth.models import AnonymousUser

from allowlist.models import AuditEntry
from core.database import transactions
from core.lib.text import clean
from core.models import User

# A number that no other advisory lock uses: "audit" in ASCII.
CHAIN_LOCK = 0x6175646974
# A row that says which rows were blanked: ``first`` to ``last``, and the ``digest`` of these.
BLANKED = "audit.blanked"
# Of an actor and a subject the number of the row stays; senders are no rows.
NUMBERED = re.compile(r"(?!(?:im|email|phone|any):)[a-z_]+:[0-9]+(?![^ ])", re.ASCII)


@dataclass(frozen=True, slots=True)
class Check:
    """The result of reading the chain: the first broken id, number of rows, the last digest."""

    broken: int | None
    rows: int
    last: str
    anchored: bool


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


def check(*, anchor: str = "") -> Check:
    """Read the whole chain; ``anchor`` is a digest that must still be part of it."""
    previous, rows, anchored = "", 0, not anchor
    blanked = BlankedRows()
    for entry in AuditEntry.objects.order_by("id").iterator(chunk_size=1000):
        rows += 1
        is_right = blanked.read(entry) or is_whole(entry)
        if entry.previous != previous or not is_right or blanked.is_wrong:
            return Check(entry.pk, rows, previous, anchored)
        previous = entry.digest
        anchored = anchored or previous == anchor
    return Check(None, rows, previous, anchored)


class BlankedRows:
    """The rows that later ones say were blanked, read in the order of the chain.

    ``is_wrong``: those read are not as they were then. The later rows are checked like any other.
    """

    def __init__(self) -> None:
        said = AuditEntry.objects.filter(action=BLANKED).values_list("data", flat=True)
        self._ranges = {each["first"]: each for each in said if "first" in each}
        self._range: dict[str, object] | None = None
        self._sum = hashlib.sha256()
        self.is_wrong = False

    def read(self, entry: AuditEntry) -> bool:
        """Take the next row; return whether it may be one without its texts."""
        if entry.pk in self._ranges:
            self._range, self._sum = self._ranges[entry.pk], hashlib.sha256()
        if self._range is None:
            return False
        self._sum.update(line(entry))
        if entry.pk == self._range["last"]:
            self.is_wrong = self._sum.hexdigest() != self._range["digest"]
            self._range = None
        return is_blank(entry)


def is_blank(entry: AuditEntry) -> bool:
    """Return whether ``entry`` has no texts but the numbers of rows."""
    return entry.data == {} and all(each == numbered(each) for each in (entry.actor, entry.subject))


def numbered(text: str) -> str:
    """Return the number of a row, such as ``user:5``, at the beginning of ``text``; else ""."""
    found = NUMBERED.match(text)
    return found[0] if found else ""


def line(entry: AuditEntry) -> bytes:
    """Return every column of ``entry`` as a line of JSON."""
    return (json.dumps(as_dict(entry), sort_keys=True, ensure_ascii=True) + "\n").encode()


def is_whole(entry: AuditEntry) -> bool:
    """Return whether ``entry`` is unaltered.

    Rows of earlier versions were hashed with microseconds, which JSON dumps cut to milliseconds:
    for those, try each of the thousand possible times.
    """
    if digest(entry) == entry.digest:
        return True
    at = entry.at
    if at.microsecond % 1000:
        return False
    moments = (at + timedelta(microseconds=each) for each in range(1, 1000))
    return any(digest(entry, at=each) == entry.digest for each in moments)


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


def data_text(entry: AuditEntry) -> str:
    return json.dumps(entry.data, sort_keys=True, ensure_ascii=False)


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
