"""ORM querysets that are compiled to SQL once per thread.

The ORM builds the SQL of a query at every call; that was half of a turn's CPU. On the hot path a
queryset is written once, with :class:`Param` for each value that comes with a call, and only its
first call in a thread compiles it:

    CLAIM = Update(lambda: (Run.objects.filter(id=Param("id")), {"state": "running"}))
    CLAIM(id=7)

The SQL is the ORM's, with its constants in the text (:func:`inline_constants`). Pass the values of
settings that may change as a :class:`Param` too.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Generic, TypeVar

import orjson
from django.db import connections, models
from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.models.expressions import Expression, Func
from django.db.models.query import get_related_populators
from django.db.models.sql.subqueries import UpdateQuery
from psycopg import sql

from core.database import driver

M = TypeVar("M", bound=models.Model)
T = TypeVar("T")
ALIAS = "default"

Params = Mapping[str, Any]


class Param(Expression):
    """A value that comes with each call, by name.

    ``field`` converts it for the database; without one the driver gets it as it is.
    """

    def __init__(self, name: str, field: models.Field[Any, Any] | None = None) -> None:
        super().__init__(output_field=field)
        self.name = name
        self.convert = field

    def as_sql(self, *_: Any, **__: Any) -> tuple[str, Any]:
        """Return a placeholder whose parameter is this object until :meth:`Sql.bind`."""
        return "%s", [self]

    def value(self, values: Params, connection: BaseDatabaseWrapper) -> Any:
        """Return the parameter for the driver."""
        found = values[self.name]
        return found if self.convert is None else self.convert.get_db_prep_save(found, connection)


class ListParam(Param):
    """A list of numbers or texts as one parameter: its length does not change the statement."""

    def value(self, values: Params, connection: BaseDatabaseWrapper) -> Any:
        """Return a list, or JSON for SQLite, which has no arrays."""
        found = list(values[self.name])
        return orjson.dumps(found).decode() if connection.vendor == "sqlite" else found


class Among(Func):
    """The condition that a column is in the list that a call passes as ``name``."""

    output_field = models.BooleanField()

    def __init__(self, column: str, name: str) -> None:
        super().__init__(column, ListParam(name))

    def as_postgresql(self, compiler: Any, connection: BaseDatabaseWrapper) -> tuple[str, Any]:
        """Compare with an array."""
        return self.as_sql(compiler, connection, template="%(expressions)s)", arg_joiner=" = ANY(")

    def as_sqlite(
        self, compiler: Any, connection: BaseDatabaseWrapper, **_: Any
    ) -> tuple[str, Any]:
        """Compare with the rows of a JSON list."""
        return self.as_sql(
            compiler,
            connection,
            template="%(expressions)s))",
            arg_joiner=" IN (SELECT value FROM json_each(",
        )


@dataclass(frozen=True, slots=True)
class Sql:
    """A compiled statement of one connection; ``params`` holds a :class:`Param` for each value that
    a call passes."""

    connection: BaseDatabaseWrapper
    text: str
    params: tuple[Any, ...]

    def bind(self, values: Params) -> list[Any]:
        """Return the driver's parameters for ``values``."""
        return [
            each.value(values, self.connection) if isinstance(each, Param) else each
            for each in self.params
        ]

    def fetch(self, values: Params) -> driver.Rows:
        """Execute it with ``values`` and return its rows."""
        return driver.fetch(self.connection, self.text, self.bind(values))


def inline_constants(connection: BaseDatabaseWrapper, text: str, params: Sequence[Any]) -> Sql:
    """Write constant strings and numbers into the SQL text; other parameters stay.

    A prepared statement uses a partial index only when the index's condition is in its text.
    """
    literals = [literal(each, connection) for each in params]
    places = tuple("%s" if each is None else each.replace("%", "%%") for each in literals)
    rest = (each for each, written in zip(params, literals, strict=True) if written is None)
    return Sql(connection, text.replace("%%", "%%%%") % places, tuple(rest))


def literal(value: object, connection: BaseDatabaseWrapper) -> str | None:
    """Return the SQL literal of a string or an integer; None for any other type."""
    if isinstance(value, int) and not isinstance(value, bool):
        return str(int(value))  # Django wraps numbers for PostgreSQL in types of psycopg
    if not isinstance(value, str):
        return None
    if connection.vendor == "sqlite":
        return "'" + value.replace("'", "''") + "'"
    return sql.quote(value)


def only(field: str, value: int) -> models.Q:
    """Return the condition that a column of numbers is ``value``, to be sorted by it first.

    PostgreSQL then takes the index that begins with the column. With an equality, ``ORDER BY id
    DESC LIMIT n`` may walk along all ids instead: rows of others, where the wanted ones are old.
    """
    return models.Q((f"{field}__gte", value), (f"{field}__lte", value))


