"""Deliveries in doubt: between which message ids an earlier try may have left a message.

For channels whose message ids are numbers that grow within a sequence, which several chats of an
account may share. Knows no platform (docs/decisions/162).
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from core.conversations import outbox
from core.database import transactions
from core.models import Delivery, InboundMessage, Installation

MOST = 30
# Ids after the newest one that is known; ids of other messages in doubt are added.
MARGIN = 5
LOOKED_AT = 1000
# Clocks of our processes differ by less than this.
SKEW = timedelta(seconds=60)
# The time of a message whose sending is not recorded yet: after every claim.
LATER = datetime.max.replace(tzinfo=UTC)
EARLIER = datetime.min.replace(tzinfo=UTC)

# Returns whether a chat numbers its messages in the same sequence.
Shares = Callable[[str], bool]


@dataclass(frozen=True, slots=True)
class Span:
    """The ids among which a message may be: those after ``after`` and before ``end`` that are not
    ``known`` to be other messages. ``newest`` is the highest id that is known. ``cut``: it may also
    be before ``after``.
    """

    after: int
    end: int
    newest: int
    known: frozenset[int]
    closed: bool
    cut: bool = False

    def unknown(self) -> tuple[list[int], bool]:
        """Return at most MOST of the ids to try, in order, and whether these are all."""
        first = self.after + 1
        if self.closed:
            first = max(first, self.end - MOST - len(self.known))
        found = [each for each in range(first, self.end) if each not in self.known]
        complete = first == self.after + 1 and len(found) <= MOST and not self.cut
        return (found[-MOST:] if self.closed else found[:MOST]), complete


def last_known(*, delivery: Delivery, shares: Shares) -> int | None:
    """Return the sequence's highest message id known when ``delivery`` was claimed; 0 for none.

    None where the database was restored and none is known since: ids between may be those of
    messages that were sent after its copy, which a search would change.
    """
    # The row's: the object may predate the claim.
    row = Delivery.objects.filter(id=delivery.id).values_list("claimed_at", flat=True)
    since = row.first() or delivery.created_at
    before = [
        (number, at or EARLIER)
        for number, at in ids_of(delivery, shares)
        if at is None or at < since
    ]
    number, at = max(before, default=(0, EARLIER))
    restored_at = Installation.objects.filter(id=1).values_list("restored_at", flat=True).first()
    return None if restored_at is not None and at < restored_at + SKEW else number


def span(*, delivery: Delivery, shares: Shares) -> Span:
    """Return the ids among which a message of ``delivery``, which is in doubt, may be."""
    known = frozenset(number for number, _ in ids_of(delivery, shares))
    after = delivery.after_id or 0
    # None was known when it was sent, as of a bot that is new here: it may have a long history.
    if cut := not after and min(known, default=0) > MOST + 1:
        after = min(known) - MOST - 1
    own = number_of(delivery.external_message_id)
    newest = max(known, default=after)
    if own is not None:
        return Span(after, own, newest, known, closed=True, cut=cut)
    beside = Delivery.objects.filter(account_id=delivery.account_id).exclude(doubt_chat="")
    end = newest + 1 + MARGIN + beside.count()
    return Span(after, end, newest, known, closed=False, cut=cut)


def ids_of(delivery: Delivery, shares: Shares) -> Iterator[tuple[int, datetime | None]]:
    """Return known message ids, each with a time after its making (None: before ``delivery``)."""
    answered = [delivery.target.get("reply_to")]
    route = delivery.run.route if delivery.run is not None else {}
    # A supergroup starts its ids anew: an answered message may have an id of the former group.
    if route.get("account") == delivery.account_id and shares(str(route.get("chat", ""))):
        answered.append(route.get("reply_to"))
    for each in answered:
        if (number := number_of(str(each))) is not None:
            yield number, None
    inbound = InboundMessage.objects.filter(account_id=delivery.account_id).order_by("-id")
    for chat, name, at in inbound.values_list("chat", "external_message_id", "received_at")[
        :LOOKED_AT
    ]:
        if shares(chat) and (number := number_of(name)) is not None:
            yield number, at + SKEW
    sent = Delivery.objects.filter(account_id=delivery.account_id).exclude(external_message_id="")
    for row in sent.exclude(id=delivery.id).order_by("-id")[:LOOKED_AT]:
        number = number_of(row.external_message_id)
        if shares(row.target.get("chat", "")) and number is not None:
            yield number, row.sent_at or LATER


def number_of(message_id: str) -> int | None:
    """Return a message id as a number; None for anything else."""
    return int(message_id) if message_id.isascii() and message_id.isdigit() else None


def found(*, delivery: Delivery, external_message_id: str) -> bool:
    """Record which message a claimed delivery has; return whether the claim still holds."""
    return record(delivery, external_message_id=external_message_id, doubt_chat="", after_id=None)


def passed(*, delivery: Delivery, after_id: int) -> None:
    """Record that no message of a claimed delivery has an id up to ``after_id``."""
    record(delivery, after_id=after_id)


def incomplete(*, delivery: Delivery) -> None:
    """Record that a message of a claimed delivery may be among ids that are not tried."""
    record(delivery, error=outbox.REPEATED)


def resolved(*, delivery: Delivery) -> None:
    """Record that the search for messages of a claimed delivery is complete."""
    record(delivery, doubt_chat="", after_id=None)


def record(delivery: Delivery, **values: object) -> bool:
    """Set columns of a claimed delivery, also in the object; return whether the claim holds."""
    with transactions.atomic_write():
        changed = outbox.mine(delivery).update(**values)
    for name, value in values.items():
        setattr(delivery, name, value)
    return changed == 1
