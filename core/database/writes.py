"""INSERT, UPDATE by id, and several writes in one round trip.

    write_all(Insert(run), Insert(message), Set(ChatSession, 7, {"title": "…"}))

PostgreSQL gets one statement, a WITH of all writes (docs/decisions/152): each further statement is
another round trip. SQLite runs in this process and gets them one after the other. A foreign key to
a row of the same call gets its id.

    write_all(Insert(message, unless_known=True), Set(ChatSession, 7, {"flush_at": soon}))

writes nothing when a unique constraint has that message already.

Constraints, defaults and ``auto_now_add`` count as with the ORM; there are no signals.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, lru_cache
from typing import Any, TypeAlias, TypeVar

from django.db import IntegrityError
from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.models import (
    BooleanField,
    CharField,
    Field,
    ForeignKey,
    IntegerField,
    Model,
    QuerySet,
    TextField,
)

from core.database import driver
from core.database.queries import Param, PerThread, Sql, Update, Values

M = TypeVar("M", bound=Model)
KEPT_STATEMENTS = 200
# A row that a unique constraint refused may be deleted before it is looked up.
INSERT_ATTEMPTS = 2
# Types that both drivers take without conversion.
PLAIN = frozenset({str, int, bool, type(None)})
PLAIN_FIELDS = (CharField, TextField, IntegerField, BooleanField, ForeignKey)
# Pairs: the place of a value in its part, and the number of the new row whose id it takes.
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
    text, given = combine([part_of(write, here) for write in writes], writes, rows)
    (ids,) = driver.fetch(here, text, given)
    if None in ids:
        return False
    store_ids(rows, ids, here)
    return True


@dataclass(frozen=True, slots=True)
class Insertion:
    """The INSERT of a model whose primary key the database gives."""

    into: str
    fields: tuple["Field[Any, Any]", ...]

    @property
    def places(self) -> str:
        """Return VALUES with a placeholder for each field."""
        return f"VALUES ({', '.join(['%s'] * len(self.fields))})"

    def text(self, *, unless_known: bool) -> str:
        """Return the INSERT, which returns the new id; no row when ``unless_known`` and known."""
        conflict = " ON CONFLICT DO NOTHING" if unless_known else ""
        return f'{self.into} {self.places}{conflict} RETURNING "id"'

    def values(self, row: Model, here: BaseDatabaseWrapper) -> list[Any]:
        """Return the driver's parameters for ``row``."""
        return [parameter(field, field.pre_save(row, add=True), here) for field in self.fields]


def parameter(field: "Field[Any, Any]", value: object, here: BaseDatabaseWrapper) -> Any:
    """Return the driver's parameter for the value of a column; most need no conversion."""
    if type(value) in PLAIN and isinstance(field, PLAIN_FIELDS):
        return value
    return field.get_db_prep_save(value, here)


@cache
def insertion(model: type[Model]) -> Insertion:
    """Return the INSERT of ``model``."""
    fields = tuple(each for each in model._meta.concrete_fields if not each.primary_key)
    columns = ", ".join(f'"{each.column}"' for each in fields)
    return Insertion(f'INSERT INTO "{model._meta.db_table}" ({columns})', fields)


@cache
def update_by_id(model: type[Model], names: tuple[str, ...]) -> Update:
    """Return the compiled UPDATE of these columns of one row."""
    fields = {each.attname: each for each in model._meta.concrete_fields}
    changes = {fields[name].name: Param(name, fields[name]) for name in names}
    return Update(lambda: (QuerySet(model).filter(pk=Param("pk")), changes))


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


def store_ids(rows: Sequence[Model], ids: Sequence[int], here: BaseDatabaseWrapper) -> None:
    """Give ``rows``, which are stored now, their ids and those of each other."""
    for row, row_id in zip(rows, ids, strict=True):
        set_id(row, row_id, here)
    for row in rows:
        set_parent_ids(row)


def check_order(writes: Sequence[Write]) -> None:
    """Raises ValueError where writes that depend on an ``unless_known`` could not be left out."""
    unsure = [isinstance(each, Insert) and each.unless_known for each in writes]
    only_set_follows = all(isinstance(each, Set) for each in writes[1:])
    if any(unsure[1:]) or (any(unsure) and not only_set_follows):
        raise ValueError("a row that may be known comes first, and only Set may follow")


def write_one(write: Write, here: BaseDatabaseWrapper) -> bool:
    """Execute one of several writes after those before it; False when its row is known."""
    text, given = part_of(write, here)
    values = [each.pk if isinstance(each, Model) else each for each in given]
    if not isinstance(write, Insert):
        driver.execute(here, text, values)
        return True
    found = driver.fetch(here, text, values)
    if found:
        store_ids([write.row], found[0], here)
    return bool(found)


def set_parent_ids(row: Model) -> None:
    """Give ``row`` the ids of the rows that it refers to, which are stored by now."""
    for name, parent in list(parents_of(row)):
        setattr(row, name, parent.pk)


