"""What strangers are told, when the owner wants it: a neutral line once, and that they may speak.

Both lines are settings, and the ``config`` of an account may say otherwise (``denied_reply``,
``approved_reply``; an empty text says nothing). Only channels that can be written to say them.
"""

from datetime import datetime, timedelta

from django.conf import settings

from allowlist.models import UnknownRequest
from channels_app import registry
from core.conversations import outbox
from core.database import transactions
from core.models import ChannelAccount

MOST_CHARACTERS = 1000
# A flood of strangers must not become a flood of answers: the platform would mute the bot.
LINES_AN_HOUR = 60
ANSWERED = "SELECT count(*) FROM allowlist_unknownrequest WHERE answered_at > %s"


def turned_away(request: UnknownRequest, *, now: datetime) -> None:
    """The neutral line, once a sender ([A3]). Inside the transaction that held the message."""
    if request.state != UnknownRequest.State.PENDING or request.answered_at or request.is_group:
        return
    line = text(request.account, "denied_reply", settings.STRANGER_DENIED_REPLY)
    if not line:
        return
    if transactions.value_of(ANSWERED, now - timedelta(hours=1)) >= LINES_AN_HOUR:
        return
    UnknownRequest.objects.filter(pk=request.pk).update(answered_at=now)
    say(request, key=f"denied:{request.account_id}:{request.sender}", line=line)


def let_in(request: UnknownRequest) -> None:
    """ "You can talk to me now", before what was held is answered. Inside the decision ([A7])."""
    line = text(request.account, "approved_reply", settings.STRANGER_APPROVED_REPLY)
    if line and not request.is_group:
        say(request, key=f"approved:{request.public_id}", line=line)


def text(account: ChannelAccount, name: str, default: str) -> str:
    """The line of this account; empty when nothing is to be said."""
    return str(account.config.get(name, default) or "").strip()[:MOST_CHARACTERS]


def say(request: UnknownRequest, *, key: str, line: str) -> None:
    """Send ``line`` to where the sender wrote from, once for ``key``; never to a group."""
    channel = registry.get(request.account.channel)
    if channel is None or not request.chat or channel.is_group(request.chat):
        return
    outbox.enqueue_in_chat(
        key=key[:200],
        account_id=request.account_id,
        chat=request.chat,
        payload={"text": line},
    )
