"""The tools of MCP servers that a turn may use: a snapshot, kept by each process.

It has the version of ``core.providers.catalogue``, which every change here raises too: a turn has
read that one already, so that nothing is asked of the database while nothing changes.
"""

import threading
from dataclasses import dataclass
from typing import cast

from django.db.models import F

from core.models import McpServer, McpTool
from core.tools import registry
from core.tools.base import Ask, Tool
from core.tools.mcp import offers
from core.tools.mcp.oauth.connections import WAIT_SECONDS
from core.tools.mcp.servers import ServerInfo, info_of
from core.tools.mcp.tool import ServerTool

MARGIN_SECONDS = 10  # the client ends a call first, and says why


@dataclass(slots=True)
class Kept:
    """The tools of this process; ``version``: of the catalogue when they were read."""

    version: int = -2
    tools: tuple[ServerTool, ...] = ()


kept = Kept()
_lock = threading.Lock()


def refresh(version: int) -> None:
    """Read the tools again unless they are of this version. May block on the database."""
    if kept.version == version:
        return
    with _lock:
        if kept.version != version:
            kept.tools = read()
            kept.version = version


def tools_for(
    user_id: int, assistant_id: int, *, is_limited: bool = False
) -> dict[str, ServerTool]:
    """Return the tools that a person may use with an assistant, by name, as :func:`refresh` read
    them. ``is_limited``: the assistant has chosen tools only; then a server has to name it.
    """
    return {
        each.name: each
        for each in kept.tools
        if (not each.server.people or user_id in each.server.people)
        and (assistant_id in each.server.assistants if each.server.assistants else not is_limited)
    }


def named(name: str) -> Tool | None:
    """Return the enabled tool with this name for models, of the gateway or of a server."""
    return registry.get(name) or next((each for each in read() if each.name == name), None)


def read() -> tuple[ServerTool, ...]:
    """Return the tools that are enabled and as the owner has accepted them."""
    rows = (
        McpTool.objects.filter(enabled=True, server__enabled=True, accepted_hash=F("offered_hash"))
        .exclude(accepted_hash="")
        .order_by("call_name")
    )
    found = list(rows)
    servers = McpServer.objects.filter(pk__in={each.server_id for each in found})
    infos = {row.pk: info_of(row) for row in servers.prefetch_related("people", "assistants")}
    return tuple(
        ServerTool(
            name=row.call_name,
            description=row.description or row.title or row.name,
            parameters=offers.for_models(row.schema),
            ask=cast("Ask", row.ask),
            idempotent=row.idempotent,
            seconds=seconds_of(infos[row.server_id]),
            server=infos[row.server_id],
            remote_name=row.name,
            digest=row.accepted_hash,
        )
        for row in found
        if row.server_id in infos
    )


def seconds_of(server: ServerInfo) -> float:
    """Return the time limit of a call."""
    once = server.seconds + MARGIN_SECONDS
    # A refused token is renewed, and the call is made again.
    return 2 * (once + WAIT_SECONDS) if server.signs_in else float(once)
