"""Audit rows of users' own actions, in the caller's transaction."""

from datetime import datetime, timedelta

from django.utils import timezone

from allowlist import audit
from allowlist.models import AuditEntry
from core.models import StoredFile, User

OPENED_EVERY = timedelta(days=1)


def signed_in(*, user: User, how: str, now: datetime) -> None:
    """Record a sign-in, by ``password`` or ``link``."""
    _record(user, "sign_in", {"how": how}, now)


def setting_changed(*, user: User, name: str, change: tuple[object, object]) -> None:
    """Record a change of a user's own setting: before and after."""
    _record(user, "setting.changed", {name: list(change)}, timezone.now())


def file_opened(*, file: StoredFile, address: str, now: datetime) -> None:
    """Record the first opening of a link to ``file`` each day; ``opens`` of the file counts all.

    A link may be passed on, so only the address of the client is recorded.
    """
    subject = f"file:{file.public_id}"
    recent = AuditEntry.objects.filter(
        action="file.opened", subject=subject, at__gt=now - OPENED_EVERY
    )
    if not recent.exists():
        data: dict[str, object] = {"address": address, "of": f"user:{file.user_id}"}
        audit.record(actor="link", action="file.opened", subject=subject, data=data, now=now)


def _record(user: User, action: str, data: dict[str, object], now: datetime) -> None:
    name = audit.actor_of(user)
    audit.record(actor=name, action=action, subject=name, data=data, now=now)
