"""Sign-ins at MCP servers: begun from a link, ended by the callback, and what waited goes on.

Nothing is locked while a server is asked (decision 199).
"""

import asyncio
from collections.abc import Coroutine, Iterable
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, Literal, TypeVar

from django.utils import timezone
from django.utils.translation import get_language, gettext, gettext_noop

from allowlist import audit, tool_rights
from channels_app.schedules.rights import is_group
from channels_app.tool_requests import deciding
from core.conversations import tool_calls
from core.database.transactions import atomic_write
from core.lib import encryption
from core.models import McpConnection, McpServer, McpSignIn, ToolCall, User
from core.tools import phrases
from core.tools.mcp import pins
from core.tools.mcp.errors import GrantEndedError, McpError
from core.tools.mcp.oauth import connections, registrations, sign_ins, signed_in
from core.tools.mcp.oauth.secret_values import Client as OAuthClient
from core.tools.mcp.oauth.secret_values import Started, Tokens
from core.tools.mcp.servers import ServerInfo, info_of
from core.tools.mcp.tool import loaded

Outcome = Literal["done", "declined", "used", "unknown", "failed"]
TEXTS: dict[str, str] = {
    "done": gettext_noop("You are signed in. You can close this page: I go on with your request."),
    "connected": gettext_noop("You are signed in. You can close this page."),
    "declined": gettext_noop("You are not signed in. You can close this page."),
    "used": gettext_noop(
        "This sign-in is over, or was used already. Ask again for what you wanted."
    ),
    "unknown": gettext_noop(
        "This page belongs to a sign-in that was begun in another browser, or to none."
    ),
}
ERRORS = {
    "invalid_request",
    "unauthorized_client",
    "unsupported_response_type",
    "invalid_scope",
    "server_error",
    "temporarily_unavailable",
    "invalid_target",
    "consent_required",
    "interaction_required",
    "login_required",
}
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Finished:
    """The end of an attempt to sign in; ``text`` is for the person.

    ``server``: the number of the server to which an account was added without a request that waits.
    """

    outcome: Outcome
    text: str
    server: int = 0


def begin(row: McpSignIn, *, browser: str, by: User) -> str:
    """Return the address at which the person of a sign-in goes on. Raises McpError.

    ``browser``: a random value that only their browser has; ``by``: the person who goes on.
    """
    started = waited_for(started_of(row, client_for(row), info_of(row.server)), row.server)
    if not sign_ins.store_started(row, started, browser=browser, by=by):
        raise McpError(gettext(TEXTS["used"]))
    return str(started.address)


def client_for(row: McpSignIn) -> OAuthClient:
    """Return the gateway as the client of a sign-in. Raises McpError."""
    client = sign_ins.client_of(row.server)
    # A call with a token of this client was refused for what it may not do: the token counts.
    is_known = bool(row.scope) and connections.has_token_of(
        client.registration,
        server_id=row.server_id,
        user_id=account_of(row),
        now=timezone.now(),
    )
    return replace(client, is_known=is_known)


def account_of(row: McpSignIn) -> int | None:
    """Return whose account a sign-in is for: a person's, or None, the gateway's."""
    return None if row.of_gateway else row.user_id


def shown(failure: McpError) -> str:
    """Return a failure for the person, in the language of the page; it is English elsewhere."""
    return phrases.in_language(str(failure), get_language() or "")


async def started_of(row: McpSignIn, client: OAuthClient, server: ServerInfo) -> Started:
    """Find where the person of a sign-in signs in. Raises McpError."""
    flow = await connections.loaded()
    scope, metadata = row.scope, row.resource_metadata
    if not scope and not metadata:  # no call was refused: this one says what the server demands
        challenge = await (await loaded()).challenge_of(server)
        scope = signed_in.field_of(challenge, "scope")
        metadata = signed_in.field_of(challenge, "resource_metadata")
    started: Started = await flow.begin(server, client, scope=scope, resource_metadata=metadata)
    return started


def finish(
    *,
    slug: str,
    state: str,
    browser: str,
    code: str,
    issuer: str | None,
    error: str,
    visitor: int | None,
    now: datetime,
) -> Finished:
    """End the sign-in of a callback: exchange its code, store the tokens, and let what waited go
    on. ``slug``: of the server whose callback it is; ``issuer``, ``error``: parameters;
    ``visitor``: the person signed in to the gateway in that browser.
    """
    row = sign_ins.came_back(state, slug=slug, browser=browser)
    if row is None:
        return Finished("unknown", TEXTS["unknown"])
    if not sign_ins.is_open(row, now):
        return Finished("used", TEXTS["used"])
    try:
        kept = sign_ins.take(row, now=now)
        if kept is None:
            return Finished("used", TEXTS["used"])
        by = User.objects.filter(pk=kept["by"]).first()
        if by is None or visitor not in {None, by.pk}:
            return Finished("unknown", TEXTS["unknown"])
        flow = asyncio.run(connections.loaded())
        if error or not code:
            flow.check_issuer(kept, issuer)
            registrations.forget_unknown(row.server_id, kept["client"], code=error)
            if error != "access_denied":
                raise McpError(words_of(error))
            decline(row, by=by)
            return Finished("declined", TEXTS["declined"])
        work = flow.exchange(info_of(row.server), kept, code=code, issuer=issuer)
        tokens = exchanged(work, row, client=kept["client"])
    except McpError as failure:
        return Finished("failed", f"{shown(failure)} {gettext('Open the link again.')}")
    return complete(row, kept, tokens, by=by, now=now)


