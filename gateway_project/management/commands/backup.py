"""``manage.py backup``: make a backup while the gateway runs, and check it."""

import argparse
import os
from functools import partial
from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError
from django.utils import timezone

from channels_app.owner import backups
from core.lib.text import counted
from gateway_project.backups import making, manifest, restoring
from gateway_project.backups.backing_up import back_up, note
from gateway_project.backups.manifest import BackupError, Manifest

NO_KEYS = (
    "Without BACKUP_PASSPHRASE the keys are left out: after a restore users sign in again, and the "
    "credentials of channels, providers and MCP servers have to be entered again, unless you keep "
    "GATEWAY_HOME/secrets elsewhere."
)
# Of a process that a worker starts: people who chat come first.
NICE = 10
# For another one, of the owner or of a worker that was taken for dead, instead of failing.
WAIT_SECONDS = 3600


class Command(BaseCommand):
    """Make a backup below --to (BACKUP_FOLDER, else GATEWAY_HOME/backups), check it, and remove old
    ones. ``--verify FOLDER`` checks one that is there.
    """

    help = __doc__

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument("--to", type=Path, metavar="FOLDER", help="where backups are")
        parser.add_argument("--verify", type=Path, metavar="BACKUP", help="only check this one")
        # Of a worker: the row that asked for it.
        parser.add_argument("--row", type=int, help=argparse.SUPPRESS)

    def handle(self, *_: object, **options: Any) -> None:
        given, to, row = options["verify"], options["to"] or making.default_root(), options["row"]
        try:
            if given:
                manifest.check_finished(given.resolve())
                with making.one_at_a_time(given.resolve().parent):
                    self.stdout.write(words(restoring.verify(given.resolve())))
            else:
                if row:
                    os.nice(NICE)
                self.make(to.resolve(), row)
        except BackupError as error:
            if row:
                backups.fail(str(error), row=row, now=timezone.now())
            raise CommandError(str(error)) from error

    def make(self, root: Path, row: int | None) -> None:
        """Make, check, store and thin out. Raises BackupError."""
        seconds = 0 if row is None else WAIT_SECONDS
        store = partial(note, row=row)
        done = back_up(root, now=timezone.now(), store=store, wait_seconds=seconds)
        self.stdout.write(f"{done.folder}\n{words(done.manifest)}")
        if not done.manifest.has_secrets:
            self.stdout.write(NO_KEYS)
        if gone := [each.name for each in done.removed]:
            self.stdout.write(f"removed by the rule: {', '.join(gone)}")


def words(found: Manifest) -> str:
    """Return what a checked backup holds, as one line."""
    size = counted(sum(each.size for each in found.files), "byte")
    rows = f"{counted(sum(found.rows.values()), 'row')}, " if found.rows else ""
    keys = "with keys" if found.has_secrets else "without keys"
    why = restoring.why_only_read(found)
    only = f"; its archive was read through, not restored: {why}" if why else ""
    return f"checked: {rows}{counted(len(found.files), 'file')} ({size}), {keys}{only}"
