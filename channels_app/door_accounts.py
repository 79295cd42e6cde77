"""The accounts of the gateway's own doors: made when they are first needed."""

from core.models import ChannelAccount

DOORS = ("web", "http")


def door_account(channel: str) -> ChannelAccount:
    """The built-in account of a door that is not a platform."""
    account = ChannelAccount.objects.filter(channel=channel, name="default").first()
    if account is None:
        account, _ = ChannelAccount.objects.get_or_create(
            channel=channel, name="default", defaults={"status": "running"}
        )
    return account
