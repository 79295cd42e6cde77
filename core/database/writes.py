"""Several writes in one visit to the database.

    written(Insert(run), Insert(message), Set(ChatSession, 7, {"title": "…"}))

PostgreSQL gets one statement (a WITH of all of them, docs/decisions/152): each statement more is a
way there and back, two changes of process on a busy machine. SQLite, which lives in this process,
gets them one after the other. A foreign key to a row of the same visit gets its id.

    written(Insert(message, unless_known=True), Set(ChatSession, 7, {"flush_at": soon}))

is one of them too: nothing of it happens when somebody has stored that message before.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, TypeAlias

from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.models import Model

from core.database import driver, statements
from core.database.queries import Update

KEPT_STATEMENTS = 200
# Which of a part's values is the id of which new row.
References: TypeAlias = tuple[tuple[int, int], ...]


@dataclass(frozen=True, slots=True)
class Insert:
    """A new row, whose id the database gives.

    ``unless_known``: not where a unique constraint has one already; what follows, which may only
    be :class:`Set`, does not happen then either. It comes first.
    """

    row: Model
    unless_known: bool = False


@dataclass(frozen=True, slots=True)
class Set:
    """Columns of the row with this id; a foreign key is named with its ``_id``."""

    model: type[Model]
    row_id: int
    values: Mapping[str, object]


@dataclass(frozen=True, slots=True)
class Do:
    """A compiled change with its values; a new row stands for its id."""

    change: Update
    values: Mapping[str, Any]


Write: TypeAlias = Insert | Set | Do
Part: TypeAlias = tuple[str, list[Any]]


def write_all(*writes: Write) -> bool:
    """Carry out ``writes``, none of which looks at what another one changes. In a transaction.

    False: the row that comes first is known already. Raises IntegrityError; ValueError for an
    ``unless_known`` that is not where it may be.
    """
    check_order(writes)
    here = driver.this_connection()
    if here.vendor == "sqlite" or len(writes) <= 1:
        return all(one_by_itself(write, here) for write in writes)
    rows = [write.row for write in writes if isinstance(write, Insert)]
    text, given = all_at_once([part_of(write, here) for write in writes], writes, rows)
    (ids,) = driver.fetch(here, text, given)
    if None in ids:
        return False
    are_stored(rows, ids, here)
    return True


def are_stored(rows: Sequence[Model], ids: Sequence[int], here: BaseDatabaseWrapper) -> None:
    """Give ``rows``, which are in the database now, their ids and those of each other."""
    for row, row_id in zip(rows, ids, strict=True):
        statements.keep_id(row, row_id, here)
    for row in rows:
        know_parents(row)


def check_order(writes: Sequence[Write]) -> None:
    """Raises ValueError where what belongs to a row that may be known could not be left out."""
    unsure = [isinstance(each, Insert) and each.unless_known for each in writes]
    belongs = all(isinstance(each, Set) for each in writes[1:])
    if any(unsure[1:]) or (any(unsure) and not belongs):
        raise ValueError("a row that may be known comes first, and only Set may follow")


def one_by_itself(write: Write, here: BaseDatabaseWrapper) -> bool:
    """Carry out one of several, where those before it have been; False when its row is known."""
    if isinstance(write, Insert):
        know_parents(write.row)
        return statements.insert(write.row, unless_known=write.unless_known)
    text, given = part_of(write, here)
    values = [each.pk if isinstance(each, Model) else each for each in given]
    driver.execute(here, text, values)
    return True


def know_parents(row: Model) -> None:
    """Give ``row`` the ids of the rows that it refers to, which are stored by now."""
    for name, parent in list(parents_of(row)):
        setattr(row, name, parent.pk)


def part_of(write: Write, here: BaseDatabaseWrapper) -> Part:
    """The text and the values of one write; a row that is not stored yet stands for its id."""
    if isinstance(write, Insert):
        known, parents = statements.insertion(type(write.row)), dict(parents_of(write.row))
        values = (each.pre_save(write.row, add=True) for each in known.fields)
        given = known.given(values, here)
        return known.unless_known if write.unless_known else known.sql, [
            parents.get(field.attname, value)
            for field, value in zip(known.fields, given, strict=True)
        ]
    if isinstance(write, Set):
        change = statements.updating(write.model, tuple(write.values))
        return change.sql, [*change.given(write.values.values(), here), write.row_id]
    return write.change.filled(write.values)


def parents_of(row: Model) -> Iterator[tuple[str, Model]]:
    """The columns of ``row`` whose row had no id when it was made, each with that row."""
    for field in statements.insertion(type(row)).fields:
        if field.is_relation and getattr(row, field.attname) is None:
            parent = row._state.fields_cache.get(field.name)
            if parent is not None:
                yield field.attname, parent


def all_at_once(
    parts: Sequence[Part], writes: Sequence[Write], rows: Sequence[Model]
) -> tuple[str, list[Any]]:
    """One statement of PostgreSQL whose only row holds the ids of ``rows``, and its values.

    New rows are inserted first; then the server carries out the other writes from the last to the
    first, and locks their rows in that order (not its manual's word, but what nodeModifyTable.c of
    PostgreSQL does: ``es_auxmodifytables``).
    """
    number = {id(row): place for place, row in enumerate(rows)}
    references = tuple(
        tuple(
            (place, number[id(each)]) for place, each in enumerate(given) if isinstance(each, Model)
        )
        for _, given in parts
    )
    inserts = tuple(isinstance(write, Insert) for write in writes)
    once = isinstance(writes[0], Insert) and writes[0].unless_known
    end = ' AND EXISTS (SELECT FROM "new_0")' if once else ""
    texts = tuple(text + (end if place else "") for place, (text, _) in enumerate(parts))
    text = statement(texts, references, inserts)
    return text, [each for _, given in parts for each in given if not isinstance(each, Model)]


@lru_cache(KEPT_STATEMENTS)
def statement(
    texts: tuple[str, ...], references: tuple[References, ...], inserts: tuple[bool, ...]
) -> str:
    """The WITH of ``texts``; those that ``inserts`` says give ids, in this order."""
    names = [f"new_{place}" for place, inserts_one in enumerate(inserts) if inserts_one]
    ids = [f'(SELECT "id" FROM "{name}")' for name in names]  # noqa: S608 - our own names
    parts = []
    for place, (text, refers) in enumerate(zip(texts, references, strict=True)):
        pieces = text.split("%s")
        values = ["%s"] * (len(pieces) - 1)
        for value, row in refers:
            values[value] = ids[row]
        whole = "".join(each for pair in zip(pieces, [*values, ""], strict=True) for each in pair)
        parts.append(f'"new_{place}" AS ({whole})')
    return f"WITH {', '.join(parts)} SELECT {', '.join(ids)}"
