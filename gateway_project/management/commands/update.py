"""``manage.py update``: bring a newer version in, or keep the old one."""

import argparse
from contextlib import suppress
from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError
from django.utils import timezone

from core.database.copies import CopyError
from gateway_project.updates import clone, updating, way_back
from gateway_project.updates.clone import UpdateError


class Command(BaseCommand):
    """Update this clone: make a backup, try the new code on a copy, then replace code and database.

    When anything fails, the old version comes back by itself, unless the new one has worked for
    somebody.
    """

    help = __doc__
    requires_system_checks: list[str] = []

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument(
            "--to",
            default="",
            metavar="VERSION",
            help="a tag or commit; else the branch's upstream",
        )
        parser.add_argument("--check", action="store_true", help="only say what would come")
        parser.add_argument(
            "--wait", type=int, default=180, metavar="SECONDS",
            help="how long the new version may take to get ready (180)",
        )  # fmt: skip
        # Of the way back's script.
        parser.add_argument(way_back.DATABASE, nargs=2, help=argparse.SUPPRESS)

    def handle(self, *_: object, **options: Any) -> None:
        try:
            if options["database_back"]:
                copied, place = options["database_back"]
                way_back.bring_database(Path(copied), place)
            elif options["check"]:
                self.say_available(options["to"])
            elif not updating.update(
                options["to"], now=timezone.now(), wait=options["wait"], say=self.say
            ):
                self.say("This is the newest version.")
        except (UpdateError, CopyError, OSError) as error:
            raise CommandError(str(error)) from error

    def say_available(self, to: str) -> None:
        """List the changes that would come. Raises UpdateError."""
        target = clone.find(to)
        if target is None:
            self.say("This is the newest version.")
            return
        self.say(f"Version {target.version}:")
        for subject in clone.changes(target):
            self.say(f"  {subject}")

    def say(self, text: str) -> None:
        """Print a line; an update goes on when its reader has gone."""
        with suppress(BrokenPipeError):
            self.stdout.write(text)
            self.stdout.flush()
