"""The accounts of the gateway's own channels, created when they are first needed."""

from core.database.queries import Instances, Param
from core.lib.ttl_cache import TtlCache
from core.models import ChannelAccount

BUILTIN_CHANNELS = ("web", "http")
# The channel of ``/v1``: programs, which may want nothing but JSON as an answer.
PROGRAMS = "openai"
BY_CHANNEL = Instances(
    lambda: ChannelAccount.objects.filter(channel=Param("channel"), name="default")
)
KNOWN_SECONDS = 2.0

accounts: TtlCache[str, ChannelAccount] = TtlCache(KNOWN_SECONDS)


def builtin_account(channel: str) -> ChannelAccount:
    """Return the built-in account of a channel that is not a platform, cached for KNOWN_SECONDS.

    Not cached when it is made: the transaction that makes it is not committed.
    """
    if known := accounts.get(channel):
        return known
    found = BY_CHANNEL.first(channel=channel)
    return accounts.put(channel, found) if found else found_or_made(channel)


def found_or_made(channel: str) -> ChannelAccount:
    """Return the built-in account from the database; it is created when it is first needed."""
    account, _ = ChannelAccount.objects.get_or_create(
        channel=channel, name="default", defaults={"status": "running"}
    )
    return account
