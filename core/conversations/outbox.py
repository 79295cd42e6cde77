"""The outbox: blocks to be delivered to a platform. Knows no platform.

The row is ``sending`` before the network call. If it is still so after its lease ran out, nothing
tells whether the platform got it: it is sent again where that is idempotent, else it is in doubt
(:mod:`core.conversations.uncertain_deliveries`). Failed deliveries are retried for
DELIVERY_RETRY_HOURS (docs/decisions/163).
"""

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from functools import partial
from typing import Any, Required, TypedDict, Unpack

from django.conf import settings
from django.db import IntegrityError, transaction
from django.db.models import DurationField, Exists, F, JSONField, OuterRef, Q, QuerySet
from django.db.models.functions import Coalesce, Now

from core.conversations import traces
from core.database import transactions
from core.database.queries import HasRows, Instances, Param, Update, Values
from core.database.writes import insert_or_find
from core.lib.leases import OWN_LEASE, Lease, elapsed
from core.models import (
    AssistantBinding,
    ChannelAccount,
    ChatSession,
    Delivery,
    Run,
    Schedule,
    ToolRule,
)
from core.signals import wakeups

OPEN = (Delivery.State.PENDING, Delivery.State.SENDING)
GIVEN_UP = (Delivery.State.DEAD, Delivery.State.UNCERTAIN)
BACKOFF_SECONDS = (1, 2, 5, 15, 60, 300)
RESUMED_AT_ONCE = 200
LOST_AT_ONCE, DUE_AT_ONCE = 100, 200
# A platform's longer ``retry_after`` is waited out in several parts.
LONGEST_RETRY = timedelta(minutes=15)
# No delivery of a conversation was tried for so long: the gateway was off, or its account held.
OFF = 2 * LONGEST_RETRY
UNKNOWN = "The outcome of an earlier try is unknown."
REPEATED = "The outcome of an earlier try is unknown; it was sent again."

# The wait after a failure is over, or there was none.
IS_TIME = Q(retry_at__isnull=True) | Q(retry_at__lte=Now())
KNOWN = Instances(lambda: Delivery.objects.select_for_update().filter(dedupe_key=Param("key")))
SURPLUS = Values(
    lambda: Delivery.objects.filter(
        run_id=Param("run"), block_index__gte=Param("index")
    ).values_list("id")[:1]
)
FOLLOWING = Values(
    lambda: (
        Delivery.objects.filter(conversation=Param("conversation"), state=Delivery.State.PENDING)
        .order_by("id")
        .values_list("id")[:1]
    )
)


def conversation(*, account_id: int, chat: str, thread: str) -> str:
    """Return the key within which deliveries are sent in order."""
    return f"{account_id}:{chat}:{thread}"


class BlockFields(TypedDict, total=False):
    """The columns of a block besides its key and its place."""

    payload: Required[dict[str, Any]]
    session_id: int | None
    run_id: int | None
    block_index: int


def enqueue(
    *,
    key: str,
    account_id: int,
    conversation: str,
    target: dict[str, Any],
    **block: Unpack[BlockFields],
) -> Delivery:
    """Add one block, once per ``key``; a worker is woken after the commit. Inside a transaction."""
    row = Delivery(
        dedupe_key=key,
        account_id=account_id,
        conversation=conversation,
        target=target,
        **block,
    )
    delivery, is_new = insert_or_find(row, partial(KNOWN.first, key=key))
    if is_new:
        wakeups.delivery(delivery.id)
    return delivery


def enqueue_in_chat(
    *,
    key: str,
    account_id: int,
    chat: str,
    thread: str = "",
    reply_to: str = "",
    **block: Unpack[BlockFields],
) -> Delivery:
    """Add one block to a chat, in the order of its conversation; see :func:`enqueue`."""
    return enqueue(
        key=key,
        account_id=account_id,
        conversation=conversation(account_id=account_id, chat=chat, thread=thread),
        target={"chat": chat, "thread": thread, "reply_to": reply_to},
        **block,
    )


