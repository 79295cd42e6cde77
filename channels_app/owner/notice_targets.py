"""Find where to send an owner's notices ([A4], [A5]): the last-used channel, else each other
one.
"""

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
    """One chat of an owner on a channel that can push."""

    account: ChannelAccount
    channel: Channel
    chat: str
    thread: str = ""


def of(
    owner: User, *, besides: tuple[int, str] | None = None, away: int | None = None
) -> list[Target]:
    """Return where a notice is sent: the last-used channel if it can push, else every other one.

    ``besides``: (account, chat) to leave out. ``away``: an account that currently delivers nothing;
    used only for an owner without another one.
    """

    def is_right(found: Target) -> bool:
        return (found.account.pk, found.chat) != besides and found.account.pk != away

    last = last_used(owner)
    if last is not None and is_right(last):
        return [last]
    found = [each for each in all_of(owner) if is_right(each)]
    return found if found or away is None else of(owner, besides=besides)


def last_used(owner: User) -> Target | None:
    """Return the owner's last-used channel; ``None`` when it cannot push."""
    if owner.last_account is None:
        return None
    chat, thread = owner.last_target.get("chat", ""), owner.last_target.get("thread", "")
    return target(owner, owner.last_account, chat, thread)


def all_of(owner: User) -> list[Target]:
    """Return one chat of the owner for each account that can push: the most recently used."""
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
    """Return the chat as a target; ``None`` for a group, for a channel that cannot push, and for a
    chat whose last sender is no longer the owner.
    """
    channel = registry.get(account.channel)
    if channel is None or not chat or registry.is_group(channel, chat):
        return None
    if not sending.can_push(account):
        return None
    if not is_theirs(owner, account, chat):
        return None
    return Target(account, channel, chat, thread)


def is_theirs(owner: User, account: ChannelAccount, chat: str) -> bool:
    """Return whether the chat's last sender for this owner is still on this owner's list.

    With an open list any sender speaks as its user, and an identity may have been removed.
    """
    said = InboundMessage.objects.filter(
        session__account=account, session__chat=chat, session__user=owner
    )
    last = said.order_by("-id").first()
    if last is None:
        return owner.only_listed
    if not last.sender:  # authenticated by the user's own credential
        return True
    sender = permissions.Sender(account, last.kind, last.sender)
    decision = permissions.decide(sender=sender, now=timezone.now())
    return decision.rule == "listed" and decision.user == owner
