"""Statements of the hot path on their way to the driver, without Django's cursor on SQLite.

Django's cursor rewrites the places of each statement with a regular expression, and asks a dozen
questions about each; together that is as long as SQLite takes to answer. Whoever counts or watches
statements (``execute_wrapper``, the query log of tests) gets them over Django's cursor, and so does
PostgreSQL, whose driver does more by itself.
"""

from collections.abc import Sequence
from functools import lru_cache
from typing import Any

from django.db import DEFAULT_DB_ALIAS, connections
from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.backends.sqlite3.base import FORMAT_QMARK_REGEX

KEPT_STATEMENTS = 1000
Rows = list[tuple[Any, ...]]


def this_connection() -> BaseDatabaseWrapper:
    """The database connection of this thread: ``django.db.connection`` looks it up at each use."""
    return connections[DEFAULT_DB_ALIAS]


def fetched(here: BaseDatabaseWrapper, sql: str, given: Sequence[Any]) -> Rows:
    """The rows of a statement with ``%s`` for each value in ``given``, as the driver has them."""
    found: Rows = []
    if is_watched(here):
        with here.cursor() as cursor:
            cursor.execute(sql, given)
            found = cursor.fetchall()
    else:
        with here.wrap_database_errors:
            found = ready(here).execute(marked(sql), given).fetchall()
    return found


def changed(here: BaseDatabaseWrapper, sql: str, given: Sequence[Any]) -> int:
    """How many rows a statement changed."""
    if is_watched(here):
        with here.cursor() as cursor:
            cursor.execute(sql, given)
            return int(cursor.rowcount)
    with here.wrap_database_errors:
        return int(ready(here).execute(marked(sql), given).rowcount)


def repeat(here: BaseDatabaseWrapper, sql: str, rows: Sequence[Sequence[Any]]) -> None:
    """Execute a statement that returns nothing with each of ``rows``."""
    if is_watched(here):
        with here.cursor() as cursor:
            cursor.executemany(sql, rows)
        return
    with here.wrap_database_errors:
        ready(here).executemany(marked(sql), rows)


def is_watched(here: BaseDatabaseWrapper) -> bool:
    """Whether a statement has to go through Django's cursor."""
    return here.vendor != "sqlite" or bool(here.execute_wrappers) or here.queries_logged


def ready(here: BaseDatabaseWrapper) -> Any:
    """The driver's connection. Raises what Django's cursor does in a transaction that failed."""
    if here.connection is None:
        here.ensure_connection()
    here.validate_no_broken_transaction()
    return here.connection


@lru_cache(KEPT_STATEMENTS)
def marked(sql: str) -> str:
    """``sql`` with the places as SQLite has them."""
    return FORMAT_QMARK_REGEX.sub("?", sql).replace("%%", "%")
