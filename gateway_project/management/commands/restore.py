"""``manage.py restore``: bring a backup back into an empty home."""

from argparse import ArgumentParser
from pathlib import Path
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError
from django.utils import timezone

from core.lib.text import counted
from gateway_project.backups import restoring
from gateway_project.backups.manifest import BackupError


class Command(BaseCommand):
    """Restore a backup into an empty GATEWAY_HOME (and an empty PostgreSQL database).

    Questions that were open when it was made wait for the owner, in the admin: they may have been
    answered.
    """

    help = __doc__
    requires_system_checks: list[str] = []

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("backup", type=Path, metavar="BACKUP", help="its folder")

    def handle(self, *_: object, **options: Any) -> None:
        folder = options["backup"].resolve()
        try:
            passphrase = settings.BACKUP_PASSPHRASE
            held = restoring.restore(folder, passphrase=passphrase, now=timezone.now())
        except BackupError as error:
            raise CommandError(str(error)) from error
        self.stdout.write(
            f"Restored {folder.name}. Held for the owner (Runs and Deliveries in the admin): "
            f"{counted(held.runs, 'question')} and {counted(held.deliveries, 'message')}. Skipped, "
            f"because it was due meanwhile: {counted(held.skipped, 'reminder')}. Keys, identities, "
            "passwords and sign-ins are those of the backup: revoke again what was revoked since."
        )
