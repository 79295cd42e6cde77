"""Unknown senders: recorded when denied ([A5]), decided once ([A6]), replayed once ([A7])."""

import secrets
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Literal

from django.conf import settings
from django.db.models import DateTimeField, Q, QuerySet, Value
from django.db.models.functions import Coalesce
from django.utils.translation import gettext, gettext_noop

from allowlist import audit, held_messages, patterns, pending_count
from allowlist.identities import NUMERIC_CHANNELS, InvalidIdentity, normalise
from allowlist.models import UnknownRequest
from allowlist.permissions import Sender, is_group_listed
from allowlist.permissions import decide as may_speak
from core.database import transactions
from core.database.queries import HasRows, Instances, Param
from core.lib.ids import public_id
from core.lib.text import clean, code_of, one_line, shown_words, visible
from core.models import ChannelAccount, ChannelIdentity, InboundMessage, User

Choice = Literal["approve", "approve_24h", "deny", "block"]
Replay = Callable[[list[InboundMessage]], None]
State = UnknownRequest.State

CHOICES: tuple[Choice, ...] = ("approve", "approve_24h", "deny", "block")
STATES: dict[str, str] = {
    "approve": State.APPROVED,
    "approve_24h": State.APPROVED,
    "deny": State.DENIED,
    "block": State.BLOCKED,
}
SHORT_GRANT = timedelta(hours=24)
# For every message of a flood.
OF_SENDER = Instances(
    lambda: UnknownRequest.objects.select_for_update().filter(
        account_id=Param("account"), kind=Param("kind"), sender=Param("sender")
    )
)
# Deletion order at the limit. Blocked ones stay: the row is the block.
EVICTED = (State.EXPIRED, State.DENIED, State.APPROVED, State.PENDING)


class RequestNotFound(LookupError):
    """The unknown request does not exist: a forged or an old button."""


class NotAnOwner(PermissionError):
    """A user who is not an owner tried to decide."""


DECIDED: Mapping[str, str] = {
    State.APPROVED: gettext_noop("Approved by {who} at {when} UTC{via}."),
    State.DENIED: gettext_noop("Denied by {who} at {when} UTC{via}."),
    State.BLOCKED: gettext_noop("Blocked by {who} at {when} UTC{via}."),
}
ALREADY: Mapping[str, str] = {
    State.APPROVED: gettext_noop("Already approved by {who} at {when} UTC{via}."),
    State.DENIED: gettext_noop("Already denied by {who} at {when} UTC{via}."),
    State.BLOCKED: gettext_noop("Already blocked by {who} at {when} UTC{via}."),
}


@dataclass(frozen=True, slots=True)
class Verdict:
    """The state of a request after a decision was requested.

    ``first``: this call decided. Otherwise the request has the earlier decision, its user, time and
    channel, or has expired. ``replayed`` is the number of held messages that run now, ``until`` the
    end of an approval for a while.
    """

    request: UnknownRequest
    first: bool
    replayed: int = 0
    until: datetime | None = None

    @property
    def text(self) -> str:
        """Return the verdict in one sentence, for the user who decided."""
        late = self.request.decided_at is not None and not self.first
        return self._said(ALREADY) if late else self.standing

    @property
    def standing(self) -> str:
        """Return the request's state in one sentence, for its notices."""
        return self._said(DECIDED)

    def _said(self, sentences: Mapping[str, str]) -> str:
        row = self.request
        if row.decided_at is None or row.state not in sentences:
            return gettext("This request has expired.")
        said = gettext(sentences[row.state]).format(
            who=row.decided_by or gettext("somebody"),
            when=f"{row.decided_at:%Y-%m-%d %H:%M}",
            via=gettext(" via {channel}").format(channel=row.decided_via),
        )
        if self.until is None:
            return said
        end = gettext("Valid until {when} UTC.").format(when=f"{self.until:%Y-%m-%d %H:%M}")
        return f"{said} {end}"


@dataclass(frozen=True, slots=True)
class DeniedMessage:
    """A denied message: its sender, the address that would have to be listed, its text.

    ``is_group``: the address is that of an unlisted group. There is one request per group, and
    approving it lists the group ([A3]).
    """

    account: ChannelAccount
    kind: str
    sender: str
    is_group: bool = False
    sender_name: str = ""
    chat: str = ""
    text: str = ""
    message: InboundMessage | None = None


