"""Tell the owners, once, that a tool of an MCP server was changed or that a server was stopped."""

from datetime import datetime

from django.conf import settings
from django.urls import reverse

from channels_app.owner import notices
from core.database import transactions
from core.tools.mcp import pins


def look(*, now: datetime) -> None:
    """Send the notices of what was found about MCP servers. A chore."""
    if not pins.has_unreported():
        return
    people = notices.owners()
    with transactions.atomic_write():
        found = pins.to_report()
        for each in found:
            page = reverse("admin:core_mcpserver_change", args=[each.server_id])
            text = f"{each.text}\n{settings.GATEWAY_URL}{page}"
            for owner in people:
                notices.show_in_web_chats(owner, {"text": text})
                notices.send(owner, key=f"notice:mcp:{owner.pk}:{each.pk}", text=text)
        pins.reported(found, now=now)
