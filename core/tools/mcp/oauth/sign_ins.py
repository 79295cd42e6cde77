"""Sign-ins as rows: the right to open one, its state and browser; its code is used once."""

import hashlib
from datetime import datetime, timedelta
from typing import Any

from django.conf import settings
from django.db.models import DateTimeField, QuerySet

from core.database import transactions
from core.database.queries import HasRows, Param
from core.database.transactions import atomic_write
from core.lib import encryption
from core.models import McpRevocation, McpServer, McpSignIn, User
from core.tools.mcp.errors import McpError
from core.tools.mcp.oauth import pages, registrations
from core.tools.mcp.oauth.secret_values import Client, Started

State = McpSignIn.State
OF_ADMIN = timedelta(hours=1)
KEPT = timedelta(days=7)
LONGEST_REVOCATION = timedelta(minutes=10)  # until it is tried again


def digest(*parts: object) -> str:
    """Return the stored form of random values: 256 bits need no salt."""
    return hashlib.sha256("\0".join(map(str, parts)).encode(errors="replace")).hexdigest()


def opened(sealed: str) -> dict[str, str]:
    """Return the decrypted secrets of a server or a sign-in. Raises McpError."""
    try:
        return encryption.decrypt(sealed)
    except encryption.DecryptError as error:
        words = "Its secrets cannot be opened: the gateway's own key was changed."
        raise McpError(words) from error


def may_open(row: McpSignIn, user: User, now: datetime) -> bool:
    """Return whether a person may sign in: the one that was asked; any owner for the gateway."""
    if row.of_gateway:
        is_right = user.is_owner
    else:
        is_right = row.user_id == user.pk and may_use(row.server, user)
    return is_right and user.is_active and row.server.enabled and is_open(row, now)


def is_open(row: McpSignIn, now: datetime) -> bool:
    return row.state in {State.OPEN, State.EXCHANGING} and row.expires_at > now


def open_at(server: McpServer) -> list[McpSignIn]:
    """Return the sign-ins at a server that have not ended."""
    return list(server.sign_ins.filter(state__in=(State.OPEN, State.EXCHANGING)))


def may_use(server: McpServer, user: User) -> bool:
    """Return whether the owner lets a person use a server."""
    people = [each.pk for each in server.people.all()]
    return not people or user.pk in people


def create(server: McpServer, user: User, *, now: datetime) -> McpSignIn:
    """Return a sign-in which no call waits for: the one that is open, or a new one."""
    of_gateway = server.authentication == McpServer.Authentication.GATEWAY
    rows = server.sign_ins.filter(user=user, of_gateway=of_gateway, calls=None)
    row = rows.filter(state__in=(State.OPEN, State.EXCHANGING), expires_at__gt=now).first()
    if row is not None:
        row.expires_at = now + OF_ADMIN
        row.save(update_fields=["expires_at"])
        return row
    return McpSignIn.objects.create(
        server=server,
        user=user,
        of_gateway=of_gateway,
        expires_at=now + OF_ADMIN,
    )


def client_of(server: McpServer) -> Client:
    """Return the gateway as a client of OAuth at a server. Raises McpError."""
    own = opened(server.secrets)
    return Client(
        redirect_uri=pages.callback(server.slug),
        client_id=server.client_id,
        client_secret=own.get("client_secret", ""),
        issuer=own.get("issuer", ""),
        metadata_url=pages.client_document(server.slug),
        registration=registrations.known(server),
    )


def ground_of(server: McpServer) -> str:
    """Return the settings of a server for which a sign-in holds: tokens go nowhere else."""
    return digest(server.url, server.client_id, server.authentication)


