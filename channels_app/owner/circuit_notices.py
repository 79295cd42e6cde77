"""Tell the owners once that a model is not asked for a while, and once that it answers again."""

from datetime import datetime

from channels_app.owner import notices
from core.database import transactions
from core.lib.text import one_line
from core.models import ModelCircuit
from core.providers import circuits
from core.providers.failures import KINDS, OWN


def look(*, now: datetime) -> None:
    """Send the notices of circuits that have opened or closed. A chore."""
    if not circuits.has_unreported():
        return
    people = notices.owners()
    with transactions.atomic_write():
        for row, is_closed in circuits.to_report():
            text = closed(row) if is_closed else opened(row)
            state = "closed" if is_closed else "open"
            for owner in people:
                key = f"notice:circuit:{owner.pk}:{row.pk}:{row.openings}:{state}"
                notices.show_in_web_chats(owner, {"text": text})
                notices.send(owner, key=key, text=text)


def opened(row: ModelCircuit) -> str:
    """Return the notice of an open circuit."""
    kind = KINDS.get(row.code, OWN)
    because = f" The server says: “{one_line(row.reason, 200)}”" if row.reason else ""
    return (
        f"The model {row.model} fails ({row.code}) and is not asked for a while; the next model of "
        f"each assistant answers. {kind.owner}{because}"
    )


def closed(row: ModelCircuit) -> str:
    """Return the notice of a circuit that is closed again."""
    return f"The model {row.model} answers again."
