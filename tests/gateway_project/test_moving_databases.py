"""`migrate_database` in the test process, from another database of the same kind [X52]."""

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from io import StringIO
from pathlib import Path

import pytest
from django.apps import apps
from django.core.management import CommandError, call_command
from django.db import connections
from django.db.migrations.recorder import MigrationRecorder
from django.utils import timezone
from pytest_django import DjangoDbBlocker

from allowlist import audit, keys
from allowlist.models import ApiKey, AuditEntry
from core.conversations import runs
from core.database import moves
from core.models import ChannelAccount, Skill, User
from gateway_project.management.commands.migrate_database import SOURCE
from gateway_project.processes import preflight
from tests.conftest import DatabaseMaker
from tests.gateway_project.backups.pairs import empty_url
from tests.gateway_project.conftest import using
from tests.gateway_project.personal_data import everything
from tests.servers import Postgres
from tests.settings import TEST_DATABASE

WORD = "quagganym"


@pytest.fixture
def new(installed: Path, django_db_blocker: DjangoDbBlocker) -> Iterator[Path]:
    """Return an empty installation; Django's tests allow no connection but its own otherwise."""
    with django_db_blocker.unblock():
        yield installed
        forget()


@pytest.fixture
def old(new_database: DatabaseMaker, new: Path) -> str:
    """Return the URL of a database with a person who has something in every table."""
    url = new_database()
    with using(url, new):
        User.objects.create(username="boss", is_owner=True)
        account = ChannelAccount.objects.create(channel="memory", name="one")
        shared = ChannelAccount.objects.create(channel="memory", name="two")
        everything.build("ann", WORD, account, shared)
        # More than are read at once.
        Skill.objects.bulk_create(Skill(name=f"été {number}") for number in range(510))
    return url


def forget() -> None:
    """Let Django forget the database that a command has named."""
    if SOURCE in connections.settings:
        connections[SOURCE].close()
        del connections[SOURCE]
        del connections.settings[SOURCE]


def move(url: str) -> str:
    """Return what the command says."""
    out = StringIO()
    call_command("migrate_database", "--from", url, stdout=out)
    return out.getvalue()


def refused(url: str) -> str:
    """Return why the command fails, with nothing in the new database."""
    with pytest.raises(CommandError) as caught:
        move(url)
    forget()
    assert not Skill.objects.exists()
    return str(caught.value)


def numbers() -> dict[str, int]:
    """Return the number of rows of every table that has some."""
    every = {
        each._meta.db_table: each._default_manager.count()
        for each in apps.get_models(include_auto_created=True)
        if each._meta.managed and not each._meta.proxy
    }
    return {table: number for table, number in every.items() if number}


def test_x52_every_row_is_copied_and_the_audit_is_whole(old: str, new: Path) -> None:
    """[X52] And new rows get new numbers."""
    with using(old, new):
        before, places = numbers(), everything.places_of(WORD)
    assert len(before) > 40
    lines = move(old).splitlines()
    assert numbers() == before
    assert everything.places_of(WORD) == places
    said = {table: int(number) for number, table in map(str.split, lines[:-1])}
    assert {table: number for table, number in said.items() if number} == before
    assert lines[-1].startswith(
        f"{sum(before.values())} rows were copied and compared; the audit is whole."
    )
    Skill.objects.create(name="new")
    audit.record(actor="test", action="row", data={}, now=timezone.now())
    assert audit.check().broken is None
    with using(old, new):
        assert numbers() == before


def test_x52_no_new_row_gets_the_number_of_a_deleted_one(old: str, new: Path) -> None:
    """[X52] A new API key had the assistants and budgets of a deleted one, which name its number.
    Also where all rows of a table were deleted.
    """
    with using(old, new):
        person = User.objects.create(username="deleted").pk
        User.objects.filter(pk=person).delete()
        key = ApiKey.objects.order_by("pk").last()
        assert key is not None
        ApiKey.objects.all().delete()
    move(old)
    assert User.objects.create(username="new").pk == person + 1
    user = User.objects.get(username="boss")
    assert keys.create(name="new", user=user, scopes=["chat"])[0].pk == key.pk + 1


