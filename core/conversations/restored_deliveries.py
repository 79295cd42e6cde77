"""Deliveries of a database that was restored from a backup (decision 207)."""

from core.conversations import outbox
from core.models import Delivery, Installation, Run


def doubt_unsent(*, error: str) -> int:
    """Leave what is unsent to the owner, with ``error``: the database was restored, and it may have
    been sent after its copy; return how much. Inside a transaction, while no worker runs.

    Unsent messages of a held run are removed: the run makes them again. A waiting change of a sent
    message of another run stays: it repeats nothing. One of a held run would bring an older text
    back. No message is searched for: the ids after the copy may be those of any other messages.
    """
    Delivery.objects.exclude(doubt_chat="", after_id=None).update(doubt_chat="", after_id=None)
    rows = Delivery.objects.filter(state__in=outbox.OPEN)
    edits = rows.exclude(external_message_id="")
    edits.filter(run__state=Run.State.HELD).update(state=Delivery.State.SENT, lease_until=None)
    edits.update(state=Delivery.State.PENDING, lease_until=None)
    unsent = rows.filter(external_message_id="")
    unsent.filter(run__state=Run.State.HELD).delete()
    return unsent.update(state=Delivery.State.UNCERTAIN, lease_until=None, error=error[:500])


def was_shown_before_restore(run: Run) -> bool:
    """Return whether a message of ``run`` was sent before the database was restored."""
    restored = Installation.objects.filter(id=1, restored_at__gt=run.created_at)
    return restored.exists() and run.deliveries.exclude(external_message_id="").exists()
