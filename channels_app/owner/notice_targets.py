"""Where an owner can be written to ([A4], [A5]): the last-used channel, else each other one."""

from dataclasses import dataclass

from django.utils import timezone

from allowlist import permissions
from channels_app import registry
from channels_app.base import Channel
from channels_app.delivery import sending
from core.models import ChannelAccount, ChatSession, InboundMessage, User

LATEST = 20


@dataclass(frozen=True, slots=True)
class Target:
    """One chat of an owner on a channel that can be written to."""

    account: ChannelAccount
    channel: Channel
    chat: str
    thread: str = ""


def of(
    owner: User, *, besides: tuple[int, str] | None = None, away: int | None = None
) -> list[Target]:
    """Where a notice goes: the last-used channel if it can be written to, else every other one.

    ``besides``: (account, chat) to which nothing is to be sent. ``away``: an account that delivers
    nothing now; it is told there only where the owner has no other.
    """

    def is_right(found: Target) -> bool:
        return (found.account.pk, found.chat) != besides and found.account.pk != away

    last = last_used(owner)
    if last is not None and is_right(last):
        return [last]
    found = [each for each in all_of(owner) if is_right(each)]
    return found if found or away is None else of(owner, besides=besides)


def last_used(owner: User) -> Target | None:
    """The owner's last-used channel; ``None`` when it cannot be written to."""
    if owner.last_account is None:
        return None
    chat, thread = owner.last_target.get("chat", ""), owner.last_target.get("thread", "")
    return target(owner, owner.last_account, chat, thread)


def all_of(owner: User) -> list[Target]:
    """One chat of the owner on each account that can be written to: the one spoken in last."""
    found: dict[int, Target] = {}
    last = last_used(owner)
    if last is not None:
        found[last.account.pk] = last
    for account in ChannelAccount.objects.filter(enabled=True).order_by("pk"):
        if account.pk in found or not sending.can_push(account):
            continue
        sessions = ChatSession.objects.filter(
            account=account, user=owner, closed_at__isnull=True, for_agent=False
        )
        for row in sessions.order_by("-last_message_at", "-id")[:LATEST]:
            there = target(owner, account, row.chat, row.thread)
            if there is not None:
                found[account.pk] = there
                break
    return list(found.values())


def target(owner: User, account: ChannelAccount, chat: str, thread: str) -> Target | None:
    """The chat as a target; ``None`` for a group, for a channel that cannot be written to, and for
    a chat in which it is not the owner any more who speaks."""
    channel = registry.get(account.channel)
    if channel is None or not chat or channel.is_group(chat) or not sending.can_push(account):
        return None
    if not is_theirs(owner, account, chat):
        return None
    return Target(account, channel, chat, thread)


def is_theirs(owner: User, account: ChannelAccount, chat: str) -> bool:
    """Whether the last who spoke there as this owner is still listed as this owner.

    An open list lets strangers speak as its user, and an identity may have been removed.
    """
    said = InboundMessage.objects.filter(
        session__account=account, session__chat=chat, session__user=owner
    )
    last = said.order_by("-id").first()
    if last is None:
        return owner.only_listed
    if not last.sender:  # by a credential of the person
        return True
    sender = permissions.Sender(account, last.kind, last.sender)
    decision = permissions.decide(sender=sender, now=timezone.now())
    return decision.rule == "listed" and decision.user == owner