def change(*, delivery: Delivery, payload: dict[str, Any]) -> None:
    """Give a block another payload; one that was sent is queued again, as an edit.

    One that is being sent is checked again when its sending is recorded. Inside a transaction.
    """
    if delivery.payload == payload and delivery.state != Delivery.State.SENT:
        return
    row = Delivery.objects.filter(id=delivery.id)
    row.update(payload=payload)
    # In this order: a worker that records a sending after the first line sees the changed payload.
    row.filter(state=Delivery.State.SENT).update(
        state=Delivery.State.PENDING, retry_at=None, error="", tries=0, queued_at=Now()
    )
    delivery.payload = payload
    wakeups.delivery(delivery.id)


def retract(*, run_id: int, from_index: int) -> None:
    """Take back blocks of a run that its final answer does not contain. Inside a transaction."""
    if not SURPLUS(run=run_id, index=from_index):
        return
    surplus = Delivery.objects.filter(run_id=run_id, block_index__gte=from_index)
    take_back(surplus)
    for row in surplus.filter(state__in=(*OPEN, Delivery.State.SENT)):
        change(delivery=row, payload={"kind": "delete"})


def rest_of_answers(session: ChatSession) -> QuerySet[Delivery]:
    """Return the messages of a session's finished answers that wait behind the first one of each.

    Those of an answer that is being written may still be changed by its end.
    """
    waiting = Delivery.objects.filter(
        session=session, state=Delivery.State.PENDING, block_index__gt=0, external_message_id=""
    )
    return waiting.exclude(run__state__in=Run.UNFINISHED)


def take_back(rows: QuerySet[Delivery]) -> int:
    """Dismiss those of ``rows`` that were surely never sent; return how many. In a transaction."""
    unsent = rows.filter(state=Delivery.State.PENDING, external_message_id="", doubt_chat="")
    return unsent.update(state=Delivery.State.DISMISSED)


def earlier() -> QuerySet[Delivery]:
    """Return the open deliveries of the same conversation that come before the outer query's."""
    return Delivery.objects.filter(
        conversation=OuterRef("conversation"), id__lt=OuterRef("id"), state__in=OPEN
    )


def in_turn() -> Q:
    """Return the condition of deliveries that need not wait for earlier ones of the conversation.

    One in doubt left before those that are open before it now (an edit of a message, one that is
    sent again by hand): they wait for its search, as everything in its chat does.
    """
    return ~Q(doubt_chat="") | ~Q(Exists(earlier()))


def doubtful() -> QuerySet[Delivery]:
    """Return the deliveries in doubt in the chat ``place``."""
    # The second condition is that of the partial index.
    return Delivery.objects.filter(doubt_chat=Param("place")).exclude(doubt_chat="")


def pending() -> QuerySet[Delivery]:
    """Return the deliveries that may be sent now, by the state of their account and their time."""
    return Delivery.objects.filter(
        IS_TIME,
        state=Delivery.State.PENDING,
        account__enabled=True,
        account__deliveries_held="",
    )


def claiming(rows: QuerySet[Delivery]) -> tuple[QuerySet[Delivery], dict[str, Any]]:
    """Return the filter and the new values that claim one of ``rows``."""
    return (
        rows.filter(
            IS_TIME,
            id=Param("id"),
            attempt=Param("attempt"),
            state=Delivery.State.PENDING,
        ),
        {
            "state": Delivery.State.SENDING,
            "attempt": F("attempt") + 1,
            "claimed_at": Now(),
            "lease_until": Now() + Param("lease", DurationField()),
        },
    )


CLAIM = Update(
    lambda: claiming(Delivery.objects.exclude(Exists(earlier())).exclude(Exists(doubtful())))
)
# Of two in doubt in one chat the older one is searched for first.
CLAIM_DOUBTFUL = Update(
    lambda: claiming(Delivery.objects.exclude(Exists(doubtful().filter(id__lt=OuterRef("id")))))
)
WHOLE = Instances(
    lambda: (
        pending()
        .select_related("account")
        .filter(in_turn(), id=Param("id"))
        .annotate(
            run_public_id=F("run__public_id"),
            session_public_id=F("session__public_id"),
            doubt_beside=Exists(
                Delivery.objects.filter(account=OuterRef("account"))
                .exclude(doubt_chat="")
                .exclude(id=OuterRef("id"))
            ),
            **traces.of_delivery(),
        )
    )
)


