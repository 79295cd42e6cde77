"""Notices to the owners: unknown senders ([A5]), and problems of chats and accounts.

A notice goes through the outbox to the owner's last-used channel ([A4]), or, where that cannot
push, to each other channel of the owner; open web chats of an owner get it too. Text of unknown
senders is cut, on one line, marked as a quotation, and never markup.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from functools import partial
from typing import Any, Unpack

from django.conf import settings
from django.db import transaction
from django.db.models import DateTimeField, Q
from django.utils import timezone
from django.utils.translation import gettext, gettext_noop

from allowlist import pending_count, unknown_requests
from allowlist.models import ApiKey, UnknownRequest
from channels_app.base import Block, Capability, Channel
from channels_app.delivery import secret_blocks
from channels_app.owner import notice_targets
from core.conversations import outbox, push_messages
from core.database import transactions
from core.database.queries import Instances, Param, Values
from core.lib.interface_language import spoken
from core.lib.text import one_line
from core.models import ChannelAccount, ChannelIdentity, ChatSession, Delivery, ModelTrouble, User
from core.providers import catalogue, health
from core.providers.failures import KINDS, OWN
from core.signals import pubsub

HOURLY, HOUR = 5, timedelta(hours=1)
DAY_SECONDS = 86_400
NOTICES_BETWEEN = Values(
    lambda: UnknownRequest.objects.filter(
        notice_at__gt=Param("since", DateTimeField()), notice_at__lte=Param("now", DateTimeField())
    ).values_list("id")[:HOURLY]
)
LOOKED_AFTER = 100
# A notice that is undelivered for longer than this is sent to the owner's other channels too.
PATIENCE = timedelta(minutes=5)
SOONEST_AGAIN, LATEST_AGAIN = timedelta(minutes=10), timedelta(days=1)
SENDER_LENGTH = 64
TROUBLE = gettext_noop("Trouble")
Buttons = list[list[dict[str, str]]]
BUTTONS = (
    (gettext_noop("Approve"), "approve"),
    (gettext_noop("Approve 24 h"), "approve_24h"),
    (gettext_noop("Deny"), "deny"),
    (gettext_noop("Block"), "block"),
)
WORDS = {
    "blocked": gettext_noop("This person has blocked the bot"),
    "kicked": gettext_noop("The bot was removed from this chat"),
    "migrated": gettext_noop("This group got a new id"),
    "chat_not_found": gettext_noop("This chat does not exist, or the bot was never in it"),
    "gone": gettext_noop("The message is not there any more"),
    "conflict": gettext_noop("Another program fetches this bot's messages"),
    "auth": gettext_noop("The platform rejects the account's credentials"),
}


def unknown_request(request: UnknownRequest, *, now: datetime) -> None:
    """Notify the owners of a pending sender: once per sender, and again when an approval or a
    request without a decision has ended, not after a denial; at most five an hour, then one
    digest. Inside the transaction that recorded the request.

    ``notice_at``: a notice was queued. ``notified_at``: one was delivered or shown;
    :func:`look_after` sets it.
    """
    waits = request.state == UnknownRequest.State.PENDING
    was_told_before = request.notified_at is not None and not unknown_requests.is_told(request)
    was_told = request.notice_at is not None or was_told_before
    if was_told or not (waits and settings.NOTIFY_UNKNOWN_REQUEST):
        return
    if is_spent(now):
        if unknown_requests.has_just_begun(request):  # a flood repeats itself
            digest(now)
        return
    UnknownRequest.objects.filter(pk=request.pk).update(notice_at=now)
    request.notice_at = now
    pending_count.request_added(request)
    for owner in owners():
        with spoken(owner.language):
            card = {"request": request.public_id, "text": headline(request)}
            card["quote"] = quote(request)
        show_in_web_chats(owner, card)
        push_messages.enqueue(user_id=owner.pk, kind="request", ref=request.public_id)
        for target in notice_targets.of(owner):
            put_request(request, owner, target)


def is_spent(now: datetime) -> bool:
    """Return whether the owners' hourly limit of notices is reached."""
    return len(NOTICES_BETWEEN(since=now - HOUR, now=now)) == HOURLY


def put_request(request: UnknownRequest, owner: User, target: notice_targets.Target) -> None:
    """Queue the notice of a request for one target, once for each ``notice_at``."""
    with spoken(owner.language):
        text = f"{headline(request)}\n{quote(request)}".strip()
        payload = request_block(target.channel, owner, text, request)
    put(target, key=key_of(request, owner.pk, target.account.pk), payload=payload)


