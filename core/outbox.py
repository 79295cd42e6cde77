"""The outbox: blocks on their way to a platform. Knows no platform.

The row is ``sending`` before the network call. Whoever finds it so after its lease ran out cannot
know whether the platform got it: it goes out again where that is idempotent, else once more and
marked.
"""

from datetime import timedelta
from functools import partial
from typing import Any

from django.conf import settings
from django.db import transaction
from django.db.models import DurationField, Exists, F, JSONField, OuterRef, Q, QuerySet
from django.db.models.functions import Now

from core import db, statements, wake
from core.compiled import Change, Given, Rows, Select
from core.models import ChatSession, Delivery

OPEN = (Delivery.State.PENDING, Delivery.State.SENDING)
MAX_ATTEMPTS = 10
BACKOFF_SECONDS = (1, 2, 5, 15, 60, 300)
# What a platform asks for beyond this is waited for in parts.
LONGEST_RETRY = timedelta(minutes=15)
RESENT = "The outcome of an earlier try is unknown; it was sent again."

KNOWN = Select(lambda: Delivery.objects.select_for_update().filter(dedupe_key=Given("key")))
SURPLUS = Rows(
    lambda: Delivery.objects.filter(
        run_id=Given("run"), block_index__gte=Given("index")
    ).values_list("id")[:1]
)
FOLLOWING = Rows(
    lambda: (
        Delivery.objects.filter(conversation=Given("conversation"), state=Delivery.State.PENDING)
        .order_by("id")
        .values_list("id")[:1]
    )
)


def conversation(*, account_id: int, chat: str, thread: str) -> str:
    """The key in whose order deliveries leave."""
    return f"{account_id}:{chat}:{thread}"


def enqueue(
    *,
    key: str,
    account_id: int,
    conversation: str,
    target: dict[str, Any],
    payload: dict[str, Any],
    session_id: int | None = None,
    run_id: int | None = None,
    block_index: int = 0,
) -> Delivery:
    """Add one block, once per ``key``; a worker is woken after the commit. Inside a transaction."""
    row = Delivery(
        dedupe_key=key,
        account_id=account_id,
        conversation=conversation,
        target=target,
        payload=payload,
        session_id=session_id,
        run_id=run_id,
        block_index=block_index,
    )
    delivery, is_new = statements.insert_or_find(row, partial(KNOWN.first, key=key))
    if is_new:
        wake.delivery(delivery.id)
    return delivery


def change(*, delivery: Delivery, payload: dict[str, Any]) -> None:
    """Give a block another payload; one that was sent goes out again, as an edit.

    One that is being sent right now is looked at again when its sending is recorded. Inside a
    transaction.
    """
    if delivery.payload == payload and delivery.state != Delivery.State.SENT:
        return
    row = Delivery.objects.filter(id=delivery.id)
    row.update(payload=payload)
    # In this order: who records a sending after the first line sees that the payload changed.
    row.filter(state=Delivery.State.SENT).update(
        state=Delivery.State.PENDING, retry_at=None, error=""
    )
    delivery.payload = payload
    wake.delivery(delivery.id)


def retract(*, run_id: int, from_index: int) -> None:
    """Take back blocks of a run that its final answer does not have. Inside a transaction."""
    if not SURPLUS(run=run_id, index=from_index):
        return
    surplus = Delivery.objects.filter(run_id=run_id, block_index__gte=from_index)
    surplus.filter(state=Delivery.State.PENDING, external_message_id="").update(
        state=Delivery.State.DISMISSED
    )
    for row in surplus.filter(state__in=(*OPEN, Delivery.State.SENT)):
        change(delivery=row, payload={"kind": "delete"})


def earlier() -> QuerySet[Delivery]:
    """The open deliveries of the same conversation that come before the outer query's."""
    return Delivery.objects.filter(
        conversation=OuterRef("conversation"), id__lt=OuterRef("id"), state__in=OPEN
    )


CLAIM = Change(
    lambda: (
        Delivery.objects.filter(
            Q(retry_at__isnull=True) | Q(retry_at__lte=Now()),
            id=Given("id"),
            attempt=Given("attempt"),
            state=Delivery.State.PENDING,
        ).exclude(Exists(earlier())),
        {
            "state": Delivery.State.SENDING,
            "attempt": F("attempt") + 1,
            "lease_until": Now() + Given("lease", DurationField()),
        },
    )
)
WHOLE = Select(lambda: Delivery.objects.select_related("account").filter(id=Given("id")))


