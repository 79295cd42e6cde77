"""Event logs of runs that are due: each is condensed to its answer."""

from datetime import datetime
from functools import partial

from django.db.models import QuerySet
from django.db.models.functions import Now

from core.conversations import events
from core.conversations.event_codec import encode
from core.conversations.retention import rules
from core.conversations.retention.log_condensing import condensed
from core.conversations.retention.open_runs import is_open
from core.conversations.retention.passes import Counts, Selection, Selections, among
from core.conversations.retention.rules import Columns
from core.models import RetentionRule, Run, RunEvent

COLUMNS = Columns("user", "session__account", "assistant_id")
AT_ONCE = 10
MOST_EVENTS = 300  # of one transaction; a longer log is alone in one
LOGS = "event logs"


def selections(rule: RetentionRule, now: datetime) -> Selections:
    """Yield the runs whose logs are due by a rule."""
    rows = due(rule, now)
    yield Selection({LOGS: rows}, partial(batch, rows), partial(condense, rows))


def due(rule: RetentionRule, now: datetime) -> QuerySet[Run]:
    """Return the runs that are over and whose logs are not condensed."""
    before = rules.cutoff(rule, now)
    rows = Run.objects.filter(finished_at__lt=before, condensed_at__isnull=True)
    rows = rows.filter(rules.scope(rule, COLUMNS))
    return rows.exclude(is_open(now)).order_by("finished_at")


def batch(rows: QuerySet[Run]) -> list[int]:
    """Return the next runs, with at most MOST_EVENTS events in all."""
    return within(list(rows.values_list("pk", flat=True)[:AT_ONCE]))


def within(run_ids: list[int]) -> list[int]:
    """Return the first of these runs, with at most MOST_EVENTS events in all; at least one."""
    left, chosen = MOST_EVENTS, list[int]()
    for pk in run_ids:
        left -= RunEvent.objects.filter(run_id=pk).count()
        if chosen and left < 0:
            break
        chosen.append(pk)
    return chosen


def condense(rows: QuerySet[Run], ids: list[int]) -> Counts:
    """Cut the logs of those of these runs that are still due."""
    mine = list(among(rows, ids).values_list("pk", flat=True))
    for pk in mine:
        log = dict(events.whole_log(pk))
        kept = dict(condensed(log.items()))
        RunEvent.objects.filter(run_id=pk).exclude(seq__in=kept).delete()
        for number, event in kept.items():
            if event is not log[number]:
                RunEvent.objects.filter(run_id=pk, seq=number).update(data=encode(event))
    Run.objects.filter(pk__in=mine).update(condensed_at=Now())
    return {LOGS: len(mine)}
