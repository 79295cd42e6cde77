"""Search for words in the messages of one person's chats.

Both databases find the same: a substring, whatever its case, in any script, ``i`` with or without
its dot, ``ß`` as ``ss``, and accents as one character or as two. An index serves words
of three characters and more: on PostgreSQL one of trigrams (``pg_trgm``), which the planner uses
where it is quicker than reading the person's chats; on SQLite an FTS5 table of trigrams, sorted by
person, so that what others said is not touched. Without an index the person's chats are read.

The FTS5 table holds no texts. A worker fills it (:func:`catch_up`) up to ``indexed_to``; triggers
remove and replace what was indexed. They refer to tables that Django's migrations replace on
SQLite, and a table is not renamed while a trigger refers to a missing one: :func:`release` removes
them before a migration, :func:`prepare` creates what is missing after it.
"""

import logging
import re
import sqlite3
import unicodedata
from collections.abc import Sequence
from functools import cache
from itertools import accumulate
from typing import Any

from django.db import Error, connection

from core.database.queries import list_parameter
from core.database.transactions import atomic_write

logger = logging.getLogger(__name__)

SHORTEST_INDEXED = 3  # characters: a trigram
USER_SHIFT = 40  # of a row's number in the FTS5 table: the person, then the message
MESSAGE_MASK = (1 << USER_SHIFT) - 1
BATCH = 100
# So far behind, the index is still being filled for the first time.
FAR_BEHIND = 5000
MOST_HITS = 2000
# With fewer messages, reading them is as quick.
NEEDED_FROM = 50_000
ALIKE = str.maketrans("ςı", "σi")
# Of folded words: neither an i, nor an s that may be of an ß, and long enough for the index.
OF_ONE_SPELLING = re.compile(r"(?:[^is]|(?<=[^s])s(?=[^s])){3,}")
# In order of preference; none means the database's own.
COLLATIONS = ("und-x-icu", "C.utf8")
INDEX = "core_message_words"

TRIGGERS = {
    "core_message_unsearch": """AFTER DELETE ON core_message
        WHEN old.id <= (SELECT indexed_to FROM core_search_progress)
        BEGIN
            INSERT INTO core_search (core_search, rowid, text)
            SELECT 'delete', user_id << 40 | old.id, old.text
            FROM core_chatsession WHERE id = old.session_id;
        END""",
    "core_message_research": """AFTER UPDATE OF text ON core_message
        WHEN old.text IS NOT new.text
        AND old.id <= (SELECT indexed_to FROM core_search_progress)
        BEGIN
            INSERT INTO core_search (core_search, rowid, text)
            SELECT 'delete', user_id << 40 | old.id, old.text
            FROM core_chatsession WHERE id = old.session_id;
            INSERT INTO core_search (rowid, text)
            SELECT user_id << 40 | new.id, new.text
            FROM core_chatsession WHERE id = new.session_id;
        END""",
}
TABLES = (
    "CREATE TABLE IF NOT EXISTS core_search_progress (indexed_to integer NOT NULL)",
    "INSERT INTO core_search_progress SELECT 0 WHERE NOT EXISTS "
    "(SELECT 1 FROM core_search_progress)",
    "CREATE VIRTUAL TABLE IF NOT EXISTS core_search "
    "USING fts5(text, content='', detail='none', tokenize='trigram')",
)

NEWEST = """
    SELECT chat.id, (
        SELECT said.id FROM (
            SELECT id, text, data FROM core_message
            WHERE session_id BETWEEN chat.id AND chat.id AND role IN ('user', 'assistant')
            ORDER BY session_id, id DESC LIMIT %s
        ) AS said WHERE {contains} ORDER BY said.id DESC LIMIT 1
    ) FROM core_chatsession AS chat WHERE chat.id {among}"""
# The sum keeps a planner from reading the messages of all people, newest first.
READ = """
    SELECT said.session_id, said.id FROM core_message AS said
    WHERE said.session_id {among} AND said.role IN ('user', 'assistant') AND {contains}
    ORDER BY said.id + 0 DESC LIMIT %s"""
INDEXED = """
    SELECT said.session_id, said.id FROM core_search
    CROSS JOIN core_message AS said ON said.id = core_search.rowid & %s
    WHERE core_search MATCH %s AND core_search.rowid BETWEEN %s AND %s
    AND said.session_id {among} AND said.role IN ('user', 'assistant') AND {contains}
    ORDER BY core_search.rowid DESC LIMIT %s"""
NOT_INDEXED = """
    SELECT said.id, chat.user_id, said.text FROM core_message AS said
    JOIN core_chatsession AS chat ON chat.id = said.session_id
    WHERE said.id > %s ORDER BY said.id LIMIT %s"""
# Ids begin again after the highest one that is left when a migration replaces the table.
NO_FURTHER_THAN_MESSAGES = """UPDATE core_search_progress SET indexed_to = highest
    FROM (SELECT COALESCE(MAX(id), 0) AS highest FROM core_message) WHERE indexed_to > highest"""
