"""``manage.py requests list|approve|approve_24h|deny|block``: decide unknown requests ([A6])."""

from argparse import ArgumentParser
from typing import Any

from django.core.management.base import BaseCommand, CommandError
from django.utils import timezone

from allowlist.identities import InvalidIdentity
from allowlist.models import UnknownRequest
from allowlist.unknown_requests import STATES, NotAnOwner, RequestNotFound
from channels_app.intake import decisions
from channels_app.management.public_ids import accept_public_ids
from core.models import User


class Command(BaseCommand):
    """Decide as an owner from a shell; the audit names both."""

    help = "List pending requests of unknown senders, or decide one."

    def add_arguments(self, parser: ArgumentParser) -> None:
        accept_public_ids(parser)
        parser.add_argument("verb", choices=["list", *STATES])
        parser.add_argument("request", nargs="?", default="", help="its id, as `list` shows it")
        parser.add_argument("--user", help="approve as this existing user")
        parser.add_argument(
            "--owner", help="the owner who decides; required when there are several"
        )

    def handle(self, *_: object, **options: Any) -> None:
        if options["verb"] == "list":
            self._list()
            return
        try:
            verdict = decisions.decide(
                request=options["request"],
                verdict=options["verb"],
                owner=_owner(options["owner"]),
                via="manage.py",
                now=timezone.now(),
                user=_user(options["user"]) if options["user"] else None,
            )
        except (RequestNotFound, NotAnOwner, InvalidIdentity) as error:
            raise CommandError(str(error)) from error
        if not verdict.first:
            raise CommandError(verdict.text)
        self.stdout.write(verdict.text)

    def _list(self) -> None:
        rows = UnknownRequest.objects.filter(state=UnknownRequest.State.PENDING)
        for row in rows.select_related("account").order_by("-last_seen_at"):
            who = f"{row.account}  {row.kind}:{row.sender}  {row.sender_name!r}"
            self.stdout.write(f"{row.public_id}  {who}  x{row.count}  {row.last_text!r}")


def _owner(username: str | None) -> User:
    owners = User.objects.filter(is_owner=True, is_active=True).order_by("pk")
    if username:
        owners = owners.filter(username=username)
    found = list(owners)
    if len(found) != 1:
        names = ", ".join(each.username for each in found)
        raise CommandError(
            f"name an owner with --owner: {names}" if found else "there is no such owner"
        )
    return found[0]


def _user(username: str) -> User:
    user = User.objects.filter(username=username, is_active=True).first()
    if user is None:
        raise CommandError(f"there is no active user {username!r}")
    return user