def claim(
    *, delivery_id: int, ready: Callable[[Delivery], bool] = lambda _: True
) -> Delivery | None:
    """Take a pending delivery that is due and first in its conversation; None when it is not.

    ``ready`` is called with such a delivery before it is taken, but not while a search in its chat
    holds it up: it would reserve times to send for nothing.
    """
    # Read first: a claim without a read would leave a row that looks as if it had been sent.
    # A payload that is changed in between goes out as an edit, when the sending is recorded.
    row = WHOLE.first(id=delivery_id)
    if row is None or is_held_up(row) or not ready(row):
        return None
    if row.doubt_chat and is_sending_beside(row):
        return None
    seconds, began = settings.DELIVERY_LEASE_SECONDS, elapsed()
    take = CLAIM_DOUBTFUL if row.doubt_chat else CLAIM
    given = {"id": row.id, "attempt": row.attempt, "place": chat_of(row)}
    with transactions.atomic_write_statement():
        claimed = take(**given, lease=timedelta(seconds=seconds))
    row.state, row.attempt = Delivery.State.SENDING, row.attempt + 1
    row.lease = Lease(seconds=seconds * OWN_LEASE, began=began)
    return row if claimed else None


def keep(*, delivery: Delivery) -> bool:
    """Renew the lease of a delivery that is being sent; False when another attempt owns it."""
    began = elapsed()
    until = Now() + timedelta(seconds=settings.DELIVERY_LEASE_SECONDS)
    with transactions.atomic_write():
        kept = mine(delivery).update(lease_until=until) == 1
    if kept and delivery.lease is not None:
        delivery.lease.renew(began=began)
    return kept


def chat_of(delivery: Delivery) -> str:
    """Return the chat of a delivery in the form of ``doubt_chat``."""
    return f"{delivery.account_id}:{delivery.target.get('chat', '')}"[:160]


def is_held_up(delivery: Delivery) -> bool:
    """Return whether a delivery waits for the search for another message in its chat."""
    if not getattr(delivery, "doubt_beside", False):  # nearly always
        return False
    rows = Delivery.objects.filter(doubt_chat=chat_of(delivery))
    return (rows.filter(id__lt=delivery.id) if delivery.doubt_chat else rows).exists()


def is_sending_beside(delivery: Delivery) -> bool:
    """Return whether another message of the same chat, with no known id yet, is being sent."""
    rows = Delivery.objects.filter(
        account_id=delivery.account_id, state=Delivery.State.SENDING, external_message_id=""
    )
    return any(chat_of(row) == chat_of(delivery) for row in rows)


def mine(delivery: Delivery) -> QuerySet[Delivery]:
    """Return the row of ``delivery`` while this attempt still owns it, else no row."""
    return Delivery.objects.filter(
        id=delivery.id, attempt=delivery.attempt, state=Delivery.State.SENDING
    )


SENT = Update(
    lambda: (
        Delivery.objects.filter(
            id=Param("id"),
            attempt=Param("attempt"),
            state=Delivery.State.SENDING,
            payload=Param("payload", JSONField()),
            doubt_chat="",
        ),
        {
            "state": Delivery.State.SENT,
            "external_message_id": Param("message_id"),
            "error": Param("error"),
            "tries": 0,
            "sent_at": Now(),
            "lease_until": None,
            "retry_at": None,
        },
    )
)


def sent(*, delivery: Delivery, external_message_id: str) -> None:
    """Record that the platform has it, and wake a worker for the next one of the conversation.

    When the payload was changed meanwhile, the next one is this same delivery, as an edit. So it is
    when it was in doubt: its new id ends the interval in which an earlier message may be.
    """
    with transactions.atomic_write_statement():
        as_it_was = SENT(
            id=delivery.id,
            attempt=delivery.attempt,
            payload=delivery.payload,
            message_id=external_message_id,
            error=REPEATED if delivery.may_repeat else "",
        )
    if not as_it_was:
        sent_but_open(delivery=delivery, external_message_id=external_message_id)
    # Looked for after the commit: a worker that enqueues one behind it still sees this one open.
    transactions.after_commit(wake_following, delivery)


def sent_but_open(*, delivery: Delivery, external_message_id: str) -> None:
    """Record a delivery as sent, and queue it as an edit if it was changed or is in doubt.

    Does nothing when another attempt owns it.
    """
    with transactions.atomic_write(joins=True):
        for row in mine(delivery).select_for_update():
            in_doubt = row.doubt_chat != "" and not delivery.settles_doubt
            again = row.payload != delivery.payload or in_doubt
            mine(delivery).update(
                state=Delivery.State.PENDING if again else Delivery.State.SENT,
                doubt_chat=row.doubt_chat if in_doubt else "",
                external_message_id=external_message_id,
                tries=0,
                sent_at=Now(),
                lease_until=None,
                retry_at=None,
                error=REPEATED if delivery.may_repeat else "",
            )
            if in_doubt:
                wakeups.delivery(delivery.id)


