"""Statements of the hot path, compiled once a thread.

The ORM builds the SQL of a query anew at every call; that was half of a turn's CPU. Here a query is
written with the ORM as everywhere else, with :class:`Given` where a value comes later, and only its
first call builds it:

    CLAIM = Change(lambda: (Run.objects.filter(id=Given("id")), {"state": "running"}))
    CLAIM(id=7)

What is sent is what the ORM makes of it, for the database at hand. Values of settings that may
change belong into a :class:`Given` too.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Generic, TypeVar

import orjson
from django.db import connections, models
from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.models import query as queries
from django.db.models.expressions import Expression, Func
from django.db.models.sql.subqueries import UpdateQuery
from psycopg import sql

from core.database import driver

M = TypeVar("M", bound=models.Model)
T = TypeVar("T")
ALIAS = "default"

Params = Mapping[str, Any]


class Param(Expression):
    """A value that comes with each call, by name.

    ``field``: how it is written, where that is not how Python has it (dates, durations, JSON).
    """

    def __init__(self, name: str, field: models.Field[Any, Any] | None = None) -> None:
        super().__init__(output_field=field)
        self.name = name
        self.written_as = field

    def as_sql(self, *_: Any, **__: Any) -> tuple[str, Any]:
        """A place for the value; it is its own parameter until then."""
        return "%s", [self]

    def value(self, values: Params, connection: BaseDatabaseWrapper) -> Any:
        """What the database is given for it."""
        found = values[self.name]
        if self.written_as is None:
            return found
        return self.written_as.get_db_prep_value(found, connection)


class Numbers(Param):
    """Whole numbers that come with each call, by name: how many does not change the statement."""

    def value(self, values: Params, connection: BaseDatabaseWrapper) -> Any:
        """A list, or for SQLite, which has none, its JSON."""
        found = values[self.name]
        return orjson.dumps(found).decode() if connection.vendor == "sqlite" else found


class Among(Func):
    """Whether a column is one of the :class:`Numbers` called ``name``."""

    output_field = models.BooleanField()

    def __init__(self, column: str, name: str) -> None:
        super().__init__(column, Numbers(name))

    def as_postgresql(self, compiler: Any, connection: BaseDatabaseWrapper) -> tuple[str, Any]:
        """With its own lists."""
        return self.as_sql(compiler, connection, template="%(expressions)s)", arg_joiner=" = ANY(")

    def as_sqlite(
        self, compiler: Any, connection: BaseDatabaseWrapper, **_: Any
    ) -> tuple[str, Any]:
        """With the rows of a JSON list."""
        return self.as_sql(
            compiler,
            connection,
            template="%(expressions)s))",
            arg_joiner=" IN (SELECT value FROM json_each(",
        )


@dataclass(frozen=True, slots=True)
class Sql:
    """One statement of one connection."""

    connection: BaseDatabaseWrapper
    text: str
    params: tuple[Any, ...]

    def filled(self, values: Params) -> list[Any]:
        """Its parameters for ``values``."""
        return [
            each.value(values, self.connection) if isinstance(each, Param) else each
            for each in self.params
        ]


def inline_constants(connection: BaseDatabaseWrapper, text: str, params: Sequence[Any]) -> Sql:
    """The statement with the words that are always the same in its text.

    A statement that PostgreSQL has planned once for all values uses a partial index only when its
    condition is there.
    """
    if connection.vendor == "sqlite":
        return Sql(connection, text, tuple(params))
    places = tuple(
        sql.quote(str(each)).replace("%", "%%") if isinstance(each, str) else "%s"
        for each in params
    )
    left = (each for each in params if not isinstance(each, str))
    return Sql(connection, text.replace("%%", "%%%%") % places, tuple(left))


class PerThread(Generic[T]):
    """What is built once a thread: a connection belongs to one, and so does what is made for it."""

    def __init__(self, build: Callable[[BaseDatabaseWrapper], T]) -> None:
        """``build`` is called when it is needed first."""
        self._build = build
        self._local = threading.local()

    def get(self) -> T:
        """It, for this thread's connection."""
        connection = connections[ALIAS]
        kept: tuple[BaseDatabaseWrapper, T] | None = getattr(self._local, "kept", None)
        if kept is None or kept[0] is not connection:
            kept = self._local.kept = (connection, self._build(connection))
        return kept[1]


Changing = Callable[[], tuple[models.QuerySet[Any], Params]]


