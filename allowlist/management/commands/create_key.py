"""``manage.py create_key NAME --user ann --scope chat``: create an API key, shown once ([A10])."""

from argparse import ArgumentParser
from datetime import timedelta
from typing import Any

from django.core.management.base import BaseCommand, CommandError
from django.utils import timezone

from allowlist import keys
from allowlist.models import ApiKey
from core.models import ChannelAccount, User

MOST_DAYS = 36_500


class Command(BaseCommand):
    """Print the token as the only line on standard output."""

    help = "Create an API key for a person or for a bridge account (channel/name)."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("name")
        owner = parser.add_mutually_exclusive_group(required=True)
        owner.add_argument("--user", help="a username")
        owner.add_argument("--account", help="channel/name")
        parser.add_argument("--scope", action="append", choices=ApiKey.Scope.values, required=True)
        parser.add_argument("--days", type=int, help="days until it expires; never by default")
        parser.add_argument(
            "--model-only",
            action="store_true",
            help="at /v1 the assistant's models answer, without its instructions and tools",
        )

    def handle(self, *_: object, **options: Any) -> None:
        days = options["days"]
        if days is not None and not 1 <= days <= MOST_DAYS:
            raise CommandError(f"--days must be from 1 to {MOST_DAYS}; without it, never")
        until = None if days is None else timezone.now() + timedelta(days=days)
        try:
            key, token = keys.create(
                name=options["name"],
                user=_user(options["user"]) if options["user"] else None,
                account=_account(options["account"]) if options["account"] else None,
                scopes=options["scope"],
                expires_at=until,
                model_only=options["model_only"],
                actor="manage.py",
            )
        except keys.InvalidKey as error:
            raise CommandError(str(error)) from error
        self.stderr.write(f"{key}: only its hash is stored; this is the only time it is shown:")
        self.stdout.write(token)


def _user(username: str) -> User:
    user = User.objects.filter(username=username).first()
    if user is None:
        raise CommandError(f"there is no user {username!r}")
    return user


def _account(label: str) -> ChannelAccount:
    channel, _, name = label.partition("/")
    account = ChannelAccount.objects.filter(channel=channel, name=name or "default").first()
    if account is None:
        raise CommandError(f"there is no account {label!r}; write channel/name")
    return account
