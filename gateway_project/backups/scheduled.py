"""Make the backups that are due or asked for in the admin: a thread of each ``runs`` worker, which
starts a process for each backup (decision 208).
"""

import logging
import subprocess
import tempfile

from django.conf import settings
from django.db import connection
from django.utils import timezone

from channels_app.owner import backups
from core.database import transactions
from core.lib import child
from core.models import Backup
from gateway_project import command_line
from gateway_project.processes import periodic

logger = logging.getLogger(__name__)

RENEW_SECONDS = 15.0


def start() -> None:
    """Look for work until the process ends. A backup that is being made ends with it."""
    periodic.start("backups", take, make)


def take() -> Backup | None:
    """Take the backup that is due or asked for, if any."""
    now = transactions.now()  # of all machines
    backups.fire_due(now=now)
    return backups.take(now=now)


def make(backup: Backup) -> None:
    """Make one backup in a process, which stores its end; where it dies, that is stored here."""
    command = command_line.command("backup", "--row", str(backup.pk))
    with tempfile.TemporaryFile("w+", errors="replace") as output:
        process = subprocess.Popen(
            child.command(*command),
            cwd=settings.BASE_DIR,
            env=periodic.environment(),
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
        )
        while not has_ended(process):
            if not is_ours(backup):
                process.kill()
        output.seek(0)
        said = output.read().strip()
    if process.returncode:
        logger.error("a backup failed: %s", said[-2000:])
        why = said.splitlines()[-1] if said else f"its process ended ({process.returncode})"
        backups.fail(why, row=backup.pk, now=timezone.now())


def is_ours(backup: Backup) -> bool:
    """Keep a backup that is being made; return False when another worker has taken it. While the
    database is away it stays ours: the process stores its end.
    """
    try:
        return backups.renew(backup, now=transactions.now())
    except transactions.AWAY:
        connection.close()
        return True


def has_ended(process: subprocess.Popen[bytes]) -> bool:
    """Wait for a while; return whether a process has ended."""
    try:
        process.wait(RENEW_SECONDS)
    except subprocess.TimeoutExpired:
        return False
    return True