def wake_following(delivery: Delivery) -> None:
    """Wake a worker for the next open delivery of the same conversation."""
    next_one = following(delivery)
    if next_one is not None:
        wakeups.delivery(next_one)


def postpone(*, delivery: Delivery, seconds: float) -> None:
    """Give a claimed delivery back, unsent: the platform's rate limit does not allow it yet."""
    # None, not now: at millisecond precision "now" may still be ahead.
    give_back(delivery, retry_at=Now() + timedelta(seconds=seconds) if seconds else None)


def gone(*, delivery: Delivery) -> None:
    """Queue a delivery as a new message: the one that it was to edit no longer exists."""
    give_back(delivery, external_message_id="")


def give_back(delivery: Delivery, **values: Any) -> None:
    """Queue a claimed delivery again."""
    with transactions.atomic_write():
        mine(delivery).update(state=Delivery.State.PENDING, lease_until=None, **values)


def give_up(delivery: Delivery, state: str, *, error: str, **values: Any) -> None:
    """Record that a claimed delivery has failed, and is not tried again."""
    with transactions.atomic_write():
        mine(delivery).update(
            state=state,
            error=error[:500],
            tries=F("tries") + 1,
            lease_until=None,
            doubt_chat="",
            **values,
        )


def moved(*, account_id: int, chat: str, new_chat: str) -> None:
    """Record a chat's new id in sessions, schedules, deliveries and the owner's settings."""
    with transactions.atomic_write():
        move_settings(account_id=account_id, chat=chat, new_chat=new_chat)
        Schedule.objects.filter(account_id=account_id, chat=chat).update(chat=new_chat)
        taken = ChatSession.objects.filter(
            account_id=account_id, chat=new_chat, closed_at__isnull=True, for_agent=False
        ).values_list("user_id", "thread")
        busy = set(taken)
        for session in ChatSession.objects.filter(account_id=account_id, chat=chat):
            if session.for_agent or (session.user_id, session.thread) not in busy:
                ChatSession.objects.filter(id=session.id).update(chat=new_chat)
        before, now = (
            conversation(account_id=account_id, chat=each, thread="") for each in (chat, new_chat)
        )
        for row in Delivery.objects.filter(
            account_id=account_id, target__chat=chat, state__in=OPEN
        ):
            place = row.conversation
            if place.startswith(before):  # later messages of the new chat wait for it
                place = now + place.removeprefix(before)
            target = {**row.target, "chat": new_chat, "reply_to": ""}
            # The ids of the new chat start anew: messages sent to the old one are not found there,
            # and another message has the id of one that was to be edited.
            Delivery.objects.filter(id=row.id).update(
                target=target,
                conversation=place,
                doubt_chat="",
                after_id=None,
                external_message_id="",
                retry_at=None,  # of the old chat
            )


def move_settings(*, account_id: int, chat: str, new_chat: str) -> None:
    """Let the rules of tools for a group, and its assistant, hold for its new id; where the new id
    has one, that one does. Inside a transaction.
    """
    rows: list[ToolRule | AssistantBinding] = [
        *ToolRule.objects.filter(account_id=account_id, chat=chat),
        *AssistantBinding.objects.filter(account_id=account_id, chat=chat),
    ]
    for row in rows:
        row.chat = new_chat
        with suppress(IntegrityError), transaction.atomic():
            row.save(update_fields=["chat"])


def failed(
    *, delivery: Delivery, error: str, permanent: bool, retry_after: float | None
) -> float | None:
    """Record that the platform surely did not take a delivery (else :func:`unsure`); return the
    seconds to the next try, or None if it is given up.
    """
    if permanent or is_too_old(delivery):
        give_up(delivery, Delivery.State.DEAD, error=error)
        return None
    seconds = backoff(delivery) if retry_after is None else retry_after
    again(delivery, seconds, error=error, tries=F("tries") + int(retry_after is None))
    return seconds


