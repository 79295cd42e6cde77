"""Copy all rows of one database into another, of the same or of the other kind."""

import hashlib
import json
from collections.abc import Iterator
from decimal import Decimal
from typing import Any

from django.apps import apps
from django.db import DEFAULT_DB_ALIAS, Error, connection, connections
from django.db.models import JSONField, Max, Model, QuerySet
from django.db.models.sql import InsertQuery

from core.database.transactions import allow_idle_transaction, atomic_write

AT_ONCE = 500
LAST_NUMBER = {  # of a table and its column; as in `continue_numbers`
    "sqlite": "SELECT seq FROM sqlite_sequence WHERE name = %(table)s",
    "postgresql": "SELECT pg_sequence_last_value("
    "pg_get_serial_sequence(quote_ident(%(table)s), %(column)s)::regclass)",
}
SET_LAST_NUMBER = {
    "sqlite": (
        "DELETE FROM sqlite_sequence WHERE name = %(table)s",
        "INSERT INTO sqlite_sequence (name, seq) VALUES (%(table)s, %(last)s)",
    ),
    "postgresql": (
        "SELECT setval(pg_get_serial_sequence(quote_ident(%(table)s), %(column)s), %(last)s)",
    ),
}


class MoveError(Exception):
    """The rows cannot be copied; the text names the table."""


def copy_all(source: str) -> dict[str, int]:
    """Replace the rows of this installation's database by those of ``source``, an alias of a
    database with the same migrations that is not in use; return their numbers by table.

    In one transaction, with their keys, and compared afterwards by digest. Raises MoveError.
    """
    copied = {}
    with atomic_write():
        allow_idle_transaction()  # while the other database is read
        with connection.cursor() as cursor:
            for model in stored():
                table = connection.ops.quote_name(model._meta.db_table)
                cursor.execute(f"DELETE FROM {table}")  # noqa: S608 - our own names
        for model in stored():
            table = model._meta.db_table
            try:
                copied[table] = copy(model, source)
            except (Error, ValueError) as error:
                raise MoveError(f"The rows of {table} cannot be copied: {error}") from error
            if digest(model, source) != digest(model, DEFAULT_DB_ALIAS):
                raise MoveError(f"The rows of {table} are others than those of the old database.")
        for model in stored():
            continue_numbers(model, source)
    return copied


def stored() -> list[type[Model]]:
    """Return the models whose tables hold all rows; the index of the search is made anew."""
    every = apps.get_models(include_auto_created=True)
    return [each for each in every if each._meta.managed and not each._meta.proxy]


def copy(model: type[Model], source: str) -> int:
    """Copy the rows of one table as they are; return how many. Raises Error, ValueError."""
    check_json(model, source)
    number = 0
    for rows in batches(model, source):
        query = InsertQuery(model)
        # Raw: a time that is set when a row is saved stays.
        query.insert_values(model._meta.local_concrete_fields, rows, raw=True)
        query.get_compiler(DEFAULT_DB_ALIAS).execute_sql()
        number += len(rows)
    return number


def check_json(model: type[Model], source: str) -> None:
    """Raise ValueError for a value of SQLite that is no JSON: Django would copy it as text."""
    if connections[source].vendor != "sqlite":
        return
    quote = connections[source].ops.quote_name
    for field in model._meta.local_concrete_fields:
        if isinstance(field, JSONField):
            column, table = quote(field.column or ""), quote(model._meta.db_table)
            with connections[source].cursor() as cursor:
                cursor.execute(
                    f"SELECT count(*) FROM {table} "  # noqa: S608 - its own names
                    f"WHERE {column} IS NOT NULL AND json_valid({column}) = 0"
                )
                [number] = cursor.fetchone()
            if number:
                raise ValueError(f"{field.column} is no JSON in {number} of them")


def batches(model: type[Model], source: str) -> Iterator[list[Model]]:
    """Yield all rows, so many at once as fit into a statement."""
    fields = list(model._meta.local_concrete_fields)
    most = min(AT_ONCE, connection.ops.bulk_batch_size(fields, [None] * AT_ONCE))
    rows: list[Model] = []
    every = QuerySet[Model](model, using=source).order_by("pk")
    for row in every.iterator(chunk_size=AT_ONCE):
        rows.append(row)
        if len(rows) == most:
            yield rows
            rows = []
    if rows:
        yield rows


def digest(model: type[Model], using: str) -> int:
    """Return the sum of the digests of all rows: databases sort texts in different ways."""
    names = [field.attname for field in model._meta.local_concrete_fields]
    total = 0
    every = QuerySet[Model](model, using=using).order_by().values_list(*names)
    for row in every.iterator(chunk_size=AT_ONCE):
        total += int.from_bytes(hashlib.sha256(line_of(row)).digest(), "big")
    return total


def line_of(row: tuple[Any, ...]) -> bytes:
    """Return the values of a row, the same for both databases."""
    return json.dumps(comparable(row), sort_keys=True, default=as_text).encode()


def comparable(value: Any) -> Any:
    """Return a value with whole numbers as integers: PostgreSQL writes 1e16 as one in JSON."""
    if isinstance(value, float) and value.is_integer():
        return int(Decimal(repr(value)))
    if isinstance(value, dict):
        return {name: comparable(each) for name, each in value.items()}
    return list(map(comparable, value)) if isinstance(value, list | tuple) else value


def as_text(value: Any) -> str:
    """Return a value that JSON has not, in a form that both databases share."""
    return value.hex() if isinstance(value, bytes | memoryview) else str(value)


def continue_numbers(model: type[Model], source: str) -> None:
    """Give new rows no number that one of ``source`` has had: bindings and budgets of an API key,
    and the audit, may still name a row that is gone.
    """
    field = model._meta.auto_field
    if field is None:
        return
    named = {"table": model._meta.db_table, "column": field.column}
    with connections[source].cursor() as cursor:
        cursor.execute(LAST_NUMBER[connections[source].vendor], named)
        [given] = cursor.fetchone() or [None]
    here = QuerySet[Model](model, using=DEFAULT_DB_ALIAS).aggregate(most=Max("pk"))["most"]
    last = max(given or 0, here or 0)
    if last == 0:
        return
    with connection.cursor() as cursor:
        for statement in SET_LAST_NUMBER[connection.vendor]:
            cursor.execute(statement, {**named, "last": last})


def is_used(source: str) -> bool:
    """Return whether a database holds an installation."""
    return "core_user" in connections[source].introspection.table_names()
