"""ORM querysets that are compiled to SQL once per thread.

The ORM builds the SQL of a query at every call; that was half of a turn's CPU. On the hot path a
queryset is written once, with :class:`Param` for each value that comes with a call, and only its
first call in a thread compiles it:

    CLAIM = Update(lambda: (Run.objects.filter(id=Param("id")), {"state": "running"}))
    CLAIM(id=7)

The SQL is the ORM's, with its constants in the text (:func:`inline_constants`). Pass the values of
settings that may change as a :class:`Param` too.

A chore that runs every few seconds and nearly always finds nothing asks this way whether there is
something (:class:`HasRows`), and leaves the rest to the ORM.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Generic, TypeAlias, TypeVar

import orjson
from django.db import DEFAULT_DB_ALIAS, connections, models
from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.models.expressions import Expression, Func
from django.db.models.query import get_related_populators
from django.db.models.sql.subqueries import UpdateQuery

from core.database import driver

M = TypeVar("M", bound=models.Model)
T = TypeVar("T")

Params: TypeAlias = Mapping[str, Any]
Row: TypeAlias = Sequence[Any]
BuildSelect: TypeAlias = Callable[[], "models.QuerySet[Any, Any]"]
# Returns a queryset, and the values that the UPDATE sets by field name.
BuildUpdate: TypeAlias = Callable[[], "tuple[models.QuerySet[Any], Params]"]


class Param(Expression):
    """A value that comes with each call, by name.

    ``field`` converts it for the database; without one the driver gets it as it is.
    """

    def __init__(self, name: str, field: models.Field[Any, Any] | None = None) -> None:
        super().__init__(output_field=field)
        self.name = name
        self.convert: Callable[[Any, BaseDatabaseWrapper], Any] | None = (
            None if field is None else field.get_db_prep_save
        )

    def as_sql(self, *_: Any, **__: Any) -> tuple[str, Any]:
        """Return a placeholder whose parameter is this object until :meth:`Sql.bind`."""
        return "%s", [self]


class Among(Func):
    """The condition that a column is in the list ``name``: one parameter, whatever its length."""

    output_field = models.BooleanField()

    def __init__(self, column: str, name: str) -> None:
        values = Param(name)
        values.convert = list_parameter
        super().__init__(column, values)

    def as_postgresql(self, compiler: Any, connection: BaseDatabaseWrapper) -> tuple[str, Any]:
        return self.as_sql(compiler, connection, template="%(expressions)s)", arg_joiner=" = ANY(")

    def as_sqlite(
        self, compiler: Any, connection: BaseDatabaseWrapper, **_: Any
    ) -> tuple[str, Any]:
        """Compare with the rows of a JSON list."""
        template, joiner = "%(expressions)s))", " IN (SELECT value FROM json_each("
        return self.as_sql(compiler, connection, template=template, arg_joiner=joiner)


def list_parameter(values: Iterable[int | str], connection: BaseDatabaseWrapper) -> Any:
    """Return numbers or texts as a list, or as JSON for SQLite, which has no arrays."""
    found = list(values)
    return orjson.dumps(found).decode() if connection.vendor == "sqlite" else found


@dataclass(frozen=True, slots=True)
class Sql:
    """A compiled statement of one connection; ``params`` has a :class:`Param` for each value."""

    connection: BaseDatabaseWrapper
    text: str
    params: tuple[Any, ...]

    def bind(self, values: Params) -> list[Any]:
        """Return the driver's parameters for ``values``."""
        given = []
        for each in self.params:
            if not isinstance(each, Param):
                given.append(each)
            elif each.convert is None:
                given.append(values[each.name])
            else:
                given.append(each.convert(values[each.name], self.connection))
        return given


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
    from psycopg import sql  # noqa: PLC0415 - 9 MB that a worker on SQLite does without

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
        self._build = build
        self._local = threading.local()

    def get(self) -> T:
        """Return the object for this thread's connection."""
        connection = connections[DEFAULT_DB_ALIAS]
        kept: tuple[BaseDatabaseWrapper, T] | None = getattr(self._local, "kept", None)
        if kept is None or kept[0] is not connection:
            kept = self._local.kept = (connection, self._build(connection))
        return kept[1]


class Update:
    """A compiled UPDATE. ``build`` runs once a thread."""

    def __init__(self, build: BuildUpdate) -> None:
        self.sql = PerThread(partial(compile_update, build))

    def __call__(self, **values: Any) -> int:
        """Execute it with ``values``; return how many rows it changed."""
        sql = self.sql.get()
        return int(driver.execute(sql.connection, sql.text, sql.bind(values)).rowcount)

    def returning(self, **values: Any) -> list[int]:
        """Execute it with ``values``; return the ids of the rows that it changed."""
        sql = self.sql.get()
        rows = driver.fetch(sql.connection, f"{sql.text} RETURNING id", sql.bind(values))
        return [row[0] for row in rows]