def unsure(
    *,
    delivery: Delivery,
    error: str,
    repeatable: bool,
    after_id: int | None = None,
    at_once: bool = False,
) -> float | None:
    """Record that the result is unknown; return the seconds to the next try, None when given up.

    ``repeatable``: another try shows nothing twice. Else it is in doubt from now on, and so is its
    chat; ``after_id`` is the last message id that was known before it was sent, None where a
    message cannot be found again: that is sent once more, and after a second doubt left to the
    owner.
    """
    second = not repeatable and after_id is None and delivery.doubt_chat != ""
    known_id = after_id if delivery.after_id is None else delivery.after_id
    text = f"{UNKNOWN} {error}"
    if second or is_too_old(delivery):
        state = Delivery.State.DEAD if repeatable else Delivery.State.UNCERTAIN
        give_up(delivery, state, error=text, after_id=known_id)
        return None
    doubt = {} if repeatable else {"doubt_chat": chat_of(delivery), "after_id": known_id}
    seconds = 0.0 if at_once else backoff(delivery)
    again(delivery, seconds, error=text, tries=F("tries") + 1, **doubt)
    return seconds


def again(delivery: Delivery, seconds: float, *, error: str, **values: Any) -> None:
    """Give a claimed delivery back; it is due in ``seconds``."""
    wait = min(timedelta(seconds=seconds), LONGEST_RETRY)
    give_back(delivery, error=error[:500], retry_at=Now() + wait if seconds else None, **values)


def backoff(delivery: Delivery) -> float:
    """Return the wait after one more failure of a delivery, in seconds."""
    return float(BACKOFF_SECONDS[min(delivery.tries, len(BACKOFF_SECONDS) - 1)])


def is_too_old(delivery: Delivery) -> bool:
    """Return whether a failing delivery is past its retry period, which begins anew when the
    gateway was off: time in which nothing was tried does not count.
    """
    most = timedelta(hours=settings.DELIVERY_RETRY_HOURS)
    now = transactions.now()
    if now - (delivery.queued_at or delivery.created_at) <= most:
        return False
    if delivery.claimed_at is not None and delivery.claimed_at > now - OFF:
        return True
    others = Delivery.objects.filter(conversation=delivery.conversation).exclude(id=delivery.id)
    if others.filter(claimed_at__gt=now - OFF).exists():
        return True
    with transactions.atomic_write():
        mine(delivery).update(queued_at=Now())
    return False


def hold(*, delivery: Delivery, error: str) -> None:
    """Hold the deliveries of the account of ``delivery``: its credentials are refused."""
    with transactions.atomic_write():
        again(delivery, 0, error=error, tries=F("tries") + 1)
        ChannelAccount.objects.filter(id=delivery.account_id).update(deliveries_held=error[:300])


def release(*, account_id: int) -> None:
    """Release the deliveries of an account, if they were held."""
    with transactions.atomic_write():
        ChannelAccount.objects.filter(id=account_id).update(deliveries_held="")
        resume(account_id=account_id)


def resume(*, account_id: int) -> None:
    """Make deliveries that wait after a failure due: the account's platform is available again."""
    with transactions.atomic_write(joins=True):
        rows = Delivery.objects.filter(
            account_id=account_id, state=Delivery.State.PENDING, tries__gt=0
        )
        rows.filter(retry_at__gt=Now()).update(retry_at=None)
        ready = rows.filter(in_turn()).order_by("id").values_list("id", flat=True)
        for delivery_id in ready[:RESUMED_AT_ONCE]:
            wakeups.delivery(delivery_id)


def repeat(*, delivery_id: int) -> None:
    """Queue the edit of a sent message again, unchanged."""
    with transactions.atomic_write():
        rows = Delivery.objects.filter(id=delivery_id, state=Delivery.State.SENT)
        if rows.exclude(external_message_id="").update(
            state=Delivery.State.PENDING, queued_at=Now()
        ):
            wakeups.delivery(delivery_id)


SENDING, PENDING = Delivery.State.SENDING, Delivery.State.PENDING
LOST = Instances(
    lambda: Delivery.objects.filter(state=SENDING, lease_until__lt=Now()).select_related("account")[
        :LOST_AT_ONCE
    ]
)
LEASES = transactions.FarTimes(lambda: Delivery.objects.filter(state=SENDING), "lease_until")
RETRIES = transactions.FarTimes(lambda: Delivery.objects.filter(state=PENDING), "retry_at")


