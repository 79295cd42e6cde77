"""`manage.py sign_in_link [--user NAME] [--minutes N]`: print a one-time sign-in address."""

from argparse import ArgumentParser
from datetime import timedelta
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError
from django.utils import timezone

from allowlist import sign_in
from core.models import User
from gateway_project import home, installation
from gateway_project.processes import state

MOST_MINUTES = 365 * 24 * 60


class Command(BaseCommand):
    help = "Print a single-use sign-in link for a user."
    requires_system_checks: list[str] = []

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--user", default="", help="username; default: the owner")
        parser.add_argument("--minutes", type=int, default=60, help="how long the link is valid")

    def handle(self, *, user: str, minutes: int, **options: Any) -> None:
        del options
        if not 1 <= minutes <= MOST_MINUTES:
            raise CommandError(f"--minutes must be at least 1, and at most {MOST_MINUTES} (a year)")
        ttl = timedelta(minutes=minutes)
        token = sign_in.create(user=self.find(user), now=timezone.now(), ttl=ttl)
        running = state.read(home.directory())
        base = running.url if running is not None else settings.GATEWAY_URL
        self.stdout.write(f"{base}/sign-in/{token}")

    def find(self, name: str) -> User:
        """Return the user ``name``, or the owner. Raises ``CommandError``."""
        person = User.objects.filter(username=name, is_active=True).first() if name else None
        if not name:
            person, _ = installation.ensure_owner()
        if person is None:
            raise CommandError(
                f"there is no active user {name!r}" if name else "there is no active owner"
            )
        return person
