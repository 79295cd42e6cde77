"""Blank the texts of old rows of the audit, by a rule of the owner (decision 205).

The time, the action, the numbers of the rows that it was about, and both digests stay.
"""

import hashlib
from datetime import datetime
from functools import partial

from django.db.models import QuerySet
from django.utils import timezone

from allowlist import audit
from allowlist.models import AuditEntry
from core.conversations.retention import rules
from core.conversations.retention.passes import Counts, Selection, Selections
from core.models import RetentionRule

AT_ONCE = 40
TEXTS = "audit texts"


def selections(rule: RetentionRule, now: datetime) -> Selections:
    """Yield the rows that are due by a rule: those before the first one that is not."""
    before = rules.cutoff(rule, now)
    if before is not None:
        young = unblanked().filter(at__gte=before).values_list("id", flat=True).first()
        yield Selection(partial(count, young), partial(batch, young), blank)


def unblanked() -> QuerySet[AuditEntry]:
    """Return the rows after those that were blanked, in order."""
    said = AuditEntry.objects.filter(action=audit.BLANKED).order_by("-id")
    data = said.values_list("data", flat=True).first() or {}
    return AuditEntry.objects.filter(id__gt=int(data.get("last", 0))).order_by("id")


def due(young: int | None) -> QuerySet[AuditEntry]:
    """Return the rows that are not blanked, before the id of the first young one."""
    return unblanked() if young is None else unblanked().filter(id__lt=young)


def count(young: int | None) -> Counts:
    """Count the rows with texts: those that say what was blanked have none."""
    return {TEXTS: due(young).exclude(action=audit.BLANKED).count()}


def batch(young: int | None) -> list[int]:
    """Return the next rows; none when there is no text among those that are due."""
    if not due(young).exclude(action=audit.BLANKED).exists():
        return []
    return list(due(young).values_list("id", flat=True)[:AT_ONCE])


def blank(ids: list[int]) -> Counts:
    """Blank those of these rows that are not yet, and record it. In a transaction."""
    rows = list(unblanked().filter(id__in=ids).select_for_update())
    if not rows:
        return {TEXTS: 0}
    texts = [row for row in rows if row.action != audit.BLANKED]
    for row in texts:
        row.actor, row.subject = audit.numbered(row.actor), audit.numbered(row.subject)
        row.data = {}
        row.save(update_fields=["actor", "subject", "data"])
    total = hashlib.sha256()
    for row in rows:
        total.update(audit.line(row))
    audit.record(
        actor="retention",
        action=audit.BLANKED,
        data={"first": rows[0].pk, "last": rows[-1].pk, "digest": total.hexdigest()},
        now=timezone.now(),
    )
    return {TEXTS: len(texts)}
