"""Execute hot statements with the driver, without Django's cursor.

Django's cursor rewrites the placeholders of each statement with a regular expression and makes a
dozen checks, which takes as long as SQLite takes to answer. For PostgreSQL it writes the values
into the text, which the server parses and plans each time; here the server prepares each statement
once per connection (half the time on both sides, docs/decisions/149). With an ``execute_wrapper``
or the query log of tests, statements go through Django's cursor.
"""

import select
from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from django.conf import settings
from django.db import DEFAULT_DB_ALIAS, connections
from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.backends.sqlite3.base import FORMAT_QMARK_REGEX

if TYPE_CHECKING:
    import psycopg

KEPT_STATEMENTS = 1000
Rows = list[tuple[Any, ...]]
CURSOR = "cursor of hot statements"


def fetch(
    here: BaseDatabaseWrapper, sql: str, given: Sequence[Any], *, keeps_plan: bool = True
) -> Rows:
    """Return the rows of a statement, as the driver returns them; ``given`` fills each ``%s``.

    ``keeps_plan``: see :func:`execute`.
    """
    with here.wrap_database_errors:
        return execute(here, sql, given, keeps_plan=keeps_plan).fetchall()  # type: ignore[no-any-return]


def execute(
    here: BaseDatabaseWrapper,
    sql: str,
    given: Sequence[Any],
    *,
    many: bool = False,
    keeps_plan: bool = True,
) -> Any:
    """Execute a statement; return the cursor, whose ``rowcount`` tells how many rows it changed.

    ``many``: once with each of ``given``. ``keeps_plan``: PostgreSQL may plan it without the
    values. For the first row of many it then expects that a third of the table meets ``<``, and
    reads all of the table where none does. Raises as Django's cursor does in a failed transaction.
    """
    if here.execute_wrappers or here.queries_logged:
        watched = here.cursor()
        (watched.executemany if many else watched.execute)(sql, given)
        return watched
    with here.wrap_database_errors:
        here.close_if_health_check_failed()
        if here.connection is None:
            here.ensure_connection()
        here.validate_no_broken_transaction()
        if here.vendor == "sqlite":
            driver, sql = here.connection, marked(sql)
        else:
            driver = postgresql_cursor(here)
            if not keeps_plan:
                return driver.execute(sql, given, prepare=False)
        return (driver.executemany if many else driver.execute)(sql, given)


def postgresql_cursor(here: BaseDatabaseWrapper) -> "psycopg.Cursor[Any]":
    """Return the cursor of a connection that passes parameters separately.

    All integers have one type: each combination of types would be another prepared statement. It
    lives as long as ``here``: Django closes some connections by dropping them.
    """
    driver: Any = here.connection
    cursor: psycopg.Cursor[Any] | None = vars(here).get(CURSOR)
    if cursor is None or cursor.connection is not driver:
        if settings.GATEWAY_DATABASE_PREPARES:
            driver.prepare_threshold = 0
        cursor = vars(here)[CURSOR] = new_cursor(driver)
    return cursor


def new_cursor(driver: Any) -> "psycopg.Cursor[Any]":
    """Return a cursor of a connection to PostgreSQL that sends all integers as one type."""
    import psycopg  # noqa: PLC0415 - 9 MB that a worker on SQLite does without
    from psycopg.types.numeric import Int8Dumper  # noqa: PLC0415 - the same

    cursor = psycopg.Cursor(driver)
    cursor.adapters.register_dumper(int, Int8Dumper)
    return cursor


def trust() -> None:
    """Skip the health check (``SELECT 1``) before the next use of this thread's connection to
    PostgreSQL. Not when its socket is readable: the server may have closed it.
    """
    here = connections[DEFAULT_DB_ALIAS]
    driver = here.connection
    if here.vendor == "sqlite" or driver is None or driver.closed:
        return
    poll = select.poll()
    poll.register(driver.fileno(), select.POLLIN)
    vars(here)["health_check_done"] = not poll.poll(0)


def array(values: Iterable[int | str]) -> str:
    """Format ``values`` as an array of PostgreSQL; the driver takes several times as long."""
    texts = (
        '"' + each.replace("\\", "\\\\").replace('"', '\\"') + '"'
        if isinstance(each, str)
        else str(each)
        for each in values
    )
    return "{" + ",".join(texts) + "}"


@lru_cache(KEPT_STATEMENTS)
def marked(sql: str) -> str:
    """Return ``sql`` with SQLite's placeholders."""
    return FORMAT_QMARK_REGEX.sub("?", sql).replace("%%", "%")