def claim(*, delivery_id: int) -> Delivery | None:
    """Take a pending delivery that is due and first in its conversation; None when it is not."""
    # Read first: who claims and cannot read would leave behind what looks as if it had been sent.
    # A payload that is changed in between goes out as an edit, when the sending is recorded.
    row = WHOLE.first(id=delivery_id)
    if row is None or row.state != Delivery.State.PENDING:
        return None
    lease = timedelta(seconds=settings.DELIVERY_LEASE_SECONDS)
    with db.write_one():
        claimed = CLAIM(id=row.id, attempt=row.attempt, lease=lease)
    row.state, row.attempt = Delivery.State.SENDING, row.attempt + 1
    return row if claimed else None


def mine(delivery: Delivery) -> Any:
    """The row of ``delivery`` as long as this attempt still owns it."""
    return Delivery.objects.filter(
        id=delivery.id, attempt=delivery.attempt, state=Delivery.State.SENDING
    )


SENT = Change(
    lambda: (
        Delivery.objects.filter(
            id=Given("id"),
            attempt=Given("attempt"),
            state=Delivery.State.SENDING,
            payload=Given("payload", JSONField()),
        ),
        {
            "state": Delivery.State.SENT,
            "external_message_id": Given("message_id"),
            "sent_at": Now(),
            "lease_until": None,
            "retry_at": None,
        },
    )
)


def sent(*, delivery: Delivery, external_message_id: str) -> None:
    """Record that the platform has it, and wake a worker for the next one of the conversation.

    When the payload was changed meanwhile, that is this very delivery, as an edit.
    """
    with db.write_one():
        as_it_was = SENT(
            id=delivery.id,
            attempt=delivery.attempt,
            payload=delivery.payload,
            message_id=external_message_id,
        )
    if not as_it_was:
        sent_before_a_change(delivery=delivery, external_message_id=external_message_id)
    # Looked for after the commit: whoever puts one behind it still sees this one open.
    transaction.on_commit(partial(wake_following, delivery), robust=True)


def sent_before_a_change(*, delivery: Delivery, external_message_id: str) -> None:
    """Record that the platform has what was changed meanwhile; nothing when it is lost to us."""
    with db.write(joins=True):
        for row in mine(delivery).select_for_update():
            changed = row.payload != delivery.payload
            mine(delivery).update(
                state=Delivery.State.PENDING if changed else Delivery.State.SENT,
                external_message_id=external_message_id,
                sent_at=Now(),
                lease_until=None,
                retry_at=None,
                error="" if changed else row.error,
            )


def wake_following(delivery: Delivery) -> None:
    """Wake a worker for the next open delivery of the same conversation."""
    next_one = following(delivery)
    if next_one is not None:
        wake.delivery(next_one)


def postpone(*, delivery: Delivery, seconds: float) -> None:
    """Give a claimed delivery back, unsent: the platform's pace does not allow it yet."""
    with db.write():
        mine(delivery).update(
            state=Delivery.State.PENDING,
            lease_until=None,
            retry_at=Now() + timedelta(seconds=seconds),
        )


def gone(*, delivery: Delivery) -> None:
    """The message that was to be edited does not exist any more: send it anew."""
    with db.write():
        mine(delivery).update(
            state=Delivery.State.PENDING, lease_until=None, external_message_id=""
        )


def moved(*, account_id: int, chat: str, new_chat: str) -> None:
    """A chat has a new id on its platform: sessions and what is on its way follow it."""
    with db.write():
        taken = ChatSession.objects.filter(
            account_id=account_id, chat=new_chat, closed_at__isnull=True, for_agent=False
        ).values_list("user_id", "thread")
        busy = set(taken)
        for session in ChatSession.objects.filter(account_id=account_id, chat=chat):
            if session.for_agent or (session.user_id, session.thread) not in busy:
                ChatSession.objects.filter(id=session.id).update(chat=new_chat)
        for row in Delivery.objects.filter(
            account_id=account_id, target__chat=chat, state__in=OPEN
        ):
            target = {**row.target, "chat": new_chat, "reply_to": ""}
            Delivery.objects.filter(id=row.id).update(target=target)


