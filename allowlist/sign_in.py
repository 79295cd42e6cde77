"""One-time sign-in links: the token is shown once, only its SHA-256 digest is stored."""

import hashlib
import secrets
from datetime import datetime, timedelta

from django.db.models import F

from allowlist import audit
from allowlist.models import SignInLink
from core.database import transactions
from core.models import User

DEFAULT_TTL = timedelta(hours=1)
KEPT_AFTER_EXPIRY = timedelta(days=7)
AUDITED_REFUSALS = 3


def digest(token: str) -> str:
    """Return the stored form of a token. 256 random bits need no salt."""
    return hashlib.sha256(token.encode(errors="surrogatepass")).hexdigest()


def create(*, user: User, now: datetime, ttl: timedelta = DEFAULT_TTL) -> str:
    """Create a token (43 characters, URL-safe) that signs ``user`` in once before ``now + ttl``.

    Also deletes links that expired a week ago.
    """
    SignInLink.objects.filter(expires_at__lt=now - KEPT_AFTER_EXPIRY).delete()
    token = secrets.token_urlsafe(32)
    SignInLink.objects.create(user=user, digest=digest(token), expires_at=now + ttl)
    return token


def holder(*, token: str, now: datetime) -> User | None:
    """Return the user that ``token`` signs in, or None. Read-only: link previews call it."""
    links = SignInLink.objects.filter(digest=digest(token), used_at=None, expires_at__gt=now)
    link = links.select_related("user").filter(user__is_active=True).first()
    return link.user if link is not None else None


def consume(*, token: str, now: datetime) -> User | None:
    """Return the user of a valid token and mark it used; ``None`` for any other token.

    A reused or expired link is audited, its first few times; an unknown token is not: clients could
    fill the audit with those.
    """
    link = SignInLink.objects.filter(digest=digest(token)).select_related("user").first()
    if link is None:
        return None
    open_link = SignInLink.objects.filter(pk=link.pk, used_at=None, expires_at__gt=now)
    if link.user.is_active and open_link.update(used_at=now) == 1:
        return link.user
    _refused(link, now)
    return None


def _refused(link: SignInLink, now: datetime) -> None:
    """Record the opening of a used or expired link."""
    counted = SignInLink.objects.filter(pk=link.pk, refusals__lt=AUDITED_REFUSALS)
    with transactions.atomic_write():
        if counted.update(refusals=F("refusals") + 1) != 1:
            return
        why = "used" if link.used_at else "expired" if link.expires_at <= now else "not active"
        audit.record(
            actor="nobody",
            action="sign_in.refused",
            subject=f"user:{link.user_id}",
            data={"why": why, "link": link.pk},
            now=now,
        )
