"""Announcements for browsers while no page is in view (Web Push). Knows no push service.

A row says what it is about, never its text (docs/decisions/201). It is committed with what it is
about, and claimed before it is sent; a sending without an end is sent again, and the browser
replaces the first notification.
"""

from collections import Counter
from datetime import timedelta
from functools import partial
from typing import Any, Literal

from django.db.models import DurationField, F, Min, Q, QuerySet
from django.db.models.functions import Now

from core.database import transactions
from core.database.queries import HasRows, Instances, Param, Update, Values
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
# Of these the next are taken in turn, a browser of each person after the other.
BROWSERS_LOOKED_AT = 2000

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
    """Return the seconds until a message is due; None if it does not wait for a time."""
    row = PushMessage.objects.filter(id=message_id, state=State.PENDING)
    found = row.values_list("retry_at", "subscription_id").first()
    if found is None or is_busy(found[1]):
        return None
    browser = PushSubscription.objects.filter(id=found[1])
    times = [found[0], browser.values_list("held_until", flat=True).first()]
    given = [each for each in times if each is not None]
    return max(0.0, (max(given) - transactions.now()).total_seconds()) if given else 0.0


def is_busy(subscription_id: int) -> bool:
    """Return whether a message is being sent to this browser."""
    rows = PushMessage.objects.filter(subscription_id=subscription_id, state=State.SENDING)
    return rows.filter(lease_until__gt=Now()).exists()


def claim(message_id: int) -> PushMessage | None:
    """Take a message that is due, with its browser and person; None when it is not, or when its
    browser is gone, is held back or gets another one.
    """
    with transactions.atomic_write():
        if not CLAIM(id=message_id, lease=LEASE):
            return None
        row = PushMessage.objects.filter(id=message_id)
        # The message first, then its browser, as all who change both: no deadlock.
        browsers = PushSubscription.objects.select_for_update(no_key=True)
        browser = browsers.filter(id__in=row.values("subscription_id")).first()
        if browser is None:
            row.delete()
            return None
        others = PushMessage.objects.filter(subscription=browser, state=State.SENDING)
        busy = others.filter(lease_until__gt=Now()).exclude(id=message_id).exists()
        if busy or (browser.held_until is not None and browser.held_until > transactions.now()):
            row.update(state=State.PENDING, lease_until=None, attempt=F("attempt") - 1)
            return None
        return row.select_related("subscription__user").get()


def sent(message: PushMessage) -> None:
    """Record that the push service has it."""
    with transactions.atomic_write():
        ended = end(message, State.SENT, sent_at=Now())
        if ended:
            PushSubscription.objects.filter(id=message.subscription_id).update(
                succeeded_at=Now(), failures=0, held_until=None
            )


def seen(message: PushMessage) -> None:
    """Record that the person had a page open, so that nothing is sent."""
    with transactions.atomic_write():
        end(message, State.SEEN)


def drop_unsent() -> int:
    """Drop what no push service has got; return how much: the database was restored."""
    rows = PushMessage.objects.filter(state__in=(State.PENDING, State.SENDING))
    return rows.update(state=State.STALE, retry_at=None)


def stale(message: PushMessage) -> None:
    """Record that there is nothing to tell any more."""
    with transactions.atomic_write():
        end(message, State.STALE)


def refused(message: PushMessage, *, error: str, is_ours: bool = False) -> None:
    """Record that the push service does not take it; forget a browser that takes nothing.

    ``is_ours``: the fault is the gateway's, and counts against no browser.
    """
    with transactions.atomic_write():
        if not end(message, State.DEAD, error=error[:200]) or is_ours:
            return
        theirs = PushSubscription.objects.filter(id=message.subscription_id)
        theirs.update(failures=F("failures") + 1)
        theirs.filter(failures__gte=MOST_FAILURES).delete()