def test_x52_a_broken_audit_is_moved_and_named(old: str, new: Path) -> None:
    """[X52] It was broken before."""
    with using(old, new):
        first = AuditEntry.objects.order_by("pk").first()
        assert first is not None
        AuditEntry.objects.filter(pk=first.pk).update(actor="somebody else")
    assert f"the audit is broken at row {first.pk}, as it was before" in move(old)


def test_x52_a_database_that_is_in_use_is_not_replaced(old: str) -> None:
    """[X52]"""
    User.objects.create(username="ada")
    assert refused(old) == "The database that DATABASE_URL names is in use."
    assert User.objects.get().username == "ada"


def test_x52_the_same_database(old: str, new: Path) -> None:
    """[X52] DATABASE_URL was not changed before."""
    with using(old, new), pytest.raises(CommandError, match="still names the old database"):
        move(old)


def test_x52_a_database_of_no_installation(
    new: Path, tmp_path: Path, postgres: Postgres | None
) -> None:
    """[X52] None, an empty one, none that we know, and a file that is none."""
    none = tmp_path / "none.sqlite3"
    assert "holds no installation" in refused(f"sqlite:///{none}")
    assert not none.exists()
    (new / "gateway.sqlite3").touch()
    assert "holds no installation" in refused(empty_url(tmp_path, postgres))
    assert refused("mysql://x") == "--from must start with postgres:// or sqlite://"
    none.write_text("This is no database." * 1000)
    assert "A database does not answer as it should" in refused(f"sqlite:///{none}")


def test_x52_an_older_version(old: str, new: Path) -> None:
    """[X52]"""
    with using(old, new):
        applied = MigrationRecorder.Migration.objects.filter(app="core").order_by("-name")
        assert applied[0].delete()[0] == 1
    assert refused(old).startswith("The old database is of another version: start this version")


def test_x52_an_installation_that_runs(old: str, new: Path) -> None:
    """[X52] Here, or a worker on another machine."""
    with preflight.lock(new):
        assert "another gateway" in refused(old)
    with using(old, new):
        runs.heard_from(worker="elsewhere:1:2", queue="runs")
    assert "stop the gateway first" in refused(old)


@pytest.mark.skipif(TEST_DATABASE != "sqlite", reason="no such value enters PostgreSQL")
def test_x52_a_row_that_cannot_be_copied_leaves_the_new_database_empty(old: str) -> None:
    """[X52] Its table is named."""
    with closing(sqlite3.connect(old.removeprefix("sqlite://"))) as opened:
        opened.execute("UPDATE core_inboundmessage SET received_at = '2026-13-01 12:00:00'")
        opened.commit()
    assert refused(old).startswith("The rows of core_inboundmessage cannot be copied: ")
    assert not User.objects.exists()


@pytest.mark.skipif(TEST_DATABASE != "sqlite", reason="PostgreSQL stores no text in its place")
def test_x52_a_value_that_is_no_json_is_not_moved_as_a_text(old: str) -> None:
    """[X52] Django reads it as a text. Its table and column are named."""
    with closing(sqlite3.connect(old.removeprefix("sqlite://"))) as opened:
        opened.execute("PRAGMA ignore_check_constraints = on")
        opened.execute(
            "UPDATE core_run SET options = '{broken' WHERE id = (SELECT max(id) FROM core_run)"
        )
        opened.commit()
    said = refused(old)
    assert said.startswith("The rows of core_run cannot be copied: options is no JSON in 1 of")


@pytest.mark.parametrize(
    ("in_sqlite", "in_postgresql"), [(1e16, 10**16), (1e23, 10**23), (-0.0, 0.0), (1.0, 1.0)]
)
def test_x52_a_number_is_the_same_however_a_database_writes_it(
    in_sqlite: float, in_postgresql: float
) -> None:
    """[X52] PostgreSQL keeps a value of JSON, SQLite its text: such rows could not be moved."""
    rows = [(1, {"said": [each, "x"]}) for each in (in_sqlite, in_postgresql)]
    assert moves.line_of(rows[0]) == moves.line_of(rows[1])
    assert moves.line_of((1, {"said": [2, "x"]})) not in set(map(moves.line_of, rows))
