"""``/connections``: a person's own accounts at MCP servers: list, connect, remove."""

from datetime import datetime

from django.utils.translation import gettext, gettext_noop

from channels_app.tool_requests import signing_in
from core.lib.text import one_line
from core.models import McpConnection, McpServer, User
from core.tools.mcp.oauth import pages, sign_ins

NOT_LISTED = gettext_noop("Connections are for listed people: ask the owner to add this address.")
NONE = gettext_noop("There is no server at which you could sign in.")
HOW = gettext_noop(
    "/connections connect <name> — sign in\n/connections remove <name> — remove your account"
)
UNKNOWN = gettext_noop("There is no server “{0}” at which you could sign in.")
REMOVED = gettext_noop("Your account at {0} was removed.")
NOT_CONNECTED = gettext_noop("You are not signed in at {0}.")
OPEN = gettext_noop("Sign in to {0} here, with the browser in which you are signed in to me:")


def obey(user: User, argument: str, *, now: datetime) -> str:
    """Return the answer to ``/connections`` with an argument. Inside a transaction."""
    servers = usable_by(user)
    if not servers:
        return gettext(NONE)
    action, _, name = argument.partition(" ")
    if action.lower() not in {"connect", "remove"}:
        return "\n".join([*(line_of(each, user) for each in servers), "", gettext(HOW)])
    found = [
        each for each in servers if name.strip().casefold() in (each.name.casefold(), each.slug)
    ]
    if not found:
        return gettext(UNKNOWN).format(one_line(name, 64))
    if action.lower() == "connect":
        row = sign_ins.create(found[0], user, now=now)
        return f"{gettext(OPEN).format(found[0])}\n{pages.sign_in_page(row.public_id)}"
    connection = McpConnection.objects.filter(server=found[0], user=user).first()
    if connection is None:
        return gettext(NOT_CONNECTED).format(found[0])
    signing_in.remove([connection], by=user, now=now)
    return gettext(REMOVED).format(found[0])


def usable_by(user: User) -> list[McpServer]:
    """Return the servers at which a person has an account of their own, or may have one."""
    rows = McpServer.objects.filter(
        enabled=True, authentication=McpServer.Authentication.PERSON
    ).prefetch_related("people")
    return [each for each in rows.order_by("name") if sign_ins.may_use(each, user)]


def line_of(server: McpServer, user: User) -> str:
    """Return the line of a server: whether the person is signed in there."""
    row = McpConnection.objects.filter(server=server, user=user).first()
    if row is None:
        return gettext("{server}: not signed in").format(server=server)
    if not row.secrets:
        return gettext("{server}: you have to sign in again").format(server=server)
    said = gettext("{server}: signed in since {date}")
    return said.format(server=server, date=f"{row.connected_at:%Y-%m-%d}")