def key_of(request: UnknownRequest, owner: int, account: int) -> str:
    """Return the dedupe key of a request's notice to an owner on an account."""
    assert request.notice_at is not None  # noqa: S101 - set by the sender of a notice
    moment = int(request.notice_at.timestamp() * 1000)
    return f"notice:request:{request.public_id}:{moment}:{owner}:{account}"


def shown(public_ids: Iterable[str], *, now: datetime) -> None:
    """Record that these requests were displayed to an owner: no notice is sent again."""
    rows = UnknownRequest.objects.filter(
        public_id__in=list(public_ids), state=UnknownRequest.State.PENDING, notified_at=None
    )
    if rows.exists():  # rarely true: the page opens far more often than an unknown sender writes
        rows.update(notified_at=now)


UNCONFIRMED = Instances(
    lambda: (
        UnknownRequest.objects.filter(
            state=UnknownRequest.State.PENDING,
            notice_at__isnull=False,
            notified_at__isnull=True,
            expires_at__gt=Param("now", DateTimeField()),
        )
        .select_related("account")
        .order_by("notice_at")[:LOOKED_AFTER]
    )
)


def look_after(*, now: datetime) -> int:
    """Follow up on notices without a confirmed delivery. A chore; idempotent.

    Delivered: sets ``notified_at``. Undelivered after some minutes, failed, or without a channel
    that can push: sends it to the owners' remaining channels; when all have failed, again, at
    growing intervals. Returns how many requests it checked.
    """
    found = UNCONFIRMED.all(now=now)
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
    """Follow up on one request, for :func:`look_after`. ``sent``: its notices, key and state."""
    assert request.notice_at is not None  # noqa: S101 - as the caller asked for
    rows = UnknownRequest.objects.filter(
        pk=request.pk,
        public_id=request.public_id,
        state=UnknownRequest.State.PENDING,
        notice_at=request.notice_at,
        notified_at=None,
    )
    if Delivery.State.SENT in sent.values():
        rows.update(notified_at=now)
        return
    on_its_way = any(state in outbox.OPEN for state in sent.values())
    if not everywhere or (on_its_way and timedelta(0) <= now - request.notice_at < PATIENCE):
        return
    untried = [
        (owner, target)
        for owner, target in everywhere
        if key_of(request, owner.pk, target.account.pk) not in sent
    ]
    # It is one of the notices of its hour; afterwards it needs a place in another one.
    counts = on_its_way or (untried and timedelta(0) <= now - request.notice_at < HOUR)
    is_new = not counts and (not is_spent(now) if untried else is_due_again(request, now))
    targets = everywhere if is_new else untried if counts else ()
    if not targets:
        return
    with transactions.atomic_write():
        told_at = now if is_new else request.notice_at
        if rows.update(notice_at=told_at) != 1:
            return  # another worker was first, or an owner has decided
        request.notice_at = told_at
        for owner, target in targets:
            put_request(request, owner, target)


def is_due_again(request: UnknownRequest, now: datetime) -> bool:
    """Return whether a notice that failed everywhere is sent again: after about twice the previous
    interval, at least once a day, and within the owners' five an hour.
    """
    assert request.notice_at is not None  # noqa: S101 - as the caller asked for
    gap = min(max(request.notice_at - request.first_seen_at, SOONEST_AGAIN), LATEST_AGAIN)
    waits = timedelta(0) <= now - request.notice_at < gap  # the clock was set back
    return not waits and not is_spent(now)


def digest(now: datetime) -> None:
    """Send one line an hour when more unknown senders write than the limit of notices."""
    for owner in owners():
        with spoken(owner.language):
            text = gettext("More unknown senders are pending. They are listed in the admin.")
        send(owner, key=f"notice:digest:{owner.pk}:{int(now.timestamp()) // 3600}", text=text)


def decided(request: UnknownRequest, *, text: Callable[[], str]) -> None:
    """Replace every notice about ``request`` with the verdict, without buttons. ``text`` is called
    in the language of each owner.
    """
    said: dict[str, str] = {}
    for owner in owners():
        with spoken(owner.language):
            said[str(owner.pk)] = settled(request, text())
        card = {"request": request.public_id, "text": said[str(owner.pk)], "decided": True}
        show_in_web_chats(owner, card)
    for_others = settled(request, text())
    with transactions.atomic_write():
        notices = Delivery.objects.select_for_update().filter(
            dedupe_key__startswith=f"notice:request:{request.public_id}:"
        )
        for notice in notices.order_by("id"):
            owner_id = notice.dedupe_key.split(":")[-2]  # see `key_of`
            payload = {"text": said.get(owner_id, for_others)}
            if notice.payload != payload:  # a repeated press: the notice is up to date
                outbox.change(delivery=notice, payload=payload)


