"""Tell the owners of troubles of the installation: once, and once when they are over.

A row of ``Alert`` is a trouble that lasts. Each step is one transaction with a conditional change,
so that of several workers one tells, and a kill leaves all of it or nothing (decision 211).
"""

import asyncio
import logging
from collections import Counter
from datetime import datetime, timedelta
from functools import partial
from urllib.parse import urlsplit

from django.conf import settings
from django.db.models import Q

from channels_app.owner import alert_checks, notices
from channels_app.owner.alert_checks import Trouble
from core.conversations import outbox
from core.database.queries import Instances
from core.database.transactions import atomic_write, in_thread
from core.lib import certificates
from core.models import Alert, Delivery, Installation

logger = logging.getLogger(__name__)

CERTIFICATE_INTERVAL = timedelta(days=1)
CONNECT_SECONDS, LOOK_UP_SECONDS = 5.0, 20.0
HTTPS_PORT = 443
ROWS = Instances(Alert.objects.all)


async def watch(*, now: datetime) -> None:
    """Look at everything. A chore of each worker."""
    if settings.GATEWAY_HTTPS and await in_thread(take_certificate_check, now=now):
        await check_certificate()
    await in_thread(look, now=now)


def look(*, now: datetime) -> None:
    """Tell of troubles that have begun, and of those that are over."""
    rows = {row.name: row for row in ROWS.all()}
    found = {each.name: each for each in alert_checks.troubles(now=now, known={*rows})}
    new = [Alert(name=name, seen_at=now) for name in found.keys() - rows.keys()]
    if new:
        with atomic_write():
            Alert.objects.bulk_create(new, ignore_conflicts=True)
        rows = {row.name: row for row in Alert.objects.all()}
    for name, row in sorted(rows.items()):
        if name not in found:
            end(row, now=now)
        elif row.told_at is None and has_lasted(row, found[name], now):
            begin(row, found[name], now=now)


def has_lasted(row: Alert, trouble: Trouble, now: datetime) -> bool:
    """Return whether a trouble is told; so it is when the clock was set back meanwhile."""
    is_new = timedelta(0) <= now - row.seen_at < trouble.lasting
    return trouble.lasting != alert_checks.UNSEEN and not is_new


def begin(row: Alert, trouble: Trouble, *, now: datetime) -> None:
    """Tell the owners of a trouble, unless another process does."""
    with atomic_write():
        if Alert.objects.filter(pk=row.pk, told_at=None).update(told_at=now):
            notices.notify(trouble.text, key=f"{key_of(row, now)}:begin")


def end(row: Alert, *, now: datetime) -> None:
    """Notify the owners that a reported trouble is over; drop undelivered notices of it."""
    is_here = alert_checks.is_looked_at_here(row)
    if not (is_here or alert_checks.is_of_gone_machine(row)):
        return
    with atomic_write():
        deleted, _ = Alert.objects.filter(pk=row.pk, told_at=row.told_at).delete()
        if not deleted or row.told_at is None:
            return
        key = key_of(row, row.told_at)
        outbox.take_back(Delivery.objects.filter(dedupe_key__startswith=f"{key}:begin:"))
        if is_here and alert_checks.over_text(row.name, now=now):
            text = partial(alert_checks.over_text, row.name, now=now)
            notices.notify(text, key=f"{key}:end")


def lasting() -> dict[str, int]:
    """Return how many troubles of each kind the owners were told of and last."""
    names = Alert.objects.filter(told_at__isnull=False).values_list("name", flat=True)
    found = Counter(name.partition(":")[0] for name in names)
    return {kind: found[kind] for kind in alert_checks.KINDS}


def key_of(row: Alert, told_at: datetime) -> str:
    """Return the prefix of the dedupe keys of a trouble's notices."""
    return f"notice:alert:{row.name}:{int(told_at.timestamp())}"


def take_certificate_check(*, now: datetime) -> bool:
    """Return whether this process is to read the certificate: one a day in all workers is."""
    is_due = (
        Q(certificate_checked_at=None)
        | Q(certificate_checked_at__lte=now - CERTIFICATE_INTERVAL)
        | Q(certificate_checked_at__gt=now + CERTIFICATE_INTERVAL)  # the clock was set back
    )
    if Installation.objects.filter(id=1).exclude(is_due).exists():
        return False
    with atomic_write():
        Installation.objects.get_or_create(id=1)
        rows = Installation.objects.filter(is_due, id=1)
        return rows.update(certificate_checked_at=now) == 1


async def check_certificate() -> None:
    """Read the certificate of GATEWAY_URL; when it is not reached from here, the last end stays."""
    address = urlsplit(settings.GATEWAY_URL)
    read = partial(
        certificates.ends_at,
        address.hostname or "",
        address.port or HTTPS_PORT,
        seconds=CONNECT_SECONDS,
    )
    try:
        async with asyncio.timeout(LOOK_UP_SECONDS):
            found = await asyncio.to_thread(read)
    except (OSError, ValueError) as error:  # a time-out is an OSError
        logger.info("the certificate of the public address could not be read: %r", error)
        return
    await in_thread(keep_certificate, found)


def keep_certificate(ends_at: datetime) -> None:
    with atomic_write():
        Installation.objects.filter(id=1).update(certificate_ends_at=ends_at)
