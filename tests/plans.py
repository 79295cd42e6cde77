"""The plans of the statements that code executes: which of them read a growing table as a whole."""

import json
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import count
from typing import Any

from django.db import connection

# There are a handful of channel accounts: a full scan is the quickest way.
BIG = [
    "core_user",
    "core_chatsession",
    "core_inboundmessage",
    "core_run",
    "core_runevent",
    "core_message",
    "core_delivery",
    "core_job",
    "core_schedule",
    "core_occurrence",
    "core_modelcall",
    "core_usageday",
    "core_budgetperiod",
    "core_storedfile",
    "core_channelidentity",
    "allowlist_apikey",
    "allowlist_auditentry",
    "allowlist_unknownrequest",
    "channels_app_sourcefeedback",
]
CHECKED = ("SELECT", "UPDATE", "DELETE", "WITH")
# A scan with one of these reads only the rows of its condition.
PARTIAL = [
    "open_model_calls",
    "queued_runs",
    "queued_by_session",
    "queued_to_cancel",
    "due_batches",
    "waiting_messages",
    "held_media",
    "quarantined",
    "shown_acks",
    "queued_jobs",
    "running_jobs",
    "owners",
    "identities_by_expiry",
    "keys_by_expiry",
    "jobs_by_end",
    "ignored_by_age",
    "revoked_files",
    "files_by_expiry",
    "one_running_run",
    "failing_deliveries",
    "deliveries_in_doubt",
    "held_messages",
    "held_by_age",
    "purged_by_age",
    "open_agent_sessions",
    "open_users",
    "pending_deliveries",
    "pending_requests",
    "untold_requests",
    "told_requests",
    "answered_requests",
    "sending_by_lease",
    "schedules_by_key",
    "occurrences_to_look",
    "waiting_occurrences",
    "fired_occurrences",
    "unfired_occurrences",
    "ended_schedules",
]
STEPS = 100  # of SQLite, between two counts
KINDS = ("", "COVERING ")
METHODS = ("enable_seqscan", "enable_hashjoin", "enable_mergejoin")
# Rows that come one by one, so that LIMIT ends the scan below.
PASSING = {"Limit", "Nested Loop", "Subquery Scan", "Result", "LockRows"}
Plan = dict[str, Any]


def analyse() -> None:
    """Update the statistics of PostgreSQL's planner, as it does itself; SQLite has none."""
    if connection.vendor == "postgresql":
        with connection.cursor() as cursor:
            cursor.execute("ANALYZE")


@dataclass(frozen=True)
class Asked:
    """A statement as the database got it: SQLite plans one by its values, if it has them."""

    sql: str
    params: Any

    def read_whole(self, *, by_choice: bool = True) -> list[str]:
        """Return the big tables that the planner reads from end to end.

        The newest rows of a table, without a condition, are not all of it. ``by_choice``: False for
        those that it has to read: PostgreSQL also reads a small table as a whole instead of looking
        up a bounded, larger number of rows.
        """
        with connection.cursor() as cursor:
            if connection.vendor == "sqlite":
                cursor.execute(f"EXPLAIN QUERY PLAN {self.sql}", self.params)
                plan = [str(row[-1]) for row in cursor.fetchall()]
                if self.has_newest_only() and "B-TREE" not in str(plan):
                    return []
                scans = [line.split()[1] for line in plan if is_scan(line)]
                return [self.table(each) for each in scans if self.table(each) in BIG]
            for method in () if by_choice else METHODS:
                cursor.execute(f"SET LOCAL {method} = off")
            cursor.execute(f"EXPLAIN (FORMAT JSON) {self.sql}", self.params)
            found = cursor.fetchone()[0]
            for method in () if by_choice else METHODS:
                cursor.execute(f"SET LOCAL {method} = on")
        plans = json.loads(found) if isinstance(found, str) else found
        return list(scanned(plans[0]["Plan"], ends=False))

    def plan(self) -> str:
        """Return the plan in the database's words."""
        prefix = "EXPLAIN QUERY PLAN" if connection.vendor == "sqlite" else "EXPLAIN"
        with connection.cursor() as cursor:
            cursor.execute(f"{prefix} {self.sql}", self.params)
            return str(cursor.fetchall())

    def pages(self) -> int:
        """Return how many pages PostgreSQL touches."""
        with connection.cursor() as cursor:
            cursor.execute(f"EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) {self.sql}", self.params)
            found = cursor.fetchone()[0]
        plan = (json.loads(found) if isinstance(found, str) else found)[0]["Plan"]
        return int(plan["Shared Hit Blocks"]) + int(plan["Shared Read Blocks"])

    def has_newest_only(self) -> bool:
        """Return whether it asks for some rows of a table without a condition."""
        return " LIMIT " in self.sql and " WHERE " not in self.sql

    def table(self, alias: str) -> str:
        """Return the table behind an alias of SQLite's plan."""
        named = re.search(rf'"?(\w+)"?(?: AS)? "?{alias}"?[\s,)]', f"{self.sql} ")
        known = named is not None and named[1] in BIG
        return named[1] if named is not None and known else alias


def is_scan(line: str) -> bool:
    """Return whether a line of SQLite's plan means that all rows of a table are read."""
    partial = any(f"USING {kind}INDEX {name}" in line for name in PARTIAL for kind in KINDS)
    return line.startswith("SCAN") and not partial


def scanned(plan: Plan, *, ends: bool) -> Iterator[str]:
    """Yield the big tables that PostgreSQL reads from end to end; ``ends``: below a node that
    ends a scan early."""
    kind, table = plan["Node Type"], plan.get("Relation Name", "")
    whole = kind == "Seq Scan" or (
        kind in {"Index Scan", "Index Only Scan"}
        and "Index Cond" not in plan
        and plan["Index Name"] not in PARTIAL
    )
    if whole and table in BIG and ("Filter" in plan or not ends):
        yield table
    # A merge ends a sorted scan where its other side ends.
    below = kind in {"Limit", "Merge Join"} or (ends and kind in PASSING)
    for each in plan.get("Plans", []):
        yield from scanned(each, ends=below)


def work_of(call: Callable[[], object]) -> int:
    """Return how much the database does for ``call``: SQLite's steps, or PostgreSQL's pages.

    Without a clock: the same on a busy machine.
    """
    if connection.vendor == "sqlite":
        connection.ensure_connection()
        steps = count()
        connection.connection.set_progress_handler(lambda: next(steps) and 0, STEPS)
        try:
            call()
        finally:
            connection.connection.set_progress_handler(None, STEPS)
        return next(steps) * STEPS
    with listening() as asked:
        call()
    return sum(each.pages() for each in asked if each.sql.lstrip().startswith(("SELECT", "WITH")))


@contextmanager
def listening() -> Iterator[list[Asked]]:
    """Record the statements that are executed meanwhile."""
    asked: list[Asked] = []

    def note(execute: Any, sql: str, params: Any, many: Any, context: Any) -> Any:
        if sql.lstrip().startswith(CHECKED):
            asked.append(Asked(sql, params))
        return execute(sql, params, many, context)

    with connection.execute_wrapper(note):
        yield asked
