"""Link another channel's address to a user: a code created on one channel and sent on another.

Eight characters without look-alikes (40 bits), stored as a keyed hash, valid for some minutes and
once. Wrong ones are counted: 5 an hour per sender, 200 per account.
"""

import hashlib
import hmac
import re
import secrets
import unicodedata
from dataclasses import dataclass
from datetime import datetime, timedelta

from django.conf import settings
from django.db.models import Q
from django.utils.translation import gettext

from allowlist import audit, held_messages, pending_count
from allowlist.identities import InvalidIdentity, normalise
from allowlist.models import LinkAttempt, LinkCode, UnknownRequest
from core.database import transactions
from core.models import ChannelAccount, ChannelIdentity, InboundMessage, User

ALPHABET = "ABCDEFGHJKLMNPQRSTUVWXYZ23456789"
LENGTH = 8
MARK_LENGTH = 12
# Keyboards and messengers write other hyphens, dashes and spaces into a code, and quotation marks
# around it.
BETWEEN = re.compile(r"[\W_]+")
TYPED = re.compile(r"(/link(?:@\w+)?)\s+[\W_]{0,2}\w{4}[\W_]{0,3}\w{4}(?!\w)", re.IGNORECASE)
# Characters of a code as it is typed. Normalising takes the square of a text's length.
MOST_TYPED = 64
SENDER_ATTEMPTS, ACCOUNT_ATTEMPTS = 5, 200
WINDOW = timedelta(hours=1)


class NotAllowed(PermissionError):
    """The user may not create codes; the text gives the reason."""


class WrongCode(ValueError):
    """The code is invalid, or the limit of attempts is reached; the text gives the reason."""


class TooManyCodes(WrongCode):
    """Too many attempts: a retry must not make the gateway send a message each time."""


@dataclass(frozen=True, slots=True)
class Address:
    """The address from which a code was sent."""

    account: ChannelAccount
    kind: str
    sender: str


def make(
    *, user: User, via: str, now: datetime, identity_expires_at: datetime | None = None
) -> str:
    """Create a code for ``user`` (``ABCD-EFGH``); older ones end. Raises NotAllowed.

    ``identity_expires_at``: the expiry of the requesting identity; the linked one ends no later.
    """
    if settings.LINK_CODES == "off" or (settings.LINK_CODES == "owners" and not user.is_owner):
        raise NotAllowed(gettext("Linking by code is disabled here."))
    code = "".join(secrets.choice(ALPHABET) for _ in range(LENGTH))
    with transactions.atomic_write():
        # Locks the person: of codes that are asked for at once the last one is left.
        list(User.objects.select_for_update(no_key=True).filter(pk=user.pk).values_list("pk"))
        LinkCode.objects.filter(Q(user=user) | Q(expires_at__lt=now)).delete()
        LinkCode.objects.create(
            user=user,
            digest=_digest(code),
            expires_at=now + timedelta(minutes=settings.LINK_CODE_MINUTES),
            identity_expires_at=identity_expires_at,
        )
        _record("link.made", user, f"user:{user.pk}", {"via": via}, now)
    return f"{code[:4]}-{code[4:]}"


def use(*, code: str, address: Address, now: datetime) -> User:
    """Return the user of the code and link ``address`` to that user. Raises WrongCode.

    Wrong attempts are counted and audited, so call it in a transaction that is committed either
    way.
    """
    value = _normal(address)
    _spend(address, value, now)
    found = LinkCode.objects.filter(digest=_digest(code), used_at=None, expires_at__gt=now)
    row = found.select_related("user").first()
    if row is None or not row.user.is_active or found.filter(pk=row.pk).update(used_at=now) != 1:
        LinkAttempt.objects.create(account=address.account, kind=address.kind, sender=value, at=now)
        _record("link.refused", None, f"{address.account} {address.kind}:{value}", {}, now)
        said = gettext("This code is invalid or has expired.")
        if _is_spent(address, value):  # later codes may get no answer
            said += f" {gettext('That was the last attempt for an hour.')}"
        raise WrongCode(said)
    ChannelIdentity.objects.update_or_create(
        user=row.user,
        kind=address.kind,
        account=address.account,
        value=value,
        defaults={
            "channel": address.account.channel,
            "expires_at": row.identity_expires_at,
        },
    )
    data: dict[str, object] = {"identity": f"{address.kind}:{value}", "on": str(address.account)}
    _record("link.used", row.user, f"user:{row.user.pk}", data, now)
    return row.user


