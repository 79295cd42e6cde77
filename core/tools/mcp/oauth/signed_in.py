"""Calls of an MCP server with the token of a person, or with that of the gateway.

A refused token is refreshed once; then somebody has to sign in, unless the server has refused the
new sign-in, too.
"""

import logging
import re
from collections.abc import Awaitable, Callable, Sequence
from typing import TypeVar

from django.utils import timezone

from core.conversations.tool_calls import SignInWanted
from core.database.transactions import AWAY, in_thread
from core.tools.base import SignInError
from core.tools.mcp.errors import McpError, UnauthorizedError
from core.tools.mcp.oauth import connections
from core.tools.mcp.oauth.connections import Token
from core.tools.mcp.servers import ServerInfo

logger = logging.getLogger(__name__)

MOST_FIELD = 2_000
MOST_WIDENED = 2  # further sign-ins for more rights, without an accepted call
NOT_ACCEPTED = "It does not accept the account that has just signed in."
NOT_ALLOWED = "The account that is signed in may not do that."
OWNER_FIRST = "Sign in with “Connect” first: its tools are listed with your account."
T = TypeVar("T")


async def call(
    server: ServerInfo,
    user_id: int,
    work: Callable[[str], Awaitable[T]],
    *,
    challenge: Callable[[], Awaitable[str]],
) -> T:
    """Return the result of ``work`` with the token of a person, or of the gateway.

    ``challenge`` asks the server, without a token, what it demands. Raises SignInError, McpError.
    """
    person = None if server.is_of_gateway else user_id
    token = await connections.usable(server, person)
    if token is None:
        if await in_thread(connections.was_refused, server.id, person, now=timezone.now()):
            raise McpError(NOT_ACCEPTED)
        raise wanted_by(server, await challenge())
    for is_last in (False, True):
        try:
            result = await work(token.value)
        except UnauthorizedError as error:
            if error.status == 403:
                raise widened(server, token, error) from error
            newer = None if is_last else await connections.usable(server, person, instead_of=token)
            if newer is None:
                raise await ended(server, token, error) from error
            token = newer
        else:
            if token.row.proven_at is None:
                await proven(token)
            return result
    raise AssertionError  # the second time returns or raises


async def proven(token: Token) -> None:
    """Note that a call was accepted with a sign-in; the next call does where this fails."""
    try:
        await in_thread(connections.prove, token)
    except AWAY:  # the call was made: its result counts
        logger.warning("the sign-in of connection %s could not be noted", token.row.pk)


async def ended(server: ServerInfo, token: Token, error: UnauthorizedError) -> Exception:
    """End a connection whose token was refused; return what to raise: a person is asked once more,
    and told when the server refuses that, too.
    """
    await in_thread(connections.end, token.row.pk, version=token.row.version)
    if token.row.proven_at is not None or token.row.repeated < connections.MOST_REPEATED:
        return wanted_by(server, error.challenge)
    await in_thread(connections.note_refused, token.row.pk)
    return McpError(NOT_ACCEPTED)


def widened(server: ServerInfo, token: Token, error: UnauthorizedError) -> Exception:
    """Return the error that asks to sign in again, for the present and the wanted rights."""
    more = field_of(error.challenge, "scope").split()
    held = token.row.scope.split()
    is_new = bool(set(more) - set(held))
    if not is_new or token.row.repeated >= MOST_WIDENED:
        return McpError(NOT_ALLOWED)
    return wanted_by(server, error.challenge, scope=" ".join(dict.fromkeys([*held, *more])))


def wanted_by(server: ServerInfo, challenge: str, *, scope: str = "") -> SignInError:
    """Return the request to sign in, as the server demands it."""
    who = "The owner" if server.is_of_gateway else "The person"
    wanted = SignInWanted(
        server_id=server.id,
        server=server.name,
        of_gateway=server.is_of_gateway,
        scope=(scope or field_of(challenge, "scope"))[:MOST_FIELD],
        resource_metadata=field_of(challenge, "resource_metadata"),
    )
    return SignInError(f"{who} has to sign in to {server.name} first.", wanted)


def field_of(challenge: str, name: str) -> str:
    """Return a parameter of a WWW-Authenticate header; empty for none and for a huge one."""
    found = re.search(rf'(?:^|[\s,]){name}=(?:"([^"]*)"|([^\s,"]+))', challenge[:8_000])
    value = (found[1] or found[2] or "") if found is not None else ""
    return value if len(value) <= MOST_FIELD and value.isprintable() else ""


async def listed(server: ServerInfo, work: Callable[[str], Awaitable[T]]) -> T:
    """Return the result of ``work``, which lists tools, with the token of the gateway, or of an
    owner. One that is refused is renewed once; then the next owner's is tried. Raises McpError.
    """
    people: Sequence[int | None] = [None]
    if not server.is_of_gateway:
        people = await in_thread(connections.of_owners, server.id)
    failure = McpError(OWNER_FIRST)
    for each in people:
        token = await connections.usable(server, each)
        for _ in range(2):
            if token is None:
                break
            try:
                return await work(token.value)
            except UnauthorizedError as error:
                failure = error
                token = await connections.usable(server, each, instead_of=token)
    raise failure
