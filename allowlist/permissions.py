"""The access rule ([A1], [A2]), and its explanation ([A8])."""

import logging
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import Literal

from django.db.models import Exists, OuterRef, QuerySet

from allowlist.identities import NUMERIC_CHANNELS, InvalidIdentity, normalise
from core.database.queries import Instances, Param
from core.models import ChannelAccount, ChannelIdentity, User

logger = logging.getLogger(__name__)

MOST_WARNINGS = 50
IDENTITIES = Instances(
    lambda: (
        ChannelIdentity.objects.select_related("user")
        .defer("user__password", "user__email", "user__last_login", "user__date_joined")
        .filter(kind=Param("kind"), value=Param("value"))
        .order_by("user_id", "id")
    )
)
Rule = Literal["listed", "open", "group", "nobody", "invalid", "error"]


@dataclass(frozen=True, slots=True)
class Sender:
    """A sender, as the channel's credential identifies it. ``group``: a group's id, or empty."""

    account: ChannelAccount
    kind: str
    value: str
    group: str = ""


@dataclass(frozen=True, slots=True)
class Decision:
    """The user of a sender (None: denied), the deciding rule, and the reason as text.

    ``unknown`` is the address that would have to be listed: the sender's, or, for the rule
    ``group``, the group's. It is empty when allowed or when nothing could be listed.
    """

    user: User | None
    rule: Rule
    reason: str
    unknown: str = ""

    @property
    def allowed(self) -> bool:
        """Return whether the sender is allowed."""
        return self.user is not None


@dataclass(frozen=True, slots=True)
class Row:
    """One step of the rule: the checked list or condition, and whether it decided."""

    rule: Rule
    matched: bool
    reason: str
    user: User | None = None


def decide(*, sender: Sender, now: datetime) -> Decision:
    """Return the user of ``sender``. Denies on anything unexpected; at most three queries."""
    try:
        *_, last = _steps(sender, now)
    except InvalidIdentity as error:
        return Decision(None, "invalid", str(error))
    except Exception:
        # The guard of [A2]: a database error or a broken row denies, it never lets in.
        logger.exception("the allowlist could not be read; the sender is denied")
        return Decision(None, "error", "the allowlist could not be read")
    if last.matched and last.user is not None:
        return Decision(last.user, last.rule, last.reason)
    unknown = sender.group if last.rule == "group" else sender.value
    return Decision(None, last.rule, last.reason, unknown.strip())


def explain(*, sender: Sender, now: datetime) -> list[Row]:
    """Return the steps that :func:`decide` takes for ``sender``, the deciding one last."""
    try:
        return list(_steps(sender, now))
    except InvalidIdentity as error:
        return [Row("invalid", matched=False, reason=str(error))]


def value_of(sender: Sender) -> str:
    """Return the value by which ``sender`` is listed. Raises InvalidIdentity."""
    channel = sender.account.channel
    value = normalise(kind=sender.kind, value=sender.value, channel=channel)
    if channel in NUMERIC_CHANNELS and value.startswith("-"):
        raise InvalidIdentity("a negative number is a group, not a person")
    return value


def is_group_listed(*, account: ChannelAccount, group: str, now: datetime) -> bool:
    """Return whether a group, by its normalised id, is listed at ``now`` ([A3])."""
    rows = IDENTITIES.all(kind="im", value=group)
    return any(row.matched for row in _listed(rows, account=account, now=now))


def listed_until(*, sender: Sender, user: User, now: datetime) -> datetime | None:
    """Return when ``user`` stops listing ``sender``, who is listed at ``now``; None for never.

    Of several identities that apply here the last one counts. Raises InvalidIdentity.
    """
    rows = IDENTITIES.all(kind=sender.kind, value=value_of(sender))
    mine = [row for row in rows if row.user_id == user.pk]
    ends = [row.expires_at for row in mine if not _obstacle(row, sender.account, now)]
    return None if None in ends else max(filter(None, ends), default=now)


def _steps(sender: Sender, now: datetime) -> Iterator[Row]:
    """Yield the steps of the rule; ends at the step that decides."""
    channel, value = sender.account.channel, value_of(sender)
    if sender.group:
        group = normalise(kind="im", value=sender.group, channel=channel)
        allowed = False
        groups = IDENTITIES.all(kind="im", value=group)
        for row in _listed(groups, account=sender.account, now=now):
            allowed = allowed or row.matched
            # A group's row does not decide by itself: no user; the sender is checked next.
            yield Row("group", row.matched, f"group: {row.reason}")
        if not allowed:
            yield Row("group", matched=False, reason=f"the group {group} is not listed")
            return
    identities = IDENTITIES.all(kind=sender.kind, value=value)
    for row in _listed(identities, account=sender.account, now=now):
        yield row
        if row.matched:
            return
    yield _open(sender.kind) or Row(
        "nobody", matched=False, reason=f"no user lists {sender.kind}:{value}, and no list is open"
    )


def _listed(
    listed: Iterable[ChannelIdentity], *, account: ChannelAccount, now: datetime
) -> Iterator[Row]:
    """Yield a row for each identity of a value, in the order of users; ends at the first match."""
    for identity in listed:
        obstacle = _obstacle(identity, account, now)
        if obstacle:
            yield Row("listed", matched=False, reason=obstacle, user=identity.user)
            continue
        reason = f"{identity} is listed by {identity.user}"
        yield Row("listed", matched=True, reason=reason, user=identity.user)
        return


def _obstacle(identity: ChannelIdentity, account: ChannelAccount, now: datetime) -> str:
    """Return why this identity does not apply here; empty when it does."""
    if identity.channel and identity.channel != account.channel:
        return f"{identity} counts on {identity.channel} only"
    if identity.account_id is not None and identity.account_id != account.pk:
        return f"{identity} applies to another account only"
    if identity.expires_at is not None and identity.expires_at <= now:
        return f"{identity} expired at {identity.expires_at:%Y-%m-%d %H:%M} UTC"
    if not identity.user.is_active:
        return f"{identity.user} is not active"
    return ""


def _open(kind: str) -> Row | None:
    """Return the first user whose list of ``kind`` is empty and open to everyone. One query.

    Identities that have expired still count as listed: an expiry must never open a list.
    """
    user = OPEN.first(kind=kind)
    if user is None:
        return None
    return Row("open", matched=True, reason=f"{user} is open to everyone on {kind}", user=user)


def users_without(identities: QuerySet[ChannelIdentity]) -> QuerySet[User]:
    """Return active users with an open list: those without any of ``identities``."""
    theirs = identities.filter(user=OuterRef("pk"))
    return User.objects.filter(~Exists(theirs), only_listed=False, is_active=True).order_by("pk")


OPEN = Instances(lambda: users_without(ChannelIdentity.objects.filter(kind=Param("kind")))[:1])


def open_kinds(*, only: User | None = None) -> dict[User, list[str]]:
    """Return the users that are open to everyone, with the kinds ([A1]), for warnings.

    One query, on each page of the admin.
    """
    kinds = ChannelIdentity.Kind.values
    theirs = ChannelIdentity.objects.filter(user=OuterRef("pk"))
    rows = User.objects.filter(only_listed=False, is_active=True).order_by("pk")
    if only is not None:
        rows = rows.filter(pk=only.pk)
    rows = rows.annotate(**{f"has_{kind}": Exists(theirs.filter(kind=kind)) for kind in kinds})
    rows = rows.exclude(**{f"has_{kind}": True for kind in kinds})
    return {
        user: [kind for kind in kinds if not getattr(user, f"has_{kind}")]
        for user in rows[:MOST_WARNINGS]
    }
