"""Make the backups that are due or asked for in the admin: a thread of each ``runs`` worker, which
starts a process for each backup (decision 208).
"""

import logging
import os
import subprocess
import tempfile
import threading
import time

from django.conf import settings
from django.db import DatabaseError, connection
from django.utils import timezone

from channels_app.owner import backups
from core.models import Backup
from gateway_project import command_line
from gateway_project.processes import child

logger = logging.getLogger(__name__)

LOOK_SECONDS = 5.0
RENEW_SECONDS = 15.0
# A worker has left the URLs out, which the doctor examines.
OWN_ENVIRONMENT = ("GATEWAY_PROCESS", "CELERY_SKIP_CHECKS")


def start() -> None:
    """Look for work until the process ends. A backup that is being made ends with it."""
    threading.Thread(target=run_forever, name="backups", daemon=True).start()


def run_forever() -> None:
    while True:
        try:
            backups.fire_due(now=timezone.now())
            if backup := backups.take(now=timezone.now()):
                make(backup)
        except DatabaseError:
            # It is away, or older than this code; its own checks say so.
            logger.debug("backups are not looked for", exc_info=True)
        except Exception:
            logger.exception("looking for backups failed; the next look is soon")
        finally:
            connection.close()
        time.sleep(LOOK_SECONDS)


def make(backup: Backup) -> None:
    """Make one backup in a process, which stores its end; where it dies, that is stored here."""
    env = {name: value for name, value in os.environ.items() if name not in OWN_ENVIRONMENT}
    command = command_line.command("backup", "--row", str(backup.pk))
    with tempfile.TemporaryFile("w+", errors="replace") as output:
        process = subprocess.Popen(
            child.command(*command),
            cwd=settings.BASE_DIR,
            env=env,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
        )
        while not has_ended(process):
            if not backups.renew(backup, now=timezone.now()):
                process.kill()
        output.seek(0)
        said = output.read().strip()
    if process.returncode:
        logger.error("a backup failed: %s", said[-2000:])
        why = said.splitlines()[-1] if said else f"its process ended ({process.returncode})"
        backups.fail(why, row=backup.pk, now=timezone.now())


def has_ended(process: subprocess.Popen[bytes]) -> bool:
    """Wait for a while; return whether a process has ended."""
    try:
        process.wait(RENEW_SECONDS)
    except subprocess.TimeoutExpired:
        return False
    return True
