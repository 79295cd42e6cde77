"""Asking MCP servers for their tools: on request, and every ten minutes."""

import asyncio
from datetime import datetime, timedelta

from django.db.models import Q
from django.utils import timezone

from core.database.transactions import atomic_write, in_thread
from core.models import McpServer
from core.tools.mcp import pins
from core.tools.mcp.errors import McpError
from core.tools.mcp.oauth import signed_in
from core.tools.mcp.servers import ServerInfo, info_of
from core.tools.mcp.tool import loaded

EVERY = timedelta(minutes=10)
AT_ONCE = 20
LOOK_SECONDS = 60.0


async def refresh(server: ServerInfo) -> int:
    """Ask a server for its tools and store them; return how many. Raises McpError."""
    client = await loaded()
    now = timezone.now()
    try:
        if server.signs_in:
            listing = await signed_in.listed(
                server, lambda token: client.list_tools(server, token=token)
            )
        else:
            listing = await client.list_tools(server)
    except McpError as error:
        await in_thread(pins.note_stopped, server.id, error, name=server.name, now=now)
        raise
    await in_thread(
        pins.store_listing, server.id, listing.offers, protocol=listing.protocol, now=now
    )
    return len(listing.offers)


async def refresh_due() -> float:
    """Ask the servers whose list is old; return after how many seconds to look again. A chore."""
    due = await in_thread(take_due, timezone.now())
    if due:
        await asyncio.gather(*(quietly(each) for each in due))
    return LOOK_SECONDS


async def quietly(server: ServerInfo) -> None:
    """Refresh one server; a failure waits for the next time."""
    try:
        await refresh(server)
    except McpError:
        return


def take_due(now: datetime) -> list[ServerInfo]:
    """Return the servers to ask, each for one worker: it has their time of listing now."""
    # A time ahead: the clock was set back.
    ahead = Q(listed_at__gt=now)
    old = Q(listed_at__isnull=True) | Q(listed_at__lt=now - EVERY) | ahead
    rows = McpServer.objects.filter(old, enabled=True).prefetch_related("people", "assistants")
    found = list(rows.order_by("id")[:AT_ONCE])
    taken = []
    for row in found:
        with atomic_write():
            if McpServer.objects.filter(old, pk=row.pk).update(listed_at=now):
                taken.append(info_of(row))
    return taken
