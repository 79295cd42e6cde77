"""Tell the owners once that a model is not asked for a while, and once that it answers again."""

from datetime import datetime

from django.utils.translation import gettext

from channels_app.owner import notices
from core.database import transactions
from core.lib.interface_language import spoken
from core.models import ModelCircuit
from core.providers import circuits


def look(*, now: datetime) -> None:
    """Send the notices of circuits that have opened or closed. A chore."""
    if not circuits.has_unreported():
        return
    people = notices.owners()
    with transactions.atomic_write():
        for row, is_closed in circuits.to_report():
            state = "closed" if is_closed else "open"
            for owner in people:
                key = f"notice:circuit:{owner.pk}:{row.pk}:{row.openings}:{state}"
                with spoken(owner.language):
                    text = closed(row) if is_closed else opened(row)
                notices.show_in_web_chats(owner, {"text": text})
                notices.send(owner, key=key, text=text)


def opened(row: ModelCircuit) -> str:
    """Return the notice of an open circuit."""
    said = gettext(
        "The model {model} fails ({code}) and is not asked for a while; the next model of each "
        "assistant answers."
    ).format(model=row.model, code=row.code)
    return f"{said} {notices.advice(row.code, row.reason)}"


def closed(row: ModelCircuit) -> str:
    """Return the notice of a circuit that is closed again."""
    return gettext("The model {model} answers again.").format(model=row.model)
