"""Answers to commands that wait while another message says the same: they are left out.

On a platform that takes a message a second, a list that was asked for six times would come six
times, and "Stopping…" behind "Stopped.".
"""

from django.db.models import QuerySet

from core.conversations import outbox
from core.models import Delivery, InboundMessage, Run

PREFIX = "command:"


def key_of(message_id: int) -> str:
    return f"{PREFIX}{message_id}"


def note_of(command: str) -> str:
    return f"command /{command}"


def place_of(*, account_id: int, chat: str, thread: str) -> str:
    """Return the conversation of these answers, which do not wait for the blocks before them."""
    return outbox.conversation(account_id=account_id, chat=chat, thread=f"{thread}/commands")


def waiting(session_id: int) -> QuerySet[Delivery]:
    """Return the answers to commands that a conversation waits for."""
    return Delivery.objects.filter(
        session_id=session_id, state=Delivery.State.PENDING, dedupe_key__startswith=PREFIX
    )


def leave_out_same(message: InboundMessage, text: str, *, session_id: int) -> None:
    """Remove the pending answer to the same command, if it is the same. Inside a transaction."""
    before = waiting(session_id).order_by("-id").first()
    if before is None or before.payload.get("text") != text:
        return
    asked = int(before.dedupe_key.removeprefix(PREFIX))
    if InboundMessage.objects.filter(pk=asked, text=message.text).exists():
        outbox.take_back(Delivery.objects.filter(pk=before.pk))


def leave_out_stopping(run: Run) -> None:
    """Remove pending answers to ``/stop`` when the stopped answer says it. Inside a transaction."""
    route = run.route
    place = place_of(account_id=route["account"], chat=route["chat"], thread=route["thread"])
    answers = waiting(run.session_id).filter(conversation=place, created_at__gte=run.created_at)
    asked = {int(each.dedupe_key.removeprefix(PREFIX)): each.pk for each in answers}
    stops = InboundMessage.objects.filter(pk__in=asked, note=note_of("stop")).values_list(
        "pk", flat=True
    )
    outbox.take_back(Delivery.objects.filter(pk__in=[asked[pk] for pk in stops]))
