"""What the gateway tells its owners: unknown senders ([A5]), and chats and accounts in trouble.

A notice goes through the outbox to the owner's last-used channel ([A4]), or, where that cannot be
written to, to each other channel of the owner; an open web chat of an owner gets it too. What
strangers wrote is cut, on one line, marked as theirs, and never markup.
"""

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from functools import partial
from typing import Any

from django.conf import settings
from django.db import transaction
from django.db.models import Q
from django.utils import timezone

from allowlist import pending_count
from allowlist.models import ApiKey, UnknownRequest
from channels_app.base import Block, Capability, Channel
from channels_app.delivery import secret_blocks
from channels_app.owner import notice_targets
from core.conversations import outbox
from core.database import transactions
from core.lib.text import one_line
from core.models import ChannelAccount, ChannelIdentity, ChatSession, Delivery, ModelTrouble, User
from core.providers import health
from core.providers.failures import KINDS, OWN
from core.signals import pubsub

HOURLY = 5
DAY_SECONDS = 86_400
TOLD = "SELECT count(*) FROM allowlist_unknownrequest WHERE notice_at > %s AND notice_at <= %s"
LOOKED_AFTER = 100
# A notice that is on its way for longer than this is sent to the owner's other channels too.
PATIENCE = timedelta(minutes=5)
SOONEST_AGAIN, LATEST_AGAIN = timedelta(minutes=10), timedelta(days=1)
SENDER_LENGTH = 64
Buttons = list[list[dict[str, str]]]
BUTTONS = (("Approve", "approve"), ("Approve 24 h", "approve_24h"), ("Deny", "deny"),
           ("Block", "block"))  # fmt: skip
WORDS = {
    "blocked": "This person has blocked the bot",
    "kicked": "The bot was removed from this chat",
    "migrated": "This group got a new id",
    "chat_not_found": "This chat does not exist, or the bot was never in it",
    "gone": "The message is not there any more",
    "conflict": "Somebody else fetches this bot's messages",
    "auth": "The platform refuses our credentials",
}


def unknown_request(request: UnknownRequest, *, now: datetime) -> None:
    """Tell the owners about a sender who waits: once a sender, at most five an hour, then one
    digest. Inside the transaction that recorded the request.

    ``notice_at``: a notice is on its way. ``notified_at`` follows when one was delivered or shown;
    :func:`look_after` sees to it.
    """
    waits = request.state == UnknownRequest.State.PENDING and request.notice_at is None
    if not (waits and settings.NOTIFY_UNKNOWN_REQUEST):
        return
    if is_spent(now):
        if request.count == 1:  # a flood repeats itself; its first words are enough to tell of it
            digest(now)
        return
    UnknownRequest.objects.filter(pk=request.pk).update(notice_at=now)
    request.notice_at = now
    pending_count.knocked(request)
    for owner in owners():
        card = {"request": request.public_id, "text": headline(request), "quote": quote(request)}
        tell_web(owner, card)
        for target in notice_targets.of(owner):
            put_request(request, owner, target)


def is_spent(now: datetime) -> bool:
    """Whether the owners were sent as many notices in the last hour as they may be."""
    return bool(transactions.value_of(TOLD, now - timedelta(hours=1), now) >= HOURLY)


def put_request(request: UnknownRequest, owner: User, target: notice_targets.Target) -> None:
    """Send the notice of a request to one target, once for each ``notice_at``."""
    text = f"{headline(request)}\n{quote(request)}".strip()
    payload = request_block(target.channel, owner, text, request)
    put(target, key=key_of(request, owner.pk, target.account.pk), payload=payload)


def key_of(request: UnknownRequest, owner: int, account: int) -> str:
    """The key of the notice of a request to an owner on an account."""
    assert request.notice_at is not None  # noqa: S101 - set by whoever sends one
    moment = int(request.notice_at.timestamp() * 1000)
    return f"notice:request:{request.public_id}:{moment}:{owner}:{account}"


def shown(public_ids: Iterable[str], *, now: datetime) -> None:
    """Note that an owner has these requests on the screen: no notice is sent again."""
    rows = UnknownRequest.objects.filter(
        public_id__in=list(public_ids), state=UnknownRequest.State.PENDING, notified_at=None
    )
    if rows.exists():  # nearly never: the screen opens far more often than a stranger writes
        rows.update(notified_at=now)


def look_after(*, now: datetime) -> int:
    """See to the notices of which it is not known that an owner got them. A chore; idempotent.

    Delivered: ``notified_at``. Not delivered within some minutes, failed, or sent nowhere because
    no channel could be written to: sent to each channel of the owners that it was not sent to; when
    all of those failed, again, at growing distances. Returns how many requests it looked at.
    """
    rows = UnknownRequest.objects.filter(
        state=UnknownRequest.State.PENDING,
        notice_at__isnull=False,
        notified_at__isnull=True,
    ).filter(expires_at__gt=now)
    found = list(rows.select_related("account").order_by("notice_at")[:LOOKED_AFTER])
    if not found:
        return 0
    people = owners()
    everywhere = [(owner, each) for owner in people for each in notice_targets.all_of(owner)]
    accounts = list(ChannelAccount.objects.values_list("pk", flat=True))
    keys = {
        row.pk: {key_of(row, owner.pk, account) for owner in people for account in accounts}
        for row in found
    }
    sent = Delivery.objects.filter(dedupe_key__in=set().union(*keys.values()))
    states = dict(sent.values_list("dedupe_key", "state"))
    for row in found:
        theirs = {key: states[key] for key in keys[row.pk] & states.keys()}
        follow_up(row, theirs, everywhere, now)
    return len(found)


