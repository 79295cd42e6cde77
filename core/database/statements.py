"""Statements that the ORM cannot express, each as a function with a name.

The names of tables and columns are those of ``core.models``; ``tests/core/database`` runs all of
them on both databases.
"""

from collections.abc import Sequence
from typing import Any

from django.db import DEFAULT_DB_ALIAS, connection, connections

from core.database import driver, text_search

# BETWEEN and ORDER BY as in ``queries.only``. The sum goes over a bounded number of rows, and texts
# are read only of those that fit.
HISTORY = """
    WITH recent AS (
        SELECT id, run_id, tokens FROM core_message
        WHERE session_id BETWEEN %s AND %s AND run_id < %s AND id > %s
        AND role IN ('user', 'assistant')
        ORDER BY session_id DESC, run_id DESC, id DESC LIMIT %s
    ), summed AS (
        SELECT id, run_id, SUM(tokens) OVER (ORDER BY run_id DESC, id DESC) AS total FROM recent
    )
    SELECT said.role, said.text FROM summed JOIN core_message AS said ON said.id = summed.id
    WHERE summed.total <= %s ORDER BY summed.run_id DESC, summed.id DESC"""

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


def history(
    *, session_id: int, before_run: int, after_id: int, rows: int, tokens: int
) -> Sequence[tuple[str, str]]:
    """Return role and text of the messages of a session before a run, newest first.

    At most ``rows``, and no further back than the sum of their tokens stays within ``tokens``.
    """
    given: list[Any] = [session_id, session_id, before_run, after_id, rows, tokens]
    return driver.fetch(connections[DEFAULT_DB_ALIAS], HISTORY, given)


def oldest_queued(*, sessions: int) -> list[int]:
    """Return the id of the oldest queued run of each session, of at most ``sessions`` of them."""
    rows = driver.fetch(connections[DEFAULT_DB_ALIAS], QUEUES, [sessions])
    return [row[0] for row in rows]


def count_messages(*, sessions: Sequence[int], most: int) -> dict[int, int]:
    """Return the number of messages of each session, counted up to ``most``."""
    sql = COUNTS.format(among=text_search.among())
    with connection.cursor() as cursor:
        cursor.execute(sql, [most, text_search.listed(sessions)])
        return dict(cursor.fetchall())
