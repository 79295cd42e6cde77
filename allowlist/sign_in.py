"""One-time sign-in links: the token is shown once, only its SHA-256 digest is kept."""

import hashlib
import secrets
from datetime import datetime, timedelta

from allowlist.models import SignInLink
from core.models import User

DEFAULT_TTL = timedelta(hours=1)
KEPT_AFTER_EXPIRY = timedelta(days=7)


def digest(token: str) -> str:
    """What is kept of a token. 256 random bits need no salt."""
    return hashlib.sha256(token.encode(errors="surrogatepass")).hexdigest()


def create(*, user: User, now: datetime, ttl: timedelta = DEFAULT_TTL) -> str:
    """A new token (43 characters, safe in a URL) that signs ``user`` in once before ``now + ttl``.

    Links that expired a week ago are forgotten on the way.
    """
    SignInLink.objects.filter(expires_at__lt=now - KEPT_AFTER_EXPIRY).delete()
    token = secrets.token_urlsafe(32)
    SignInLink.objects.create(user=user, digest=digest(token), expires_at=now + ttl)
    return token


def consume(*, token: str, now: datetime) -> User | None:
    """Whose token it is, the first time and in time; ``None`` for any other token."""
    link = SignInLink.objects.filter(digest=digest(token)).select_related("user").first()
    if link is None or not link.user.is_active:
        return None
    open_link = SignInLink.objects.filter(pk=link.pk, used_at=None, expires_at__gt=now)
    return link.user if open_link.update(used_at=now) == 1 else None