def follow_up(
    request: UnknownRequest,
    sent: Mapping[str, str],
    everywhere: Sequence[tuple[User, notice_targets.Target]],
    now: datetime,
) -> None:
    """What :func:`look_after` does about one request. ``sent``: its notices, key and state."""
    assert request.notice_at is not None  # noqa: S101 - as the caller asked for
    rows = UnknownRequest.objects.filter(
        pk=request.pk, public_id=request.public_id, notice_at=request.notice_at, notified_at=None
    )
    if Delivery.State.SENT in sent.values():
        rows.update(notified_at=now)
        return
    on_its_way = any(state in outbox.OPEN for state in sent.values())
    if on_its_way and timedelta(0) <= now - request.notice_at < PATIENCE:
        return
    untried = [
        (owner, target)
        for owner, target in everywhere
        if key_of(request, owner.pk, target.account.pk) not in sent
    ]
    again = not untried and not on_its_way and everywhere and is_due_again(request, now)
    if not (untried or again):
        return
    with transactions.atomic_write():
        if again:
            if rows.update(notice_at=now) != 1:
                return  # another worker was quicker
            request.notice_at = now
        for owner, target in untried or everywhere:
            put_request(request, owner, target)


def is_due_again(request: UnknownRequest, now: datetime) -> bool:
    """Whether a notice that failed everywhere is to be sent once more: each time after about twice
    the time, at least once a day, and within the owners' five an hour."""
    assert request.notice_at is not None  # noqa: S101 - as the caller asked for
    gap = min(max(request.notice_at - request.first_seen_at, SOONEST_AGAIN), LATEST_AGAIN)
    waits = timedelta(0) <= now - request.notice_at < gap  # not by a clock that was set back
    return not waits and not is_spent(now)


def digest(now: datetime) -> None:
    """One line an hour when more strangers knock than an owner wants to hear of."""
    for owner in owners():
        tell(
            owner,
            key=f"notice:digest:{owner.pk}:{int(now.timestamp()) // 3600}",
            text="More unknown senders are waiting. They are listed in the admin.",
        )


def decided(request: UnknownRequest, *, text: str) -> None:
    """Put the verdict into every notice about ``request``, and take its buttons away."""
    for owner in owners():
        card = {"request": request.public_id, "text": settled(request, text), "decided": True}
        tell_web(owner, card)
    payload = {"text": settled(request, text)}
    with transaction.atomic():
        notices = Delivery.objects.select_for_update().filter(
            dedupe_key__startswith=f"notice:request:{request.public_id}:"
        )
        for notice in notices.order_by("id"):
            if notice.payload != payload:  # else somebody pressed once more: it says so already
                outbox.change(delivery=notice, payload=payload)


def trouble(*, account: ChannelAccount, chat: str, trouble: str, words: str) -> None:
    """Say once a day that a chat (or, without one, the account) has a problem of this kind.

    Of a chat only when somebody who was let in speaks there: a stranger makes as many chats as
    they like (decision 139).
    """
    if chat and not is_spoken_in(account, chat):
        return
    now = timezone.now()
    today = int(now.timestamp()) // DAY_SECONDS
    where = f"{account}, chat {one_line(chat, SENDER_LENGTH)}" if chat else str(account)
    text = f"{where}: {WORDS.get(trouble, 'Trouble')} ({one_line(words, 200)})."
    for owner in owners():
        key = f"notice:trouble:{account.pk}:{today}:{owner.pk}:{trouble}:{chat}"
        with transaction.atomic():
            # Not to the very chat that cannot be reached, nor into the queue of an account that
            # delivers nothing until the owner has acted.
            away = None if chat else account.pk
            tell(owner, key=key[:180], text=text, besides=(account.pk, chat), away=away)


def clock_set_back(*, by: timedelta, now: datetime) -> None:
    """Tell the owners of addresses and keys that had ended and hold again: the clock was set back.

    Silent where there are none. Once an hour, however many processes see it.
    """
    again = Q(expires_at__gt=now, expires_at__lte=now + by)
    count = ChannelIdentity.objects.filter(again).count()
    count += ApiKey.objects.filter(again, revoked_at=None).count()
    if not count:
        return
    text = (
        f"The clock of this machine was set back by {round(by.total_seconds() / 60)} min. "
        f"Addresses and keys that had ended and are valid again until the clock reaches their "
        f"end: {count}."
    )
    for owner in owners():
        key = f"notice:clock:{owner.pk}:{int(now.timestamp()) // 3600}"
        with transactions.atomic_write():
            tell(owner, key=key, text=text)