def store_started(row: McpSignIn, started: Started, *, browser: str, by: User) -> bool:
    """Store that the browser goes to the authorization server, in place of an earlier attempt;
    return whether the sign-in was still open. ``browser``: a value that only this browser has;
    ``by``: the person who goes there.
    """
    about = {"scope": started.scope, "by": str(by.pk), "ground": ground_of(row.server)}
    values: dict[str, Any] = {
        "state": State.OPEN,
        "state_hash": digest(started.state),
        "browser_hash": digest(browser, row.pk),
        "secrets": encryption.encrypt({**started.kept, **about}),
    }
    rows = McpSignIn.objects.filter(pk=row.pk, state__in=(State.OPEN, State.EXCHANGING))
    with atomic_write():
        if started.registered:
            sealed = encryption.encrypt({"client": started.registered})
            McpServer.objects.filter(pk=row.server_id).update(registration=sealed)
        bind_client(row.server, started.issuer)
        return rows.update(**values) == 1


def bind_client(server: McpServer, issuer: str) -> None:
    """Note the authorization server of the owner's client. In a transaction. Raises McpError."""
    fresh = McpServer.objects.select_for_update(no_key=True).filter(pk=server.pk).first()
    if fresh is None or not fresh.client_id or fresh.client_id != server.client_id:
        return
    own = opened(fresh.secrets)
    if not own.get("issuer"):
        sealed = encryption.encrypt({**own, "issuer": issuer})
        McpServer.objects.filter(pk=server.pk).update(secrets=sealed)


def came_back(state: str, *, slug: str, browser: str) -> McpSignIn | None:
    """Return the sign-in of a state at the server with this short name; None for an unknown state,
    for that of another server, and for another browser. Writes nothing.
    """
    rows = McpSignIn.objects.select_related("server", "user").filter(server__slug=slug)
    row = rows.filter(state_hash=digest(state)).first() if state else None
    if row is None or not browser or row.browser_hash != digest(browser, row.pk):
        return None
    return row


def take(row: McpSignIn, *, now: datetime) -> dict[str, str] | None:
    """Return what the exchange of the code needs, once; None for a used state. Raises McpError."""
    rows = McpSignIn.objects.filter(
        pk=row.pk, state=State.OPEN, state_hash=row.state_hash, expires_at__gt=now
    )
    with atomic_write():
        if rows.update(state=State.EXCHANGING) != 1:
            return None
    return opened(row.secrets)


def close(row: McpSignIn, *, now: datetime) -> bool:
    """Note that the code of this attempt gave tokens; return false where another attempt, or
    somebody else, was faster. Inside a transaction.
    """
    rows = McpSignIn.objects.filter(
        pk=row.pk, state=State.EXCHANGING, state_hash=row.state_hash, browser_hash=row.browser_hash
    )
    return rows.update(state=State.DONE, done_at=now, secrets="") == 1


def end(row: McpSignIn) -> None:
    """Note that a sign-in was declined. Inside a transaction."""
    McpSignIn.objects.filter(pk=row.pk).exclude(state=State.DONE).update(
        state=State.ENDED, secrets=""
    )


def expired(time: Any) -> QuerySet[McpSignIn]:
    return McpSignIn.objects.filter(expires_at__lt=time)


ARE_OLD = HasRows(lambda: expired(Param("time", DateTimeField())))
HAVE_SECRETS = HasRows(lambda: expired(Param("time", DateTimeField())).exclude(secrets=""))
OPEN_SIGN_INS = transactions.FarTimes(
    lambda: McpSignIn.objects.exclude(state=State.DONE), "expires_at"
)
REVOCATIONS = transactions.FarTimes(McpRevocation.objects.all, "due_at")


def purge(*, now: datetime) -> None:
    """Delete sign-ins of long ago, and the secrets of those that have expired. A chore."""
    if ARE_OLD(time=now - KEPT) or HAVE_SECRETS(time=now):
        with atomic_write():
            expired(now).exclude(secrets="").update(secrets="")
            expired(now - KEPT).delete()


def bring_near() -> None:
    """Shorten what a clock which was set back left open far into the future."""
    OPEN_SIGN_INS.bring_near(most=timedelta(hours=settings.TOOL_QUESTION_HOURS))
    REVOCATIONS.bring_near(most=LONGEST_REVOCATION)
