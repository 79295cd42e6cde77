"""`manage.py migrate`: Django's, with one-sentence errors; records the version."""

from typing import Any

from django.core.management.base import CommandError
from django.core.management.commands import migrate
from django.db import DEFAULT_DB_ALIAS, Error, connection, connections, transaction
from django.db.migrations.executor import MigrationExecutor

from core.database import numbering, schema_version
from gateway_project import installation
from gateway_project.processes.preflight import StartError


class Command(migrate.Command):
    def handle(self, *args: Any, **options: Any) -> None:
        """Migrate. Raises CommandError, with one sentence for expected failures."""
        numbering.keep_last_numbers(connections[options["database"]])
        if options["database"] != DEFAULT_DB_ALIAS or options["app_label"]:
            super().handle(*args, **options)
            return
        connection.ensure_connection()  # its failure is not a migration's
        try:
            installation.check_usable(MigrationExecutor(connection))
        except StartError as error:
            raise CommandError(str(error)) from error
        try:
            super().handle(*args, **options)
        except (CommandError, BrokenPipeError):  # without a reader: `command_line`
            raise
        except Exception as error:
            if options["traceback"]:
                raise
            raise CommandError(installation.failed_migration(error)) from error
        if not options["plan"]:
            self.note()

    def note(self) -> None:
        """Record the version that migrated; a plan that was only shown has changed nothing."""
        try:
            with transaction.atomic():
                schema_version.note_version()
        except Error:
            self.stderr.write("The version could not be noted: not all migrations are applied.")
