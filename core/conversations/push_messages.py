"""Announcements for browsers while no page is in view (Web Push). Knows no push service.

A row says what it is about, never its text (docs/decisions/201). It is committed with what it is
about, and claimed before it is sent; a sending without an end is sent again, and the browser
replaces the first notification.
"""

from datetime import timedelta
from functools import partial
from typing import Literal

from django.db.models import DurationField, F, Q
from django.db.models.functions import Now

from core.database import transactions
from core.database.queries import Instances, Param, Update, Values
from core.database.writes import insert_or_find
from core.models import PushMessage, PushSubscription
from core.signals import wakeups

Kind = Literal["answer", "reminder", "question", "request"]
State = PushMessage.State
LIFE = timedelta(hours=24)
# A page that is just being loaded, or connects again, says by then that it is there.
GRACE = timedelta(seconds=2)
LEASE = timedelta(seconds=60)
# A service's longer ``Retry-After`` is waited out in several parts.
LONGEST_WAIT = timedelta(hours=1)
BACKOFF_SECONDS = (5, 15, 60, 300, 900, 3600)
# Messages given up in a row, after which a browser is taken as gone.
MOST_FAILURES = 10
# Sendings of one message that had no end.
MOST_ATTEMPTS = 5
DUE_AT_ONCE = 200

SUBSCRIBED = Values(
    lambda: PushSubscription.objects.filter(user_id=Param("user")).order_by("id").values_list("id")
)
KNOWN = Instances(
    lambda: PushMessage.objects.filter(
        subscription_id=Param("subscription"), kind=Param("kind"), ref=Param("ref")
    )
)
CLAIM = Update(
    lambda: (
        PushMessage.objects.filter(
            Q(retry_at__isnull=True) | Q(retry_at__lte=Now()), id=Param("id"), state=State.PENDING
        ),
        {
            "state": State.SENDING,
            "attempt": F("attempt") + 1,
            "lease_until": Now() + Param("lease", DurationField()),
        },
    )
)


def enqueue(*, user_id: int, kind: Kind, ref: str) -> None:
    """Tell a person in each of their browsers, once for each ``kind`` and ``ref``. In the
    transaction of what it is about; one query for a person without browsers.
    """
    found = SUBSCRIBED(user=user_id)
    if not found:
        return
    now = transactions.now()
    for (subscription,) in found:
        row = PushMessage(
            subscription_id=subscription,
            kind=kind,
            ref=ref,
            retry_at=now + GRACE,
            expires_at=now + LIFE,
        )
        find = partial(KNOWN.first, subscription=subscription, kind=kind, ref=ref)
        message, is_new = insert_or_find(row, find)
        if is_new:
            wakeups.push(message.id)


def due_in(message_id: int) -> float | None:
    """Return the seconds until a message is due; None for one that does not wait."""
    row = PushMessage.objects.filter(id=message_id, state=State.PENDING)
    found = row.values_list("retry_at").first()
    if found is None:
        return None
    return 0.0 if found[0] is None else max(0.0, (found[0] - transactions.now()).total_seconds())


def claim(message_id: int) -> PushMessage | None:
    """Take a message that is due, with its browser and person; None when it is not, or when its
    browser is gone.
    """
    with transactions.atomic_write():
        if not CLAIM(id=message_id, lease=LEASE):
            return None
        row = PushMessage.objects.filter(id=message_id)
        message = row.select_related("subscription__user").first()
        if message is None:
            row.delete()
        return message


def sent(message: PushMessage) -> None:
    """Record that the push service has it."""
    with transactions.atomic_write():
        ended = end(message, State.SENT, sent_at=Now())
        if ended:
            PushSubscription.objects.filter(id=message.subscription_id).update(
                succeeded_at=Now(), failures=0
            )


def seen(message: PushMessage) -> None:
    """Record that the person had a page open, so that nothing is sent."""
    with transactions.atomic_write():
        end(message, State.SEEN)


def stale(message: PushMessage) -> None:
    """Record that there is nothing to tell any more."""
    with transactions.atomic_write():
        end(message, State.STALE)


def refused(message: PushMessage, *, error: str) -> None:
    """Record that the push service does not take it; forget a browser that takes nothing."""
    with transactions.atomic_write():
        if not end(message, State.DEAD, error=error[:200]):
            return
        theirs = PushSubscription.objects.filter(id=message.subscription_id)
        theirs.update(failures=F("failures") + 1)
        theirs.filter(failures__gte=MOST_FAILURES).delete()


def again(message: PushMessage, *, error: str, seconds: float | None) -> float | None:
    """Send it later, after ``seconds`` or a growing wait; return the wait, or None when it is given
    up because it would be too old by then.
    """
    backoff = BACKOFF_SECONDS[min(message.tries, len(BACKOFF_SECONDS) - 1)]
    wait = min(timedelta(seconds=max(backoff, seconds or 0)), LONGEST_WAIT)
    if transactions.now() + wait >= message.expires_at:
        refused(message, error=error)
        return None
    with transactions.atomic_write():
        end(message, State.PENDING, retry_at=Now() + wait, tries=F("tries") + 1, error=error[:200])
    return wait.total_seconds()


def end(message: PushMessage, state: str, **fields: object) -> bool:
    """End the claim of this attempt; return whether it still was its own."""
    mine = PushMessage.objects.filter(id=message.id, attempt=message.attempt, state=State.SENDING)
    return bool(mine.update(state=state, lease_until=None, **fields))


def due() -> list[int]:
    """Return messages that are due, and those whose sending has no end."""
    lost = PushMessage.objects.filter(state=State.SENDING, lease_until__lt=Now())
    if lost.exists():
        with transactions.atomic_write():
            lost.filter(attempt__gte=MOST_ATTEMPTS).update(state=State.DEAD, lease_until=None)
            lost.update(state=State.PENDING, lease_until=None)
    rows = PushMessage.objects.filter(
        Q(retry_at__isnull=True) | Q(retry_at__lte=Now()), state=State.PENDING
    )
    return list(rows.order_by("id").values_list("id", flat=True)[:DUE_AT_ONCE])


def bring_near() -> None:
    """Shorten leases and waits that a clock which was set back left in the far future."""
    sending = PushMessage.objects.filter(state=State.SENDING)
    transactions.bring_near(sending, "lease_until", most=LEASE)
    pending = PushMessage.objects.filter(state=State.PENDING)
    transactions.bring_near(pending, "retry_at", most=LONGEST_WAIT)


def purge() -> int:
    """Remove messages after their time to live; return how many."""
    old = PushMessage.objects.filter(expires_at__lt=Now()).exclude(state=State.SENDING)
    found = list(old.values_list("id", flat=True)[:DUE_AT_ONCE])
    if not found:
        return 0
    with transactions.atomic_write():
        return PushMessage.objects.filter(id__in=found).delete()[0]
