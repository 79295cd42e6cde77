"""Selections of due rows, counted by a dry run and removed in batches by a pass."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from itertools import islice
from typing import Any, TypeAlias, TypeVar

from django.db.models import Model, QuerySet

from core.conversations.retention import rules
from core.database import counting
from core.database.transactions import atomic_write, lock_until_commit
from core.models import RetentionRule

# Of PostgreSQL, among workers: "retain" in ASCII.
LOCK = 0x72657461696E
# History is last: the other kinds look at its runs. Conversations that it empties go with the next
# pass, so that a dry run counts what a pass removes.
ORDER = (
    RetentionRule.Kind.EVENTS,
    RetentionRule.Kind.FILES,
    RetentionRule.Kind.DELIVERIES,
    RetentionRule.Kind.AUDIT,
    RetentionRule.Kind.CALLS,
    RetentionRule.Kind.USAGE,
    RetentionRule.Kind.CONVERSATIONS,
    RetentionRule.Kind.MESSAGES,
)
M = TypeVar("M", bound=Model)
Counts: TypeAlias = dict[str, int]


def among(rows: QuerySet[M], ids: list[int]) -> QuerySet[M]:
    """Return those of the rows with these ids that are still due, locked.

    In the order of their ids: else SQLite would look for them among all that are due.
    """
    return rows.filter(pk__in=ids).order_by("pk").select_for_update(of=("self",))


def first_ids(rows: QuerySet[M], *, most: int) -> list[int]:
    return list(rows.values_list("pk", flat=True)[:most])


def delete(rows: QuerySet[M], ids: list[int]) -> int:
    """Delete those of the rows with these ids that are still due; return how many rows went."""
    mine = list(among(rows, ids).values_list("pk", flat=True))
    return rows.model._default_manager.filter(pk__in=mine).delete()[0]


@dataclass(frozen=True, slots=True)
class Selection:
    """Rows that are due by a rule. ``going``: all rows that go, by table, for a dry run.

    ``batch`` reads the same rows and returns the next ids, as many as one transaction may take;
    ``remove`` removes those that are still due, inside a transaction, and returns how many of each
    table.
    """

    going: dict[str, QuerySet[Any]]
    batch: Callable[[], list[int]]
    remove: Callable[[list[int]], Counts]


def of_table(
    table: str,
    rows: QuerySet[Any],
    *,
    most: int,
    remove: Callable[[QuerySet[Any], list[int]], int] = delete,
) -> Selection:
    """Return the selection of rows of one table, at most so many in a transaction. ``remove``
    removes those of them with some ids that are still due, and returns how many rows went.
    """
    return Selection(
        {table: rows},
        partial(first_ids, rows, most=most),
        lambda ids: {table: remove(rows, ids)},
    )


# Yields None where it has looked at a page of rows and none was due.
Selections: TypeAlias = Iterator[Selection | None]
Select: TypeAlias = Callable[[RetentionRule, datetime], Selections]


def counted(select: Select, *, now: datetime) -> list[tuple[RetentionRule, Counts]]:
    """Return what is due by each rule that removes something. Changes nothing."""
    return [(rule, count(select, rule, now=now)) for rule in in_order()]


def count(select: Select, rule: RetentionRule, *, now: datetime) -> Counts:
    """Return what is due by a rule. Changes nothing."""
    counts: Counts = {}
    going = (
        (table, rows)
        for selection in select(rule, now)
        if selection is not None
        for table, rows in selection.going.items()
    )
    # A rule of the newest messages has selections for each conversation: never all at once.
    while part := list(islice(going, counting.AT_ONCE)):
        numbers = counting.numbers([rows for _, rows in part])
        for (table, _), number in zip(part, numbers, strict=True):
            counts[table] = counts.get(table, 0) + number
    return counts


def remove_due(select: Select, *, now: datetime) -> Iterator[Counts]:
    """Remove what is due; yield after each transaction how many rows it removed.

    Ends early when the owner changes a rule. Nothing is lost with it: a new pass begins anew.
    """
    known = rules.state()
    for rule in in_order():
        for selection in select(rule, now):
            if selection is None:
                yield {}
                continue
            while ids := selection.batch():
                with atomic_write():
                    lock_until_commit(LOCK)
                    if rules.state() != known:
                        return
                    counts = selection.remove(ids)
                yield counts
                if not any(counts.values()):  # others have changed them: the next pass looks
                    break


def in_order() -> list[RetentionRule]:
    """Return the rules that remove something, in the order in which they are carried out."""
    order = {kind.value: place for place, kind in enumerate(ORDER)}
    limited = (each for each in rules.read() if each.days is not None or each.newest is not None)
    return sorted(limited, key=lambda each: order[each.kind])
