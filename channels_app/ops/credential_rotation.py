"""Encrypt channel credentials with the newest key."""

from datetime import datetime

from allowlist import audit
from core.database import transactions
from core.lib import encryption
from core.models import ChannelAccount


def reencrypt_all(*, actor: str, now: datetime) -> int:
    """Encrypt every account's secrets with the first key, all or none; return how many changed.

    Raises DecryptError when no key opens one of them.
    """
    changed = 0
    with transactions.atomic_write():
        for row in ChannelAccount.objects.select_for_update().exclude(secrets="").order_by("id"):
            if encryption.is_current(row.secrets):
                continue
            ChannelAccount.objects.filter(pk=row.pk).update(
                secrets=encryption.reencrypt(row.secrets)
            )
            changed += 1
        if changed:
            data: dict[str, object] = {"accounts": changed}
            audit.record(actor=actor, action="secrets.rotated", data=data, now=now)
    return changed
