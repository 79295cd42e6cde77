"""``manage.py backup``: make a backup while the gateway runs, and check it."""

from argparse import ArgumentParser
from pathlib import Path
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError
from django.utils import timezone

from gateway_project.backups import keeping, making, restoring
from gateway_project.backups.manifest import BackupError, Manifest

NO_KEYS = (
    "Without BACKUP_PASSPHRASE the keys are left out: after a restore users sign in again, and the "
    "credentials of channels, providers and MCP servers have to be entered again, unless you keep "
    "GATEWAY_HOME/secrets elsewhere."
)


class Command(BaseCommand):
    """Make a backup below --to (GATEWAY_HOME/backups), check it, and remove old ones.

    ``--verify FOLDER`` checks one that is there.
    """

    help = __doc__

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--to", type=Path, metavar="FOLDER", help="where backups are")
        parser.add_argument("--verify", type=Path, metavar="BACKUP", help="only check this one")

    def handle(self, *_: object, **options: Any) -> None:
        try:
            given, to = options["verify"], options["to"] or making.default_root()
            root = given.resolve().parent if given else to.resolve()
            with making.one_at_a_time(root):
                if given:
                    self.stdout.write(words(restoring.verify(given.resolve())))
                else:
                    self.make(root)
        except BackupError as error:
            raise CommandError(str(error)) from error

    def make(self, root: Path) -> None:
        """Make, check, thin out. Raises BackupError."""
        passphrase = settings.BACKUP_PASSPHRASE
        folder = making.make(root, passphrase=passphrase, now=timezone.now())
        self.stdout.write(f"{folder}\n{words(restoring.verify(folder))}")
        if not passphrase:
            self.stdout.write(NO_KEYS)
        gone = keeping.thin_out(root, newest=settings.BACKUP_KEEP, weeks=settings.BACKUP_KEEP_WEEKS)
        if gone:
            self.stdout.write(f"removed by the rule: {', '.join(each.name for each in gone)}")


def words(found: Manifest) -> str:
    """Return what a checked backup holds, as one line."""
    size = sum(each.size for each in found.files)
    rows = f"{sum(found.rows.values())} rows, " if found.rows else ""
    keys = "with keys" if found.has_secrets else "without keys"
    return f"checked: {rows}{len(found.files)} files ({size} bytes), {keys}"
