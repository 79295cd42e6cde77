"""The client of MCP servers over the official SDK: list tools, call one. Loading it takes a second.

Streamable HTTP, in the newest protocol and those that begin with ``initialize``. A connection lasts
for one call. Requests of a server to its client (sampling, input, roots) are refused.
"""

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeVar

import httpx2
import mcp_types as types
from mcp.client.session import ClientSession
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.exceptions import MCPError
from mcp_types.version import HANDSHAKE_PROTOCOL_VERSIONS
from pydantic import ValidationError

from core import VERSION
from core.lib import encryption
from core.lib.text import one_line
from core.providers import addresses
from core.providers.redaction import hide
from core.tools.mcp import offers, tolerance
from core.tools.mcp.errors import DOUBT, McpError, StoppedError, UnauthorizedError
from core.tools.mcp.offers import Offer
from core.tools.mcp.servers import ServerInfo
from core.tools.mcp.transport import Guard

logger = logging.getLogger(__name__)

LIST_SECONDS = 30.0
CLOSE_SECONDS = 3.0  # once the result is there: for tools that changed, and for taking leave
MOST_TOOLS = 200
MOST_PAGES = 20
MOST_WORDS = 300
OTHER_REFUSALS = {401, 403, 429}  # they have nothing to do with the protocol
SIGN_IN = "It wants people to sign in: choose OAuth as its authentication."
REFUSED = "It does not accept the sign-in."
STATUS = {
    401: "It does not accept the key.",
    403: "It does not accept the key.",
    404: "There is no MCP server at this address.",
    405: "There is no MCP server at this address.",
    429: "It answers: too many requests.",
}

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Listing:
    """The tools of a server, in the protocol that was negotiated."""

    protocol: str
    offers: list[Offer]


@dataclass(slots=True)
class Called:
    """The result of a call. ``listing``: the server's tools, where they were asked for on the way;
    ``result`` is None when the tool is not the accepted one, and was not called.
    """

    result: types.CallToolResult | None = None
    listing: Listing | None = None


class Session(ClientSession):
    """A session that notes when the server's tools change."""

    def __init__(self, read: Any, write: Any) -> None:
        super().__init__(
            dispatcher=tolerance.Dispatcher(read, write),
            message_handler=self._note,
            client_info=types.Implementation(name="latchkey", version=VERSION),
        )
        self.has_changed = False

    async def validate_tool_result(self, name: str, result: types.CallToolResult) -> None:
        """Accept any result: a pattern in a server's schema may keep a processor busy for hours."""

    async def _note(self, message: object) -> None:
        if isinstance(message, types.ToolListChangedNotification):
            self.has_changed = True


@dataclass(slots=True)
class Connection:
    """An open connection. ``after``: work that may fail without losing the result."""

    session: Session
    guard: Guard
    after: Callable[[], Awaitable[None]] | None = None


async def list_tools(server: ServerInfo, *, token: str = "") -> Listing:
    """Return a server's tools after a new negotiation. ``token``: OAuth. Raises McpError."""

    async def work(connection: Connection) -> Listing:
        return await listing_of(connection.session)

    return await within(server, LIST_SECONDS, work, protocol="", token=token)


async def challenge_of(server: ServerInfo) -> str:
    """Return what a server demands of those who come without a token: its WWW-Authenticate header;
    empty where it demands nothing yet. Raises McpError.
    """
    try:
        await list_tools(server)
    except UnauthorizedError as error:
        return error.challenge
    return ""


async def call(
    server: ServerInfo,
    offer: Callable[[list[Offer]], bool] | None,
    name: str,
    arguments: Any,
    *,
    token: str = "",
) -> Called:
    """Call a tool. ``token``: of OAuth. Raises McpError, UnauthorizedError for a refused token.

    ``offer``: when given, the tools are listed before the call, and it says of them whether the
    tool may still be called. They are listed after the call when the server said that they changed.
    """

    async def work(connection: Connection) -> Called:
        session, called = connection.session, Called()
        if offer is not None:
            called.listing = await listing_of(session)
            if not offer(called.listing.offers):
                return called
        connection.guard.send("tools/call")
        found = await session.call_tool(name, arguments, allow_input_required=True)
        if not isinstance(found, types.CallToolResult):
            raise McpError("The tool asks for more input, which the gateway does not give.")
        called.result = found
        if session.has_changed:
            connection.after = partial(list_again, session, called)
        return called

    seconds = float(server.seconds)
    return await within(server, seconds, work, protocol=server.protocol, token=token)


async def list_again(session: Session, called: Called) -> None:
    """Add the server's tools to a call during which they changed."""
    called.listing = await listing_of(session)


async def listing_of(session: Session) -> Listing:
    """Return all pages of the tools. Raises StoppedError for more than anyone needs."""
    found: dict[str, Offer] = {}
    cursor: str | None = None
    for _ in range(MOST_PAGES):
        params = types.PaginatedRequestParams(cursor=cursor) if cursor else None
        page = await session.list_tools(params=params)
        for tool in page.tools:
            if not offers.name_problem(tool.name):
                found.setdefault(tool.name, offer_of(tool))
        if len(found) > MOST_TOOLS:
            break
        cursor = page.next_cursor
        if not cursor:
            return Listing(session.protocol_version or "", list(found.values()))
    raise StoppedError("too_many", f"It lists more than {MOST_TOOLS} tools, or without an end.")


