"""A tool of an MCP server, as the agent's loop knows tools."""

import asyncio
import importlib
import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field, replace
from functools import partial
from types import ModuleType
from typing import TYPE_CHECKING, Any, Literal

from django.utils import timezone

from core.database.transactions import AWAY, in_thread
from core.files import storage
from core.lib.text import one_line
from core.lib.ttl_cache import TtlCache
from core.tools.base import Ask, Tool, ToolContext, ToolError, ToolResult
from core.tools.mcp import pictures, pins, results
from core.tools.mcp.errors import McpError
from core.tools.mcp.oauth import signed_in
from core.tools.mcp.servers import ServerInfo

if TYPE_CHECKING:
    from core.tools.mcp.client import Called
    from core.tools.mcp.offers import Offer

logger = logging.getLogger(__name__)

STORED_SECONDS = 60.0  # the same list of tools is not stored again before
OTHER_TOOL = (
    "The server has changed this tool. It is off until the owner has looked at the difference."
)
NOT_LISTED = (
    "Only people on the owner's list may sign in to this server: the owner has to add this address."
)
NOT_MADE = "The call was not made: the gateway's database is away for a moment. Try again."
# Server -> its tools and their hashes, as this process has stored them.
_stored = TtlCache[int, dict[str, str]](STORED_SECONDS)


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerTool(Tool):
    """``remote_name``: its name on the server; ``digest``: of the accepted description."""

    name: str
    description: str
    parameters: dict[str, Any]
    ask: Ask
    asks: Literal["owner", "person"] = "owner"
    idempotent: bool
    seconds: float = 0.0
    server: ServerInfo
    remote_name: str
    digest: str = field(repr=False)

    def progress(self, arguments: dict[str, Any]) -> str:
        return f"Asking {self.server.name}…"

    async def run(self, context: ToolContext, arguments: dict[str, Any]) -> ToolResult:
        """Call the tool on its server, unless it is another one by now. Raises ToolError."""
        client = await loaded()

        async def work(token: str) -> "Called":
            called: Called = await client.call(
                self.server,
                self.is_same,
                self.remote_name,
                arguments,
                token=token,
            )
            return called

        try:
            called = await self._as_person(context, client, work)
        except McpError as error:
            now = timezone.now()
            await in_thread(
                pins.note_stopped, self.server.id, error, name=self.server.name, now=now
            )
            raise ToolError(f"{self.server.name}: {error}") from error
        except AWAY as error:  # before the call, or after the server has refused its token
            raise ToolError(NOT_MADE) from error
        try:
            await self._store(called)
        except AWAY:  # the call was made: its result counts
            logger.warning("the tools of MCP server %s could not be stored", self.server.id)
        if called.result is None:
            raise ToolError(OTHER_TOOL)
        found = pictures.pictures_of(called.result.content)
        told = partial(
            results.result_of, called.result, tool=self.remote_name, server=self.server.name
        )
        if not found:
            return told()
        name = one_line(self.remote_name, 60)
        try:
            shown = await in_thread(
                pictures.store_pictures, context, list(found.values()), tool=name
            )
        except (storage.NotStoredError, *AWAY):
            logger.exception("a picture of an MCP server could not be kept")
            return told()
        return replace(told(shown=found), messages=shown)

    async def _as_person(
        self, context: ToolContext, client: ModuleType, work: "Callable[[str], Awaitable[Called]]"
    ) -> "Called":
        """Return the result of ``work``, with the token of the person where the server wants one.
        Raises SignInError, ToolError, McpError.
        """
        if not self.server.signs_in:
            return await work("")
        if not self.server.is_of_gateway and not await in_thread(context.is_listed):
            raise ToolError(NOT_LISTED)
        return await signed_in.call(
            self.server,
            context.user_id,
            work,
            challenge=partial(client.challenge_of, self.server),
        )

    def is_same(self, offers: "list[Offer]") -> bool:
        """Return whether the server describes the tool as the owner has accepted it."""
        return any(
            each.name == self.remote_name and each.digest() == self.digest for each in offers
        )

    async def _store(self, called: "Called") -> None:
        """Store the list of tools that came with a call."""
        listing = called.listing
        if listing is None:
            return
        if self.server.signs_in and not self.server.is_of_gateway:
            # A list may differ by person: it is compared and not stored.
            if called.result is None:
                await in_thread(pins.list_again, self.server.id)
            return
        hashes = {each.name: each.digest() for each in listing.offers}
        if _stored.get(self.server.id) == hashes:
            return
        await in_thread(
            pins.store_listing,
            self.server.id,
            listing.offers,
            protocol=listing.protocol,
            now=timezone.now(),
        )
        _stored.put(self.server.id, hashes)


async def loaded() -> ModuleType:
    """Return the client, without blocking the event loop while the SDK is loaded."""
    return await asyncio.to_thread(importlib.import_module, "core.tools.mcp.client")
