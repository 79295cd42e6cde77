"""``manage.py migrate_database``: move an installation to another database."""

from argparse import ArgumentParser
from pathlib import Path
from typing import Any

from django.core.exceptions import ImproperlyConfigured
from django.core.management.base import BaseCommand, CommandError
from django.db import Error, connection, connections

from allowlist import audit
from core.conversations import runs
from core.database import moves, schema_version
from core.database.moves import MoveError
from core.models import User
from gateway_project import databases, home, installation
from gateway_project.processes import preflight
from gateway_project.processes.preflight import StartError

SOURCE = "source"
NONE = "The old database holds no installation."


class Command(BaseCommand):
    """Copy all rows of the database --from into the empty one that DATABASE_URL names now, from
    SQLite to PostgreSQL, back, or to another server; compare every row, and check the audit.

    Stop the gateway on every machine first. The old database is not changed.
    """

    help = __doc__
    requires_system_checks: list[str] = []

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument(
            "--from", dest="source", required=True, metavar="URL", help="the old DATABASE_URL"
        )

    def handle(self, *_: object, **options: Any) -> None:
        base = home.directory()
        try:
            name_source(options["source"])
            preflight.check_home(base)
            with preflight.lock(base):
                check_source()
                installation.migrate()
                if User.objects.exists():
                    raise MoveError("The database that DATABASE_URL names is in use.")
                copied = moves.copy_all(SOURCE)
        except (StartError, MoveError) as error:
            raise CommandError(str(error)) from error
        except ImproperlyConfigured as error:
            raise CommandError(str(error).replace("DATABASE_URL", "--from")) from error
        except Error as error:
            raise CommandError(f"A database does not answer as it should: {error}") from error
        for table, number in copied.items():
            self.stdout.write(f"{number:>10} {table}")
        broken = audit.check().broken
        chain = "whole" if broken is None else f"broken at row {broken}, as it was before"
        self.stdout.write(
            f"{sum(copied.values())} rows were copied and compared; the audit is {chain}. Start "
            "the gateway with this DATABASE_URL, and never again with the old one: both would "
            "answer."
        )


def name_source(url: str) -> None:
    """Make the old database known to Django. Raises ImproperlyConfigured, MoveError."""
    old = databases.settings_of(url, home=home.directory())
    both = {"default": connection.settings_dict, SOURCE: old}
    place = ("ENGINE", "HOST", "PORT", "NAME")
    if len({tuple(str(each.get(part) or "") for part in place) for each in both.values()}) == 1:
        raise MoveError("DATABASE_URL still names the old database: set it to the new one.")
    if old["ENGINE"].endswith("sqlite3") and not Path(old["NAME"]).exists():
        raise MoveError(NONE)
    connections.settings[SOURCE] = connections.configure_settings(both)[SOURCE]


def check_source() -> None:
    """Raise MoveError unless the old database can be moved: of this version, and not in use."""
    if not moves.is_used(SOURCE):
        raise MoveError(NONE)
    if schema_version.applied(SOURCE) != schema_version.own():
        raise MoveError("The old database is of another version: start this version on it once.")
    if runs.heard().using(SOURCE).exists():
        raise MoveError(
            "A worker has used the old database a moment ago: stop the gateway first, and wait "
            "half a minute."
        )
