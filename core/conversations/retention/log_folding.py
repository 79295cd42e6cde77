"""Event logs of runs that ended a while ago: neighbouring parts of a text become one row.

Nothing is lost, whatever a reader has seen (decision 217). Behind a mark in the installation's row:
the runs up to it are done.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta

from django.conf import settings
from django.db.models import Q, QuerySet

from core.conversations import events
from core.conversations.event_codec import encode, join_last
from core.conversations.events import Numbered
from core.conversations.retention.event_logs import MOST_EVENTS, within
from core.conversations.retention.passes import LOCK, Counts, among
from core.database.transactions import atomic_write, lock_until_commit
from core.models import Installation, Run, RunEvent

JOINED = "joined event rows"
AT_ONCE = 5  # of SQLite: some 5 ms of a lock


@dataclass(frozen=True, slots=True)
class Mark:
    """The end and the id of the last run that is done; without an end there is none."""

    at: datetime | None = None
    run: int = 0


@dataclass(frozen=True, slots=True)
class Join:
    """Neighbouring rows of a run that become one: ``last`` with all their text. ``first`` is the
    number of the first one, ``gone`` how many are removed.
    """

    run: int
    first: int
    last: Numbered
    gone: int


def fold(*, now: datetime) -> Iterator[Counts]:
    """Fold the logs that are due; yield after each transaction how many rows it removed.

    Ends early when another worker moves the mark. All that is done stays done.
    """
    if not settings.EVENT_FOLD_DAYS:
        return
    before = now - timedelta(days=settings.EVENT_FOLD_DAYS)
    mark = brought_back(stored(), before)
    while ends := dict(due(mark, before).values_list("pk", "finished_at")[:AT_ONCE]):
        runs = within(list(ends))
        following = Mark(ends[runs[-1]], runs[-1])
        parts = list(in_parts(runs))
        for number, part in enumerate(parts, start=1):
            with atomic_write():
                lock_until_commit(LOCK)
                if stored() != mark:
                    return
                counts = carry_out(part)
                if number == len(parts):
                    store(following)
            yield counts
        mark = following


def due(mark: Mark, before: datetime) -> QuerySet[Run]:
    """Return the runs that ended between the mark and ``before``, except condensed ones."""
    rows = Run.objects.filter(finished_at__lt=before, condensed_at__isnull=True)
    if mark.at is not None:
        rows = rows.filter(finished_at__gte=mark.at)
        rows = rows.filter(Q(finished_at__gt=mark.at) | Q(pk__gt=mark.run))
    return rows.order_by("finished_at", "pk")


def stored() -> Mark:
    row = Installation.objects.filter(pk=1).values_list("folded_until", "folded_run").first()
    return Mark(*row) if row else Mark()


def store(mark: Mark) -> None:
    Installation.objects.update_or_create(
        pk=1, defaults={"folded_until": mark.at, "folded_run": mark.run}
    )


def brought_back(mark: Mark, before: datetime) -> Mark:
    """Return the mark, not beyond ``before``: the clock or the setting may have changed."""
    if mark.at is None or mark.at <= before:
        return mark
    with atomic_write():
        store(Mark(before))
    return Mark(before)


def in_parts(runs: list[int]) -> Iterator[list[Join]]:
    """Yield the joins of these runs, so many at once as one transaction carries out; at least once.

    Read without a lock: the log of a run that has ended does not grow.
    """
    part: list[Join] = []
    for join in (join for run in runs for join in joins_of(run, events.whole_log(run))):
        part.append(join)
        if sum(each.gone for each in part) >= MOST_EVENTS:
            yield part
            part = []
    yield part


def joins_of(run: int, log: list[Numbered]) -> list[Join]:
    """Return what can be joined in a log: neighbouring parts of a text."""
    kept: list[Numbered] = []
    numbers: list[list[int]] = []  # of the rows in each of ``kept``
    for pair in log:
        join_last(kept, pair)
        if len(numbers) < len(kept):
            numbers.append([])
        numbers[-1].append(pair[0])
    return [
        Join(run, rows[0], last, len(rows) - 1)
        for last, rows in zip(kept, numbers, strict=True)
        if len(rows) > 1
    ]


def carry_out(joins: list[Join]) -> Counts:
    """Join rows of the runs that are still there and not condensed. In a transaction."""
    runs = Run.objects.filter(condensed_at__isnull=True)
    there = set(among(runs, sorted({each.run for each in joins})).values_list("pk", flat=True))
    removed = 0
    for join in joins:
        if join.run in there:
            number, event = join.last
            rows = RunEvent.objects.filter(run_id=join.run)
            rows.filter(seq=number).update(data=encode(event))
            removed += rows.filter(seq__gte=join.first, seq__lt=number).delete()[0]
    return {JOINED: removed}
