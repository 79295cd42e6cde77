"""Optional automatic replies to unknown senders: one neutral line, and one after an approval.

Both lines are settings, and the ``config`` of an account may override them (``denied_reply``,
``approved_reply``; an empty text sends nothing). Only channels that can push send them.
"""

from datetime import datetime, timedelta

from django.conf import settings
from django.db.models import DateTimeField

from allowlist.models import UnknownRequest
from channels_app import registry
from core.conversations import outbox
from core.database.queries import Param, Values
from core.models import ChannelAccount

DENIED = "denied:"  # of the keys that keep the neutral line the only one
MOST_CHARACTERS = 1000
# A flood of unknown senders must not cause a flood of replies: the platform would mute the bot.
LINES_AN_HOUR = 60
ANSWERED_BETWEEN = Values(
    lambda: UnknownRequest.objects.filter(
        answered_at__gt=Param("since", DateTimeField()),
        answered_at__lte=Param("now", DateTimeField()),
    ).values_list("id")[:LINES_AN_HOUR]
)


def send_denied_reply(request: UnknownRequest, *, now: datetime) -> None:
    """Send the neutral line, once per sender ([A3]). Inside the message's transaction."""
    if request.state != UnknownRequest.State.PENDING or request.answered_at or request.is_group:
        return
    line = text(request.account, "denied_reply", settings.STRANGER_DENIED_REPLY)
    if not line:
        return
    if len(ANSWERED_BETWEEN(since=now - timedelta(hours=1), now=now)) == LINES_AN_HOUR:
        return
    UnknownRequest.objects.filter(pk=request.pk).update(answered_at=now)
    send(request, key=f"{DENIED}{request.account_id}:{request.sender}", line=line)


def send_approved_reply(request: UnknownRequest) -> None:
    """Send the approval line, before held messages are answered. Inside the decision ([A7])."""
    line = text(request.account, "approved_reply", settings.STRANGER_APPROVED_REPLY)
    if line and not request.is_group:
        send(request, key=f"approved:{request.public_id}", line=line)


def text(account: ChannelAccount, name: str, default: str) -> str:
    """Return the line of this account; empty to send nothing."""
    return str(account.config.get(name, default) or "").strip()[:MOST_CHARACTERS]


def send(request: UnknownRequest, *, key: str, line: str) -> None:
    """Send ``line`` to the sender's chat, once for ``key``; never to a group."""
    channel = registry.get(request.account.channel)
    if channel is None or not request.chat or registry.is_group(channel, request.chat):
        return
    outbox.enqueue_in_chat(
        key=key[:200],
        account_id=request.account_id,
        chat=request.chat,
        payload={"text": line},
    )
