"""INSERT and UPDATE by id, and several writes in one round trip.

    write_all(Insert(run), Insert(message), Set(ChatSession, 7, {"title": "…"}))

PostgreSQL gets one statement, a WITH of all writes (docs/decisions/152): each further statement is
another round trip. SQLite runs in this process and gets them one after the other. A foreign key to
a row of the same call gets its id.

    write_all(Insert(message, unless_known=True), Set(ChatSession, 7, {"flush_at": soon}))

writes nothing when a unique constraint has that message already.

    with gathered():
        write_deferred(Insert(run), Insert(message))
        write_deferred(Insert(other_run), Insert(other_message))

sends PostgreSQL the second before it waits for the result of the first (docs/decisions/158).

Constraints, defaults and ``auto_now_add`` count as with the ORM; there are no signals.
"""

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache, lru_cache
from typing import Any, TypeAlias, TypeVar

from django.db import IntegrityError
from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.models import Field, Model, QuerySet

from core.database import driver
from core.database.queries import Param, Update

M = TypeVar("M", bound=Model)
KEPT_STATEMENTS = 200
# A row that a unique constraint refused may be deleted before it is looked up.
INSERT_ATTEMPTS = 2
# Which of a part's values is the id of which new row.
References: TypeAlias = tuple[tuple[int, int], ...]


@dataclass(frozen=True, slots=True)
class Insert:
    """INSERT a row; the database gives its id.

    ``unless_known``: write neither the row nor the :class:`Set` that follow when a unique
    constraint has the row already. Must come first.
    """

    row: Model
    unless_known: bool = False


@dataclass(frozen=True, slots=True)
class Set:
    """UPDATE columns of the row with this id; a foreign key is named with its ``_id``."""

    model: type[Model]
    row_id: int
    values: Mapping[str, object]


@dataclass(frozen=True, slots=True)
class Do:
    """Execute a compiled UPDATE with these values; a new row stands for its id."""

    change: Update
    values: Mapping[str, Any]


Write: TypeAlias = Insert | Set | Do
Part: TypeAlias = tuple[str, list[Any]]


def write_all(*writes: Write) -> bool:
    """Execute ``writes``, none of which reads what another one changes. Inside a transaction.

    Returns False when the first row is ``unless_known`` and is known. Raises IntegrityError, and
    ValueError for an ``unless_known`` in a wrong place.
    """
    check_order(writes)
    here = driver.this_connection()
    if here.vendor == "sqlite" or len(writes) <= 1:
        return all(write_one(write, here) for write in writes)
    rows = [write.row for write in writes if isinstance(write, Insert)]
    text, given = all_at_once([part_of(write, here) for write in writes], writes, rows)
    (ids,) = driver.fetch(here, text, given)
    if None in ids:
        return False
    are_stored(rows, ids, here)
    return True


class Gathering(threading.local):
    """What this thread writes at the end of :func:`gathered`: rows and values, by statement."""

    waiting: dict[str, list[tuple[list[Model], list[Any]]]] | None = None


_gathering = Gathering()


@contextmanager
def gathered() -> Iterator[None]:
    """What is :func:`write_deferred` meanwhile is carried out at the end. Inside a
    transaction, which an error of any of it ends."""
    _gathering.waiting = {}
    try:
        yield
        carry_out(_gathering.waiting)
    finally:
        _gathering.waiting = None


def write_deferred(*writes: Write) -> None:
    """:func:`written`, or, on PostgreSQL and while they are :func:`gathered`, at the end of that:
    new rows have no ids until then. For what nobody asks the database about in between.

    Raises ValueError for an ``unless_known``, whose answer would come too late.
    """
    if any(isinstance(each, Insert) and each.unless_known for each in writes):
        raise ValueError("whether a row is known is not known soon")
    here = driver.this_connection()
    if _gathering.waiting is None or here.vendor == "sqlite":
        write_all(*writes)
        return
    rows = [write.row for write in writes if isinstance(write, Insert)]
    text, given = all_at_once([part_of(write, here) for write in writes], writes, rows)
    _gathering.waiting.setdefault(text, []).append((rows, given))


def carry_out(waiting: Mapping[str, list[tuple[list[Model], list[Any]]]]) -> None:
    """Write what was gathered."""
    here = driver.this_connection()
    for text, each in waiting.items():
        found = driver.fetch_each(here, text, [given for _, given in each])
        for (rows, _), (ids,) in zip(each, found, strict=True):
            are_stored(rows, ids, here)