LAG = """SELECT COALESCE((SELECT MAX(id) FROM core_message), 0) - indexed_to
    FROM core_search_progress"""


def fold(text: str) -> str:
    """Return ``text`` for comparison: lower case, ß as ss, one form of sigma and of i."""
    lower = text.lower()
    if lower.isascii():
        return lower
    return lower.replace("i\u0307", "i").replace("ß", "ss").translate(ALIKE)


def is_in(text: str, words: str) -> bool:
    """Return whether ``text`` holds ``words``, by the rules of :func:`fold`."""
    folded = fold(text)
    return any(spelling in folded for spelling in spellings(words))


def folded_place(text: str, words: str) -> int:
    """Return where ``words`` begin in ``text``, not in its folded form; 0 where they are not."""
    folded = fold(text)
    places = (folded.find(spelling) for spelling in spellings(words))
    at = max(0, next((place for place in places if place >= 0), 0))
    if len(folded) == len(text):
        return at
    lengths = accumulate(len(fold(character)) for character in text)
    return next((place for place, length in enumerate(lengths) if length > at), 0)


def spellings(words: str) -> list[str]:
    """Return ``words`` folded, with accents as one character and as two."""
    return list(dict.fromkeys(fold(unicodedata.normalize(form, words)) for form in ("NFC", "NFD")))


def in_newest(*, sessions: Sequence[int], words: str, messages: int) -> dict[int, int]:
    """Return the newest message with ``words`` among the last ones, by session."""
    contains, given = condition(words)
    sql = NEWEST.format(contains=contains, among=among())
    rows = fetch(sql, [messages, *given, list_parameter(sessions, connection)])
    return {session: message for session, message in rows if message is not None}


def in_all(*, user_id: int, sessions: Sequence[int], words: str) -> dict[int, int]:
    """Return the same, of all messages of these sessions of one person.

    Of the newest MOST_HITS messages that match. ``words`` have three characters or more.
    """
    contains, given = condition(words)
    wanted = match(words)
    if connection.vendor == "sqlite" and wanted and has_fts_table() and lag() <= FAR_BEHIND:
        sql = INDEXED.format(contains=contains, among=among())
        first = user_id << USER_SHIFT
        bounds = [MESSAGE_MASK, wanted, first, first | MESSAGE_MASK]
        rows = fetch(sql, [*bounds, list_parameter(sessions, connection), *given, MOST_HITS])
    else:
        sql = READ.format(contains=contains, among=among())
        rows = fetch(sql, [list_parameter(sessions, connection), *given, MOST_HITS])
    return dict(reversed(rows))


def fetch(sql: str, given: Sequence[Any]) -> list[tuple[Any, ...]]:
    """Return the rows of a statement, planned anew: the best plan differs by the words."""
    connection.ensure_connection()
    if connection.vendor == "sqlite":
        connection.connection.create_function("latchkey_fold", 1, fold, deterministic=True)
    with connection.cursor() as cursor:
        cursor.execute(sql, given)
        return list(cursor.fetchall())


def among() -> str:
    """Return the comparison with a list that is one parameter."""
    return "IN (SELECT value FROM json_each(%s))" if connection.vendor == "sqlite" else "= ANY(%s)"


def condition(words: str) -> tuple[str, list[str]]:
    """Return the condition that the indexed and the shown text have ``words``; its parameters."""
    found = spellings(words)
    if connection.vendor == "sqlite":
        each, shown = "instr(latchkey_fold({}), %s) > 0", "json_extract(said.data, '$.said')"
    else:
        if not collation():  # the database may know the case of ASCII letters only
            found = list(dict.fromkeys([*found, words, words.upper(), words.capitalize()]))
        found = [f"%{escaped(spelling)}%" for spelling in found]
        each, shown = f"{folded('{}')} LIKE %s", "(said.data ->> 'said')"
    both = [
        f"({' OR '.join([each.format(text)] * len(found))})"
        for text in ("said.text", f"COALESCE({shown}, said.text)")
    ]
    return " AND ".join(both), found * 2


def escaped(text: str) -> str:
    """Return ``text`` as a literal part of a LIKE pattern."""
    return text.replace("\\", "\\\\").replace("%", "\\%").replace("_", "\\_")


def match(words: str) -> str:
    """Return trigrams that cover ``words``, as an expression of FTS5; empty where none may be asked
    for, as FTS5 knows nothing of the dots of an i, nor of ß.
    """
    each = [grams(spelling) for spelling in spellings(words)]
    return " OR ".join(map(" AND ".join, each)) if all(each) else ""


def grams(folded_words: str) -> list[str]:
    """Return trigrams that cover the parts of the words that are written in one way alone."""
    found: list[str] = []
    for part in OF_ONE_SPELLING.findall(folded_words):
        last = len(part) - SHORTEST_INDEXED
        starts = dict.fromkeys([*range(0, last, SHORTEST_INDEXED), last])
        found += (part[start : start + SHORTEST_INDEXED].replace('"', '""') for start in starts)
    return [f'"{gram}"' for gram in found]


