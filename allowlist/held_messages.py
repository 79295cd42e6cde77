"""Held messages of unknown senders: for a day, the last twenty each ([A5]); purged or released."""

from datetime import datetime, timedelta
from typing import Any

from django.conf import settings
from django.db.models import DateTimeField, Q, QuerySet, Sum, Value
from django.db.models.functions import Concat

from allowlist.models import UnknownRequest
from core.conversations import inbox
from core.database.queries import Param, Values
from core.models import InboundMessage, User

HELD = InboundMessage.State.HELD
AT_ONCE = 500
MEGABYTE = 1_000_000
# Far longer than a platform takes to bring the items of one.
ALBUMS_KEPT = timedelta(minutes=10)
MEDIA_DROPPED = "The attached files were not kept: unknown senders sent too many."


def of(request: UnknownRequest) -> QuerySet[InboundMessage]:
    """Return the held messages of a request's sender, in order."""
    return InboundMessage.objects.filter(
        account=request.account_id,
        kind=request.kind,
        sender=request.sender,
        state=HELD,
    ).order_by("id")


def release(row: UnknownRequest, person: User, now: datetime) -> list[InboundMessage]:
    """Mark the held messages of ``row`` as received from ``person``; older ones are purged."""
    empty(of(row).filter(received_at__lte=since(now)), "held for too long")
    ids = list(of(row).values_list("pk", flat=True))
    InboundMessage.objects.filter(pk__in=ids, state=HELD, note=MEDIA_DROPPED).update(
        text=Concat("text", Value(f"\n[{MEDIA_DROPPED}]"))
    )
    InboundMessage.objects.filter(pk__in=ids, state=HELD).update(
        state=InboundMessage.State.RECEIVED, user=person
    )
    return list(InboundMessage.objects.filter(pk__in=ids).select_related("account").order_by("id"))


def empty(messages: QuerySet[InboundMessage], note: str) -> int:
    """Clear the content of held messages; the rows stay to detect duplicates."""
    ids = list(messages.values_list("pk", flat=True)[:AT_ONCE])
    return InboundMessage.objects.filter(pk__in=ids, state=HELD).update(
        state=InboundMessage.State.PURGED,
        text="",
        media=[],
        media_bytes=0,
        options={},
        raw=b"",
        sender_name="",
        note=note,
    )


def bound(row: UnknownRequest, message: InboundMessage | None) -> None:
    """Keep the last messages of one sender only, under the sender's normalised address.

    Older rows are deleted: a flood must not fill the table.
    """
    if message is not None:
        if row.is_group or row.state == UnknownRequest.State.BLOCKED:
            delete(message)
        elif message.sender != row.sender:
            InboundMessage.objects.filter(pk=message.pk).update(sender=row.sender)
    if row.count > settings.HELD_MESSAGES_PER_SENDER:
        most: int = settings.HELD_MESSAGES_PER_SENDER
        for surplus in of(row).order_by("-id").values_list("pk", flat=True)[most : most + 1]:
            of(row).filter(pk__lte=surplus).delete()


def bound_media(message: InboundMessage) -> None:
    """Drop the media of the oldest held messages above HELD_MEDIA_MB, with a note."""
    if not message.media_bytes:
        return
    dropped: list[int] = []
    rows = InboundMessage.objects.filter(state=HELD, media_bytes__gt=0).order_by("id")
    held = rows.aggregate(bytes=Sum("media_bytes", default=0))["bytes"]
    surplus = held - settings.HELD_MEDIA_MB * MEGABYTE
    for pk, size in rows.values_list("pk", "media_bytes").iterator(chunk_size=AT_ONCE):
        if surplus <= 0:
            break
        dropped.append(pk)
        surplus -= size
    InboundMessage.objects.filter(pk__in=dropped, state=HELD).update(
        media=[], media_bytes=0, note=MEDIA_DROPPED
    )


def delete(message: InboundMessage) -> None:
    """Delete a message that will never be released. The instance keeps its key."""
    InboundMessage.objects.filter(pk=message.pk, state=HELD).delete()


def received_until(time: Any) -> QuerySet[InboundMessage]:
    """Return the held messages that were received before ``time``, or at it."""
    return InboundMessage.objects.filter(state=HELD, received_at__lte=time)


EMPTIED = Values(
    lambda: (
        InboundMessage.objects.filter(
            state=InboundMessage.State.PURGED, received_at__lte=Param("time", DateTimeField())
        )
        .order_by("received_at")
        .values_list("pk")[:AT_ONCE]
    )
)


def sweep(*, now: datetime) -> int:
    """Delete emptied rows after the platforms' retry period; return how many."""
    old = now - timedelta(days=settings.UNKNOWN_REQUEST_DAYS)
    ids = EMPTIED.column(time=old)
    return InboundMessage.objects.filter(pk__in=ids).delete()[0] if ids else 0


def sweep_ignored(*, now: datetime) -> int:
    """Delete the rows of ignored updates of that age, which unknown senders cause, and items of
    albums that were kept for nothing; return how many.

    No index supports this: an hourly chore.
    """
    old = now - timedelta(days=settings.UNKNOWN_REQUEST_DAYS)
    of_album = Q(received_at__lte=now - ALBUMS_KEPT, note=inbox.OF_AN_ALBUM)
    rows = InboundMessage.objects.filter(
        Q(received_at__lte=old) | of_album, state=InboundMessage.State.IGNORED
    ).values_list("pk", flat=True)
    gone = 0
    while ids := list(rows[:AT_ONCE]):
        gone += InboundMessage.objects.filter(pk__in=ids).delete()[0]
    return gone


def since(now: datetime) -> datetime:
    """Return the time before which received messages have been held too long."""
    return now - timedelta(hours=settings.HELD_MESSAGE_HOURS)
