"""``manage.py telegram_webhook set|info|delete [account]``: the webhook at Telegram ([D6])."""

import asyncio
from argparse import ArgumentParser
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError

from channels_app.base import Account, ChannelError
from channels_app.delivery.sending import account_of
from channels_app.telegram import bot_api
from channels_app.telegram.channel import CHANNEL, mode_of, webhook_url
from core.lib.encryption import DecryptError
from core.models import ChannelAccount


class Command(BaseCommand):
    """Set, show or delete the webhook, as saving the account in the admin does."""

    help = "Set, show or delete the webhook of a Telegram account."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("verb", choices=["set", "info", "delete"])
        parser.add_argument("account", nargs="?", default="default")

    def handle(self, *_: object, **options: Any) -> None:
        name = options["account"]
        row = ChannelAccount.objects.filter(channel="telegram", name=name).first()
        if row is None:
            raise CommandError(f"There is no Telegram account {name!r}.")
        try:
            account = account_of(row)
        except DecryptError as error:
            raise CommandError(str(error)) from error
        problems = CHANNEL.config.problems(account)
        if problems:
            raise CommandError(" ".join(problems))
        try:
            self.stdout.write(asyncio.run(run(options["verb"], account)))
        except ChannelError as error:
            raise CommandError(str(error)) from error


async def run(verb: str, account: Account) -> str:
    """Execute ``verb``; return the line to print. Raises ChannelError."""
    try:
        if verb == "set":
            if mode_of(account) != "webhook":
                raise ChannelError("This account polls; set its mode to webhook first.")
            await CHANNEL.gateway.prepare(account, base_url=settings.GATEWAY_URL)
            return f"Telegram sends to {webhook_url(account, base_url=settings.GATEWAY_URL)}"
        if verb == "delete":
            await bot_api.call(account, "deleteWebhook", drop_pending_updates=False)
            return "The webhook was deleted; Telegram keeps pending updates."
        health = await CHANNEL.gateway.check(account)
        facts = ", ".join(f"{name} {value}" for name, value in health.facts.items() if value)
        return health.problem or f"The webhook works. {facts}".strip()
    finally:
        await bot_api.close()