def again(
    message: PushMessage,
    *,
    error: str,
    seconds: float | None,
    timed_out: bool = False,
    is_ours: bool = False,
) -> float | None:
    """Send it later, after ``seconds`` or a growing wait, in which its browser gets nothing; return
    the wait, or None when it is given up because it would be too old by then.

    ``timed_out``: counts as a failure of the browser, whose next messages wait as long.
    ``is_ours``: see :func:`refused`.
    """
    tries = max(message.tries, message.subscription.failures if timed_out else 0)
    backoff = BACKOFF_SECONDS[min(tries, len(BACKOFF_SECONDS) - 1)]
    wait = timedelta(seconds=min(max(backoff, seconds or 0), LONGEST_WAIT.total_seconds()))
    if transactions.now() + wait >= message.expires_at:
        refused(message, error=error, is_ours=is_ours)
        return None
    with transactions.atomic_write():
        until = Now() + wait
        fields = {"retry_at": until, "tries": F("tries") + 1, "error": error[:200]}
        if end(message, State.PENDING, wakes=False, **fields):
            PushSubscription.objects.filter(id=message.subscription_id).update(
                held_until=until, failures=F("failures") + int(timed_out)
            )
    return wait.total_seconds()


def end(message: PushMessage, state: str, *, wakes: bool = True, **fields: object) -> bool:
    """End the claim of this attempt; return whether it was valid. Inside a transaction."""
    mine = PushMessage.objects.filter(id=message.id, attempt=message.attempt, state=State.SENDING)
    ended = bool(mine.update(state=state, lease_until=None, **fields))
    waiting = PushMessage.objects.filter(
        subscription_id=message.subscription_id, state=State.PENDING
    )
    following = waiting.order_by("id").values_list("id", flat=True).first() if ended else None
    if wakes and following is not None:
        wakeups.push(following)
    return ended


def lost() -> QuerySet[PushMessage]:
    """Return the messages whose worker disappeared while it sent them."""
    return PushMessage.objects.filter(state=State.SENDING, lease_until__lt=Now())


def firsts() -> QuerySet[PushMessage, Any]:
    """Return the person and the id of the first due message of each browser."""
    rows = PushMessage.objects.filter(
        Q(retry_at__isnull=True) | Q(retry_at__lte=Now()),
        Q(subscription__held_until__isnull=True) | Q(subscription__held_until__lte=Now()),
        state=State.PENDING,
    )
    found = rows.values("subscription__user_id", "subscription_id").annotate(first=Min("id"))
    people = found.order_by("first").values_list("subscription__user_id", "first")
    return people[:BROWSERS_LOOKED_AT]


ARE_LOST, FIRSTS = HasRows(lost), Values(firsts)
OVER = Values(
    lambda: (
        PushMessage.objects.filter(expires_at__lt=Now())
        .exclude(state=State.SENDING)
        .values_list("id")[:DUE_AT_ONCE]
    )
)
LEASES = transactions.FarTimes(
    lambda: PushMessage.objects.filter(state=State.SENDING), "lease_until"
)
RETRIES = transactions.FarTimes(lambda: PushMessage.objects.filter(state=State.PENDING), "retry_at")
ENDS = transactions.FarTimes(PushMessage.objects.all, "expires_at")
HELD_BROWSERS = transactions.FarTimes(PushSubscription.objects.all, "held_until")


def due() -> list[int]:
    """Return messages that are due, and those whose sending has no end: of each browser the first,
    of people with several browsers in turn with those of others.
    """
    if ARE_LOST():
        with transactions.atomic_write():
            given_up = {"state": State.DEAD, "lease_until": None}
            # The others of its attempts are tries that had an end.
            lost().filter(attempt__gte=F("tries") + MOST_ATTEMPTS).update(**given_up)
            lost().update(state=State.PENDING, lease_until=None)
    taken: Counter[int] = Counter()
    turns = []
    for user_id, first in FIRSTS():
        turns.append((taken[user_id], first))
        taken[user_id] += 1
    return [first for _, first in sorted(turns)[:DUE_AT_ONCE]]


def bring_near() -> None:
    """Shorten leases, waits and lives that a clock which was set back left in the far future."""
    LEASES.bring_near(most=LEASE)
    RETRIES.bring_near(most=LONGEST_WAIT)
    ENDS.bring_near(most=LIFE)
    HELD_BROWSERS.bring_near(most=LONGEST_WAIT)


def purge() -> int:
    """Remove messages after their time to live; return how many."""
    found = OVER.column()
    if not found:
        return 0
    with transactions.atomic_write():
        return PushMessage.objects.filter(id__in=found).delete()[0]