def trouble(*, account: ChannelAccount, chat: str, trouble: str, words: str) -> None:
    """Report a problem of this kind of a chat (or, without one, of the account) once a day.

    For a chat only when an allowed sender uses it: an unknown sender can open any number of chats
    (decision 139).
    """
    if chat and not is_used(account, chat):
        return
    now = timezone.now()
    today = int(now.timestamp()) // DAY_SECONDS
    for owner in owners():
        with spoken(owner.language):
            text = trouble_text(account, chat, WORDS.get(trouble, TROUBLE), words)
        key = f"notice:trouble:{account.pk}:{today}:{owner.pk}:{trouble}:{chat}"
        with transactions.atomic_write():
            # Not to the very chat that cannot be reached, nor into the queue of an account that
            # delivers nothing until the owner has acted.
            away = None if chat else account.pk
            send(owner, key=key[:180], text=text, besides=(account.pk, chat), away=away)


def moved(*, account: ChannelAccount, chat: str, new_chat: str) -> None:
    """Move what belongs to a chat to its new id; report that first, while the old id is known."""
    trouble(account=account, chat=chat, trouble="migrated", words=f"now {new_chat}")
    outbox.moved(account_id=account.pk, chat=chat, new_chat=new_chat)


def trouble_text(account: ChannelAccount, chat: str, what: str, words: str) -> str:
    """Return the notice of a problem of a chat, or, without one, of an account."""
    where = str(account)
    if chat:
        said = gettext("{account}, chat {chat}")
        where = said.format(account=account, chat=one_line(chat, SENDER_LENGTH))
    return f"{where}: {gettext(what)} ({one_line(words, 200)})."


def clock_set_back(*, by: timedelta, now: datetime) -> None:
    """Notify the owners of identities and keys that are valid again because the clock was set back.

    Silent when there are none. Once an hour, in any number of processes.
    """
    again = Q(expires_at__gt=now, expires_at__lte=now + by)
    count = ChannelIdentity.objects.filter(again).count()
    count += ApiKey.objects.filter(again, revoked_at=None).count()
    if not count:
        return
    for owner in owners():
        with spoken(owner.language):
            text = gettext(
                "The clock of this machine was set back by {minutes} min. Identities and keys that "
                "had expired and are valid again until the clock reaches their end: {count}."
            ).format(minutes=round(by.total_seconds() / 60), count=count)
        key = f"notice:clock:{owner.pk}:{int(now.timestamp()) // 3600}"
        with transactions.atomic_write():
            send(owner, key=key, text=text)


def model_health(*, now: datetime) -> None:
    """Notify the owners once that the model fails, and once that it answers again. A chore.

    For a model that alternates, once an hour; the next notice gives the current state.
    """
    health.look()
    if not health.has_unreported():
        return
    hour = int(now.timestamp()) // 3600
    people = owners()
    accounts = list(ChannelAccount.objects.values_list("pk", flat=True))

    def key(code: str, *, is_over: bool) -> str:
        return f"notice:model:{hour}:{code}:{'over' if is_over else 'begun'}"

    def is_sent(row: ModelTrouble) -> bool:
        name = key(row.code, is_over=row.since is None)
        sent = [f"{name}:{owner.pk}:{each}"[:200] for owner in people for each in accounts]
        return Delivery.objects.filter(dedupe_key__in=sent).exists()

    with transactions.atomic_write():
        for row, is_over in health.to_report(unless=is_sent):
            text = partial(model_text, row, is_over=is_over)
            notify(text, key=key(row.code, is_over=is_over))


def model_text(row: ModelTrouble, *, is_over: bool) -> str:
    """Return the notice that the model fails, or answers again."""
    if is_over:
        return gettext("The model answers again; it had failed ({code}).").format(code=row.code)
    said = gettext("The model fails ({code}).").format(code=", ".join([row.code, *asked(row)]))
    return f"{said} {advice(row.code, row.reason)}"


def asked(row: ModelTrouble) -> list[str]:
    """Return the models that a failed run had, where there are more than one to look at."""
    known = catalogue.current()
    if row.run is None or len(known.models) < 2:
        return []
    chain = known.chain_of(row.run.assistant_id, first=row.run.model_id)
    return [f"{each.provider.name}: {each.name}" for each in chain]


