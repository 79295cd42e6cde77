"""Traces of people who were forgotten in the admin are cleaned up by a thread of each ``runs``
worker (decision 217), which starts a process for it: rewriting SQLite's file takes longer than a
browser waits, and a worker has not loaded all apps.

The audit says for whom: begun, not done, and the user's row is gone.
"""

import logging
import subprocess

from django.conf import settings
from django.db import connection

from allowlist.unfinished_forgetting import left_behind
from gateway_project import command_line
from gateway_project.processes import child, periodic

logger = logging.getLogger(__name__)

AGAIN_SECONDS = 60.0


def start() -> None:
    """Look for work until the process ends. Cleaning that is cut off is left to the next one."""
    periodic.start("leftovers", look, again=AGAIN_SECONDS)


def look() -> float:
    """Clean up if somebody was forgotten; return the seconds until the next look."""
    if not left_behind():
        return periodic.LOOK_SECONDS
    connection.close()  # the process takes long
    return periodic.LOOK_SECONDS if clean() else AGAIN_SECONDS


def clean() -> bool:
    """Run ``manage.py person clean``; return whether it succeeded."""
    done = subprocess.run(
        child.command(*command_line.command("person", "clean")),
        cwd=settings.BASE_DIR,
        env=periodic.environment(),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        check=False,
    )
    if done.returncode:
        logger.warning("cleaning up is tried again soon: %s", done.stdout.strip()[-2000:])
    return not done.returncode
