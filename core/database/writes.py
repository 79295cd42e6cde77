"""INSERT, UPDATE by id, and several writes in one round trip.

    write_all(Insert(run), Insert(message), Set(ChatSession, 7, {"title": "…"}))

PostgreSQL gets one statement, a WITH of all writes (docs/decisions/152): each further statement is
another round trip. SQLite runs in this process and gets them one after the other. A foreign key to
a row of the same call gets its id. Constraints, defaults and ``auto_now_add`` count as with the
ORM; there are no signals.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Any, TypeAlias, TypeVar

from django.db import DEFAULT_DB_ALIAS, IntegrityError, connections
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
from core.database.queries import PerThread, Sql, Update, Values

M = TypeVar("M", bound=Model)
# A row that a unique constraint refused may be deleted before it is looked up.
INSERT_ATTEMPTS = 2
# Types that both drivers take without conversion.
PLAIN = frozenset({str, int, bool, type(None)})
PLAIN_FIELDS = (CharField, TextField, IntegerField, BooleanField, ForeignKey)

# By whether a row that a unique constraint has already is left out.
INSERT_ENDS = {False: ' RETURNING "id"', True: ' ON CONFLICT DO NOTHING RETURNING "id"'}

Row: TypeAlias = tuple[Any, ...]
Fields: TypeAlias = "tuple[Field[Any, Any], ...]"
# A statement and its parameters; a row without an id stands for the id that it will get.
Part: TypeAlias = tuple[str, list[Any]]


@dataclass(frozen=True, slots=True)
class Insert:
    """INSERT a row; the database gives its id."""

    row: Model

    def part(self, here: BaseDatabaseWrapper) -> Part:
        """Return the statement, without an end of INSERT_ENDS."""
        row, given = self.row, []
        for field in fields_of(type(row)):
            value: Any = field.pre_save(row, add=True)
            if value is None and field.is_relation:
                parent = row._state.fields_cache.get(field.name)
                value = parent and (parent.pk or parent)
            elif type(value) not in PLAIN or not isinstance(field, PLAIN_FIELDS):
                value = field.get_db_prep_save(value, here)
            given.append(value)
        return insert_text(type(row)), given


@dataclass(frozen=True, slots=True)
class Set:
    """UPDATE columns of the row with this id; a foreign key is named with its ``_id``."""

    model: type[Model]
    row_id: int
    values: Mapping[str, object]

    def part(self, here: BaseDatabaseWrapper) -> Part:
        text, fields = update_by_id(self.model, tuple(self.values))
        values = zip(fields, self.values.values(), strict=True)
        return text, [*(field.get_db_prep_save(each, here) for field, each in values), self.row_id]


@dataclass(frozen=True, slots=True)
class Do:
    """Execute a compiled UPDATE with these values; a new row stands for its id."""

    change: Update
    values: Mapping[str, Any]

    def part(self, here: BaseDatabaseWrapper) -> Part:
        sql = self.change.sql.get()
        given = sql.bind(self.values)
        return sql.text, [each.pk or each if isinstance(each, Model) else each for each in given]


Write: TypeAlias = Insert | Set | Do


def write_all(*writes: Write) -> None:
    """Execute ``writes``, none of which reads what another one changes. Inside a transaction.

    Raises IntegrityError.
    """
    execute(writes, unless_known=False)


def insert_or_find(row: M, find: Callable[[], M | None], *also: Set) -> tuple[M, bool]:
    """Insert ``row`` and write ``also`` with it: (it, True). When a unique constraint has it
    already: (what ``find`` finds, False), and nothing is written.

    Inside a transaction. Raises IntegrityError for a conflict with a row that ``find`` does not
    find.
    """
    for _ in range(INSERT_ATTEMPTS):
        if execute((Insert(row), *also), unless_known=True):
            return row, True
        known = find()
        if known is not None:
            return known, False
    raise IntegrityError("the row conflicts with one that cannot be found")


def execute(writes: Sequence[Write], *, unless_known: bool) -> bool:
    """Execute ``writes``; False when ``unless_known`` and the first row is known."""
    here = connections[DEFAULT_DB_ALIAS]
    if here.vendor != "sqlite" and len(writes) > 1:
        return execute_at_once(writes, here, unless_known=unless_known)
    for write in writes:
        text, given = write.part(here)
        if not isinstance(write, Insert):
            driver.execute(here, text, given)
            continue
        found = driver.fetch(here, text + INSERT_ENDS[unless_known], given)
        if not found:
            return False
        set_id(write.row, found[0][0], here)
    return True


def execute_at_once(
    writes: Sequence[Write], here: BaseDatabaseWrapper, *, unless_known: bool
) -> bool:
    """Execute ``writes`` as one statement of PostgreSQL, which returns the ids of the new rows;
    False when ``unless_known`` and the first row is known.

    INSERTs run first; then the server runs the other writes from the last to the first and locks
    their rows in that order (undocumented; nodeModifyTable.c of PostgreSQL,
    ``es_auxmodifytables``).
    """
    ids: dict[int, str] = {}
    parts, parameters = [], []
    for place, write in enumerate(writes):
        text, given = write.part(here)
        places = [ids[id(each)] if isinstance(each, Model) else "%s" for each in given]
        parameters += [each for each in given if not isinstance(each, Model)]
        if isinstance(write, Insert):
            ids[id(write.row)] = f'(SELECT "id" FROM "new_{place}")'  # noqa: S608 - our own names
            text += INSERT_ENDS[unless_known]
        elif unless_known:
            text += ' AND EXISTS (SELECT FROM "new_0")'
        parts.append(f'"new_{place}" AS ({text.replace("%%", "%%%%") % tuple(places)})')
    whole = f"WITH {', '.join(parts)} SELECT {', '.join(ids.values())}"
    (found,) = driver.fetch(here, whole, parameters)
    if None in found:
        return False
    rows = [write.row for write in writes if isinstance(write, Insert)]
    for row, row_id in zip(rows, found, strict=True):
        set_id(row, row_id, here)
    return True


def set_id(row: Model, row_id: int, here: BaseDatabaseWrapper) -> None:
    """Mark ``row`` as stored with this id; give it the ids of rows that were stored before it."""
    row.pk = row_id
    row._state.adding, row._state.db = False, here.alias
    for field in fields_of(type(row)):
        if field.is_relation and getattr(row, field.attname) is None:
            setattr(row, field.name, row._state.fields_cache.get(field.name))


@cache
def fields_of(model: type[Model]) -> Fields:
    """Return the fields of a row but its primary key, which the database gives."""
    return tuple(each for each in model._meta.concrete_fields if not each.primary_key)


@cache
def insert_into(model: type[Model]) -> str:
    columns = ", ".join(f'"{each.column}"' for each in fields_of(model))
    return f'INSERT INTO "{model._meta.db_table}" ({columns})'


@cache
def insert_text(model: type[Model]) -> str:
    return f"{insert_into(model)} VALUES ({', '.join(['%s'] * len(fields_of(model)))})"


@cache
def update_by_id(model: type[Model], names: tuple[str, ...]) -> tuple[str, Fields]:
    """Return the UPDATE of these columns of one row, and their fields."""
    known = {each.attname: each for each in model._meta.concrete_fields}
    fields = tuple(known[name] for name in names)
    changes = ", ".join(f'"{each.column}" = %s' for each in fields)
    return f'UPDATE "{model._meta.db_table}" SET {changes} WHERE "id" = %s', fields  # noqa: S608 - our own names


def insert_rows(model: type[Model], rows: Sequence[Row]) -> None:
    """Insert ``rows``: the values of all columns but an automatic id, as the driver takes them."""
    if len(rows) == 1:  # executemany would open a pipeline on PostgreSQL
        driver.execute(connections[DEFAULT_DB_ALIAS], insert_text(model), rows[0])
    elif rows:
        driver.execute(connections[DEFAULT_DB_ALIAS], insert_text(model), rows, many=True)


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
        self._place = [each.column for each in fields_of(model)].index(parent)
        self._parent = parent
        self._sql = PerThread(self._compile)

    def __call__(self, ids: Sequence[int], rows: Sequence[tuple[int, Row]]) -> dict[int, int]:
        """Insert those of ``rows`` (attempt, values) whose parent is at that attempt.

        Returns the attempts of the ``owned`` among ``ids``.
        """
        here = connections[DEFAULT_DB_ALIAS]
        if here.vendor == "sqlite":
            found = {row[0]: row[1] for row in self._owned(ids=ids)}
            insert_rows(
                self._model,
                [row for attempt, row in rows if found.get(row[self._place]) == attempt],
            )
            return found
        width = len(fields_of(self._model)) + 1
        columns = list(zip(*((attempt, *row) for attempt, row in rows), strict=True))
        arrays = [driver.array(each) for each in columns or [()] * width]
        sql = self._sql.get()
        return dict(driver.fetch(here, sql.text, [*sql.bind({"ids": ids}), *arrays]))

    def _compile(self, here: BaseDatabaseWrapper) -> Sql:
        """Compile the statement of PostgreSQL; its last parameters are one array per column."""
        owned = self._owned.reading.get().sql
        fields = fields_of(self._model)
        columns = ", ".join(f'new."{each.column}"' for each in fields)
        names = ", ".join(f'"{each.column}"' for each in fields)
        types = ["integer", *(each.db_type(here) for each in fields)]
        arrays = ", ".join(f"%s::{each}[]" for each in types)
        text = f"""WITH owned (id, attempt) AS ({owned.text} FOR NO KEY UPDATE),
        added AS (
            {insert_into(self._model)} SELECT {columns}
            FROM unnest({arrays}) AS new (attempt, {names})
            JOIN owned ON owned.id = new."{self._parent}" AND owned.attempt = new.attempt
        )
        SELECT id, attempt FROM owned"""  # noqa: S608 - our own names
        return replace(owned, text=text)
