"""Numbers of rows across migrations of SQLite: none is given twice."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from django.db import models
from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.migrations import AddField, CreateModel, Migration, RenameModel
from django.db.migrations.operations.base import Operation
from django.db.migrations.state import ProjectState
from django.db.utils import ConnectionHandler

from core.database import numbering

pytestmark = pytest.mark.django_db
MADE = CreateModel("Old", [("id", models.BigAutoField(primary_key=True))])
RENAMED = RenameModel("Old", "New")


def rebuilt(name: str) -> AddField:
    """Return an operation for which SQLite needs another table."""
    return AddField(name, "word", models.TextField(unique=True, default="x"))


@pytest.fixture
def database(tmp_path: Path) -> Iterator[BaseDatabaseWrapper]:
    """Yield a new database of SQLite, whose migrations keep the numbers."""
    given = {"ENGINE": "django.db.backends.sqlite3", "NAME": str(tmp_path / "new")}
    made = ConnectionHandler({"default": given})["default"]
    numbering.keep_last_numbers(made)
    yield made
    made.close()


def migrate(database: BaseDatabaseWrapper, state: ProjectState, *steps: Operation) -> ProjectState:
    """Apply one migration; return what it leaves."""
    made: Migration = type("Made", (Migration,), {"operations": steps})("one", "core")
    with database.schema_editor() as editor:
        return made.apply(state, editor)


@pytest.mark.parametrize(
    "steps",
    [[rebuilt("Old")], [RENAMED], [rebuilt("Old"), RENAMED], [RENAMED, rebuilt("New")]],
)
def test_a_table_that_is_rebuilt_or_renamed_gives_no_number_again(
    database: BaseDatabaseWrapper, steps: list[Operation]
) -> None:
    """A row that was deleted may still be named elsewhere."""
    state = migrate(database, ProjectState(), MADE)
    with database.cursor() as cursor:
        cursor.execute("INSERT INTO core_old (id) VALUES (7)")
        cursor.execute("DELETE FROM core_old")
    [model] = migrate(database, state, *steps).apps.get_app_config("core").get_models()
    with database.cursor() as cursor:
        cursor.execute(f"SELECT seq FROM sqlite_sequence WHERE name = '{model._meta.db_table}'")
        assert cursor.fetchall() == [(7,)]