@dataclass(frozen=True, slots=True)
class Insertion:
    """The INSERT of a model whose primary key the database gives."""

    into: str
    fields: tuple["Field[Any, Any]", ...]

    def text(self, *, unless_known: bool) -> str:
        """The statement, which returns the new id; no row when it is ``unless_known`` and known."""
        values = ", ".join(["%s"] * len(self.fields))
        conflict = " ON CONFLICT DO NOTHING" if unless_known else ""
        return f'{self.into} VALUES ({values}){conflict} RETURNING "id"'

    def values(self, row: Model, here: BaseDatabaseWrapper) -> list[Any]:
        """The driver's parameters for ``row``."""
        return [
            field.get_db_prep_save(field.pre_save(row, add=True), here) for field in self.fields
        ]


@cache
def insertion(model: type[Model]) -> Insertion:
    """The INSERT of ``model``."""
    fields = tuple(each for each in model._meta.concrete_fields if not each.primary_key)
    columns = ", ".join(f'"{each.column}"' for each in fields)
    return Insertion(f'INSERT INTO "{model._meta.db_table}" ({columns})', fields)


@cache
def update_by_id(model: type[Model], names: tuple[str, ...]) -> Update:
    """The UPDATE of these columns of one row."""
    fields = [model._meta.get_field(name) for name in names]
    changes = {each.name: Param(name, each) for name, each in zip(names, fields, strict=True)}
    return Update(lambda: (QuerySet(model).filter(pk=Param("pk")), changes))


def insert(write: Insert, here: BaseDatabaseWrapper) -> bool:
    """Insert one row; False when it is known. Raises IntegrityError."""
    statement = insertion(type(write.row))
    text = statement.text(unless_known=write.unless_known)
    found = driver.fetch(here, text, statement.values(write.row, here))
    if found:
        set_id(write.row, found[0][0], here)
    return bool(found)


def insert_or_find(
    row: M, find: Callable[[], M | None], *also: Set, unless_known: bool = True
) -> tuple[M, bool]:
    """Insert ``row`` and write ``also`` with it: (it, True). When a unique constraint has it
    already: (what ``find`` finds, False), and nothing is written.

    Inside a transaction. Raises IntegrityError, also for any conflict without ``unless_known``.
    """
    for _ in range(INSERT_ATTEMPTS):
        if write_all(Insert(row, unless_known=unless_known), *also):
            return row, True
        known = find()
        if known is not None:
            return known, False
    raise IntegrityError("the row conflicts with one that cannot be found")


def set_id(row: Model, row_id: int, here: BaseDatabaseWrapper) -> None:
    """Mark ``row`` as stored with this id."""
    row.pk = row_id
    row._state.adding, row._state.db = False, here.alias


def are_stored(rows: Sequence[Model], ids: Sequence[int], here: BaseDatabaseWrapper) -> None:
    """Give ``rows``, which are in the database now, their ids and those of each other."""
    for row, row_id in zip(rows, ids, strict=True):
        set_id(row, row_id, here)
    for row in rows:
        know_parents(row)


def check_order(writes: Sequence[Write]) -> None:
    """Raises ValueError where what belongs to a row that may be known could not be left out."""
    unsure = [isinstance(each, Insert) and each.unless_known for each in writes]
    belongs = all(isinstance(each, Set) for each in writes[1:])
    if any(unsure[1:]) or (any(unsure) and not belongs):
        raise ValueError("a row that may be known comes first, and only Set may follow")


def write_one(write: Write, here: BaseDatabaseWrapper) -> bool:
    """Carry out one of several, where those before it have been; False when its row is known."""
    if isinstance(write, Insert):
        know_parents(write.row)
        return insert(write, here)
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
        statement, parents = insertion(type(write.row)), dict(parents_of(write.row))
        given = statement.values(write.row, here)
        return statement.text(unless_known=write.unless_known), [
            parents.get(field.attname, value)
            for field, value in zip(statement.fields, given, strict=True)
        ]
    if isinstance(write, Set):
        update = update_by_id(write.model, tuple(write.values)).sql.get()
        return update.text, update.bind({**write.values, "pk": write.row_id})
    update = write.change.sql.get()
    return update.text, update.bind(write.values)


def parents_of(row: Model) -> Iterator[tuple[str, Model]]:
    """The columns of ``row`` whose row had no id when it was made, each with that row."""
    for field in insertion(type(row)).fields:
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
