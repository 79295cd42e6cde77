"""What people do with their own account, as the audit writes it: in the caller's transaction."""

from datetime import datetime

from django.utils import timezone

from allowlist import audit
from core.models import User


def signed_in(*, user: User, how: str, now: datetime) -> None:
    """Somebody signed in, by ``password`` or ``link``."""
    _record(user, "sign_in", {"how": how}, now)


def setting_changed(*, user: User, name: str, change: tuple[object, object]) -> None:
    """Somebody changed a setting of theirs: before and after."""
    _record(user, "setting.changed", {name: list(change)}, timezone.now())


def _record(user: User, action: str, data: dict[str, object], now: datetime) -> None:
    name = f"user:{user.pk} {user}"
    audit.record(actor=name, action=action, subject=name, data=data, now=now)