class Update:
    """An UPDATE: a queryset and what it sets; how many rows it changed."""

    def __init__(self, build: Changing) -> None:
        """``build`` is called when the statement is needed first."""
        self._sql = PerThread(lambda connection: updating(build, connection))

    def __call__(self, **values: Any) -> int:
        """Execute it with ``values``."""
        sql = self._sql.get()
        return driver.execute(sql.connection, sql.text, sql.filled(values))

    def filled(self, values: Params) -> tuple[str, list[Any]]:
        """Its text and its parameters."""
        sql = self._sql.get()
        return sql.text, sql.filled(values)


class UpdateReturning:
    """An UPDATE of rows that somebody else may take; the ids of those that it changed."""

    def __init__(self, build: Changing) -> None:
        """``build`` is called when the statement is needed first."""

        def compiled(connection: BaseDatabaseWrapper) -> Sql:
            sql = updating(build, connection)
            return replace(sql, text=f"{sql.text} RETURNING id")

        self._sql = PerThread(compiled)

    def __call__(self, **values: Any) -> list[int]:
        """Execute it with ``values``."""
        sql = self._sql.get()
        return [row[0] for row in driver.fetch(sql.connection, sql.text, sql.filled(values))]


def updating(build: Changing, connection: BaseDatabaseWrapper) -> Sql:
    """The UPDATE of what ``build`` gives."""
    queryset, changes = build()
    query: Any = queryset.query.chain(UpdateQuery)
    query.add_update_values(dict(changes))
    return inline_constants(connection, *query.get_compiler(using=ALIAS).as_sql())


@dataclass(frozen=True, slots=True)
class Reading:
    """A SELECT, and the compiler that knows what its columns are.

    ``converters``: of the columns that the driver does not give as Python's types already.
    """

    sql: Sql
    compiler: Any
    converters: dict[int, Any]

    def rows(self, values: Params) -> Iterable[Sequence[Any]]:
        """Its rows for ``values``, with Python's types."""
        found = driver.fetch(self.sql.connection, self.sql.text, self.sql.filled(values))
        rows: Iterable[Sequence[Any]] = found
        if found and self.converters:
            rows = self.compiler.apply_converters(found, self.converters)
        return rows


def reading(queryset: models.QuerySet[Any, Any], connection: BaseDatabaseWrapper) -> Reading:
    """The compiled form of ``queryset``."""
    compiler: Any = queryset.query.get_compiler(using=ALIAS)
    text, params = compiler.as_sql()
    columns = [each[0] for each in compiler.select[: compiler.col_count]]
    statement = inline_constants(connection, text, params)
    return Reading(statement, compiler, compiler.get_converters(columns))


class Values:
    """A SELECT of some columns (``values_list``)."""

    def __init__(self, build: Callable[[], models.QuerySet[Any, Any]]) -> None:
        """``build`` is called when the statement is needed first."""
        self._reading = PerThread(lambda connection: reading(build(), connection))

    def __call__(self, **values: Any) -> list[Sequence[Any]]:
        """The rows that it finds for ``values``."""
        return list(self._reading.get().rows(values))


@dataclass(frozen=True, slots=True)
class Shape(Generic[M]):
    """A SELECT whose rows become instances of ``model``."""

    reading: Reading
    model: type[M]
    names: list[str]
    columns: slice
    related: list[Any]

    def instance(self, row: Sequence[Any]) -> M:
        """The instance of one row, with what was selected with it."""
        found = self.model.from_db(ALIAS, self.names, row[self.columns])
        for each in self.related:
            each.populate(row, found)
        return found


class Instances(Generic[M]):
    """A SELECT of model instances."""

    def __init__(self, build: Callable[[], models.QuerySet[M]]) -> None:
        """``build`` is called when the statement is needed first."""
        self._shape: PerThread[Shape[M]] = PerThread(lambda connection: shape(build(), connection))

    def all(self, **values: Any) -> list[M]:
        """The instances that it finds for ``values``."""
        made = self._shape.get()
        return [made.instance(row) for row in made.reading.rows(values)]

    def first(self, **values: Any) -> M | None:
        """The first instance that it finds, or None."""
        return next(iter(self.all(**values)), None)


def shape(queryset: models.QuerySet[M], connection: BaseDatabaseWrapper) -> Shape[M]:
    """How the rows of ``queryset`` become instances."""
    read = reading(queryset, connection)
    populators: Any = queries.get_related_populators  # its types are of another Django
    info, select = read.compiler.klass_info, read.compiler.select
    first, last = info["select_fields"][0], info["select_fields"][-1]
    return Shape(
        reading=read,
        model=info["model"],
        names=[each[0].target.attname for each in select[first : last + 1]],
        columns=slice(first, last + 1),
        related=populators(info, select, ALIAS),
    )