def compile_update(build: BuildUpdate, connection: BaseDatabaseWrapper) -> Sql:
    """Compile the UPDATE of the queryset and values that ``build`` returns."""
    queryset, changes = build()
    query: Any = queryset.query.chain(UpdateQuery)
    query.add_update_values(dict(changes))
    return inline_constants(connection, *query.get_compiler(using=DEFAULT_DB_ALIAS).as_sql())


@dataclass(frozen=True, slots=True)
class Reading:
    """A compiled SELECT; ``converters`` of the columns whose driver type is not the field's."""

    sql: Sql
    compiler: Any
    converters: dict[int, Any]

    def rows(self, values: Params, *, keeps_plan: bool = True) -> list[Row]:
        """Return its rows for ``values``, with Python's types."""
        sql = self.sql
        found: Any = driver.fetch(sql.connection, sql.text, sql.bind(values), keeps_plan=keeps_plan)
        if found and self.converters:
            found = list(self.compiler.apply_converters(found, self.converters))
        return found  # type: ignore[no-any-return]  # Django's compiler has no types


def compile_select(build: BuildSelect, connection: BaseDatabaseWrapper) -> Reading:
    """Compile the queryset that ``build`` returns."""
    return compile_query(build().query, connection)


def compile_query(query: Any, connection: BaseDatabaseWrapper) -> Reading:
    """Compile a SELECT of the ORM."""
    compiler: Any = query.get_compiler(using=DEFAULT_DB_ALIAS)
    statement = inline_constants(connection, *compiler.as_sql())
    columns = [each[0] for each in compiler.select[: compiler.col_count]]
    return Reading(statement, compiler, compiler.get_converters(columns))


class Values:
    """A compiled SELECT of some columns (``values_list``)."""

    def __init__(self, build: BuildSelect) -> None:
        self.reading = PerThread(partial(compile_select, build))

    def __call__(self, **values: Any) -> list[Row]:
        """Return the rows for ``values``."""
        return self.reading.get().rows(values)

    def column(self, **values: Any) -> list[Any]:
        """Return the first column of the rows for ``values``."""
        return [row[0] for row in self(**values)]

    def first(self, **values: Any) -> Any | None:
        """Return the first column of the first row for ``values``; None without a row."""
        return next(iter(self.column(**values)), None)


class HasRows:
    """A compiled query whether a SELECT has rows (``exists``). The server plans each call."""

    def __init__(self, build: BuildSelect) -> None:
        self.reading = PerThread(lambda here: compile_query(build().query.exists(), here))

    def __call__(self, **values: Any) -> bool:
        """Return whether there are rows for ``values``."""
        return bool(self.reading.get().rows(values, keeps_plan=False))


class Instances(Generic[M]):
    """A compiled SELECT of model instances, with ``select_related`` and annotations."""

    def __init__(self, build: Callable[[], models.QuerySet[M]]) -> None:
        def compiled(connection: BaseDatabaseWrapper) -> tuple[Reading, Callable[[Row], M]]:
            reading = compile_select(build, connection)
            return reading, instance_maker(reading.compiler)

        self._compiled = PerThread(compiled)

    def all(self, **values: Any) -> list[M]:
        """Return the instances for ``values``."""
        reading, instance = self._compiled.get()
        return [instance(row) for row in reading.rows(values)]

    def first(self, **values: Any) -> M | None:
        """Return the first instance for ``values``, or None."""
        reading, instance = self._compiled.get()
        rows = reading.rows(values)
        return instance(rows[0]) if rows else None


def instance_maker(compiler: Any) -> Callable[[Row], Any]:
    """Return the function that makes a row an instance, as ``ModelIterable`` does."""
    populators: Any = get_related_populators  # django-stubs know another signature
    info, select = compiler.klass_info, compiler.select
    model, first, last = info["model"], info["select_fields"][0], info["select_fields"][-1] + 1
    names = [each[0].target.attname for each in select[first:last]]
    annotations, related = compiler.annotation_col_map, populators(info, select, DEFAULT_DB_ALIAS)

    def instance(row: Row) -> Any:
        found = model.from_db(DEFAULT_DB_ALIAS, names, row[first:last])
        for name, place in annotations.items():
            setattr(found, name, row[place])
        for each in related:
            each.populate(row, found)
        return found

    return instance
