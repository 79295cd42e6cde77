"""Statements whose SQL is written once, for what every message asks of the database.

The ORM builds a statement's SQL anew each time, which costs three to ten times what SQLite needs to
carry it out (docs/decisions/116). Values still go through the model's fields, so both databases
store and return what the ORM would; rows are instances of the models, and a column that was not
selected is loaded when somebody asks for it. Constraints, defaults and ``auto_now_add`` count;
there are no signals.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, TypeAlias

from django.db import connection
from django.db.models import Field, Model

AnyField: TypeAlias = "Field[Any, Any]"
Convert = Callable[[Any], Any]


@dataclass(frozen=True, slots=True)
class Insertion:
    """How a row of one model is inserted."""

    sql: str
    fields: tuple[AnyField, ...]


@cache
def insertion(model: type[Model]) -> Insertion:
    """The INSERT of ``model``; the database gives the id."""
    fields = tuple(each for each in model._meta.concrete_fields if not each.primary_key)
    columns = ", ".join(f'"{each.column}"' for each in fields)
    values = ", ".join(["%s"] * len(fields))
    table = model._meta.db_table
    return Insertion(f'INSERT INTO "{table}" ({columns}) VALUES ({values})', fields)  # noqa: S608 - names of our own


def insert(row: Model, *, unless_known: bool = False) -> bool:
    """Insert ``row`` and give it its id; False when a unique constraint has one already and
    ``unless_known`` is set. Without it, raises IntegrityError."""
    known = insertion(type(row))
    given = [
        each.get_db_prep_save(each.pre_save(row, add=True), connection) for each in known.fields
    ]
    conflict = " ON CONFLICT DO NOTHING" if unless_known else ""
    with connection.cursor() as cursor:
        cursor.execute(f'{known.sql}{conflict} RETURNING "id"', given)
        found = cursor.fetchone()
    if found is None:
        return False
    row.pk = found[0]
    row._state.adding, row._state.db = False, connection.alias  # noqa: SLF001 - as save() does
    return True


def update(model: type[Model], row_id: int, **values: object) -> None:
    """Set columns of the row with this id. A foreign key is named with its ``_id``."""
    fields = [field_of(model, name) for name in values]
    given = [
        each.get_db_prep_save(value, connection)
        for each, value in zip(fields, values.values(), strict=True)
    ]
    with connection.cursor() as cursor:
        cursor.execute(updating(model, tuple(values)), [*given, row_id])


@cache
def updating(model: type[Model], names: tuple[str, ...]) -> str:
    """The UPDATE of these columns."""
    changes = ", ".join(f'"{field_of(model, name).column}" = %s' for name in names)
    return f'UPDATE "{model._meta.db_table}" SET {changes} WHERE "id" = %s'  # noqa: S608 - as above


@cache
def field_of(model: type[Model], name: str) -> AnyField:
    """The field called ``name``, or whose column is."""
    return next(each for each in model._meta.concrete_fields if name in (each.name, each.attname))


class Select:
    """A SELECT of one or more joined models.

    ``parts``: each with the names of the columns that are wanted, or none for all of them.
    ``tail``: JOIN, WHERE and ORDER BY with ``%s``, on tables that are called by their own names.
    """

    def __init__(self, *parts: tuple[type[Model], Sequence[str]], tail: str) -> None:
        """Nothing is compiled before the first use."""
        self._parts, self._tail = parts, tail
        self._wanted: list[tuple[type[Model], list[AnyField]]] = []
        self._sql = ""

    def rows(self, *given: Any, more: str = "") -> list[tuple[Any, ...]]:
        """The rows, an instance of each part; ``more`` ends the statement.

        ``given`` goes to the driver as it is: texts and whole numbers, and what ``prepared`` made.
        """
        if not self._sql:
            self._compile()
        with connection.cursor() as cursor:
            cursor.execute(self._sql + more, given)
            found = cursor.fetchall()
        return [self._instances(row) for row in found]

    def _compile(self) -> None:
        for model, names in self._parts:
            fields = model._meta.concrete_fields
            self._wanted.append((model, [each for each in fields if wanted(each, names)]))
        columns = ", ".join(
            f'"{model._meta.db_table}"."{each.column}"'
            for model, fields in self._wanted
            for each in fields
        )
        first = self._parts[0][0]._meta.db_table
        self._sql = f'SELECT {columns} FROM "{first}" {self._tail}'  # noqa: S608 - as above

    def _instances(self, row: tuple[Any, ...]) -> tuple[Any, ...]:
        made, start = [], 0
        for model, fields in self._wanted:
            values = [
                convert(value) if (convert := reader(each, connection.vendor)) else value
                for each, value in zip(fields, row[start:], strict=False)
            ]
            names = [each.attname for each in fields]
            made.append(model.from_db(connection.alias, names, values))
            start += len(fields)
        return tuple(made)


def wanted(field: AnyField, names: Sequence[str]) -> bool:
    """Whether a field is among ``names``; the id always is."""
    return not names or field.primary_key or field.name in names or field.attname in names


@cache
def reader(field: AnyField, vendor: str) -> Convert | None:
    """What makes a Python value of what the database ``vendor`` returns; None: nothing is to do."""
    column = field.get_col(field.model._meta.db_table)
    steps = [
        *connection.ops.get_db_converters(column),
        *field.get_db_converters(connection),
    ]
    if not steps:
        return None

    def convert(value: Any) -> Any:
        for step in steps:
            value = step(value, column, connection)
        return value

    return convert


def prepared(model: type[Model], name: str, value: object) -> Any:
    """``value`` as the database wants it for the column ``name``."""
    return field_of(model, name).get_db_prep_value(value, connection)