class PerThread(Generic[T]):
    """An object built once per thread, because a database connection belongs to one thread."""

    def __init__(self, build: Callable[[BaseDatabaseWrapper], T]) -> None:
        """Take ``build``, which is called at the first :meth:`get` of a thread."""
        self._build = build
        self._local = threading.local()

    def get(self) -> T:
        """Return the object for this thread's connection."""
        connection = connections[ALIAS]
        kept: tuple[BaseDatabaseWrapper, T] | None = getattr(self._local, "kept", None)
        if kept is None or kept[0] is not connection:
            kept = self._local.kept = (connection, self._build(connection))
        return kept[1]


# Returns a queryset, and the values that the UPDATE sets by field name.
BuildUpdate = Callable[[], tuple[models.QuerySet[Any], Params]]


class Update:
    """A compiled UPDATE; a call returns how many rows it changed. ``build`` runs once a thread."""

    def __init__(self, build: BuildUpdate) -> None:
        self.sql = PerThread(lambda connection: compile_update(build, connection))

    def __call__(self, **values: Any) -> int:
        """Execute it with ``values``."""
        sql = self.sql.get()
        return driver.execute(sql.connection, sql.text, sql.bind(values))


class UpdateReturning:
    """A compiled UPDATE; a call returns the ids of the changed rows. Each thread calls ``build``
    once.
    """

    def __init__(self, build: BuildUpdate) -> None:
        def compile_returning(connection: BaseDatabaseWrapper) -> Sql:
            sql = compile_update(build, connection)
            return replace(sql, text=f"{sql.text} RETURNING id")

        self._sql = PerThread(compile_returning)

    def __call__(self, **values: Any) -> list[int]:
        """Execute it with ``values``."""
        return [row[0] for row in self._sql.get().fetch(values)]


def compile_update(build: BuildUpdate, connection: BaseDatabaseWrapper) -> Sql:
    """Compile the UPDATE of the queryset and values that ``build`` returns."""
    queryset, changes = build()
    query: Any = queryset.query.chain(UpdateQuery)
    query.add_update_values(dict(changes))
    return inline_constants(connection, *query.get_compiler(using=ALIAS).as_sql())


@dataclass(frozen=True, slots=True)
class Reading:
    """A compiled SELECT; ``converters`` of the columns whose driver type is not the field's."""

    sql: Sql
    compiler: Any
    converters: dict[int, Any]

    def rows(self, values: Params) -> list[Sequence[Any]]:
        """Return its rows for ``values``, with Python's types."""
        found: Any = self.sql.fetch(values)
        if found and self.converters:
            found = list(self.compiler.apply_converters(found, self.converters))
        return found  # type: ignore[no-any-return]  # Django's compiler has no types


def compile_select(queryset: models.QuerySet[Any, Any], connection: BaseDatabaseWrapper) -> Reading:
    """Compile ``queryset``."""
    compiler: Any = queryset.query.get_compiler(using=ALIAS)
    text, params = compiler.as_sql()
    columns = [each[0] for each in compiler.select[: compiler.col_count]]
    statement = inline_constants(connection, text, params)
    return Reading(statement, compiler, compiler.get_converters(columns))


class Values:
    """A compiled SELECT of some columns (``values_list``)."""

    def __init__(self, build: Callable[[], models.QuerySet[Any, Any]]) -> None:
        self.reading = PerThread(lambda connection: compile_select(build(), connection))

    def __call__(self, **values: Any) -> list[Sequence[Any]]:
        """Return the rows for ``values``."""
        return self.reading.get().rows(values)


class Instances(Generic[M]):
    """A compiled SELECT of model instances, with ``select_related`` and annotations."""

    def __init__(self, build: Callable[[], models.QuerySet[M]]) -> None:
        self._shape: PerThread[Shape[M]] = PerThread(lambda connection: shape(build(), connection))

    def all(self, **values: Any) -> list[M]:
        """Return the instances for ``values``."""
        made = self._shape.get()
        return [made.instance(row) for row in made.reading.rows(values)]

    def first(self, **values: Any) -> M | None:
        """Return the first instance for ``values``, or None."""
        return next(iter(self.all(**values)), None)


@dataclass(frozen=True, slots=True)
class Shape(Generic[M]):
    """How a row of ``reading`` becomes an instance of ``model``."""

    reading: Reading
    model: type[M]
    names: list[str]
    columns: slice
    annotations: dict[str, int]
    related: list[Any]

    def instance(self, row: Sequence[Any]) -> M:
        """Return the instance of one row, with its annotations and related instances."""
        found = self.model.from_db(ALIAS, self.names, row[self.columns])
        for name, place in self.annotations.items():
            setattr(found, name, row[place])
        for each in self.related:
            each.populate(row, found)
        return found


def shape(queryset: models.QuerySet[M], connection: BaseDatabaseWrapper) -> Shape[M]:
    """Compile ``queryset`` of whole instances, as ``ModelIterable`` does."""
    read = compile_select(queryset, connection)
    populators: Any = get_related_populators  # django-stubs know another signature
    info, select = read.compiler.klass_info, read.compiler.select
    first, last = info["select_fields"][0], info["select_fields"][-1]
    return Shape(
        reading=read,
        model=info["model"],
        names=[each[0].target.attname for each in select[first : last + 1]],
        columns=slice(first, last + 1),
        annotations=read.compiler.annotation_col_map,
        related=populators(info, select, ALIAS),
    )