def failed(*, delivery: Delivery, error: str, permanent: bool, retry_after: float | None) -> None:
    """Record that the platform surely did not take it: another try later, or dead."""
    exhausted = retry_after is None and tried_enough(delivery)
    if permanent or exhausted:
        values: dict[str, Any] = {"state": Delivery.State.DEAD, "lease_until": None}
    else:
        step = min((delivery.attempt - 1) % MAX_ATTEMPTS, len(BACKOFF_SECONDS) - 1)
        seconds = retry_after if retry_after is not None else BACKOFF_SECONDS[step]
        values = {
            "state": Delivery.State.PENDING,
            "lease_until": None,
            "retry_at": Now() + min(timedelta(seconds=seconds), LONGEST_RETRY),
        }
    with db.write():
        mine(delivery).update(error=said(delivery, error), **values)


def unsure(*, delivery: Delivery, idempotent: bool) -> None:
    """Record that nobody knows whether the platform took it: once more, or left to the owner."""
    again = idempotent or not delivery.error.startswith(RESENT)
    again = again and not tried_enough(delivery)
    with db.write():
        mine(delivery).update(
            state=Delivery.State.PENDING if again else Delivery.State.UNCERTAIN,
            error="" if idempotent else RESENT,
            lease_until=None,
        )


def tried_enough(delivery: Delivery) -> bool:
    """Whether this was the last try by itself. ``attempt`` is a fence and never begins anew."""
    return delivery.attempt % MAX_ATTEMPTS == 0


def said(delivery: Delivery, error: str) -> str:
    """``error`` for the owner; that an earlier try is unknown stays known."""
    unknown = delivery.error.startswith(RESENT)
    return (f"{RESENT} {error}" if unknown else error)[:500]


def lost() -> list[Delivery]:
    """Deliveries whose sender disappeared between sending and recording."""
    return list(
        Delivery.objects.filter(state=Delivery.State.SENDING, lease_until__lt=Now()).select_related(
            "account"
        )[:100]
    )


def bring_near() -> None:
    """Shorten leases and waits that a clock which was set back left in the far future."""
    sending = Delivery.objects.filter(state=Delivery.State.SENDING)
    lease = timedelta(seconds=settings.DELIVERY_LEASE_SECONDS)
    db.bring_near(sending, "lease_until", most=lease)
    pending = Delivery.objects.filter(state=Delivery.State.PENDING)
    far = pending.filter(db.ahead("retry_at", most=LONGEST_RETRY))
    if far.exists():
        with db.write():
            far.update(retry_at=None)


def due(*, limit: int = 200) -> list[int]:
    """The ids of deliveries that may go out now."""
    rows = Delivery.objects.filter(
        Q(retry_at__isnull=True) | Q(retry_at__lte=Now()), state=Delivery.State.PENDING
    ).exclude(Exists(earlier()))
    return list(rows.order_by("id").values_list("id", flat=True)[:limit])


def following(delivery: Delivery) -> int | None:
    """The next open delivery of the same conversation."""
    return next((row[0] for row in FOLLOWING(conversation=delivery.conversation)), None)


def retry(delivery_id: int) -> bool:
    """Send a dead or uncertain delivery again, by the owner's hand; whether it was one."""
    with db.write():
        changed = Delivery.objects.filter(
            id=delivery_id, state__in=(Delivery.State.DEAD, Delivery.State.UNCERTAIN)
        ).update(state=Delivery.State.PENDING, retry_at=None, error="")
        wake.delivery(delivery_id)
    return changed == 1


def dismiss(delivery_id: int) -> bool:
    """Put a dead or uncertain delivery away; whether it was one."""
    with db.write():
        changed = Delivery.objects.filter(
            id=delivery_id, state__in=(Delivery.State.DEAD, Delivery.State.UNCERTAIN)
        ).update(state=Delivery.State.DISMISSED)
    return changed == 1


def dead_count() -> int:
    """How many deliveries wait for the owner."""
    return Delivery.objects.filter(
        state__in=(Delivery.State.DEAD, Delivery.State.UNCERTAIN)
    ).count()


def oldest_pending_seconds() -> float:
    """The age of the oldest delivery that is due and not delivered; 0 when there is none."""
    oldest = (
        Delivery.objects.filter(Q(retry_at__isnull=True) | Q(retry_at__lte=Now()), state__in=OPEN)
        .order_by("created_at")
        .values_list("created_at", flat=True)
        .first()
    )
    return (db.now() - oldest).total_seconds() if oldest else 0.0
