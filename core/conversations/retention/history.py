"""Messages that are due, with their runs: a question goes with its answer.

A run goes when all of its messages are due, in one transaction with them, with the messages that
were received for it, its event log, deliveries, jobs and calls of tools. Model calls stay.
"""

from datetime import datetime
from functools import partial
from typing import Any

from django.db.models import Exists, OuterRef, Q, QuerySet, Subquery

from core.conversations.retention import rules
from core.conversations.retention.event_logs import within
from core.conversations.retention.open_runs import open_run
from core.conversations.retention.passes import Counts, Selection, Selections, among, of_table
from core.conversations.retention.rules import LEAST_AGE, Columns
from core.models import ChatSession, InboundMessage, Message, RetentionRule, Run, RunEvent

SAID = Columns("session__user", "session__account", "run__assistant_id")
RECEIVED = Columns("user", "account", "")
TALKS = Columns("user", "account", "")
AT_ONCE = 50
READ = 1000
PAGE = 200
MESSAGES, INBOUND, RUNS = "messages", "received messages", "runs"


def selections(rule: RetentionRule, now: datetime) -> Selections:
    """Yield the messages that are due by a rule, and those received that never had a run."""
    if rule.newest is not None:
        yield from beyond_newest(rule, now)
        return
    before = rules.cutoff(rule, now)
    yield said(due(rule, now, Q(created_at__lt=before)).order_by("created_at"))
    yield of_table(INBOUND, alone(rule, before), most=AT_ONCE)


def due(rule: RetentionRule, now: datetime, is_old: Q) -> QuerySet[Message]:
    """Return the messages that are old, in whole runs that are not open."""
    rows = Message.objects.filter(rules.scope(rule, SAID), is_old)
    newer = Message.objects.filter(~is_old, run=OuterRef("run"))
    return rows.exclude(Exists(newer)).exclude(open_run(now))


def alone(rule: RetentionRule, before: datetime) -> QuerySet[InboundMessage]:
    """Return the answered messages from before then that never had a run, such as commands."""
    rows = InboundMessage.objects.filter(
        rules.scope(rule, RECEIVED),
        run__isnull=True,
        state=InboundMessage.State.ANSWERED,
        received_at__lt=before,
    )
    return rows.exclude(ack=InboundMessage.Ack.SHOWN).order_by("id")


def beyond_newest(rule: RetentionRule, now: datetime) -> Selections:
    """Yield for each conversation the messages before its newest ones."""
    of_assistant = rule.assistant_id is not None  # looked for in any conversation
    whose = (rules.without_own if of_assistant else rules.scope)(rule, TALKS)
    talks = ChatSession.objects.filter(whose)
    own = Message.objects.filter(session=OuterRef("pk")).order_by("-id")
    most = rule.newest or 0
    surplus = own.values("id", "created_at")[most : most + 1]
    last = 0
    while page := list(
        talks.filter(pk__gt=last)
        .order_by("pk")
        .values_list("pk", Subquery(surplus.values("id")), Subquery(surplus.values("created_at")))[
            :PAGE
        ]
    ):
        yield None
        for pk, bound, at in page:
            if bound is not None:
                before = min(at, now - LEAST_AGE)
                is_old = Q(id__lte=bound, created_at__lt=now - LEAST_AGE)
                yield said(due(rule, now, is_old).filter(session=pk).order_by("id"))
                heard = alone(rule, before).filter(session=pk)
                yield of_table(INBOUND, heard, most=AT_ONCE)
        last = page[-1][0]


def said(rows: QuerySet[Message]) -> Selection:
    """Return the selection of these messages, with their runs."""
    return Selection(going(rows), Batches(rows).next, partial(remove, rows))


def going(rows: QuerySet[Message]) -> dict[str, QuerySet[Any]]:
    """Return messages, their runs, and the messages that were received for these."""
    runs = rows.order_by().values("run")
    return {
        MESSAGES: rows,
        RUNS: Run.objects.filter(pk__in=runs),
        INBOUND: InboundMessage.objects.filter(run__in=runs),
    }


class Batches:
    """Messages for one transaction after the other, read many at once: each read sorts all."""

    def __init__(self, rows: QuerySet[Message]) -> None:
        self._rows = rows
        self._read: list[tuple[int, int | None]] = []

    def next(self) -> list[int]:
        """Return the next messages: of runs whose logs one transaction may remove, and of none."""
        if not self._read:
            self._read = list(self._rows.values_list("pk", "run_id")[:READ])
        first = self._read[:AT_ONCE]
        runs = set(within(list({run: None for _, run in first if run is not None})))
        found = [pk for pk, run in first if run is None or run in runs]
        taken = set(found)
        self._read = [(pk, run) for pk, run in self._read if pk not in taken and run not in runs]
        return found


def remove(rows: QuerySet[Message], ids: list[int]) -> Counts:
    """Remove those of these messages that are still due, and the whole of their runs."""
    found = list(among(rows, ids).values_list("pk", "run_id", "session_id"))
    runs = {run for _, run, _ in found if run is not None}
    alone = [pk for pk, run, _ in found if run is None]
    said = Message.objects.filter(run__in=runs).delete()[0]
    said += Message.objects.filter(pk__in=alone).delete()[0]
    heard = InboundMessage.objects.filter(run__in=runs).delete()[0]
    RunEvent.objects.filter(run__in=runs).delete()
    Run.objects.filter(pk__in=runs).delete()
    # A title is made of the first message.
    emptied = ChatSession.objects.filter(pk__in={session for _, _, session in found})
    left = Message.objects.filter(session=OuterRef("pk"))
    emptied.exclude(Exists(left)).exclude(title="").update(title="")
    return {MESSAGES: said, RUNS: len(runs), INBOUND: heard}
