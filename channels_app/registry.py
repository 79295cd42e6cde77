"""Channels by id: dotted paths, resolved on first use; other packages add theirs by entry point."""

import sys
from functools import cache
from importlib.metadata import entry_points

from django.utils.module_loading import import_string

from channels_app.base import Channel

# Channels that push answers to a platform. The web chat and HTTP read the event log instead.
CHANNELS: dict[str, str] = {
    "bridge": "channels_app.bridge.channel.CHANNEL",
    "memory": "channels_app.memory.channel.CHANNEL",
    "telegram": "channels_app.telegram.channel.CHANNEL",
}
FOR_TESTS = frozenset({"memory"})
ENTRY_POINT_GROUP = "latchkey.channels"


@cache
def get(channel_id: str) -> Channel | None:
    """Return the channel ``channel_id``; None for one without an outbound side."""
    path = CHANNELS.get(channel_id)
    if path is not None:
        channel: Channel = import_string(path)
        return channel
    for point in entry_points(group=ENTRY_POINT_GROUP, name=channel_id):
        plugin: Channel = point.load()
        return plugin
    return None


async def close() -> None:
    """Close the connections that channels hold in the running event loop."""
    for channel_id in CHANNELS:
        if CHANNELS[channel_id].rpartition(".")[0] in sys.modules:
            channel = get(channel_id)
            if channel is not None:
                await channel.gateway.close()


def offered() -> list[str]:
    """Return the ids of the channels for which an owner may add an account."""
    return [name for name in names() if name not in FOR_TESTS]


@cache
def names() -> list[str]:
    """Return the ids of all channels, including other packages'; installed packages are read
    once.
    """
    return sorted({*CHANNELS, *entry_points(group=ENTRY_POINT_GROUP).names})
