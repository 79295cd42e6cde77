"""``manage.py audit_verify``: is the audit what was written?"""

from argparse import ArgumentParser

from django.core.management.base import BaseCommand, CommandError

from allowlist import audit


class Command(BaseCommand):
    """Read the whole chain; ends with status 1 and the first broken row when it is not whole."""

    help = "Verify the audit's hash chain."

    def add_arguments(self, parser: ArgumentParser) -> None:
        """An older end of the chain, kept elsewhere, finds rows that were cut off."""
        parser.add_argument(
            "--anchor", default="", help="a digest that this command printed earlier"
        )

    def handle(self, *_: object, **options: str) -> None:
        """Print the number of rows and the last digest."""
        check = audit.check(anchor=options["anchor"])
        if check.broken is not None:
            raise CommandError(f"broken at row {check.broken}", returncode=1)
        if not check.anchored:
            raise CommandError("the anchor is not in the chain: rows were cut off", returncode=1)
        self.stdout.write(f"{check.rows} rows, intact; last digest {check.last or '(none)'}")
