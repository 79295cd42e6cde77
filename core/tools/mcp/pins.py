"""The tools of MCP servers as rows: as the server lists them, and as the owner has accepted them.

A tool is used while both have the same hash.
"""

from collections.abc import Iterable
from dataclasses import asdict
from datetime import datetime, timedelta

from django.utils.translation import gettext_noop

from core.database.queries import HasRows
from core.database.transactions import atomic_write
from core.lib.text import one_line
from core.models import McpFinding, McpServer, McpTool, ToolGrant
from core.providers import catalogue
from core.tools.mcp import offers
from core.tools.mcp.errors import McpError, StoppedError
from core.tools.mcp.offers import Offer

# The findings; they are stored in English, and told in the language of each owner.
CHANGED = gettext_noop(
    "The tool “{tool}” of the MCP server {server} was changed. It is off until you have looked at "
    "the difference and accepted it."
)
STOPPED = gettext_noop("The MCP server {server} was stopped: {reason}")
COPIED = ("title", "description", "schema", "read_only", "idempotent")
MOST_TEXT = 500
KEPT = timedelta(days=90)


def store_listing(server_id: int, found: Iterable[Offer], *, protocol: str, now: datetime) -> None:
    """Store the list of a server. A tool that was accepted and is another one now is off, and the
    owners are told; a new one is off until it is accepted.
    """
    with atomic_write():
        server = McpServer.objects.select_for_update().filter(pk=server_id).first()
        if server is None:
            return
        # Locked before the first change raises the catalogue's version, which others change last.
        rows = {row.name: row for row in server.tools.select_for_update().order_by("pk")}
        changed = [compare(server, rows.pop(each.name, None), each) for each in found]
        changed += [leave_out(row) for row in rows.values()]
        McpServer.objects.filter(pk=server_id).update(listed_at=now, protocol=protocol[:16])
        if any(changed) or server.protocol != protocol[:16]:
            catalogue.changed()


def compare(server: McpServer, row: McpTool | None, found: Offer) -> bool:
    """Store a server's description of one tool; return whether anything is new."""
    digest = found.digest()
    if row is None:
        call_name = offers.call_name(server.slug, found.name)
        if McpTool.objects.filter(call_name=call_name).exists():
            return False  # made up to have the name of another tool of the server
        McpTool.objects.create(
            server=server,
            name=found.name,
            call_name=call_name,
            offered=asdict(found),
            offered_hash=digest,
            ask=ask_of(read_only=found.read_only),
        )
        return True
    if row.offered_hash == digest:
        return False
    row.offered, row.offered_hash = asdict(found), digest
    row.save(update_fields=["offered", "offered_hash"])
    if row.enabled and row.state == "changed":
        note(
            server.pk,
            key=f"changed:{row.pk}:{row.accepted_hash[:16]}",
            text=CHANGED.format(tool=one_line(row.name, 60), server=server),
        )
    return True


def leave_out(row: McpTool) -> bool:
    """Note that a tool is no longer listed; return whether that is new."""
    if not row.accepted_hash:
        row.delete()
        return True
    if not row.offered_hash:
        return False
    row.offered_hash = ""
    row.save(update_fields=["offered_hash"])
    return True


def ask_of(*, read_only: bool) -> str:
    """Return when a tool asks, unless the owner says otherwise."""
    return McpTool.Ask.FIRST if read_only else McpTool.Ask.ALWAYS


def accept(tool_id: int, digest: str, *, now: datetime) -> McpTool | None:
    """Accept a tool as the owner has seen it, which ``digest`` says, and switch it on.

    Returns None when the server says something else by now, or when it cannot be used. Yeses that
    were given for the tool before end.
    """
    with atomic_write():
        row = McpTool.objects.select_for_update().filter(pk=tool_id).first()
        if row is None or not digest or row.offered_hash != digest or row.offered.get("problem"):
            return None
        was_read_only, before = row.read_only, row.accepted_hash
        for name in COPIED:
            setattr(row, name, row.offered[name])
        if before != digest:
            ToolGrant.objects.filter(tool=row.call_name).delete()
            if not before or (was_read_only and not row.read_only):
                row.ask = ask_of(read_only=row.read_only)
        row.accepted_hash, row.accepted_at, row.enabled = digest, now, True
        row.save()
        return row


def note(server_id: int, *, key: str, text: str) -> None:
    """Store a finding about a server for the owners, once for each ``key``."""
    with atomic_write(joins=True):
        McpFinding.objects.get_or_create(
            server_id=server_id,
            key=key[:150],
            defaults={"text": one_line(text, MOST_TEXT)},
        )


def note_stopped(server_id: int, error: McpError, *, name: str, now: datetime) -> None:
    """Store that a server was stopped: told once a day for each reason."""
    if isinstance(error, StoppedError):
        text = STOPPED.format(server=name, reason=error)
        note(server_id, key=f"stopped:{error.code}:{now:%Y-%m-%d}", text=text)


def list_again(server_id: int) -> None:
    """Have a server's tools listed by the next chore."""
    with atomic_write():
        McpServer.objects.filter(pk=server_id).update(listed_at=None)


def to_report() -> list[McpFinding]:
    """Return unreported findings, in the transaction that queues notices (:func:`reported`)."""
    rows = McpFinding.objects.select_for_update(of=("self",)).select_related("server")
    return list(rows.filter(reported_at__isnull=True).order_by("id")[:20])


# Whether the owners are to be told anything.
has_unreported = HasRows(lambda: McpFinding.objects.filter(reported_at__isnull=True))


def reported(found: Iterable[McpFinding], *, now: datetime) -> None:
    """Note that the owners were told; findings of long ago go."""
    McpFinding.objects.filter(pk__in=[each.pk for each in found]).update(reported_at=now)
    McpFinding.objects.filter(reported_at__lt=now - KEPT).delete()
