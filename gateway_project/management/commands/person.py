"""``manage.py person``: export all data of a person, or forget the person."""

import shutil
from argparse import ArgumentParser
from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError
from django.utils import timezone

from allowlist import audit
from allowlist.unfinished_forgetting import left_behind
from core.models import User
from gateway_project.personal_data import exporting, forgetting
from gateway_project.personal_data.targets import Folder

ACTOR, WORKER = "manage.py", "worker"
FORGOTTEN = (
    "Forgotten. Backups that were made before still have this person: see docs/personal-data.md."
)
CLEANED = "No person has this name. All that forgotten people had left behind is removed now."


class Command(BaseCommand):
    """``person export NAME --to FOLDER`` writes everything of a person into a new folder.

    ``person forget NAME`` removes it; a second call goes on where one was killed
    (docs/personal-data.md).
    """

    help = __doc__

    def add_arguments(self, parser: ArgumentParser) -> None:
        actions = parser.add_subparsers(dest="action", required=True)
        export = actions.add_parser("export", help="write all data of a person into a folder")
        export.add_argument("username")
        export.add_argument("--to", type=Path, required=True, metavar="FOLDER", help="a new folder")
        forget = actions.add_parser("forget", help="remove a person with all data")
        forget.add_argument("username")
        # Of a worker, after people were forgotten in the admin.
        actions.add_parser("clean")

    def handle(self, *_: object, **options: Any) -> None:
        if options["action"] == "clean":
            self.clean()
            return
        user = User.objects.filter(username=options["username"]).first()
        if options["action"] == "forget":
            self.forget(user)
        elif user is None:
            raise CommandError("There is no person with this name.")
        else:
            self.export(user, options["to"].resolve())

    def export(self, user: User, folder: Path) -> None:
        """Write the export beside ``folder`` first, so that a part never looks like the whole."""
        if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
            raise CommandError(f"{folder} is there already: name a new folder.")
        partial = folder.with_name(f".partial-{folder.name}")
        if partial.exists():
            raise CommandError(f"{partial} is there, of an interrupted export: remove it first.")
        now = timezone.now()
        try:
            exporting.export(user, Folder(partial), now=now)
            partial.rename(folder)
        except OSError as error:
            shutil.rmtree(partial, ignore_errors=True)  # it may have filled the disk
            raise CommandError(f"The export could not be written: {error}") from error
        audit.record(
            actor=ACTOR,
            action="person.exported",
            subject=f"user:{user.pk} {user}",
            data={},
            now=now,
        )
        self.stdout.write(f"Exported to {folder}: read index.html there.")

    def clean(self) -> None:
        """Clean the files of the database and of the broker, if people were forgotten."""
        try:
            forgetting.finish(actor=WORKER)
        except forgetting.NotForgotten as error:
            raise CommandError(str(error)) from error

    def forget(self, user: User | None) -> None:
        if user is None and not left_behind():
            raise CommandError("There is no person with this name.")
        try:
            if user is not None:
                forgetting.forget(user, actor=ACTOR)
            else:
                forgetting.finish(actor=ACTOR)
        except forgetting.NotForgotten as error:
            raise CommandError(str(error)) from error
        self.stdout.write(FORGOTTEN if user is not None else CLEANED)
