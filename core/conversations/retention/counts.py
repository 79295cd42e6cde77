"""How many rows the owner's rules would remove: asked for, counted by a worker, stored.

A count of a large table takes seconds, so that no page counts.

    ask ─► take (one worker, one rule) ─► store ─► shown until it is asked for again
              └─ a worker that ends meanwhile: the rule is taken again after LEASE
"""

from datetime import datetime, timedelta

from django.db.models import DateTimeField, Q

from core.conversations.retention.passes import Counts
from core.database.queries import Instances, Param
from core.database.transactions import atomic_write_statement
from core.models import RetentionRule

LEASE = timedelta(minutes=10)
LIMITS = Q(days__isnull=False) | Q(newest__isnull=False)

# A time in the future is of a clock that was set back.
TO_COUNT = Instances(
    lambda: (
        RetentionRule.objects.filter(LIMITS, counts__isnull=True)
        .exclude(
            counted_at__gte=Param("oldest", DateTimeField()),
            counted_at__lte=Param("now", DateTimeField()),
        )
        .order_by("id")[:1]
    )
)


def ask() -> None:
    """Have all rules counted again."""
    with atomic_write_statement():
        RetentionRule.objects.update(counts=None, counted_at=None)


def take(*, now: datetime) -> RetentionRule | None:
    """Take a rule that is to be counted; None without one, or when another worker has taken it."""
    found = TO_COUNT.first(oldest=now - LEASE, now=now)
    if found is None:
        return None
    same = RetentionRule.objects.filter(
        pk=found.pk, counts__isnull=True, counted_at=found.counted_at
    )
    with atomic_write_statement():
        return found if same.update(counted_at=now) else None


def store(counts: Counts, *, rule: RetentionRule, taken_at: datetime) -> None:
    """Store what was counted, unless it was asked for again meanwhile."""
    with atomic_write_statement():
        RetentionRule.objects.filter(pk=rule.pk, counted_at=taken_at).update(counts=counts)
