"""API keys ([A10]): 256 random bits, found by a public prefix, stored as a hash, shown once."""

import hashlib
import hmac
import re
import secrets
from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta

from django.db.models import Q
from django.utils import timezone

from allowlist import audit, revocation
from allowlist.models import ApiKey
from core.database import transactions
from core.database.queries import Among, Instances
from core.models import ChannelAccount, User

TOKEN = re.compile(r"lk_([0-9a-f]{12})_([A-Za-z0-9_-]{43})", re.ASCII)
PREFIX_BYTES = 6
SECRET_BYTES = 32
LONGEST_NAME = 100
# The interval of writing the last use, in seconds.
USED_EVERY = timedelta(minutes=1)
AUDITED_EVERY = timedelta(days=1)


NAMED = Instances(
    lambda: ApiKey.objects.select_related("user", "account").filter(Among("prefix", "prefixes"))
)


class InvalidKey(ValueError):
    """A key cannot be created with these arguments; the text gives the reason."""


def create(
    *,
    name: str,
    user: User | None = None,
    account: ChannelAccount | None = None,
    scopes: Iterable[str],
    expires_at: datetime | None = None,
    model_only: bool = False,
    actor: str = "system",
) -> tuple[ApiKey, str]:
    """Create a key of one person or of one bridge account; return it and its token, which is not
    kept.

    The token is ``lk_<prefix>_<secret>``. Raises ``InvalidKey`` for a name that is empty or too
    long, for unknown scopes, or when not exactly one of ``user`` and ``account`` is given.
    """
    name = name.strip()
    if not 1 <= len(name) <= LONGEST_NAME:
        raise InvalidKey(f"the name of a key has 1 to {LONGEST_NAME} characters")
    wanted = sorted(set(scopes))
    unknown = set(wanted) - set(ApiKey.Scope.values)
    if unknown or not wanted:
        known = ", ".join(ApiKey.Scope.values)
        raise InvalidKey(f"scopes must be among {known}")
    if (user is None) == (account is None):
        raise InvalidKey("a key belongs to exactly one person or one bridge account")
    prefix, secret = secrets.token_hex(PREFIX_BYTES), secrets.token_urlsafe(SECRET_BYTES)
    token = f"lk_{prefix}_{secret}"
    with transactions.atomic_write():
        key = ApiKey.objects.create(
            name=name,
            prefix=prefix,
            digest=_digest(token),
            user=user,
            account=account,
            scopes=wanted,
            expires_at=expires_at,
            model_only=model_only,
        )
        data: dict[str, object] = {"scopes": wanted, "of": str(user or account)}
        if model_only:
            data["model_only"] = True
        _record(key, "key.created", actor, timezone.now(), data)
    return key, token


def named(tokens: Iterable[str]) -> dict[str, ApiKey]:
    """Return the keys that ``tokens`` name, valid or not, by public prefix. One query."""
    matches = [match for token in tokens if (match := TOKEN.fullmatch(token))]
    found = NAMED.all(prefixes={match[1] for match in matches}) if matches else []
    return {key.prefix: key for key in found}


def authenticate(
    *, token: str, now: datetime, known: Mapping[str, ApiKey] | None = None
) -> ApiKey | None:
    """Return the valid key of ``token`` at ``now``, with its user and account loaded; else None.

    ``known``: the result of :func:`named` for this token and others, if it was called.
    All refusals take the same steps: an unknown prefix, a wrong secret, a revoked or expired key,
    an inactive user, a disabled account.
    """
    match = TOKEN.fullmatch(token)
    if match is None:
        return None
    key = (named([token]) if known is None else known).get(match[1])
    expected = key.digest if key is not None else _digest("")
    if not hmac.compare_digest(expected, _digest(token)) or key is None:
        return None
    if not key.is_usable(now):
        return None
    _used(key, now)
    return key


def revoke(*, key: ApiKey, actor: str, now: datetime) -> bool:
    """Revoke ``key``; return False when it was already revoked."""
    with transactions.atomic_write():
        changed = ApiKey.objects.filter(pk=key.pk, revoked_at=None).update(revoked_at=now)
        if changed:
            revocation.end_key(key=key)
            _record(key, "key.revoked", actor, now, {})
    return changed == 1


def _used(key: ApiKey, now: datetime) -> None:
    last = key.last_used_at
    if last is not None and now - last < USED_EVERY:
        return
    stale = Q(last_used_at=None) | Q(last_used_at__lte=now - USED_EVERY)
    with transactions.atomic_write():
        changed = ApiKey.objects.filter(stale, pk=key.pk).update(last_used_at=now)
        if changed and (last is None or now - last >= AUDITED_EVERY):
            _record(key, "key.used", str(key.user or key.account), now, {})
    key.last_used_at = now


def _record(key: ApiKey, action: str, actor: str, now: datetime, data: dict[str, object]) -> None:
    audit.record(actor=actor, action=action, subject=str(key), data=data, now=now)


def _digest(token: str) -> str:
    return hashlib.sha256(token.encode()).hexdigest()
