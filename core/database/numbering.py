"""Numbers of rows that stay given when a migration of SQLite rebuilds their table."""

from types import TracebackType
from typing import Self

from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.backends.sqlite3.schema import DatabaseSchemaEditor
from django.db.models import Model

# A rebuilt table is numbered from its highest row, and a name in the audit, in budgets or in
# bindings may still mean a deleted one.
RAISE = "UPDATE sqlite_sequence SET seq = max(seq, %(last)s) WHERE name = %(table)s"
ADD = """INSERT INTO sqlite_sequence (name, seq) SELECT name, %(last)s FROM sqlite_master
    WHERE type = 'table' AND name = %(table)s
    AND NOT EXISTS (SELECT 1 FROM sqlite_sequence WHERE name = %(table)s)"""


class SchemaEditor(DatabaseSchemaEditor):
    """Django's; in the transaction of each migration it restores what it has forgotten."""

    def __enter__(self) -> Self:
        super().__enter__()
        self.given = given(self.connection)  # by the names of now
        return self

    def alter_db_table(self, model: type[Model], old_db_table: str, new_db_table: str) -> None:
        """Rename a table, also in what is restored."""
        super().alter_db_table(model, old_db_table, new_db_table)
        self.given = {
            (new_db_table if table == old_db_table else table, last) for table, last in self.given
        }

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc_value: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if exc_type is None:
            with self.connection.cursor() as cursor:
                for table, last in self.given - given(self.connection):
                    for statement in (RAISE, ADD):
                        cursor.execute(statement, {"table": table, "last": last})
        super().__exit__(exc_type, exc_value, traceback)


def given(connection: BaseDatabaseWrapper) -> set[tuple[str, int]]:
    """Return the last number of each table, also of those whose rows are gone."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT name FROM sqlite_master WHERE name = 'sqlite_sequence'")
        if cursor.fetchone() is None:  # before the first table
            return set()
        cursor.execute("SELECT name, seq FROM sqlite_sequence")
        return {(str(name), int(last)) for name, last in cursor.fetchall()}


def keep_last_numbers(connection: BaseDatabaseWrapper) -> None:
    """Let migrations of a database keep them; PostgreSQL does so by itself."""
    if connection.vendor == "sqlite":
        connection.SchemaEditorClass = SchemaEditor