def record(denied: DeniedMessage, *, now: datetime) -> UnknownRequest:
    """Record that a sender, or a group, was denied, in the transaction that stored the message.

    Messages of a group and of a blocked sender are not kept, and for a sender blocked by a pattern
    not even a row. When ``state`` returns as ``approved``, an owner approved meanwhile: check the
    rule again. Texts of unknown senders are cut and cleaned.
    """
    account, kind = denied.account, denied.kind
    address = _address(kind, denied.sender)
    with transactions.atomic_write():
        row = _locked(account, kind, address)
        # An owner may have approved it since the caller's check.
        if row is not None and row.state == State.APPROVED and _is_let_in(row, now):
            return row
        # Pending senders match no pattern: creating one denies them.
        known = row is not None and row.state == State.PENDING
        if not known and patterns.hit(account=account, kind=kind, sender=address, now=now):
            return _blocked_by_pattern(denied, address)
        if row is None:
            row = _new(denied, address, now)
        else:
            if _seen_again(row, now):
                pending_count.changed()
            _store_texts(row, denied)
            row.save()
        held_messages.bound(row, denied.message)
        if denied.message is not None:
            held_messages.bound_media(denied.message)
    return row


def decide(
    *,
    request: str,
    verdict: Choice,
    owner: User,
    via: str,
    now: datetime,
    replay: Replay,
    user: User | None = None,
    everywhere: bool = False,
) -> Verdict:
    """Decide the unknown request with the public id ``request``, once ([A6]).

    ``everywhere``: list an approved sender on every account of the channel, where ids have the same
    meaning on all of them (:func:`is_known_everywhere`), not on the request's account alone.

    Decision, identity and audit row are one transaction, and so is ``replay``, which gets the held
    messages, already ``received`` and with their user, in order. Without ``user`` approving creates
    a new user marked *only listed identities*. Raises ``RequestNotFound``, ``NotAnOwner`` (both are
    audited) and ``InvalidIdentity`` when the sender's id can never be listed.
    """
    subject = one_line(request, 40)
    _check_owner(owner, subject, via, now)
    with transactions.atomic_write():
        row = UnknownRequest.objects.filter(public_id=subject).first()
        changed = row is not None and _claim(row, STATES[verdict], owner, via, now)
        if row is not None and changed:
            approved = _Approval(verdict, owner, via, now, user, everywhere=everywhere)
            return _carry_out(row, approved, replay)
    if row is None:
        _refused(owner, subject, via, "no such request", now)
        raise RequestNotFound(gettext("this request does not exist"))
    row = _reload(row)
    return Verdict(row, first=False, until=end_of(row))


def choice(word: str) -> Choice:
    """Return ``word`` as a decision. Raises ``RequestNotFound`` for any other word."""
    for known in CHOICES:
        if word == known:
            return known
    raise RequestNotFound(gettext("there is no such decision"))


def overdue(now: Any) -> QuerySet[UnknownRequest]:
    """Return the undecided requests whose time is over ``now``."""
    return UnknownRequest.objects.filter(state=State.PENDING, expires_at__lte=now)


def has_just_begun(row: UnknownRequest) -> bool:
    """Return whether a request became pending by its latest message."""
    return row.expires_at == _expiry(row.last_seen_at)


ARE_OVERDUE = HasRows(lambda: overdue(Param("now", DateTimeField())))
ARE_HELD_TOO_LONG = HasRows(lambda: held_messages.received_until(Param("time", DateTimeField())))
EXPIRY_TIMES = transactions.FarTimes(
    lambda: UnknownRequest.objects.filter(state=State.PENDING), "expires_at"
)


def purge(*, now: datetime) -> int:
    """Expire undecided requests after 7 days, held messages after 24 h.

    Safe in any number of copies. Returns how many held messages lost their content.
    """
    held_messages.sweep(now=now)
    since = held_messages.since(now)
    if not (ARE_HELD_TOO_LONG(time=since) or ARE_OVERDUE(now=now)):
        return 0  # nearly always: the chore must not queue for the write lock every few seconds
    with transactions.atomic_write():
        old = held_messages.received_until(since).order_by("id")
        purged = held_messages.empty(old, "held for too long")
        rows = overdue(now)
        expired = list(rows.order_by("id").values_list("pk", flat=True)[: held_messages.AT_ONCE])
        rows.filter(pk__in=expired).update(state=State.EXPIRED, last_text="")
        if expired:
            pending_count.changed()
        for row in UnknownRequest.objects.filter(pk__in=expired):
            purged += held_messages.empty(held_messages.of(row), "the request expired")
    return purged