def end_open(*, user_id: int) -> None:
    """End the code that a user may still send: it was asked for with a right that has ended."""
    LinkCode.objects.filter(user_id=user_id, used_at=None).delete()


def mark(code: str) -> str:
    """Return the name of a code: it tells a page whether the code that it shows is the open one."""
    return _digest(code)[:MARK_LENGTH]


def open_mark(*, user: User, now: datetime) -> str:
    """Return the mark of the code that ``user`` may still send; empty when there is none."""
    rows = LinkCode.objects.filter(user=user, used_at=None, expires_at__gt=now)
    return str(rows.values_list("digest", flat=True).first() or "")[:MARK_LENGTH]


def end_request(
    *, address: Address, user: User, now: datetime
) -> tuple[UnknownRequest | None, list[InboundMessage]]:
    """End the pending request of an address that was just linked; its held messages are now
    received from ``user``. Inside the transaction of :func:`use`.
    """
    rows = UnknownRequest.objects.select_for_update(of=("self",)).select_related("account")
    row = rows.filter(
        account=address.account,
        kind=address.kind,
        sender=_normal(address),
        state=UnknownRequest.State.PENDING,
    ).first()
    if row is None:
        return None, []
    row.state = UnknownRequest.State.APPROVED
    row.decided_at, row.decided_by, row.decided_via = now, user, "link code"
    row.granted_user = user
    row.save()
    pending_count.changed()
    return row, held_messages.release(row, user, now)


def hide(text: str) -> str:
    """Return the stored form of a ``/link`` message, without its code."""
    command = text.split(maxsplit=1)[0]
    return f"{command} …"


def without_codes(text: str) -> str:
    """Return ``text`` without the codes after any ``/link``; they may still be valid."""
    return TYPED.sub(r"\1 …", text)


def _normal(address: Address) -> str:
    """Return the normalised address, whose request is locked, as a decision about it locks it:
    before the audit. Raises WrongCode for a blocked or an impossible one.
    """
    try:
        value = normalise(kind=address.kind, value=address.sender, channel=address.account.channel)
    except InvalidIdentity as error:
        said = gettext("This address cannot be linked: {reason}.").format(reason=error)
        raise WrongCode(said) from error
    rows = UnknownRequest.objects.select_for_update().filter(
        account=address.account, kind=address.kind, sender=value
    )
    row = rows.first()
    if row is not None and row.state == UnknownRequest.State.BLOCKED:
        raise WrongCode(gettext("This code is invalid or has expired."))
    return value


def _spend(address: Address, value: str, now: datetime) -> None:
    """Count an attempt. Raises WrongCode when the limit of this sender or account is reached."""
    tried = LinkAttempt.objects.filter(account=address.account)
    # After the clock was set back, attempts of later times would count until it gets there.
    tried.filter(Q(at__lte=now - WINDOW) | transactions.ahead("at", most=WINDOW, now=now)).delete()
    if _is_spent(address, value) or tried.count() >= ACCOUNT_ATTEMPTS:
        raise TooManyCodes(gettext("Too many wrong codes. Try again in an hour."))


def _is_spent(address: Address, value: str) -> bool:
    """Return whether a sender has no attempts left; those before the window are already deleted."""
    mine = LinkAttempt.objects.filter(account=address.account, kind=address.kind, sender=value)
    return mine.count() >= SENDER_ATTEMPTS


def _digest(code: str) -> str:
    # Full-width letters and digits become those of the alphabet. A longer text is no code.
    typed = unicodedata.normalize("NFKC", code) if len(code) <= MOST_TYPED else ""
    plain = BETWEEN.sub("", typed).upper()
    key = settings.SECRET_KEY.encode()
    return hmac.new(key, b"link code " + plain.encode(), hashlib.sha256).hexdigest()


def _record(
    action: str, user: User | None, subject: str, data: dict[str, object], now: datetime
) -> None:
    actor = audit.actor_of(user) if user else subject
    audit.record(actor=actor, action=action, subject=subject, data=data, now=now)
