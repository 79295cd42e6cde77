"""Tell the owners once that a model is not asked for a while, and once that it answers again."""

from functools import partial

from django.utils.translation import gettext

from channels_app.owner import notices
from core.database import transactions
from core.models import ModelCircuit
from core.providers import circuits


def look() -> None:
    """Send the notices of circuits that have opened or closed. A chore."""
    if not circuits.has_unreported():
        return
    with transactions.atomic_write():
        for row, is_closed in circuits.to_report():
            said, state = (closed, "closed") if is_closed else (opened, "open")
            key = f"notice:circuit:{row.pk}:{row.openings}:{state}"
            notices.notify(partial(said, row), key=key)


def opened(row: ModelCircuit) -> str:
    said = gettext(
        "The model {model} fails ({code}) and is not asked for a while; the next model of each "
        "assistant answers."
    ).format(model=row.model, code=row.code)
    return f"{said} {notices.advice(row.code, row.reason)}"


def closed(row: ModelCircuit) -> str:
    return gettext("The model {model} answers again.").format(model=row.model)