def bring_near() -> None:
    """Correct expiry times that are too far ahead: the clock was set back."""
    EXPIRY_TIMES.bring_near(most=timedelta(days=settings.UNKNOWN_REQUEST_DAYS))


def is_known_everywhere(row: UnknownRequest) -> bool:
    """Return whether the sender's id means the same person on each account of the channel: an
    e-mail address, a phone number, a Telegram id; not a group, and not an id of a bridge.
    """
    same = row.kind != "im" or row.account.channel in NUMERIC_CHANNELS
    return same and not row.is_group


def unknown_on(row: UnknownRequest, *, now: datetime) -> list[ChannelAccount]:
    """Return the channel's other enabled accounts that would still deny this sender."""
    if not is_known_everywhere(row):
        return []
    others = ChannelAccount.objects.filter(channel=row.account.channel, enabled=True)
    return [
        account
        for account in others.exclude(pk=row.account_id).order_by("pk")
        if not may_speak(sender=Sender(account, row.kind, row.sender), now=now).allowed
    ]


def extend(*, request: str, owner: User, via: str, now: datetime) -> UnknownRequest:
    """List the sender of an approved request on every account of the channel, with the expiry of
    the identity on the request's account. Audited.

    Raises ``RequestNotFound`` when there is nothing to extend, and ``NotAnOwner``.
    """
    _check_owner(owner, one_line(request, 40), via, now)
    with transactions.atomic_write():
        row = UnknownRequest.objects.filter(public_id=request, state=State.APPROVED).first()
        identity = _identity_of(row) if row is not None else None
        if row is None or identity is None or not is_known_everywhere(row):
            raise RequestNotFound(gettext("there is no approved sender to list elsewhere"))
        _list(row, identity.user, identity.expires_at, everywhere=True)
        data: dict[str, object] = {"via": via, "sender": f"{row.kind}:{row.sender}"}
        audit.record(
            actor=audit.actor_of(owner),
            action="request.everywhere",
            subject=row.public_id,
            data=data | {"user": identity.user_id, "until": identity.expires_at},
            now=now,
        )
    return row


def unblock(
    rows: QuerySet[UnknownRequest], *, owner: User, via: str, now: datetime
) -> list[UnknownRequest]:
    """Let the blocked senders among ``rows`` ask again: their requests expire, so that the next
    message makes each pending, unless a pattern denies it. Return those requests. Audited. Raises
    ``NotAnOwner``.
    """
    _check_owner(owner, "", via, now)
    with transactions.atomic_write():
        blocked = [
            row
            for row in rows.filter(state=State.BLOCKED).order_by("pk")
            if UnknownRequest.objects.filter(pk=row.pk, state=State.BLOCKED).update(
                state=State.EXPIRED,
                decided_at=None,
                decided_by=None,
                decided_via="",
                notice_at=None,
                notified_at=None,
            )
        ]
        for row in blocked:
            audit.record(
                actor=audit.actor_of(owner),
                action="request.unblock",
                subject=row.public_id,
                data={"via": via, "sender": f"{row.kind}:{row.sender}"},
                now=now,
            )
    return blocked


def end_of(row: UnknownRequest) -> datetime | None:
    """Return when an approval ends by itself; None for one without an end, and for none."""
    if row.state != State.APPROVED or row.granted_user is None:
        return None
    listed = row.granted_user.identities.filter(
        Q(account=row.account) | Q(account=None, channel=row.account.channel),
        kind=row.kind,
        value=row.sender,
    )
    ends = [each.expires_at for each in listed]
    return None if None in ends else max(filter(None, ends), default=None)


def _identity_of(row: UnknownRequest) -> ChannelIdentity | None:
    """Return the identity that the approval created, if it still exists."""
    return ChannelIdentity.objects.filter(
        user=row.granted_user, account=row.account, kind=row.kind, value=row.sender
    ).first()


@dataclass(frozen=True, slots=True)
class _Approval:
    """A decision with its parameters."""

    verdict: Choice
    owner: User
    via: str
    now: datetime
    user: User | None
    everywhere: bool


