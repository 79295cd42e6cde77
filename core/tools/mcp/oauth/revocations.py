"""Revoke tokens at their servers whose connection is gone: best effort, three attempts. A chore."""

import asyncio
import logging
from datetime import datetime, timedelta

from django.db.models import DateTimeField, F
from django.utils import timezone

from core.database.queries import Instances, Param
from core.database.transactions import atomic_write, in_thread
from core.lib import encryption
from core.models import McpRevocation
from core.tools.mcp.errors import McpError
from core.tools.mcp.oauth.connections import loaded

logger = logging.getLogger(__name__)

AT_ONCE = 10
ATTEMPTS = 3
LATER = timedelta(minutes=10)
DUE = Instances(
    lambda: McpRevocation.objects.filter(due_at__lte=Param("now", DateTimeField())).order_by(
        "due_at"
    )[:AT_ONCE]
)


async def revoke_due() -> None:
    """Revoke the tokens that are due, side by side; after ATTEMPTS they are given up."""
    await asyncio.gather(*map(revoke, await in_thread(take_due, timezone.now())))


async def revoke(row: McpRevocation) -> None:
    """Revoke the tokens of a row, and delete it unless it is tried again."""
    try:
        kept = encryption.decrypt(row.secrets)
        await (await loaded()).revoke(kept, allow_private=row.allow_private)
    except McpError:
        if row.attempts < ATTEMPTS:
            return
    except (encryption.DecryptError, KeyError, ValueError):  # nothing is left to revoke with
        logger.warning("revocation %s cannot be read", row.pk)
    await in_thread(drop, row)


def take_due(now: datetime) -> list[McpRevocation]:
    """Return rows, each for one worker: they are due again later."""
    taken = []
    for row in DUE.all(now=now):
        rows = McpRevocation.objects.filter(pk=row.pk, due_at=row.due_at)
        with atomic_write():
            if rows.update(due_at=now + LATER, attempts=F("attempts") + 1):
                row.attempts += 1
                taken.append(row)
    return taken


def drop(row: McpRevocation) -> None:
    with atomic_write():
        McpRevocation.objects.filter(pk=row.pk).delete()
