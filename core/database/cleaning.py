"""Remove what deleted rows leave behind in the files of the database.

SQLite keeps deleted content in free pages, in unused space of pages and in its log; the segments of
the search index keep trigrams of deleted messages until they are merged. PostgreSQL keeps dead rows
until VACUUM, and values in its statistics until ANALYZE, which leaves those of a table without rows
as they are (analyze.c); bytes stay in unused space of its pages, in its log, and in copies
(docs/personal-data.md).
"""

from collections.abc import Iterable

from django.db import DEFAULT_DB_ALIAS, Error, connection, connections, transaction

from core.database import driver, text_search
from core.database.transactions import atomic_write, writer_lock

MERGED_PAGES = 200  # of the search index, in one short transaction
LOCK_SECONDS = 2
# Columns with words, not with numbers, times or yes and no; keys of other rows are numbers.
WITH_STATISTICS = """
    SELECT a.attname, format_type(a.atttypid, a.atttypmod)
    FROM pg_stats s
    JOIN pg_attribute a
        ON a.attrelid = to_regclass(quote_ident(s.tablename)) AND a.attname = s.attname
    JOIN pg_type t ON t.oid = a.atttypid
    WHERE s.schemaname = current_schema() AND s.tablename = %s
        AND t.typcategory NOT IN ('N', 'D', 'B')
"""


class CleaningError(Exception):
    """The files of the database could not be cleaned; the text says why."""


def clean(tables: Iterable[str]) -> None:
    """Remove what deleted rows of ``tables`` left behind. Outside of a transaction.

    On SQLite the whole file is written anew: writers wait as long as that takes. Raises
    CleaningError when another process does not let go of the database in time.
    """
    try:
        if connection.vendor == "sqlite":
            merge_search_index()
            rewrite()
        else:
            for table in tables:
                run(f'VACUUM (ANALYZE) "{table}"')
                forget_statistics(table)
    except Error as error:
        raise CleaningError(f"The database could not be cleaned: {error}") from error


def forget_statistics(table: str) -> None:
    """Remove PostgreSQL's statistics of a table without rows: a column that is given its type again
    has none (tablecmds.c, ``RemoveStatistics``). Raises Error.
    """
    is_empty = not run(f'SELECT 1 FROM "{table}" LIMIT 1')  # noqa: S608 - our own names
    columns = run(WITH_STATISTICS, table) if is_empty else []
    if columns:
        changes = ", ".join(f'ALTER COLUMN "{name}" TYPE {kind}' for name, kind in columns)
        with transaction.atomic():
            run(f"SET LOCAL lock_timeout = '{LOCK_SECONDS}s'")
            run(f'ALTER TABLE "{table}" {changes}')


def rewrite() -> None:
    """Write the file of SQLite anew and empty its log. Raises Error, CleaningError."""
    with writer_lock():
        run("VACUUM")
        [(busy, _, _)] = run("PRAGMA wal_checkpoint(TRUNCATE)")
    if busy:
        raise CleaningError("The log of the database could not be emptied: it is being read.")


def merge_search_index() -> None:
    """Merge all segments of the search index into one, which has nothing of deleted messages."""
    if not text_search.has_fts_table():
        return
    amount = -MERGED_PAGES  # below zero: all segments, whatever their sizes
    while True:
        with atomic_write():
            before = connection.connection.total_changes
            run("INSERT INTO core_search (core_search, rank) VALUES ('merge', %s)", amount)
            merged = connection.connection.total_changes - before
        if merged < 2:  # FTS5's manual: nothing was left to do
            return
        amount = MERGED_PAGES


def run(sql: str, *given: int | str) -> driver.Rows:
    """Execute a statement; return its rows."""
    cursor = driver.execute(connections[DEFAULT_DB_ALIAS], sql, given)
    return list(cursor.fetchall()) if cursor.description else []
