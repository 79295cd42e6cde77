"""Announce in browsers the answers and reminders that appear in the web chat."""

from channels_app.schedules.places import WEB
from core.conversations import push_messages
from core.models import Run


def answered(run: Run, state: str) -> None:
    """Announce a run's answer in the web chat, unless it was stopped. In its transaction."""
    if run.session.account.channel != WEB or state == Run.State.CANCELLED:
        return
    kind: push_messages.Kind = "reminder" if run.options.get("schedule") else "answer"
    push_messages.enqueue(user_id=run.user_id, kind=kind, ref=run.public_id)
