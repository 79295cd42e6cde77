"""``manage.py audit_export``: the audit as JSON lines on standard output."""

from argparse import ArgumentParser

from django.core.management.base import BaseCommand

from allowlist import audit


class Command(BaseCommand):
    """One JSON object a line, oldest first."""

    help = "Export the audit as JSON lines."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--after", type=int, default=0, help="only rows with a higher id")

    def handle(self, *_: object, **options: int) -> None:
        for line in audit.lines(after=options["after"]):
            self.stdout.write(line)
