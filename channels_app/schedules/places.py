"""Where the occurrences of a schedule go: the conversation in which it was made, else a private
chat of the person that can be written to.
"""

from dataclasses import dataclass

from channels_app import registry
from channels_app.asgi.builtin_accounts import builtin_account
from channels_app.base import Channel
from channels_app.delivery.sending import can_push
from channels_app.owner import notice_targets
from core.conversations import inbox
from core.models import ChannelAccount, ChatSession, Schedule, User

WEB = "web"
ELSEWHERE = "You asked for this on {0}, where I cannot write first."
GONE = "The chat in which you asked for this is gone."


@dataclass(frozen=True, slots=True)
class Place:
    """A conversation; ``channel`` None for the web chat, whose pages read the event log.

    ``note``: why it is another one than that of the schedule, in English; empty where it is not.
    """

    session: ChatSession
    channel: Channel | None
    note: str = ""


def place_of(schedule: Schedule) -> Place:
    """Return where a schedule's next occurrence goes. Inside a transaction.

    Opens a conversation where there is none: at last one in the web chat, which each person has.
    """
    own = own_place(schedule)
    if own is not None:
        return own
    return private_place(schedule.user, note=note_of(schedule.account))


def besides(session: ChatSession) -> Place:
    """Return another place for its person than a chat that takes no messages."""
    return private_place(session.user, left_out=(session.account_id, session.chat))


def private_place(user: User, *, note: str = "", left_out: tuple[int, str] | None = None) -> Place:
    """Return a private chat of a person that can be written to, at last one in the web chat."""
    for target in notice_targets.of(user, besides=left_out):
        session = inbox.open_session(
            user=user, account=target.account, chat=target.chat, thread=target.thread
        )
        return Place(session, target.channel, note)
    return Place(web_chat(user), None, note)


def note_of(account: ChannelAccount | None) -> str:
    """Return why a schedule that was made on an account goes elsewhere."""
    if account is None:
        return GONE
    channel = registry.get(account.channel)
    return ELSEWHERE.format(channel.name if channel is not None else account.channel.upper())


def own_place(schedule: Schedule) -> Place | None:
    """Return the conversation of a schedule; None where it cannot be written to."""
    session, account = schedule.session, schedule.account
    if account is None or not account.enabled:
        return None
    if session is not None and session.closed_at is not None:
        session = None
    if account.channel == WEB:
        return Place(session or web_chat(schedule.user), None)
    channel = registry.get(account.channel)
    if channel is None or not schedule.chat or not can_push(account):
        return None
    if session is None:
        session = inbox.open_session(
            user=schedule.user, account=account, chat=schedule.chat, thread=schedule.thread
        )
    return Place(session, channel)


def web_chat(user: User) -> ChatSession:
    """Return the person's latest conversation in the web chat, made if there is none."""
    rows = ChatSession.objects.filter(
        user=user, account__channel=WEB, closed_at__isnull=True, for_agent=False
    )
    newest = rows.select_related("account", "user").order_by("-last_message_at", "-id").first()
    return newest or inbox.open_session(user=user, account=builtin_account(WEB))
