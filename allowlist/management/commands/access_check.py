"""``manage.py access_check --channel telegram --id 42``: explain a sender's access ([A8])."""

from argparse import ArgumentParser

from django.core.management.base import BaseCommand, CommandError
from django.utils import timezone

from allowlist.permissions import Sender, decide, explain
from core.models import ChannelAccount, ChannelIdentity


class Command(BaseCommand):
    """Explain the rule for one sender; exits with status 1 when the sender is denied."""

    help = "Show which user a sender is matched to, by which rule, or why it is denied."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--channel", required=True, help="telegram, http, bridge …")
        parser.add_argument(
            "--account", default="", help="name of the account, when there is more than one"
        )
        parser.add_argument("--kind", default="im", choices=ChannelIdentity.Kind.values)
        parser.add_argument("--id", required=True, help="the sender's id, address or number")
        parser.add_argument(
            "--group", default="", help="id of the group in which the message was sent"
        )

    def handle(self, *_: object, **options: str) -> None:
        account = _account(options["channel"], options["account"])
        if account.pk is None:
            self.stderr.write(f"There is no account {account}: this is the rule for one.")
        sender = Sender(account, options["kind"], options["id"], options["group"])
        now = timezone.now()
        for row in explain(sender=sender, now=now):
            self.stdout.write(f"{'yes' if row.matched else ' no'}  {row.rule:8} {row.reason}")
        decision = decide(sender=sender, now=now)
        if decision.user is None:
            raise CommandError(f"denied: {decision.reason}", returncode=1)
        self.stdout.write(f"allowed as {decision.user} (user {decision.user.pk})")


def _account(channel: str, name: str) -> ChannelAccount:
    accounts = ChannelAccount.objects.filter(channel=channel).order_by("id")
    if name:
        accounts = accounts.filter(name=name)
    account = accounts.first()
    # A channel without an account still has a rule: identities of any account count.
    return account or ChannelAccount(channel=channel, name=name or "default")
