"""The accounts of the gateway's own doors: made when they are first needed."""

from core.compiled import Given, Select
from core.models import ChannelAccount

DOORS = ("web", "http")
BY_CHANNEL = Select(lambda: ChannelAccount.objects.filter(channel=Given("channel"), name="default"))


def door_account(channel: str) -> ChannelAccount:
    """The built-in account of a door that is not a platform."""
    account = BY_CHANNEL.first(channel=channel)
    if account is None:
        account, _ = ChannelAccount.objects.get_or_create(
            channel=channel, name="default", defaults={"status": "running"}
        )
    return account
