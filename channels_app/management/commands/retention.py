"""``manage.py retention``: remove what the owner's rules say is old; ``--dry-run`` counts it."""

from argparse import ArgumentParser
from collections import Counter

from django.core.management.base import BaseCommand
from django.utils import timezone

from channels_app.worker import retention


class Command(BaseCommand):
    """Remove what is due, or say what would be."""

    help = "Remove what is old by the owner's rules. Workers do so by themselves every hour."

    def add_arguments(self, parser: ArgumentParser) -> None:
        """Take the flag of a dry run."""
        parser.add_argument("--dry-run", action="store_true", help="only say what would go")

    def handle(self, *_: object, **options: bool) -> None:
        if options["dry_run"]:
            self.count()
        else:
            self.remove()

    def count(self) -> None:
        """Write what each rule would remove."""
        found = retention.due(now=timezone.now())
        for rule, counts in found:
            said = ", ".join(f"{table}: {count}" for table, count in counts.items())
            self.stdout.write(f"{rule}: {said or 'nothing'}")
        if not found:
            self.stdout.write("No rule removes anything.")

    def remove(self) -> None:
        """Fold event logs and remove; write how many rows of each table."""
        removed: Counter[str] = Counter()
        for counts in retention.everything(now=timezone.now()):
            removed.update(counts)
        for table, count in (+removed).items():
            self.stdout.write(f"{table}: {count}")
        if not +removed:
            self.stdout.write("Nothing was old.")