def part_of(write: Write, here: BaseDatabaseWrapper) -> Part:
    """Return the SQL and the parameters of one write; a row without an id stands for its id."""
    if isinstance(write, Insert):
        insert, parents = insertion(type(write.row)), dict(parents_of(write.row))
        given = insert.values(write.row, here)
        return insert.text(unless_known=write.unless_known), [
            parents.get(field.attname, value)
            for field, value in zip(insert.fields, given, strict=True)
        ]
    if isinstance(write, Set):
        update = update_by_id(write.model, tuple(write.values)).sql.get()
        return update.text, update.bind({**write.values, "pk": write.row_id})
    update = write.change.sql.get()
    return update.text, update.bind(write.values)


def parents_of(row: Model) -> Iterator[tuple[str, Model]]:
    """Yield foreign key columns of ``row`` that are empty, each with its assigned row."""
    for field in insertion(type(row)).fields:
        if field.is_relation and getattr(row, field.attname) is None:
            parent = row._state.fields_cache.get(field.name)
            if parent is not None:
                yield field.attname, parent


def combine(
    parts: Sequence[Part], writes: Sequence[Write], rows: Sequence[Model]
) -> tuple[str, list[Any]]:
    """Return one statement of PostgreSQL that returns one row, the ids of ``rows``; and its
    parameters.

    INSERTs run first; then the server runs the other writes from the last to the first and locks
    their rows in that order (undocumented; nodeModifyTable.c of PostgreSQL,
    ``es_auxmodifytables``).
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
    text = with_of(texts, references, inserts)
    return text, [each for _, given in parts for each in given if not isinstance(each, Model)]


@lru_cache(KEPT_STATEMENTS)
def with_of(
    texts: tuple[str, ...], references: tuple[References, ...], inserts: tuple[bool, ...]
) -> str:
    """Return the WITH of ``texts``, which selects the ids of those that ``inserts`` marks, in
    order.
    """
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


Row: TypeAlias = tuple[Any, ...]


def insert_rows(model: type[Model], rows: Sequence[Row]) -> None:
    """Insert ``rows``, each the values of all columns but an automatic id, as the driver takes
    them."""
    if rows:
        insert = insertion(model)
        driver.execute_each(driver.this_connection(), f"{insert.into} {insert.places}", rows)


class FencedInsert:
    """INSERT child rows whose parent is still at the attempt of their writer.

    ``owned``: the parents, filtered with ``Among("id", "ids")``, as ``values_list("id",
    "attempt")``. ``parent``: the child's column that refers to them.

    PostgreSQL needs one statement, which locks the parents and commits by itself: BEGIN, SELECT,
    INSERT and COMMIT would be four round trips. SQLite needs a write transaction.
    """

    def __init__(
        self, model: type[Model], parent: str, owned: Callable[[], QuerySet[Any, Any]]
    ) -> None:
        self._model, self._owned = model, Values(owned)
        self._place = [each.column for each in insertion(model).fields].index(parent)
        self._parent = parent
        self._sql = PerThread(self._compile)

    def __call__(self, ids: Sequence[int], rows: Sequence[tuple[int, Row]]) -> dict[int, int]:
        """Insert those of ``rows`` (attempt, values) whose parent is at that attempt.

        Returns the attempts of the ``owned`` among ``ids``.
        """
        here = driver.this_connection()
        if here.vendor == "sqlite":
            found = {row[0]: row[1] for row in self._owned(ids=ids)}
            insert_rows(
                self._model,
                [row for attempt, row in rows if found.get(row[self._place]) == attempt],
            )
            return found
        width = len(insertion(self._model).fields) + 1
        columns = list(zip(*((attempt, *row) for attempt, row in rows), strict=True))
        arrays = [driver.array(each) for each in columns or [()] * width]
        sql = self._sql.get()
        return dict(driver.fetch(here, sql.text, [*sql.bind({"ids": ids}), *arrays]))

    def _compile(self, here: BaseDatabaseWrapper) -> Sql:
        """Compile the statement of PostgreSQL; its last parameters are one array per column."""
        owned = self._owned.reading.get().sql
        insert = insertion(self._model)
        columns = ", ".join(f'new."{each.column}"' for each in insert.fields)
        names = ", ".join(f'"{each.column}"' for each in insert.fields)
        types = ["integer", *(each.db_type(here) for each in insert.fields)]
        arrays = ", ".join(f"%s::{each}[]" for each in types)
        text = f"""WITH owned (id, attempt) AS ({owned.text} FOR NO KEY UPDATE),
        added AS (
            {insert.into} SELECT {columns} FROM unnest({arrays}) AS new (attempt, {names})
            JOIN owned ON owned.id = new."{self._parent}" AND owned.attempt = new.attempt
        )
        SELECT id, attempt FROM owned"""  # noqa: S608 - our own names
        return replace(owned, text=text)