def advice(code: str, reason: str) -> str:
    """Return what an owner can do about a failure of a model, and what its server says."""
    kind = KINDS.get(code, OWN)
    if not reason:
        return gettext(kind.owner)
    says = gettext("The server says: “{reason}”").format(reason=one_line(reason, 200))
    return f"{gettext(kind.owner)} {says}"


def is_used(account: ChannelAccount, chat: str) -> bool:
    """Return whether an allowed sender has used the chat."""
    rows = ChatSession.objects.filter(account=account, chat=chat)
    return rows.filter(closed_at__isnull=True, for_agent=False).exists()


def headline(request: UnknownRequest) -> str:
    """Return the fixed line of [A5], with the sender's id cut and on one line."""
    return f"{subject(request)} {gettext('Approve it to let them in.')}"


def subject(request: UnknownRequest) -> str:
    sender = one_line(request.sender, SENDER_LENGTH)
    said = gettext("Unknown request from {channel}: user_id={sender}.")
    return said.format(channel=request.account.channel, sender=sender)


def settled(request: UnknownRequest, verdict: str) -> str:
    """Return the text of a notice after the decision."""
    return f"{subject(request)}\n{verdict}"


def quote(request: UnknownRequest) -> str:
    """Return the sender's name and last message, marked as a quotation; empty for none."""
    said = ": ".join(part for part in (request.sender_name, request.last_text) if part)
    return gettext("They say: “{text}”").format(text=one_line(said, 200)) if said else ""


def buttons(request: UnknownRequest) -> Buttons:
    """Return rows of buttons; each carries the choice and the single-use id (≤ 64 bytes)."""
    made = [
        {"text": gettext(label), "data": f"{choice}:{request.public_id}"}
        for label, choice in BUTTONS
    ]
    return [made[:2], made[2:]]


def owners() -> list[User]:
    """Return the active owners."""
    return list(User.objects.filter(is_owner=True, is_active=True).select_related("last_account"))


def notify(said: Callable[[], str], *, key: str, away: int | None = None) -> None:
    """Notify every owner in their language, where possible not on the account ``away``."""
    for owner in owners():
        with spoken(owner.language):
            text = said()
        show_in_web_chats(owner, {"text": text})
        send(owner, key=f"{key}:{owner.pk}", text=text, away=away)


def send(
    owner: User,
    *,
    key: str,
    text: str,
    besides: tuple[int, str] | None = None,
    away: int | None = None,
    rows: Buttons | None = None,
    page: str = "",
) -> None:
    """Send a notice to the owner's last-used channel, or, where that cannot push, to each other one
    ([A5]); nothing when there is none.

    ``besides``: (account, chat) to leave out. ``away``: an account that currently delivers nothing,
    left out where there is another. ``rows``: of buttons; ``page``: the address of the action's
    page, for channels without buttons.
    """
    for target in notice_targets.of(owner, besides=besides, away=away):
        block = block_of(target.channel, text, rows, page)
        put(target, key=f"{key}:{target.account.pk}"[:200], payload=block)


def put(target: notice_targets.Target, *, key: str, **block: Unpack[outbox.BlockFields]) -> None:
    """Queue a notice in the outbox, once for each ``key``. Inside a transaction."""
    account_id, chat, thread = target.account.pk, target.chat, target.thread
    outbox.enqueue_in_chat(key=key, account_id=account_id, chat=chat, thread=thread, **block)


def block_of(channel: Channel, text: str, rows: Buttons | None, page: str) -> Block:
    """Return a text with buttons, or, for a channel without, with the address of the page."""
    if not rows:
        return {"text": text}
    if Capability.BUTTONS in channel.capabilities:
        return {"text": text, "buttons": rows}
    return {"text": f"{text}\n{settings.GATEWAY_URL}{page}"}


def request_block(channel: Channel, owner: User, text: str, request: UnknownRequest) -> Block:
    """Return a text with buttons, or with a link to the decision, created on sending."""
    if Capability.BUTTONS in channel.capabilities:
        return {"text": text, "buttons": buttons(request)}
    return secret_blocks.with_decision_link(text, request=request.public_id, owner=owner.pk)


def show_in_web_chats(owner: User, card: dict[str, Any]) -> None:
    """Show the card in the owner's open web chats, after the commit."""
    frame: pubsub.Frame = {"keys": [f"user:{owner.pk}"], "kind": "notice", "notice": card}
    transaction.on_commit(partial(pubsub.publish, [frame]))
