"""Blank the texts of old rows of the audit, by a rule of the owner (decision 205).

The time, the action, the numbers of the rows that it was about, and both digests stay.
"""

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
ACTOR, TEXTS = "retention", "audit texts"


def selections(rule: RetentionRule, now: datetime) -> Selections:
    """Yield the rows that are due by a rule: those before the first one that is not."""
    recent = unblanked().filter(at__gte=rules.cutoff(rule, now))
    young = recent.values_list("id", flat=True).first()
    yield Selection({TEXTS: due(young)}, partial(batch, young), blank)


def unblanked() -> QuerySet[AuditEntry]:
    """Return the rows after those that were blanked by a rule, in order."""
    said = AuditEntry.objects.filter(action=audit.BLANKED, actor=ACTOR).order_by("-id")
    data = said.values_list("data", flat=True).first() or {}
    return AuditEntry.objects.filter(id__gt=data.get("last", 0)).order_by("id")


def due(young: int | None) -> QuerySet[AuditEntry]:
    """Return the rows to blank: those before the first young one, except rows about blanking."""
    rows = unblanked().exclude(action=audit.BLANKED)
    return rows if young is None else rows.filter(id__lt=young)


def batch(young: int | None) -> list[int]:
    """Return the next rows."""
    return list(due(young).values_list("id", flat=True)[:AT_ONCE])


def blank(ids: list[int]) -> Counts:
    """Blank those of these rows that are not yet, and record it. In a transaction."""
    rows = list(due(None).filter(id__in=ids).select_for_update())
    if rows:
        intact = audit.intact_of(rows)
        for row in rows:
            row.actor, row.subject = audit.number_of(row.actor), audit.number_of(row.subject)
            row.data = {}
        audit.store_blanked(rows, intact, actor=ACTOR, now=timezone.now())
    return {TEXTS: len(rows)}
