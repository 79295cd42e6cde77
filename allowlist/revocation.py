"""End open connections and runs when access is revoked ([A9]).

Open sockets and streams listen for the pubsub keys ``user:<id>`` and ``key:<id>``; a frame of kind
``revoked`` makes them check their credential again. A frame may be lost, so they also check
periodically; queued and running runs are ended in the database.
"""

from collections.abc import Callable
from datetime import datetime, timedelta
from functools import partial

from django.db import transaction
from django.db.models import DateTimeField, Q, QuerySet
from django.utils import timezone

from allowlist import schedule_grants
from allowlist.identities import InvalidIdentity, normalise
from allowlist.models import ApiKey
from allowlist.permissions import Sender, decide, is_group_listed
from allowlist.turn_starts import first_of
from core.conversations import inbox, push_subscriptions, runs, tool_calls
from core.database.queries import Instances, Param
from core.database.transactions import atomic_write
from core.models import (
    ChannelAccount,
    ChannelIdentity,
    ChatSession,
    InboundMessage,
    McpConnection,
    Run,
    Schedule,
)
from core.signals import pubsub
from core.tools.mcp.oauth import connections

# The chore looks back further than its period, so that a slow sweep misses no expiry.
LOOK_BACK = timedelta(minutes=2)
# The note of a message that waited for more, and becomes no run.
ENDED = "the access of its sender has ended"


def end_user(*, user_id: int) -> None:
    """End a removed user's connections, runs and accounts at MCP servers."""
    _publish_revoked(f"user:{user_id}")
    push_subscriptions.forget(user_id=user_id)
    _drop(Q(user=user_id))
    runs.cancel_all_of(user_id=user_id)
    end_questions(user_id=user_id)
    connections.remove(McpConnection.objects.filter(user=user_id))
    schedule_grants.stop_of_user(user_id, now=timezone.now())


def end_questions(*, user_id: int) -> None:
    """Take back the questions of a person. Before rows of the audit in the same transaction: a
    decision locks the question first, and then the audit.
    """
    with atomic_write(joins=True):
        tool_calls.withdraw(user_id=user_id)


def check_sessions(*, user_id: int) -> None:
    """Let the open sockets of a user check their credentials: a session of the user has ended, by a
    sign-out, by another user's sign-in in that browser, or by a new password.
    """
    _publish_revoked(f"user:{user_id}")


def end_identity(*, user_id: int, kind: str, value: str, now: datetime | None = None) -> None:
    """End the runs of senders that this identity allowed as this user, and that no other identity
    allows at ``now``, and those that were asked for in a group that it listed, and drop such
    messages that wait for more; sockets check their credentials again.
    """
    _publish_revoked(f"user:{user_id}")
    moment = now or timezone.now()
    _drop(Q(user=user_id), unless=lambda each: _is_let_in(each, user_id, value, moment))
    # A run that goes on after a pause has no messages of its own.
    begun = Run.objects.filter(user_id=user_id)
    _cancel(begun, unless=lambda run: _may_still_speak(first_of(run), kind, value, moment))
    if kind == "im":
        here = _open_sessions_of(value)
        _drop(Q(id__in=here), unless=lambda each: _is_group_let_in(each, value, moment))
        in_chat = Run.objects.filter(session__in=here)
        _cancel(in_chat, unless=lambda run: _may_group_still_ask(first_of(run), value, moment))
    schedule_grants.stop_of_user(user_id, now=moment)
    schedule_grants.stop_without_grant(Schedule.objects.filter(group=value), now=moment)


def end_open_lists(*, user_id: int) -> None:
    """End the runs of senders whom only the open lists of this person let in, which are closed now,
    and drop such messages that wait for more.
    """
    now = timezone.now()

    def is_let_in(message: InboundMessage) -> bool:
        return not message.sender or _is_allowed(message, user_id, now)

    _drop(Q(user=user_id), unless=is_let_in)
    _cancel(
        Run.objects.filter(user_id=user_id),
        unless=lambda run: all(
            map(is_let_in, first_of(run).inbound.select_related("account").order_by("id"))
        ),
    )


