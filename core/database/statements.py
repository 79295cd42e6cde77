"""Statements whose SQL is written once, for what every message asks of the database.

The ORM builds a statement's SQL anew each time, which costs three to ten times what SQLite needs to
carry it out (docs/decisions/116). Values still go through the model's fields, so both databases
store and return what the ORM would; rows are instances of the models, and a column that was not
selected is loaded when somebody asks for it. Constraints, defaults and ``auto_now_add`` count;
there are no signals.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cache, partial
from typing import Any, TypeAlias, TypeVar

import orjson
from django.db import IntegrityError
from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.models import CharField, Field, ForeignKey, IntegerField, Model, TextField

from core.database import driver
from core.database.driver import this_connection

AnyField: TypeAlias = "Field[Any, Any]"
M = TypeVar("M", bound=Model)
# Whether a column is one of the numbers in a list, which :func:`numbers` makes, in a tail.
AMONG = "AMONG(%s)"
AMONG_ON = {"sqlite": "IN (SELECT value FROM json_each(%s))", "postgresql": "= ANY(%s)"}
STORED_TWICE = 2  # who stored the same may have taken it away again in the same moment
Convert = Callable[[Any, BaseDatabaseWrapper], Any]


@dataclass(frozen=True, slots=True)
class Change:
    """A statement that writes, and the fields whose values it is given."""

    sql: str
    fields: tuple[AnyField, ...]
    plain: list[type[object] | None]
    unless_known: str = ""

    def given(self, values: Iterable[object], here: BaseDatabaseWrapper) -> list[Any]:
        """``values``, one for each field, as the database wants them."""
        return [
            value if type(value) is plain else prepared_for(field, value, here)
            for field, plain, value in zip(self.fields, self.plain, values, strict=True)
        ]


def prepared_for(field: AnyField, value: object, here: BaseDatabaseWrapper) -> Any:
    """``value`` as the database wants it in the column of ``field``. Most JSON is empty."""
    if isinstance(value, dict | list) and not value and here.vendor == "sqlite":
        return "{}" if isinstance(value, dict) else "[]"
    return None if value is None else field.get_db_prep_save(value, here)


def plain_of(field: AnyField) -> type[object] | None:
    """The type whose values both databases take as they are in this column."""
    if isinstance(field, CharField | TextField):
        return str
    return int if isinstance(field, ForeignKey | IntegerField) else None


@cache
def insertion(model: type[Model]) -> Change:
    """The INSERT of ``model``; the database gives the id."""
    fields = tuple(each for each in model._meta.concrete_fields if not each.primary_key)
    columns = ", ".join(f'"{each.column}"' for each in fields)
    values = ", ".join(["%s"] * len(fields))
    plain = [plain_of(each) for each in fields]
    table = model._meta.db_table
    sql = f'INSERT INTO "{table}" ({columns}) VALUES ({values})'  # noqa: S608 - our own names
    end = 'RETURNING "id"'
    return Change(f"{sql} {end}", fields, plain, f"{sql} ON CONFLICT DO NOTHING {end}")


def insert(row: Model, *, unless_known: bool = False) -> bool:
    """Insert ``row`` and give it its id; False when a unique constraint has one already and
    ``unless_known`` is set. Without it, raises IntegrityError."""
    known, here = insertion(type(row)), this_connection()
    given = known.given((each.pre_save(row, add=True) for each in known.fields), here)
    found = driver.fetch(here, known.unless_known if unless_known else known.sql, given)
    if not found:
        return False
    keep_id(row, found[0][0], here)
    return True


def keep_id(row: Model, row_id: int, here: BaseDatabaseWrapper) -> None:
    """``row`` is in the database now, with this id."""
    row.pk = row_id
    row._state.adding, row._state.db = False, here.alias


def insert_or_find(
    row: M, find: Callable[[], M | None], *, unless_known: bool = True
) -> tuple[M, bool]:
    """Insert ``row``: (it, True), or what ``find`` finds where somebody has stored the same:
    (that one, False). Raises IntegrityError."""
    return stored_or_found(row, partial(insert, row, unless_known=unless_known), find)


def stored_or_found(
    row: M, store: Callable[[], bool], find: Callable[[], M | None]
) -> tuple[M, bool]:
    """:func:`insert_or_find` where ``store`` inserts ``row``; what that returns: whether it did, or
    a unique constraint has one already. Raises IntegrityError."""
    for _ in range(STORED_TWICE):
        if store():
            return row, True
        known = find()
        if known is not None:
            return known, False
    raise IntegrityError("a row could not be stored, and nobody has stored the same one")


def update(model: type[Model], row_id: int, **values: object) -> None:
    """Set columns of the row with this id. A foreign key is named with its ``_id``."""
    known, here = updating(model, tuple(values)), this_connection()
    driver.execute(here, known.sql, [*known.given(values.values(), here), row_id])


@cache
def updating(model: type[Model], names: tuple[str, ...]) -> Change:
    """The UPDATE of these columns."""
    fields = tuple(field_of(model, name) for name in names)
    changes = ", ".join(f'"{each.column}" = %s' for each in fields)
    table = model._meta.db_table
    plain = [plain_of(each) for each in fields]
    return Change(f'UPDATE "{table}" SET {changes} WHERE "id" = %s', fields, plain)  # noqa: S608 - our own names


@cache
def field_of(model: type[Model], name: str) -> AnyField:
    """The field called ``name``, or whose column is."""
    return next(each for each in model._meta.concrete_fields if name in (each.name, each.attname))


@dataclass(frozen=True, slots=True)
class Wanted:
    """The columns of one model in a row of a SELECT, and what has to be made of some of them."""

    model: type[Model]
    names: list[str]
    columns: slice
    readers: list[tuple[int, Convert]]

    def instance(self, row: tuple[Any, ...], here: BaseDatabaseWrapper) -> Model:
        """The instance in ``row``."""
        values = list(row[self.columns])
        for place, convert in self.readers:
            values[place] = convert(values[place], here)
        return self.model.from_db(here.alias, self.names, values)


class Select:
    """A SELECT of one or more joined models.

    ``parts``: each with the names of the columns that are wanted, or none for all of them.
    ``tail``: JOIN, WHERE and ORDER BY with ``%s`` or AMONG, on tables that are called by their own
    names.
    """

    def __init__(self, *parts: tuple[type[Model], Sequence[str]], tail: str) -> None:
        """Nothing is compiled before the first use."""
        self._parts, self._tail = parts, tail
        self._compiled: dict[str, tuple[str, list[Wanted]]] = {}

    def rows(self, *given: Any, more: str = "") -> list[tuple[Any, ...]]:
        """The rows, an instance of each part; ``more`` ends the statement.

        ``given`` goes to the driver as it is: texts and whole numbers, and what ``prepared`` made.
        """
        here = this_connection()
        if here.vendor not in self._compiled:
            self._compiled[here.vendor] = self._compile(here)
        sql, wanted = self._compiled[here.vendor]
        found = driver.fetch(here, sql + more, given)
        return [tuple(each.instance(row, here) for each in wanted) for row in found]

    def _compile(self, here: BaseDatabaseWrapper) -> tuple[str, list[Wanted]]:
        columns: list[str] = []
        wanted: list[Wanted] = []
        for model, names in self._parts:
            fields = [each for each in model._meta.concrete_fields if is_wanted(each, names)]
            readers = [reader(each, here) for each in fields]
            wanted.append(
                Wanted(
                    model=model,
                    names=[each.attname for each in fields],
                    columns=slice(len(columns), len(columns) + len(fields)),
                    readers=[(place, each) for place, each in enumerate(readers) if each],
                )
            )
            columns += [f'"{model._meta.db_table}"."{each.column}"' for each in fields]
        first = self._parts[0][0]._meta.db_table
        tail = self._tail.replace(AMONG, AMONG_ON[here.vendor])
        return f'SELECT {", ".join(columns)} FROM "{first}" {tail}', wanted  # noqa: S608 - our own names


def is_wanted(field: AnyField, names: Sequence[str]) -> bool:
    """Whether a field is among ``names``; the id always is."""
    return not names or field.primary_key or field.name in names or field.attname in names


def reader(field: AnyField, here: BaseDatabaseWrapper) -> Convert | None:
    """What makes a Python value of what the database returns; None: nothing is to be done."""
    column = field.get_col(field.model._meta.db_table)
    steps = [*here.ops.get_db_converters(column), *field.get_db_converters(here)]
    if not steps:
        return None

    def convert(value: Any, at: BaseDatabaseWrapper) -> Any:
        for step in steps:
            value = step(value, column, at)
        return value

    return convert


def prepared(model: type[Model], name: str, value: object) -> Any:
    """``value`` as the database wants it for the column ``name``."""
    return field_of(model, name).get_db_prep_value(value, this_connection())


def numbers(values: Iterable[int]) -> Any:
    """``values`` as AMONG has them: how many they are does not change the statement."""
    found = list(values)
    return orjson.dumps(found).decode() if this_connection().vendor == "sqlite" else found