def offer_of(tool: types.Tool) -> Offer:
    """Return a tool of the SDK in our form."""
    hints = tool.annotations
    return offers.offer(
        tool.name,
        title=tool.title or (hints.title if hints is not None else "") or "",
        description=tool.description or "",
        schema=tool.input_schema,
        hints=hints.model_dump(by_alias=True) if hints is not None else None,
    )


async def within(
    server: ServerInfo,
    seconds: float,
    work: Callable[[Connection], Awaitable[T]],
    *,
    protocol: str,
    token: str,
) -> T:
    """Return the result of ``work`` on a connection, in at most ``seconds``. Raises McpError."""
    key = token if server.signs_in else key_of(server)
    guard = Guard(addresses.allowed_of(private=server.allow_private))
    done: list[T] = []
    try:
        async with asyncio.timeout(seconds) as limit, connected(server, key, guard) as session:
            connection = Connection(session, guard)
            await negotiate(connection, protocol)
            done.append(await work(connection))
            limit.reschedule(asyncio.get_running_loop().time() + CLOSE_SECONDS)
            if connection.after is not None:
                await connection.after()
    except Exception as error:
        if not done:
            if isinstance(error, McpError):
                raise
            is_late = guard.sent and isinstance(error, TimeoutError)
            if server.signs_in and not is_late and is_for_token(guard):
                status, challenge = guard.refused or (401, "")
                raise UnauthorizedError(status, challenge, REFUSED) from error
            raise explained(error, guard, key, seconds=seconds) from error
        logger.info("an MCP server failed after its result: %s", type(error).__name__)
    finally:
        await guard.aclose()
    return done[0]


def key_of(server: ServerInfo) -> str:
    """Return a server's key; empty for none. Raises McpError."""
    try:
        return encryption.decrypt(server.secrets).get("key", "")
    except encryption.DecryptError as error:
        raise McpError("Its key cannot be opened: the gateway's own key was changed.") from error


@asynccontextmanager
async def connected(server: ServerInfo, key: str, guard: Guard) -> AsyncIterator[Session]:
    """Open a session, not negotiated yet."""
    headers: dict[str, str] = {}
    if key and server.key_header and not server.signs_in:
        headers[server.key_header] = key
    elif key:
        headers["Authorization"] = f"Bearer {key}"
    client = httpx2.AsyncClient(
        transport=guard, headers=headers, timeout=None, follow_redirects=False, trust_env=False
    )
    async with (
        client,
        streamable_http_client(
            server.url,
            http_client=client,
            max_sse_event_size=None,  # the guard counts
        ) as streams,
        Session(*streams[:2]) as session,
    ):
        yield session


async def negotiate(connection: Connection, protocol: str) -> None:
    """Agree on the newest protocol; ``protocol``: the one of last time."""
    session, guard = connection.session, connection.guard
    if protocol not in HANDSHAKE_PROTOCOL_VERSIONS:
        try:
            await session.discover()
        except (MCPError, RuntimeError, ValidationError):
            if guard.stopped is not None or (guard.refused and guard.refused[0] in OTHER_REFUSALS):
                raise
        else:
            return
    guard.refused = None
    await session.initialize()


def is_for_token(guard: Guard) -> bool:
    """Return whether the server refused a request for lack of a token, or of rights."""
    status, challenge = guard.refused or (0, "")
    return guard.stopped is None and (
        status == 401 or (status == 403 and "insufficient_scope" in challenge)
    )


def explained(error: Exception, guard: Guard, key: str, *, seconds: float) -> McpError:
    """Return a failure in words, without the key."""
    doubt = DOUBT if guard.sent else ""
    if guard.stopped is not None:
        if isinstance(guard.stopped, StoppedError):
            return StoppedError(guard.stopped.code, f"{guard.stopped}{doubt}")
        return guard.stopped
    if isinstance(error, TimeoutError):
        if guard.is_open and guard.sent:
            words = f"It was still sending after {seconds:.0f} seconds and was cut off."
            return StoppedError("endless", words + doubt)
        return McpError(f"It did not answer within {seconds:.0f} seconds.{doubt}")
    cause = first_of(error)
    if isinstance(cause, McpError):
        return cause
    if guard.refused is not None and not isinstance(cause, ValidationError):
        # Of 4xx it was not; a proxy says 504 of one that goes on.
        return McpError(refusal(*guard.refused) + (doubt if guard.refused[0] >= 500 else ""))
    return McpError(words_of(cause, key) + ("" if isinstance(cause, MCPError) else doubt))


def words_of(cause: BaseException, key: str) -> str:
    """Return the meaning of an exception of the SDK or of the connection."""
    match cause:
        case MCPError():
            said = one_line(hide(str(cause.error.message), key), MOST_WORDS)
            return f"It answers with an error: {said}"
        case httpx2.ConnectError() | httpx2.ConnectTimeout():
            return "It cannot be reached: is it running, and is the address right?"
        case httpx2.TransportError():
            return "The connection broke off."
        case ValidationError():
            return "Its answer does not follow the protocol."
    logger.error("an MCP server could not be used", exc_info=cause)
    return "Something went wrong on the way to it."


def first_of(error: BaseException) -> BaseException:
    """Return the first exception of groups of exceptions."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error


def refusal(status: int, challenge: str) -> str:
    """Return the meaning of a status."""
    if status == 401 and "resource_metadata" in challenge:
        return SIGN_IN
    if status >= 500:
        return f"It fails (HTTP {status})."
    return STATUS.get(status, f"It refuses the request (HTTP {status}).")
