"""Tokens of people at MCP servers, as rows: used, refreshed by one worker at a time, ended.

A refresh is a lease (``refreshing_until``) and a fence (``version``): nothing is locked while a
server is asked.
"""

import asyncio
import importlib
import logging
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import partial
from types import ModuleType
from typing import Any

from django.db.models import Q, QuerySet
from django.db.models.signals import pre_delete
from django.utils import timezone

from core.database.transactions import atomic_write, in_thread, patiently
from core.lib import encryption
from core.models import McpConnection, McpRevocation
from core.tools.mcp.errors import GrantEndedError, McpError
from core.tools.mcp.oauth import registrations
from core.tools.mcp.oauth.secret_values import Tokens
from core.tools.mcp.servers import ServerInfo

logger = logging.getLogger(__name__)

EARLY = timedelta(seconds=30)  # a token is refreshed this long before its end
LEASE = timedelta(seconds=40)  # longer than a refresh may take
STORE_SECONDS = 15.0  # within the lease, after a refresh
WAIT_SECONDS, POLL_SECONDS = 45.0, 0.1
REFUSED_FOR = timedelta(minutes=10)
MOST_REPEATED = 1  # further sign-ins for a token that was not accepted


@dataclass(frozen=True, slots=True)
class Token:
    """The access token of a connection, whose row is as it was read. ``kept``: its secrets."""

    row: McpConnection
    kept: dict[str, str] = field(repr=False)

    @property
    def value(self) -> str:
        return self.kept["access_token"]


async def usable(
    server: ServerInfo, user_id: int | None, *, instead_of: Token | None = None
) -> Token | None:
    """Return the token of a person (None: of the gateway) at a server, refreshed if need be; None
    when they have to sign in.

    ``instead_of``: a token that the server did not accept. Raises McpError.
    """
    deadline = asyncio.get_running_loop().time() + WAIT_SECONDS
    first: int | None = None
    while asyncio.get_running_loop().time() < deadline:
        token = await in_thread(read, server.id, user_id)
        if token is None:
            return None
        now, version = timezone.now(), token.row.version
        first = version if first is None else first
        is_accepted = instead_of is None or version != instead_of.row.version
        if is_accepted and (version != first or not is_over(token.row, now + EARLY)):
            return token
        may_do = is_accepted and not is_over(token.row, now)
        if not token.kept.get("refresh_token"):
            return token if may_do else None
        if not await in_thread(take_lease, token.row, now):
            await asyncio.sleep(POLL_SECONDS)  # another worker refreshes it
            continue
        try:
            # Not cut off between the answer and its storing by the time limit of a call.
            await asyncio.shield(asyncio.ensure_future(refreshed(server, token)))
        except McpError:
            if not may_do:
                raise
            return token
    raise McpError("Its authorization server takes too long to renew the sign-in.")


async def refreshed(server: ServerInfo, token: Token) -> None:
    """Refresh the token of a row whose lease this worker has. Raises McpError for failures that may
    pass; a grant that has ended ends the connection.
    """
    flow = await loaded()
    try:
        tokens = await flow.refresh(server, token.kept)
    except GrantEndedError as ended:
        await in_thread(end, token.row.pk, version=token.row.version)
        forget = registrations.forget_unknown
        await in_thread(forget, server.id, token.kept["client"], code=ended.code)
    except McpError:
        await in_thread(release, token.row)
        raise
    else:
        # The server may take the old refresh token no more: its person would sign in again.
        store = partial(store_refreshed, token, tokens, now=timezone.now())
        await patiently(store, seconds=STORE_SECONDS)


def read(server_id: int, user_id: int | None) -> Token | None:
    """Return the connection of a person that has tokens, if they can be opened."""
    # With its server: both may be deleted while tokens are renewed, which then are revoked.
    rows = McpConnection.objects.select_related("server")
    row = rows.filter(server=server_id, user=user_id).first()
    if row is None or not row.secrets:
        return None
    try:
        return Token(row, encryption.decrypt(row.secrets))
    except encryption.DecryptError:
        logger.warning("the account of connection %s cannot be opened: a key was changed", row.pk)
        return None


def is_over(row: McpConnection, now: datetime) -> bool:
    return row.expires_at is not None and row.expires_at <= now


def has_token_of(client: str, *, server_id: int, user_id: int | None, now: datetime) -> bool:
    """Return whether a person has a token that is not over and was given to ``client`` (JSON)."""
    token = read(server_id, user_id)
    if token is None or is_over(token.row, now):
        return False
    return registrations.id_of(token.kept["client"]) == registrations.id_of(client)


def take_lease(row: McpConnection, now: datetime) -> bool:
    """Return whether this worker may refresh the row's tokens, and they are unchanged."""
    # The clock was set back; another worker's may be a little ahead.
    ahead = Q(refreshing_until__gt=now + 2 * LEASE)
    free = Q(refreshing_until=None) | Q(refreshing_until__lte=now) | ahead
    rows = McpConnection.objects.filter(free, pk=row.pk, version=row.version)
    row.refreshing_until = now + LEASE
    with atomic_write():
        return rows.update(refreshing_until=row.refreshing_until) == 1


def release(row: McpConnection) -> None:
    """Give the lease of a row back."""
    rows = McpConnection.objects.filter(pk=row.pk, refreshing_until=row.refreshing_until)
    with atomic_write():
        rows.update(refreshing_until=None)


