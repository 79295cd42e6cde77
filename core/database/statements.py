"""Statements that the ORM cannot express, each as a function with a name.

The names of tables and columns are those of ``core.models``; ``tests/core/database`` runs all of
them on both databases.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import orjson
from django.db import DEFAULT_DB_ALIAS, connection, connections

from core.database import driver, text_search
from core.database.queries import list_parameter

# BETWEEN and ORDER BY as in ``queries.only``. The sums go over a bounded number of rows. Texts are
# read only of those that fit, of the first that does not fit no text, and calls only as far as
# theirs fit. SQLite takes the tables of a CROSS JOIN in the order that is written.
HISTORY = """
    WITH recent AS (
        SELECT id, run_id, tokens, call_tokens FROM core_message
        WHERE session_id BETWEEN %s AND %s AND run_id < %s AND id > %s
        AND role IN ('user', 'assistant')
        ORDER BY session_id DESC, run_id DESC, id DESC LIMIT %s
    ), summed AS (
        SELECT id, run_id, tokens, SUM(tokens) OVER newest AS total,
        SUM(COALESCE(call_tokens, 0)) OVER newest AS called
        FROM recent WINDOW newest AS (ORDER BY run_id DESC, id DESC ROWS UNBOUNDED PRECEDING)
    )
    SELECT said.id, said.role, CASE WHEN summed.total <= %s THEN said.text END,
    CASE WHEN summed.called <= %s THEN said.calls END
    FROM summed CROSS JOIN core_message AS said
    WHERE said.id = summed.id AND summed.total - summed.tokens <= %s
    ORDER BY summed.run_id DESC, summed.id DESC"""

# Goes from session to session along the partial index: a session with many queued runs costs as
# much as one with a single run.
QUEUES = """
    WITH RECURSIVE queues (session_id) AS (
        SELECT MIN(session_id) FROM core_run WHERE state = 'queued'
        UNION ALL
        SELECT (
            SELECT MIN(next.session_id) FROM core_run AS next
            WHERE next.state = 'queued' AND next.session_id > queues.session_id
        ) FROM queues WHERE queues.session_id IS NOT NULL
    )
    SELECT (
        SELECT MIN(head.id) FROM core_run AS head
        WHERE head.state = 'queued' AND head.session_id = queues.session_id
    ) FROM queues WHERE queues.session_id IS NOT NULL LIMIT %s"""

COUNTS = """
    SELECT chat.id, (
        SELECT COUNT(*) FROM (
            SELECT 1 FROM core_message WHERE session_id = chat.id LIMIT %s
        ) AS counted
    ) FROM core_chatsession AS chat WHERE chat.id {among}"""


class Said(NamedTuple):
    """A stored message of a history. ``calls``: see ``core.models.Message``."""

    id: int
    role: str
    text: str
    calls: list[dict[str, str]]


def history(
    *, session_id: int, before_run: int, after_id: int, rows: int, tokens: int, call_tokens: int
) -> tuple[list[Said], bool]:
    """Return the messages of a session before a run, newest first, and whether there are more.

    At most ``rows``, and no further back than the sum of their tokens stays within ``tokens``. Of
    these the newest have their calls, as far as the sum of theirs stays within ``call_tokens``.
    """
    given: list[Any] = [session_id, session_id, before_run, after_id, rows + 1]
    given += [tokens, call_tokens, tokens]
    found = driver.fetch(connections[DEFAULT_DB_ALIAS], HISTORY, given)
    said = [
        Said(row[0], row[1], row[2], called(row[3]) if row[3] else [])
        for row in found[:rows]
        if row[2] is not None
    ]
    return said, len(found) > len(said)


def called(stored: Any) -> list[dict[str, str]]:
    """Return the calls of a message, of which the driver gives the JSON text or the value."""
    calls: list[dict[str, str]] = orjson.loads(stored) if isinstance(stored, str) else stored
    return calls


def oldest_queued(*, sessions: int) -> list[int]:
    """Return the id of the oldest queued run of each session, of at most ``sessions`` of them."""
    rows = driver.fetch(connections[DEFAULT_DB_ALIAS], QUEUES, [sessions])
    return [row[0] for row in rows]


def count_messages(*, sessions: Sequence[int], most: int) -> dict[int, int]:
    """Return the number of messages of each session, counted up to ``most``."""
    sql = COUNTS.format(among=text_search.among())
    with connection.cursor() as cursor:
        cursor.execute(sql, [most, list_parameter(sessions, connection)])
        return dict(cursor.fetchall())
