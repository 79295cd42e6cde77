"""Tell the owners, once, that a tool of an MCP server was changed or that a server was stopped."""

from datetime import datetime
from functools import partial

from django.conf import settings
from django.urls import reverse
from django.utils.translation import get_language, gettext

from channels_app.owner import notices
from core.database import transactions
from core.models import McpFinding
from core.tools import phrases
from core.tools.mcp import pins
from core.tools.mcp.errors import DOUBT

# In place of the variable part of a sentence; no stored text has it.
SLOT = "\0"


def look(*, now: datetime) -> None:
    """Send the notices of what was found about MCP servers. A chore."""
    if not pins.has_unreported():
        return
    with transactions.atomic_write():
        found = pins.to_report()
        for each in found:
            notices.notify(partial(with_page, each), key=f"notice:mcp:{each.pk}")
        pins.reported(found, now=now)


def with_page(found: McpFinding) -> str:
    """Return the notice of a finding: its text, and the address of the server's page."""
    page = reverse("admin:core_mcpserver_change", args=[found.server_id])
    return f"{text_of(found)}\n{settings.GATEWAY_URL}{page}"


def text_of(found: McpFinding) -> str:
    """Return a finding in the active language; in English if a name has changed meanwhile."""
    for sentence, part in ((pins.STOPPED, "reason"), (pins.CHANGED, "tool")):
        before, after = sentence.format(**{"server": found.server, part: SLOT}).split(SLOT)
        if found.text.startswith(before) and found.text.endswith(after):
            value = found.text[len(before) : len(found.text) - len(after)]
            words = reason_in_language(value) if part == "reason" else value
            return gettext(sentence).format(**{"server": found.server, part: words})
    return found.text


def reason_in_language(reason: str) -> str:
    """Return the words of a failure in the active language, as far as they are the gateway's."""
    sentence = reason.removesuffix(DOUBT)
    parts = [sentence] if sentence == reason else [sentence, DOUBT.strip()]
    return " ".join(phrases.in_language(each, get_language() or "") for each in parts)