def end_key(*, key: ApiKey) -> None:
    """Close connections opened with ``key`` and end the runs that it started, no others."""
    _publish_revoked(f"key:{key.pk}", *([f"user:{key.user_id}"] if key.user_id else []))
    # One that goes on after a pause has no messages of its own.
    _cancel(Run.objects.filter(Q(inbound__via_key=key.pk) | Q(continues__run__via_key=key.pk)))
    rows = Schedule.objects.filter(via_key=key.pk, via_key__gt=0)  # as the partial index has it
    schedule_grants.stop_without_grant(rows, now=timezone.now())


def within() -> Q:
    """Return the condition that a right has ended after ``since``, until ``now``."""
    since, now = Param("since", DateTimeField()), Param("now", DateTimeField())
    return Q(expires_at__gt=since, expires_at__lte=now)


IDENTITIES = Instances(lambda: ChannelIdentity.objects.filter(within()).order_by("id"))
KEYS = Instances(lambda: ApiKey.objects.filter(within(), revoked_at=None).order_by("id"))


def end_expired(*, now: datetime) -> int:
    """End what has expired lately, or since the oldest unanswered request came (the gateway may
    have been off), as if it had been revoked. A chore; idempotent.

    Returns how many identities and keys it checked.
    """
    since = min(now, runs.oldest_to_answer() or now) - LOOK_BACK
    identities = IDENTITIES.all(since=since, now=now)
    keys = KEYS.all(since=since, now=now)
    for identity in identities:
        end_identity(user_id=identity.user_id, kind=identity.kind, value=identity.value, now=now)
    for key in keys:
        end_key(key=key)
    return len(identities) + len(keys)


def _may_still_speak(run: Run, kind: str, value: str, now: datetime) -> bool:
    """Return whether a run may go on without the identity ``value``."""
    messages = run.inbound.filter(kind=kind).select_related("account")
    return all(_is_let_in(each, run.user_id, value, now) for each in messages)


def _is_let_in(message: InboundMessage, user_id: int, value: str, now: datetime) -> bool:
    """Return whether a message did not come from ``value``, or its sender is still allowed as the
    user: by another identity, or on another account.
    """
    return not _same(message, value) or _is_allowed(message, user_id, now)


def _is_allowed(message: InboundMessage, user_id: int, now: datetime) -> bool:
    """Return whether the sender of a message may speak as the user."""
    decision = decide(sender=Sender(message.account, message.kind, message.sender), now=now)
    return decision.user is not None and decision.user.pk == user_id


def _open_sessions_of(chat: str) -> list[int]:
    """Return the open conversations of a chat, on any account: by the index of open ones."""
    accounts = list(ChannelAccount.objects.values_list("pk", flat=True))
    rows = ChatSession.objects.filter(
        account__in=accounts, chat=chat, closed_at__isnull=True, for_agent=False
    )
    return list(rows.values_list("pk", flat=True))


def _may_group_still_ask(run: Run, group: str, now: datetime) -> bool:
    """Return False for a run that was asked for in a group of this id that is not listed."""
    message = run.inbound.select_related("account").order_by("-id").first()
    return message is None or _is_group_let_in(message, group, now)


def _is_group_let_in(message: InboundMessage, group: str, now: datetime) -> bool:
    """Return False for a message that was sent in a group of this id that is not listed."""
    if message.chat != group or message.sender == group:
        return True
    return is_group_listed(account=message.account, group=group, now=now)


def _same(message: InboundMessage, value: str) -> bool:
    channel = message.account.channel
    try:
        return normalise(kind=message.kind, value=message.sender, channel=channel) == value
    except InvalidIdentity:
        return False


def _drop(sessions: Q, *, unless: Callable[[InboundMessage], bool] = lambda _: False) -> None:
    """Drop messages that wait for more in these sessions. Before runs are ended: a message that is
    becoming one at this moment is waited for, and its run is seen.
    """
    waiting = inbox.in_batches(sessions).select_related("account")
    ended = [each.pk for each in waiting if not unless(each)]
    if ended:
        with atomic_write(joins=True):
            inbox.drop(InboundMessage.objects.filter(pk__in=ended), note=ENDED)


def _cancel(which: QuerySet[Run], *, unless: Callable[[Run], bool] = lambda _: False) -> None:
    """Cancel the open runs among ``which``."""
    for run in which.filter(state__in=Run.UNFINISHED).distinct().order_by("id"):
        if not unless(run):
            runs.request_cancel(run=run)


def _publish_revoked(*keys: str) -> None:
    frame: pubsub.Frame = {"keys": list(keys), "kind": "revoked"}
    transaction.on_commit(partial(pubsub.publish, [frame]))
