"""``manage.py import_users user.yml [--dry-run]``: import users and identities from a file."""

import sys
from argparse import ArgumentParser
from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError
from django.db import transaction
from django.utils import timezone

from allowlist import importing
from allowlist.identities import NUMERIC_CHANNELS
from core.database import transactions
from core.models import ChannelAccount


class Command(BaseCommand):
    """Add missing rows; removes and changes nothing, so it may be repeated."""

    help = "Import people from a user.yml (name, id, im, email, phone)."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("file", help="path, or - for standard input")
        parser.add_argument("--dry-run", action="store_true", help="show, change nothing")
        parser.add_argument(
            "--only-listed",
            action="store_true",
            help="an empty list allows no sender, instead of every sender",
        )

    def handle(self, *_: object, **options: Any) -> None:
        """Print one line per user, and a warning for each open list."""
        channels = set(ChannelAccount.objects.values_list("channel", flat=True)) | NUMERIC_CHANNELS
        try:
            people = importing.parse(_read(options["file"]), channels=channels)
        except importing.InvalidFile as error:
            raise CommandError(str(error)) from error
        with transactions.atomic_write():
            changes = importing.apply(
                people=people, only_listed=options["only_listed"], now=timezone.now()
            )
            transaction.set_rollback(options["dry_run"])
        for change in changes:
            self._print(change, only_listed=options["only_listed"])
        if options["dry_run"]:
            self.stdout.write("Dry run: nothing was changed.")

    def _print(self, change: importing.Change, *, only_listed: bool) -> None:
        person = change.person
        added = ", ".join(f"{each.kind}:{each.value}" for each in change.added) or "nothing new"
        self.stdout.write(f"{'+' if change.new else '='} {person.username}: {added}")
        if change.new and person.open_kinds and not only_listed:
            kinds = ", ".join(person.open_kinds)
            self.stderr.write(f"! {person.username} is open to everyone on {kinds} (empty lists)")


def _read(name: str) -> str:
    try:
        return sys.stdin.read() if name == "-" else Path(name).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise CommandError(f"cannot read {name}: {error}") from error