def _carry_out(row: UnknownRequest, asked: _Approval, replay: Replay) -> Verdict:
    """Carry out the decision that was just claimed."""
    verdict, owner, now = asked.verdict, asked.owner, asked.now
    data: dict[str, object] = {"via": asked.via, "sender": f"{row.kind}:{row.sender}"}
    messages: list[InboundMessage] = []
    until = now + SHORT_GRANT if verdict == "approve_24h" else None
    if row.state == State.APPROVED:
        person = _person(row, owner, asked.user)
        everywhere = asked.everywhere and is_known_everywhere(row)
        _list(row, person, until, everywhere=everywhere)
        UnknownRequest.objects.filter(pk=row.pk).update(granted_user=person)
        messages = held_messages.release(row, person, now)
        replay(messages)
        data |= {"user": person.pk, "until": until, "replayed": len(messages)}
        if everywhere:
            data["on"] = f"every account of {row.account.channel}"
    else:
        held_messages.empty(held_messages.of(row), row.state)
        UnknownRequest.objects.filter(pk=row.pk).update(last_text="")
    pending_count.changed()
    audit.record(
        actor=audit.actor_of(owner),
        action=f"request.{verdict}",
        subject=row.public_id,
        data=data,
        now=now,
    )
    return Verdict(_reload(row), first=True, replayed=len(messages), until=until)


def _claim(row: UnknownRequest, state: str, owner: User, via: str, now: datetime) -> bool:
    """Move ``row`` out of pending; only one caller succeeds."""
    changed = UnknownRequest.objects.filter(
        public_id=row.public_id, state=State.PENDING, expires_at__gt=now
    ).update(
        state=state,
        decided_at=now,
        decided_by=owner,
        decided_via=via[:32],
        # An owner knows of it, however it was delivered: no worker has to look after its notice.
        notified_at=Coalesce("notified_at", Value(now)),
    )
    if changed:
        row.state = state
    return changed == 1


def _person(row: UnknownRequest, owner: User, user: User | None) -> User:
    """Return the user for the approved sender: the given one, the earlier one, or a new one."""
    if user is not None:
        return user
    if row.is_group:
        return owner  # a group has several members: the owner vouches for it
    if row.granted_user is not None and row.granted_user.is_active:
        return row.granted_user
    person = User(
        username=f"{row.account.channel}-{secrets.token_hex(5)}",
        display_name=row.sender_name or one_line(row.sender, 100),
        only_listed=True,
    )
    person.set_unusable_password()
    person.save()
    return person


def _list(row: UnknownRequest, person: User, until: datetime | None, *, everywhere: bool) -> None:
    """List the sender ([A2]) here, or on every account of the channel; forever unless ``until``."""
    value = normalise(kind=row.kind, value=row.sender, channel=row.account.channel)
    ChannelIdentity.objects.update_or_create(
        user=person,
        kind=row.kind,
        account=None if everywhere else row.account,
        channel=row.account.channel,
        value=value,
        defaults={"expires_at": until},
    )


def _is_let_in(row: UnknownRequest, now: datetime) -> bool:
    """Return whether the rule lets in the sender, or the group, of a request."""
    if row.is_group:
        return is_group_listed(account=row.account, group=row.sender, now=now)
    return may_speak(sender=Sender(row.account, row.kind, row.sender), now=now).allowed


def _new(denied: DeniedMessage, address: str, now: datetime) -> UnknownRequest:
    """Create the row of a first message."""
    _evict_surplus()
    made = UnknownRequest(account=denied.account, kind=denied.kind, sender=address)
    made.is_group = denied.is_group
    made.first_seen_at = made.last_seen_at = now
    made.expires_at = _expiry(now)
    made.count = 1
    _store_texts(made, denied)
    UnknownRequest.objects.bulk_create([made], ignore_conflicts=True)
    row = _locked(denied.account, denied.kind, address)
    assert row is not None  # noqa: S101 - it was there, or it was made
    if row.public_id != made.public_id:  # another process was first
        _seen_again(row, now)
        _store_texts(row, denied)
        row.save()
    pending_count.changed()
    return row


