"""``/connections``: a person's own accounts at MCP servers: list, connect, remove."""

from datetime import datetime

from channels_app.tool_requests import signing_in
from core.lib.text import one_line
from core.models import McpConnection, McpServer, User
from core.tools.mcp.oauth import pages, sign_ins

NOT_LISTED = "Connections are for listed people: ask the owner to add this address."
NONE = "There is no server at which you could sign in."
HOW = "/connections connect <name> — sign in\n/connections remove <name> — remove your account"
UNKNOWN = "There is no server “{0}” at which you could sign in."
REMOVED = "Your account at {0} was removed."
NOT_CONNECTED = "You are not signed in at {0}."
OPEN = "Sign in to {0} here, with the browser in which you are signed in to me:\n{1}"


def obey(user: User, argument: str, *, now: datetime) -> str:
    """Return the answer to ``/connections`` with an argument. Inside a transaction."""
    servers = usable_by(user)
    if not servers:
        return NONE
    action, _, name = argument.partition(" ")
    if action.lower() not in {"connect", "remove"}:
        return "\n".join([*(line_of(each, user) for each in servers), "", HOW])
    found = [
        each for each in servers if name.strip().casefold() in (each.name.casefold(), each.slug)
    ]
    if not found:
        return UNKNOWN.format(one_line(name, 64))
    if action.lower() == "connect":
        row = sign_ins.create(found[0], user, now=now)
        return OPEN.format(found[0], pages.sign_in_page(row.public_id))
    connection = McpConnection.objects.filter(server=found[0], user=user).first()
    if connection is None:
        return NOT_CONNECTED.format(found[0])
    signing_in.remove(connection, by=user, now=now)
    return REMOVED.format(found[0])


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
        return f"{server}: not signed in"
    if not row.secrets:
        return f"{server}: you have to sign in again"
    return f"{server}: signed in since {row.connected_at:%Y-%m-%d}"