def folded(column: str) -> str:
    """Return the expression of PostgreSQL for :func:`fold`: the index has the same."""
    named = f' COLLATE "{collation()}"' if collation() else ""
    lower = f"lower({column}{named})"
    return f"translate(replace(replace({lower}, 'i\u0307', 'i'), 'ß', 'ss'), 'ςı', 'σi')"


@cache
def collation() -> str:
    """Return the collation by which PostgreSQL knows the case of all scripts; empty for none."""
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT collname FROM pg_collation WHERE collname = ANY(%s) AND collencoding IN "
            "(-1, (SELECT encoding FROM pg_database WHERE datname = current_database()))",
            [list(COLLATIONS)],
        )
        known = {row[0] for row in cursor.fetchall()}
    return next((name for name in COLLATIONS if name in known), "")


def has_fts_table() -> bool:
    """Return whether SQLite has the FTS5 table with its triggers."""
    names = {name for (name,) in fetch("SELECT name FROM sqlite_master", [])}
    return names >= {"core_search", *TRIGGERS}


def lag() -> int:
    """Return how far the FTS5 table is behind the newest message."""
    rows = fetch(LAG, [])
    return int(rows[0][0]) if rows else 0


def catch_up(*, batches: int = 20) -> int:
    """Index messages that are not indexed yet, in short transactions; return how many.

    Does nothing on PostgreSQL, which keeps its index itself.
    """
    done = 0
    if connection.vendor != "sqlite" or not has_fts_table():
        return done
    while batches and lag() > 0:
        batches -= 1
        with atomic_write():
            indexed_to = fetch("SELECT indexed_to FROM core_search_progress", [])[0][0]
            rows = fetch(NOT_INDEXED, [indexed_to, BATCH])
            if not rows:
                break
            # FTS5 writes a segment at each number that is lower than the one before.
            numbered = sorted((user << USER_SHIFT | message, text) for message, user, text in rows)
            with connection.cursor() as cursor:
                cursor.executemany(
                    "INSERT INTO core_search (rowid, text) VALUES (%s, %s)", numbered
                )
                cursor.execute("UPDATE core_search_progress SET indexed_to = %s", [rows[-1][0]])
        done += len(rows)
    return done


def release() -> None:
    """Remove the triggers, before tables that they refer to are replaced."""
    if connection.vendor == "sqlite":
        with connection.cursor() as cursor:
            for name in TRIGGERS:
                cursor.execute(f"DROP TRIGGER IF EXISTS {name}")


def prepare() -> None:
    """Create what the search needs and the database permits; log what it does not."""
    try:
        if connection.vendor == "sqlite":
            prepare_sqlite()
        else:
            prepare_postgresql()
    except Error as error:
        logger.warning("no index for the search in chats: %s", str(error).partition("\n")[0])


def prepare_sqlite() -> None:
    """Create the FTS5 table and its triggers, where SQLite has trigrams (3.34 and later)."""
    with atomic_write(), connection.cursor() as cursor:
        for statement in TABLES:
            cursor.execute(statement)
        for name, trigger in TRIGGERS.items():
            cursor.execute(f"CREATE TRIGGER IF NOT EXISTS {name} {trigger}")
        cursor.execute(NO_FURTHER_THAN_MESSAGES)


def prepare_postgresql() -> None:
    """Create the extension and the index, without blocking the writers of the table."""
    with connection.cursor() as cursor:
        if has_index():
            return
        cursor.execute("CREATE EXTENSION IF NOT EXISTS pg_trgm")
        cursor.execute(f"DROP INDEX CONCURRENTLY IF EXISTS {INDEX}")  # of an interrupted attempt
        cursor.execute(
            f"CREATE INDEX CONCURRENTLY {INDEX} ON core_message "
            f"USING gin (({folded('text')}) gin_trgm_ops)"
        )


def has_index() -> bool:
    """Return whether PostgreSQL has a usable index of this expression."""
    rows = fetch(
        "SELECT pg_get_indexdef(indexrelid) FROM pg_index "
        "WHERE indexrelid = to_regclass(%s) AND indisvalid",
        [INDEX],
    )
    return bool(rows) and "'ß'" in rows[0][0] and collation() in rows[0][0]


def problem() -> str:
    """Return why the search in chats is slow, for the owner; empty when it is not."""
    rows = fetch("SELECT MAX(id) FROM core_message", [])
    if (rows[0][0] or 0) < NEEDED_FROM:
        return ""
    if connection.vendor == "sqlite":
        reason = f"the FTS5 table of trigrams is missing (SQLite {sqlite3.sqlite_version})"
        return "" if has_fts_table() else f"The search in chats has no index: {reason}."
    reason = "the extension pg_trgm is missing"
    return "" if has_index() else f"The search in chats has no index: {reason}."
