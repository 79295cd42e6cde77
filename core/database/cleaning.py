"""Remove what deleted rows leave behind in the files of the database.

SQLite keeps deleted content in free pages, in unused space of pages and in its log; the segments of
the search index keep trigrams of deleted messages until they are merged. PostgreSQL keeps dead rows
until VACUUM, and values in its statistics until ANALYZE; bytes stay in unused space of its pages,
in its log, and in copies (docs/personal-data.md).
"""

from collections.abc import Iterable

from django.db import DEFAULT_DB_ALIAS, Error, connection, connections

from core.database import driver, text_search
from core.database.transactions import atomic_write, writer_lock

MERGED_PAGES = 200  # of the search index, in one short transaction


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
    except Error as error:
        raise CleaningError(f"The database could not be cleaned: {error}") from error


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


def run(sql: str, *given: int) -> driver.Rows:
    """Execute a statement; return its rows."""
    cursor = driver.execute(connections[DEFAULT_DB_ALIAS], sql, given)
    return list(cursor.fetchall()) if cursor.description else []
