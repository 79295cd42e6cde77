"""Channels by id: ours by dotted path, others' by the entry point ``latchkey.channels``."""

import logging
import sys
from collections.abc import Iterator, Mapping
from functools import cache
from importlib.metadata import EntryPoint

from django.utils.module_loading import import_string

from channels_app.base import Channel
from core.lib.installed import BrokenError, Installed, read

logger = logging.getLogger(__name__)

GROUP = "latchkey.channels"
# Channels that push answers to a platform. The web chat and HTTP read the event log instead.
CHANNELS: dict[str, str] = {
    "bridge": "channels_app.bridge.channel.CHANNEL",
    "memory": "channels_app.memory.channel.CHANNEL",
    "telegram": "channels_app.telegram.channel.CHANNEL",
}
FOR_TESTS = frozenset({"memory"})
PARTS = frozenset(
    {"id", "name", "description", "idempotent", "pace", "capabilities"}
    | {"config", "gateway", "outbound", "is_group"}
)


def get(channel_id: str) -> Channel | None:
    """Return the channel ``channel_id``; None for one without an outbound side."""
    return own(channel_id) if channel_id in CHANNELS else installed().found.get(channel_id)


def is_group(channel: Channel, chat: str) -> bool:
    """Return whether a chat has several members; True where the channel fails to say: less is
    written to groups.
    """
    try:
        return channel.is_group(chat)
    except Exception:  # another package's: notices also go to other channels
        logger.exception("the channel %s cannot tell a group", channel.id)
        return True


@cache
def own(channel_id: str) -> Channel:
    channel: Channel = import_string(CHANNELS[channel_id])
    return channel


@cache
def installed() -> Installed[Channel]:
    """Return the channels of other packages. The others work without one that cannot be loaded: its
    error is logged, and shown to the owner by the doctor.
    """
    return read(GROUP, "channel", loaded)


def loaded(point: EntryPoint, others: Mapping[str, Channel]) -> tuple[str, Channel]:
    """Return the channel and its id. Raises BrokenError, and any error of its module."""
    channel: Channel = point.load()
    if isinstance(channel, type):
        raise BrokenError(f"{point.value} is a class; a channel is an object.")
    if missing := sorted(PARTS - set(dir(channel))):
        raise BrokenError(f"{point.value} is no channel: it has no {', '.join(missing)}.")
    if channel.id != point.name:
        raise BrokenError(f"Its id is {channel.id}; the name of its entry point must be the same.")
    if channel.id in {**CHANNELS, **others}:
        raise BrokenError(f"There is another channel with the id {channel.id}.")
    return channel.id, channel


async def close() -> None:
    """Close the connections that channels hold in the running event loop. An error of one is
    logged: the worker still has to close the others, and to end the loop.
    """
    for channel in in_use():
        try:
            await channel.gateway.close()
        except Exception:
            logger.exception("a channel could not close its connections")


def in_use() -> Iterator[Channel]:
    """Return the channels whose modules this process has loaded."""
    for channel_id, path in CHANNELS.items():
        if path.rpartition(".")[0] in sys.modules:
            yield own(channel_id)
    if installed.cache_info().currsize:
        yield from installed().found.values()


def offered() -> list[str]:
    """Return the ids of the channels for which an owner may add an account."""
    return [name for name in names() if name not in FOR_TESTS]


def names() -> list[str]:
    """Return the ids of all channels. Installed packages are read once."""
    return sorted({*CHANNELS, *installed().found})
