"""``manage.py audit_verify``: check the audit for alterations."""

from argparse import ArgumentParser

from django.core.management.base import BaseCommand, CommandError

from allowlist import audit
from core.lib.text import counted


class Command(BaseCommand):
    """Read the whole chain; exits with status 1 and the first broken row when it was altered."""

    help = "Verify the audit's hash chain."

    def add_arguments(self, parser: ArgumentParser) -> None:
        """Take an older digest, stored elsewhere, to detect rows cut off at the end."""
        parser.add_argument(
            "--anchor", default="", help="a digest that this command printed earlier"
        )

    def handle(self, *_: object, **options: str) -> None:
        check = audit.check(anchor=options["anchor"])
        if check.broken is not None:
            raise CommandError(f"broken at row {check.broken}", returncode=1)
        if not check.anchored:
            raise CommandError("the anchor is not in the chain: rows were cut off", returncode=1)
        blanked = f" ({check.blanked} with blanked texts)" if check.blanked else ""
        self.stdout.write(
            f"{counted(check.rows, 'row')}{blanked}, intact; last digest {check.last or '(none)'}"
        )