def model_health(*, now: datetime) -> None:
    """Tell the owners once that the model fails, and once that it answers again. A chore.

    Of one that fails and answers by turns, once an hour; how it is then is told in the next one.
    """
    hour = int(now.timestamp()) // 3600
    people = owners()
    accounts = list(ChannelAccount.objects.values_list("pk", flat=True))

    def key(owner: User, code: str, *, is_over: bool) -> str:
        return f"notice:model:{owner.pk}:{hour}:{code}:{'over' if is_over else 'begun'}"

    def is_told(row: ModelTrouble) -> bool:
        names = [key(owner, row.code, is_over=row.since is None) for owner in people]
        sent = [f"{name}:{account}"[:200] for name in names for account in accounts]
        return Delivery.objects.filter(dedupe_key__in=sent).exists()

    health.look()
    with transaction.atomic():
        for row, is_over in health.to_tell(unless=is_told):
            kind = KINDS.get(row.code, OWN)
            text = f"The model answers again ({row.code})."
            if not is_over:
                because = f" The server says: “{one_line(row.reason, 200)}”" if row.reason else ""
                text = f"The model fails ({row.code}). {kind.owner}{because}"
            for owner in people:
                tell_web(owner, {"text": text})
                tell(owner, key=key(owner, row.code, is_over=is_over), text=text)


def is_spoken_in(account: ChannelAccount, chat: str) -> bool:
    """Whether a chat is somebody's conversation with us."""
    rows = ChatSession.objects.filter(account=account, chat=chat)
    return rows.filter(closed_at__isnull=True, for_agent=False).exists()


def headline(request: UnknownRequest) -> str:
    """The fixed line of [A5], with the sender's id cut and on one line."""
    return f"{subject(request)} Approve it to let them in."


def subject(request: UnknownRequest) -> str:
    """Whom it is about."""
    sender = one_line(request.sender, SENDER_LENGTH)
    return f"Unknown request from {request.account.channel}: user_id={sender}."


def settled(request: UnknownRequest, verdict: str) -> str:
    """What a notice says once somebody has decided."""
    return f"{subject(request)}\n{verdict}"


def quote(request: UnknownRequest) -> str:
    """What the stranger calls themselves and said, marked as theirs; empty when nothing."""
    said = ": ".join(part for part in (request.sender_name, request.last_text) if part)
    return f"They say: “{one_line(said, 200)}”" if said else ""


def buttons(request: UnknownRequest) -> Buttons:
    """Rows of buttons; each carries the choice and the request's single-use id (≤ 64 bytes)."""
    made = [{"text": label, "data": f"{choice}:{request.public_id}"} for label, choice in BUTTONS]
    return [made[:2], made[2:]]


def owners() -> list[User]:
    """Who is told."""
    return list(User.objects.filter(is_owner=True, is_active=True).select_related("last_account"))


def tell(
    owner: User,
    *,
    key: str,
    text: str,
    besides: tuple[int, str] | None = None,
    away: int | None = None,
    rows: Buttons | None = None,
    page: str = "",
) -> None:
    """Send a notice to the owner's last-used channel, or, where that cannot be written to, to each
    other one ([A5]); nothing when there is none.

    ``besides``: (account, chat) to leave out. ``away``: an account that delivers nothing now, to
    leave out where there is another. ``rows``: of buttons; ``page``: where the owner does
    what they do, on a channel without buttons.
    """
    for target in notice_targets.of(owner, besides=besides, away=away):
        block = block_of(target.channel, text, rows, page)
        put(target, key=f"{key}:{target.account.pk}"[:200], payload=block)


def put(target: notice_targets.Target, *, key: str, payload: Block) -> None:
    """Put a notice into the outbox, once for each ``key``. Inside a transaction."""
    account_id, chat, thread = target.account.pk, target.chat, target.thread
    outbox.enqueue_in_chat(
        key=key, account_id=account_id, chat=chat, thread=thread, payload=payload
    )


def block_of(channel: Channel, text: str, rows: Buttons | None, page: str) -> Block:
    """A text with buttons, or, on a channel without, with the address of the page."""
    if not rows:
        return {"text": text}
    if Capability.BUTTONS in channel.capabilities:
        return {"text": text, "buttons": rows}
    return {"text": f"{text}\n{settings.GATEWAY_URL}{page}"}


def request_block(channel: Channel, owner: User, text: str, request: UnknownRequest) -> Block:
    """A text about a request with buttons, or, on a channel without, with a link to its decision,
    which is made when it is sent."""
    if Capability.BUTTONS in channel.capabilities:
        return {"text": text, "buttons": buttons(request)}
    return secret_blocks.with_decision_link(text, request=request.public_id, owner=owner.pk)


def tell_web(owner: User, card: dict[str, Any]) -> None:
    """Show the card in the owner's open web chats, after the commit."""
    frame: pubsub.Frame = {"keys": [f"user:{owner.pk}"], "kind": "notice", "notice": card}
    transaction.on_commit(partial(pubsub.publish, [frame]))
