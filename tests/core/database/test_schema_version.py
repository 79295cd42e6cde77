"""Whether code and database are of one version, and the words that say which is the older one."""

from collections.abc import Callable
from pathlib import Path

import pytest
from django.conf import settings
from django.db import DatabaseError, connection
from django.db.migrations.recorder import MigrationRecorder

from core import VERSION
from core.database import driver, schema_version
from core.models import Installation

pytestmark = pytest.mark.django_db
MIGRATED = "INSERT INTO django_migrations (app, name, applied) VALUES (%s, %s, '2026-01-01')"


@pytest.fixture
def broken(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let each plain statement fail, as where a table is missing."""

    def fail(*_: object) -> None:
        raise DatabaseError

    monkeypatch.setattr(driver, "fetch", fail)


@pytest.fixture
def known(monkeypatch: pytest.MonkeyPatch) -> Callable[[str, int], None]:
    """Return ``known(label, number)``: the newest migration of an app that this code knows."""
    mine = dict(schema_version.own())

    def knows(label: str, number: int) -> None:
        mine[label] = number

    monkeypatch.setattr(schema_version, "own", lambda: mine)
    return knows


def migrate(label: str, name: str) -> None:
    """Record a migration as applied."""
    with connection.cursor() as cursor:
        cursor.execute(MIGRATED, [label, name])


@pytest.mark.parametrize(
    ("names", "number"),
    [
        ([], 0),
        (["__init__", "abcd", "00x1_a"], 0),
        (["0002_a", "0012_b", "0003_c"], 12),
        (["0012_squashed_0001", "0001_initial"], 12),
    ],
)
def test_the_newest_migration_is_the_highest_number(names: list[str], number: int) -> None:
    assert schema_version.newest(names) == number


def test_this_code_has_the_migrations_of_its_folders() -> None:
    found = {}
    for label in settings.OWN_APPS:
        folder = Path(schema_version.__file__).parents[2] / label / "migrations"
        if folder.is_dir():
            found[label] = max(int(each.name[:4]) for each in folder.glob("0*.py"))
    assert schema_version.own.__wrapped__() == found
    assert {"core", "allowlist", "channels_app"} <= set(found)


def test_the_database_of_the_tests_fits() -> None:
    assert schema_version.applied() == schema_version.own()
    for asked in (schema_version.newer, schema_version.older, schema_version.problem):
        assert asked() == ""


def test_a_database_without_the_table_has_no_migration(
    broken: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Django's own way asks whether the table exists."""
    assert schema_version.applied() == schema_version.own()
    monkeypatch.setattr(MigrationRecorder, "applied_migrations", lambda _: {})
    assert schema_version.applied() == dict.fromkeys(schema_version.own(), 0)


def test_newer_code_has_migrated_the_database() -> None:
    """Migrations of others say nothing. The version is named where the database knows it."""
    mine = schema_version.own()["allowlist"]
    migrate("auth", "9998_of_django")
    assert schema_version.problem() == ""
    migrate("allowlist", "9999_of_newer_code")
    Installation.objects.update_or_create(id=1, defaults={"version": "7.8"})
    said = (
        f"The database was migrated by newer code of version 7.8 (allowlist 9999, known here up to "
        f"{mine:04d}; this is version {VERSION}): restart this process with the new code."
    )
    assert schema_version.newer() == schema_version.problem() == said
    assert schema_version.older() == ""
    Installation.objects.all().delete()
    assert schema_version.newer() == said.replace(" of version 7.8", "")


def test_the_database_needs_a_migration(known: Callable[[str, int], None]) -> None:
    there = schema_version.own()["allowlist"]
    known("allowlist", 9999)
    said = (
        f"The database is older than the code (allowlist {there:04d}, needed 9999): run "
        "`manage.py migrate`."
    )
    assert schema_version.older() == schema_version.problem() == said
    assert schema_version.newer() == ""
    migrate("core", "9999_of_newer_code")
    assert schema_version.problem() == schema_version.newer() != ""


def test_a_version_is_named_where_there_is_one(monkeypatch: pytest.MonkeyPatch) -> None:
    for row, said in (({"version": "7.8"}, " of version 7.8"), ({"version": ""}, "")):
        Installation.objects.update_or_create(id=1, defaults=row)
        assert schema_version.belonging() == said
    Installation.objects.all().delete()
    assert schema_version.belonging() == ""


def test_without_a_record_of_the_version_none_is_named(broken: None) -> None:
    assert schema_version.belonging() == ""


def test_this_version_is_noted_and_the_rest_of_the_row_stays() -> None:
    Installation.objects.all().delete()
    schema_version.note_version()
    row = Installation.objects.get()
    assert (row.pk, row.version, row.files_mark) == (1, VERSION, "")
    Installation.objects.update(version="0.0", files_mark="mark")
    schema_version.note_version()
    row.refresh_from_db()
    assert (row.version, row.files_mark) == (VERSION, "mark")