def store_refreshed(token: Token, tokens: Tokens, *, now: datetime) -> bool:
    """Store new tokens; return whether the row was as it was read: they are revoked where the
    connection is gone, and forgotten where it has others by now.
    """
    kept = {**token.kept, "access_token": tokens.access_token}
    if tokens.refresh_token:  # else the old one goes on (RFC 6749, 6)
        kept["refresh_token"] = tokens.refresh_token
    rows = McpConnection.objects.filter(pk=token.row.pk, version=token.row.version)
    with atomic_write():
        stored = rows.exclude(secrets="").update(
            secrets=encryption.encrypt(kept),
            expires_at=end_of(tokens, now),
            version=token.row.version + 1,
            refreshing_until=None,
        )
        if not stored and not McpConnection.objects.filter(pk=token.row.pk).exists():
            allow_private = token.row.server.allow_private
            queue_revocation(encryption.encrypt(kept), allow_private=allow_private, now=now)
    return stored == 1


def store_signed_in(
    *, server_id: int, user_id: int | None, kept: dict[str, str], tokens: Tokens, scope: str
) -> McpConnection:
    """Store the tokens of a sign-in. Inside a transaction.

    Those of an earlier one are forgotten: some servers revoke all tokens of an account with one.
    """
    now = timezone.now()
    row = McpConnection.objects.select_for_update().filter(server=server_id, user=user_id).first()
    if row is None:
        row = McpConnection(server_id=server_id, user_id=user_id)
    is_again = row.pk is not None and row.proven_at is None
    row.repeated = row.repeated + 1 if is_again else 0
    wanted = {name: kept[name] for name in ("metadata", "client", "resource")}
    row.secrets = encryption.encrypt(
        {**wanted, "access_token": tokens.access_token, "refresh_token": tokens.refresh_token}
    )
    row.scope, row.expires_at = scope or tokens.scope, end_of(tokens, now)
    row.version += 1
    row.connected_at = now
    row.proven_at = row.refused_at = row.refreshing_until = None
    row.save()
    return row


def end_of(tokens: Tokens, now: datetime) -> datetime | None:
    return now + timedelta(seconds=tokens.seconds) if tokens.seconds is not None else None


def prove(token: Token) -> None:
    """Note that a call was accepted with a sign-in, once."""
    rows = McpConnection.objects.filter(pk=token.row.pk, proven_at=None)
    with atomic_write():
        rows.update(proven_at=timezone.now(), repeated=0)


def end(connection_id: int, *, version: int) -> None:
    """End a connection whose tokens are not accepted any more, unless it has others by now."""
    rows = McpConnection.objects.filter(pk=connection_id, version=version)
    with atomic_write():
        rows.update(secrets="", version=version + 1, refreshing_until=None)


def note_refused(connection_id: int) -> None:
    """Note that the tokens of an ended connection were never accepted."""
    rows = McpConnection.objects.filter(pk=connection_id, secrets="")
    with atomic_write():
        rows.update(refused_at=timezone.now())


def was_refused(server_id: int, user_id: int | None, *, now: datetime) -> bool:
    """Return whether the server has just refused a new sign-in of a person without a usable token;
    or has just given, once more, tokens that were over before a call was accepted with them.
    """
    since = now - REFUSED_FOR
    refused = Q(secrets="", refused_at__gt=since, refused_at__lte=now)
    over = Q(
        proven_at=None, repeated__gte=MOST_REPEATED, connected_at__gt=since, connected_at__lte=now
    )
    rows = McpConnection.objects.filter(server=server_id, user=user_id)
    return rows.filter(refused | over).exists()


def remove(rows: QuerySet[McpConnection]) -> int:
    """Delete connections, whose tokens are revoked at their servers; return how many there were."""
    with atomic_write(joins=True):
        found = list(rows)
        for each in found:
            each.delete()
    return len(found)


def of_owners(server_id: int) -> list[int]:
    """Return the ids of the owners who are signed in at a server."""
    rows = McpConnection.objects.filter(server=server_id, user__is_owner=True).exclude(secrets="")
    return [row.user_id for row in rows.order_by("-connected_at") if row.user_id is not None]


def queue_revocation(sealed: str, *, allow_private: bool, now: datetime) -> None:
    """Have tokens revoked at their server by the next chore. Inside a transaction."""
    McpRevocation.objects.create(secrets=sealed, allow_private=allow_private, due_at=now)


def revoke_gone(instance: McpConnection, **_: Any) -> None:
    """Queue the revocation of the tokens of a connection that is being deleted."""
    # Read again: a worker may have renewed them since, and waits from now on.
    rows = McpConnection.objects.select_for_update().filter(pk=instance.pk)
    if sealed := rows.values_list("secrets", flat=True).first():
        allow_private = instance.server.allow_private
        queue_revocation(sealed, allow_private=allow_private, now=timezone.now())


def connect_signals() -> None:
    """Revoke the tokens of a connection that is deleted, in whatever way."""
    uid = "mcp connection gone"
    pre_delete.connect(revoke_gone, sender=McpConnection, weak=False, dispatch_uid=uid)


async def loaded() -> ModuleType:
    """Return the flow, without blocking the event loop while the SDK is loaded."""
    return await asyncio.to_thread(importlib.import_module, "core.tools.mcp.oauth.flow")
