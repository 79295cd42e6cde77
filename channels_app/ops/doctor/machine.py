"""Check the disk and the clock of this machine."""

import shutil
from collections.abc import Iterator
from datetime import timedelta

from django.conf import settings
from django.utils import timezone

from channels_app.ops.doctor.findings import Finding, error, warning
from core.database import transactions
from core.models import Message

MEGABYTE = 2**20
LEAST_BYTES = 200 * MEGABYTE
LITTLE_BYTES = 1024 * MEGABYTE
CLOCK_SECONDS = 5.0
FUTURE = timedelta(minutes=1)


def disk() -> Iterator[Finding]:
    """Check free space: a full disk stops the database, and then every request fails."""
    try:
        free = shutil.disk_usage(settings.GATEWAY_HOME).free
    except OSError:
        yield error(
            "home",
            f"GATEWAY_HOME ({settings.GATEWAY_HOME}) cannot be read.",
            "Create the folder, or correct GATEWAY_HOME.",
        )
        return
    if free < LITTLE_BYTES:
        level = error if free < LEAST_BYTES else warning
        yield level(
            "disk",
            f"Only {free // MEGABYTE} MB are free where GATEWAY_HOME is.",
            "Free some space, or move GATEWAY_HOME.",
        )


def clock() -> Iterator[Finding]:
    """Compare the clocks: leases use the database's, expiries of keys and links this machine's.

    The time is taken here: the checks before may have taken longer than the difference.
    """
    now = timezone.now()
    apart = abs((transactions.now() - now).total_seconds())
    if apart > CLOCK_SECONDS:
        yield error(
            "clock",
            f"The clocks of this machine and of the database are {apart:.0f} s apart.",
            "Synchronize both with NTP (timedatectl set-ntp true).",
        )
    newest = Message.objects.order_by("-id").values_list("created_at", flat=True).first()
    if newest is not None and newest > now + FUTURE:
        yield error(
            "clock",
            "The last message has a time in the future: the clock was turned back.",
            "Synchronize the machine with NTP (timedatectl set-ntp true).",
        )
