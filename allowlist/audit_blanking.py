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

AT_ONCE = 100
TEXTS = "audit texts"


def selections(rule: RetentionRule, now: datetime) -> Selections:
    """Yield the rows that are due by a rule."""
    before = rules.cutoff(rule, now)
    if before is not None:
        yield Selection(partial(count, before), partial(batch, before), partial(blank, before))


def due(before: datetime) -> QuerySet[AuditEntry]:
    """Return the rows after those that were blanked, up to the first one that is not from before.

    Rows that say what was blanked have no texts.
    """
    said = AuditEntry.objects.filter(action=audit.BLANKED).order_by("-id")
    data = said.values_list("data", flat=True).first() or {}
    rows = AuditEntry.objects.filter(id__gt=int(data.get("last", 0))).order_by("id")
    young = rows.filter(at__gte=before).values_list("id", flat=True).first()
    return rows if young is None else rows.filter(id__lt=young)


def count(before: datetime) -> Counts:
    return {TEXTS: due(before).exclude(action=audit.BLANKED).count()}


def batch(before: datetime) -> list[int]:
    """Return the next rows; none when there is no text among those that are due."""
    if not due(before).exclude(action=audit.BLANKED).exists():
        return []
    return list(due(before).values_list("id", flat=True)[:AT_ONCE])


def blank(before: datetime, ids: list[int]) -> Counts:
    """Blank those of these rows that are still due, and record it. In a transaction."""
    rows = list(due(before).filter(id__in=ids).select_for_update())
    if not rows:
        return {TEXTS: 0}
    texts = [row for row in rows if row.action != audit.BLANKED]
    for row in texts:
        row.actor, row.subject = audit.numbered(row.actor), audit.numbered(row.subject)
        row.data = {}
    AuditEntry.objects.bulk_update(texts, ["actor", "subject", "data"])
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