def exchanged(work: Coroutine[Any, Any, Tokens], row: McpSignIn, *, client: str) -> Tokens:
    """Return the tokens of an exchange; forget a client that is unknown. Raises McpError."""
    try:
        return waited_for(work, row.server)
    except GrantEndedError as refused:
        registrations.forget_unknown(row.server_id, client, code=refused.code)
        raise


def words_of(error: str) -> str:
    """Return the meaning of an error of a callback (RFC 6749, 4.1.2.1), without foreign words."""
    if error in ERRORS:
        words = gettext("Its authorization server answers with an error ({error}).")
        return words.format(error=error)
    return gettext("Its authorization server sent you back without a code.")


def complete(
    row: McpSignIn, kept: dict[str, str], tokens: Tokens, *, by: User, now: datetime
) -> Finished:
    """Store the tokens of a sign-in and let what waits for it go on, in one transaction.

    They are revoked where the server was changed or deleted since it was begun, or the person.
    """
    with atomic_write():
        # Before the rest, as the admin's form does, which then ends the sign-ins and accounts.
        server = McpServer.objects.select_for_update(no_key=True).filter(pk=row.server_id).first()
        calls = [call for each in waiting_for(row) if (call := tool_calls.locked(each))]
        fresh = McpSignIn.objects.select_related("server", "user").filter(pk=row.pk).first()
        is_same = server is not None and kept["ground"] == sign_ins.ground_of(server)
        if not is_same or fresh is None or not sign_ins.may_open(fresh, by, now):
            ours = {"access_token": tokens.access_token, "refresh_token": tokens.refresh_token}
            sealed = encryption.encrypt({**kept, **ours})
            private = row.server.allow_private
            connections.queue_revocation(sealed, allow_private=private, now=now)
            return Finished("used", TEXTS["used"])
        if not sign_ins.close(row, now=now):
            return Finished("used", TEXTS["used"])
        connection = connections.store_signed_in(
            server_id=row.server_id,
            user_id=account_of(row),
            kept=kept,
            tokens=tokens,
            scope=kept.get("scope", ""),
        )
        if row.of_gateway or row.user.is_owner:
            pins.list_again(row.server_id)
            # It said that there is no account, or that an account has to sign in again.
            McpServer.objects.filter(pk=row.server_id).update(check_result="")
        go_on(calls, by=by, now=now)
        record(connection, by=by, action="mcp.connected", now=now)
    if not calls:
        return Finished("done", TEXTS["connected"], server=row.server_id)
    return Finished("done", TEXTS["done"])


def waiting_for(row: McpSignIn) -> list[ToolCall]:
    """Return the calls that wait for a sign-in at its server of its person, or of the gateway."""
    rows = tool_calls.waiting().filter(
        kind=ToolCall.Kind.SIGN_IN,
        sign_in__server=row.server_id,
        sign_in__of_gateway=row.of_gateway,
    )
    return list(rows if row.of_gateway else rows.filter(run__user=row.user_id))


def go_on(calls: list[ToolCall], *, by: User, now: datetime) -> None:
    """Allow locked calls that waited for a sign-in, if their persons still may speak."""
    for call in calls:
        if call.state != ToolCall.State.WAITING or deciding.is_over(call, now):
            continue
        if tool_rights.may_go_on(call.run, is_group=is_group(call.run.session), now=now):
            tool_calls.allow(call=call, by=by.pk, scope=ToolCall.Scope.ONCE)
        else:
            tool_calls.withdraw(session_id=call.run.session_id)
            call.refresh_from_db()
        deciding.show(call)


def decline(row: McpSignIn, *, by: User) -> None:
    """End a sign-in that its person does not want; the calls that wait for it are not made."""
    with atomic_write(joins=True):
        for each in ToolCall.objects.filter(sign_in=row, state=ToolCall.State.WAITING):
            call = tool_calls.locked(each)
            if call is not None and call.state == ToolCall.State.WAITING:
                tool_calls.deny(call=call, by=by.pk)
                deciding.show(call)
        sign_ins.end(row)


def remove(found: Iterable[McpConnection], *, by: User, now: datetime) -> None:
    """Delete connections; their tokens are revoked at the server by a chore."""
    rows = McpConnection.objects
    with atomic_write(joins=True):
        gone = [each for each in found if connections.remove(rows.filter(pk=each.pk))]
        for each in gone:  # after them all: the audit has one lock
            record(each, by=by, action="mcp.disconnected", now=now)


def record(connection: McpConnection, *, by: User, action: str, now: datetime) -> None:
    """Write into the audit log that an account was connected or removed."""
    person = connection.user
    audit.record(
        actor=audit.actor_of(by),
        action=action,
        subject=str(connection.server),
        data={"person": person.username if person is not None else "", "scope": connection.scope},
        now=now,
    )


def waited_for(work: Coroutine[Any, Any, T], server: McpServer) -> T:
    """Return a step's result; notify the owners of a stopped server. Raises McpError."""
    try:
        return asyncio.run(work)
    except McpError as error:
        pins.note_stopped(server.pk, error, name=str(server), now=timezone.now())
        raise
