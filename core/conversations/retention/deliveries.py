"""Deliveries that are due: those that were sent, given up or dismissed."""

from datetime import datetime

from django.db.models import Q

from core.conversations.retention import rules
from core.conversations.retention.open_runs import open_run
from core.conversations.retention.passes import Selections, of_table
from core.conversations.retention.rules import Columns
from core.models import Delivery, RetentionRule

COLUMNS = Columns("session__user", "account", "run__assistant_id")
AT_ONCE = 200
DELIVERIES = "deliveries"
State = Delivery.State
# So that SQLite takes the index by time: by that of states it sorted all sent ones for each batch.
ENDED = ~Q(state__in=(State.PENDING, State.SENDING, State.UNCERTAIN))
# Few: they have no time of sending, and the index by state finds them.
UNSENT = Q(state__in=(State.DEAD, State.DISMISSED), sent_at__isnull=True)


def selections(rule: RetentionRule, now: datetime, *, besides: Q) -> Selections:
    """Yield the deliveries that are due by a rule: of runs, and those ``besides``."""
    before = rules.cutoff(rule, now)
    scope = rules.scope(rule, COLUMNS) & (Q(run__isnull=False) | besides)
    over = Delivery.objects.filter(scope).exclude(open_run(now))
    for rows in (
        over.filter(ENDED, sent_at__lt=before).order_by("sent_at"),
        over.filter(UNSENT, created_at__lt=before).order_by("id"),
    ):
        yield of_table(DELIVERIES, rows, most=AT_ONCE)
