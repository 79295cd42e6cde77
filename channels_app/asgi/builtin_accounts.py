"""The accounts of the gateway's own doors: made when they are first needed."""

import time

from core.database.queries import Instances, Param
from core.models import ChannelAccount

DOORS = ("web", "http")
BY_CHANNEL = Instances(
    lambda: ChannelAccount.objects.filter(channel=Param("channel"), name="default")
)
KNOWN_SECONDS = 2.0

_known: dict[str, tuple[ChannelAccount, float]] = {}


def door_account(channel: str) -> ChannelAccount:
    """The built-in account of a door that is not a platform, believed for KNOWN_SECONDS."""
    account, until = _known.get(channel, (None, 0.0))
    if account is None or until < time.monotonic():
        account = found_or_made(channel)
        _known[channel] = account, time.monotonic() + KNOWN_SECONDS
    return account


def clear_cache() -> None:
    """Believe nothing about accounts any more."""
    _known.clear()


def found_or_made(channel: str) -> ChannelAccount:
    """The built-in account in the database."""
    account = BY_CHANNEL.first(channel=channel)
    if account is None:
        account, _ = ChannelAccount.objects.get_or_create(
            channel=channel, name="default", defaults={"status": "running"}
        )
    return account