def _store_texts(row: UnknownRequest, denied: DeniedMessage) -> None:
    """Store the latest name, chat and text, unless the sender is blocked."""
    if row.state != State.BLOCKED:
        row.sender_name = one_line(denied.sender_name, 200) or row.sender_name
        row.chat = clean(denied.chat)[:128] or row.chat
        row.last_text = one_line(shown_words(denied.text), 200) or row.last_text


def _blocked_by_pattern(denied: DeniedMessage, address: str) -> UnknownRequest:
    """Drop a message that a pattern denies: return a blocked request that is not stored."""
    if denied.message is not None:
        held_messages.delete(denied.message)
    return UnknownRequest(
        account=denied.account, kind=denied.kind, sender=address, state=State.BLOCKED
    )


def _locked(account: ChannelAccount, kind: str, sender: str) -> UnknownRequest | None:
    """Return the row of a sender, locked until the transaction ends."""
    row = OF_SENDER.first(account=account.pk, kind=kind, sender=sender)
    if row is not None:
        row.account = account
    return row


def _seen_again(row: UnknownRequest, now: datetime) -> bool:
    """Count one more message; an ended request, unless blocked, becomes pending. Return whether it
    became pending.

    A request that is pending again gets a new public id: old buttons stay invalid ([A6], single
    use). One that an owner has denied causes no new notice, neither now nor after it expired: that
    notice had its answer ([A5]).
    """
    row.count += 1
    row.last_seen_at = now
    waits = row.state == State.PENDING and row.expires_at > now
    if waits or row.state == State.BLOCKED:
        return False
    if row.state == State.APPROVED or is_told(row):
        row.notice_at = row.notified_at = None
    row.state = State.PENDING
    row.public_id = public_id()
    row.expires_at = _expiry(now)
    row.decided_at = row.decided_by = None
    row.decided_via = ""
    return True


def is_told(row: UnknownRequest) -> bool:
    """Return whether the owner was told of this request in its own days: by a notice or a page, not
    by the notice or the decision of an earlier one.
    """
    told_at = row.notice_at or row.notified_at
    if row.state == State.DENIED or told_at is None:
        return False
    return _expiry(told_at) >= row.expires_at


def _evict_surplus() -> None:
    """Delete the least useful rows at the limit, before a new one.

    One in a hundred is deleted at once, so that not every further sender causes a search.
    """
    surplus = UnknownRequest.objects.count() + 1 - settings.UNKNOWN_REQUESTS_MAX
    if surplus > 0:
        surplus += settings.UNKNOWN_REQUESTS_MAX // 100
    for state in EVICTED:
        if surplus <= 0:
            return
        rows = UnknownRequest.objects.filter(state=state)
        oldest = list(rows.order_by("last_seen_at").values_list("pk", flat=True)[:surplus])
        # Before its messages, as a decision; one that is being decided stays.
        locked = list(rows.filter(pk__in=oldest).order_by("pk").select_for_update(skip_locked=True))
        for row in locked:
            held_messages.of(row).delete()
        gone, _ = UnknownRequest.objects.filter(pk__in=[row.pk for row in locked]).delete()
        surplus -= gone


def _address(kind: str, sender: str) -> str:
    """Return the normalised ``sender``; an invalid one as one clean line, which is no valid one
    either: another sender may have that.
    """
    try:
        return normalise(kind=kind, value=sender)
    except InvalidIdentity:
        shown = visible(sender.strip()).replace("\n", code_of("\n")).replace("\t", code_of("\t"))
        return one_line(shown, 200)


def _check_owner(owner: User, subject: str, via: str, now: datetime) -> None:
    """Raise NotAnOwner, audited, for a user who does not decide."""
    if not (owner.is_owner and owner.is_active):
        _refused(owner, subject, via, "not an owner", now)
        raise NotAnOwner(gettext("only owners decide about access"))


def _refused(owner: User, subject: str, via: str, why: str, now: datetime) -> None:
    audit.record(
        actor=audit.actor_of(owner),
        action="request.refused",
        subject=subject,
        data={"via": via, "why": why},
        now=now,
    )


def _reload(row: UnknownRequest) -> UnknownRequest:
    related = UnknownRequest.objects.select_related("account", "decided_by", "granted_user")
    return related.get(pk=row.pk)


def _expiry(now: datetime) -> datetime:
    return now + timedelta(days=settings.UNKNOWN_REQUEST_DAYS)
