"""What the gateway tells its owners: unknown senders ([A5]), and chats and accounts in trouble.

A notice goes to the owner's last-used channel ([A4]) through the outbox, once; an open web chat of
an owner gets it too. What strangers wrote is cut, on one line, marked as theirs, and never markup.
"""

from datetime import datetime, timedelta
from functools import partial
from typing import Any

from django.conf import settings
from django.db import transaction
from django.utils import timezone

from allowlist import sign_in, waiting
from allowlist.models import UnknownRequest
from channels_app import registry, sending
from channels_app.base import Block, Capability, Channel
from core import db, hub, outbox
from core.models import ChannelAccount, ChatSession, Delivery, User
from core.text import one_line

HOURLY = 5
DAY_SECONDS = 86_400
TOLD = "SELECT count(*) FROM allowlist_unknownrequest WHERE notified_at > %s"
# Staff see who waits there; an owner who is no staff gets the chat, with the same cards.
WAITING_PAGE = "/admin/allowlist/unknownrequest/"
SENDER_LENGTH = 64
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
    digest. Inside the transaction that recorded the request."""
    waits = request.state == UnknownRequest.State.PENDING and request.notified_at is None
    if not (waits and settings.NOTIFY_UNKNOWN_REQUEST):
        return
    hour_ago = now - timedelta(hours=1)
    if db.value_of(TOLD, hour_ago) >= HOURLY:
        if request.count == 1:  # a flood repeats itself; its first words are enough to tell of it
            digest(now)
        return
    UnknownRequest.objects.filter(pk=request.pk).update(notified_at=now)
    waiting.knocked(request)
    for owner in owners():
        card = {"request": request.public_id, "text": headline(request), "quote": quote(request)}
        tell_web(owner, card)
        tell(
            owner,
            key=f"notice:request:{request.public_id}:{owner.pk}",
            text=f"{headline(request)}\n{quote(request)}".strip(),
            buttons=buttons(request),
            now=now,
        )


def digest(now: datetime) -> None:
    """One line an hour when more strangers knock than an owner wants to hear of."""
    for owner in owners():
        tell(
            owner,
            key=f"notice:digest:{owner.pk}:{int(now.timestamp()) // 3600}",
            text="More unknown senders are waiting. They are listed in the admin.",
            now=now,
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
        if owner.last_account_id == account.pk and owner.last_target.get("chat") == chat:
            continue  # it would go to the very chat that cannot be reached
        key = f"notice:trouble:{account.pk}:{today}:{owner.pk}:{trouble}:{chat}"
        with transaction.atomic():
            tell(owner, key=key[:200], text=text, now=now)


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


def buttons(request: UnknownRequest) -> list[list[dict[str, str]]]:
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
    now: datetime,
    buttons: list[list[dict[str, str]]] | None = None,
    page: str = WAITING_PAGE,
) -> None:
    """Send a notice to where the owner last spoke, if that channel can be written to.

    ``page``: where the owner does what the buttons do, on a channel without buttons.
    """
    account = owner.last_account
    channel = registry.get(account.channel) if account is not None else None
    chat = owner.last_target.get("chat", "")
    if account is None or channel is None or not chat or not sending.can_push(account):
        return
    if channel.is_group(chat):
        return  # an owner's business is not for a group
    thread = owner.last_target.get("thread", "")
    outbox.enqueue(
        key=key,
        account_id=account.pk,
        conversation=outbox.conversation(account_id=account.pk, chat=chat, thread=thread),
        target={"chat": chat, "thread": thread, "reply_to": ""},
        payload=block(channel, owner, text, buttons, now, page=page),
    )


def block(
    channel: Channel,
    owner: User,
    text: str,
    buttons: list[list[dict[str, str]]] | None,
    now: datetime,
    *,
    page: str,
) -> Block:
    """A plain text with buttons; where there are none, with a link that signs the owner in once."""
    if not buttons:
        return {"text": text}
    if Capability.BUTTONS in channel.capabilities:
        return {"text": text, "buttons": buttons}
    token = sign_in.create(user=owner, now=now)
    return {"text": f"{text}\n{settings.GATEWAY_URL}/sign-in/{token}?next={page}"}


def tell_web(owner: User, card: dict[str, Any]) -> None:
    """Show the card in the owner's open web chats, after the commit."""
    frame: hub.Frame = {"keys": [f"user:{owner.pk}"], "kind": "notice", "notice": card}
    transaction.on_commit(partial(hub.publish, [frame]))