def lost() -> list[Delivery]:
    """Return deliveries whose worker disappeared between sending and recording."""
    return LOST.all()


def bring_near() -> None:
    """Shorten leases and waits that a clock which was set back left in the far future."""
    LEASES.bring_near(most=timedelta(seconds=settings.DELIVERY_LEASE_SECONDS))
    if RETRIES.are_there(most=LONGEST_RETRY):
        with transactions.atomic_write():
            RETRIES.ahead(LONGEST_RETRY).update(retry_at=None)


def oldest(rows: QuerySet[Delivery]) -> QuerySet[Delivery, tuple[int]]:
    """Return the ids of the oldest of ``rows``."""
    return rows.order_by("id").values_list("id")[:DUE_AT_ONCE]


# Two queries: of many that wait, the first ones are found by a join.
DUE = Values(lambda: oldest(pending().exclude(Exists(earlier()))))
IN_DOUBT = Values(lambda: oldest(pending().exclude(doubt_chat="")))


def due() -> list[int]:
    """Return the ids of deliveries that may be sent now."""
    return sorted({row[0] for rows in (DUE(), IN_DOUBT()) for row in rows})


def following(delivery: Delivery) -> int | None:
    """Return the next open delivery of the same conversation."""
    return FOLLOWING.first(conversation=delivery.conversation)


def retry(delivery_id: int) -> bool:
    """Send a dead or uncertain delivery again, for the owner; return whether it was one."""
    with transactions.atomic_write():
        rows = Delivery.objects.filter(id=delivery_id, state__in=GIVEN_UP).select_for_update()
        row = rows.first()
        if row is None:
            return False
        Delivery.objects.filter(id=row.id).update(
            state=Delivery.State.PENDING,
            retry_at=None,
            error="",
            tries=0,
            queued_at=Now(),
            doubt_chat="" if row.after_id is None else chat_of(row),
        )
        wakeups.delivery(delivery_id)
    return True


def dismiss(delivery_id: int) -> bool:
    """Dismiss a dead or uncertain delivery; return whether it was one."""
    with transactions.atomic_write():
        changed = Delivery.objects.filter(id=delivery_id, state__in=GIVEN_UP).update(
            state=Delivery.State.DISMISSED
        )
    return changed == 1


def dead_count() -> int:
    """Return how many deliveries wait for the owner's decision."""
    return Delivery.objects.filter(state__in=GIVEN_UP).count()


def oldest_pending_seconds() -> float:
    """Return the age of the oldest delivery that is due and not delivered; 0 when there is none.

    Those of accounts that send nothing now are not due.
    """
    oldest = (
        Delivery.objects.filter(
            IS_TIME,
            state__in=OPEN,
            account__enabled=True,
            account__deliveries_held="",
        )
        .annotate(since=Coalesce("queued_at", "created_at"))
        .order_by("since")
        .values_list("since", flat=True)
        .first()
    )
    return (transactions.now() - oldest).total_seconds() if oldest else 0.0


@dataclass(frozen=True, slots=True)
class Backlog:
    """An account's deliveries that wait after a failure: how many, since when, and why."""

    number: int
    since: datetime
    error: str


def failing() -> QuerySet[Delivery]:
    """Return the open deliveries of enabled accounts of which a try has failed."""
    return Delivery.objects.filter(state__in=OPEN, tries__gt=0, account__enabled=True)


ARE_FAILING = HasRows(failing)


def backlogs(*, older_than: timedelta = timedelta()) -> dict[int, Backlog]:
    """Return the backlogs of enabled accounts by id, of deliveries that have waited that long.

    A delivery that waits behind a failed one is counted too.
    """
    if not ARE_FAILING():
        return {}
    behind = failing().filter(conversation=OuterRef("conversation"), id__lte=OuterRef("id"))
    rows = (
        Delivery.objects.filter(Exists(behind), state__in=OPEN)
        .annotate(since=Coalesce("queued_at", "created_at"))
        .filter(since__lte=Now() - older_than)
        .order_by("since", "id")
        .values_list("account_id", "since", "error")
    )
    found: dict[int, Backlog] = {}
    for account_id, since, error in rows:
        known = found.get(account_id) or Backlog(0, since, "")
        found[account_id] = replace(known, number=known.number + 1, error=known.error or error)
    return found
