"""Traces of people who were forgotten in the admin are cleaned up by a thread of each ``runs``
worker (decision 217), which starts a process for it: rewriting SQLite's file takes longer than a
browser waits, and a worker has not loaded all apps.

The audit says for whom: begun, not done, and the user's row is gone.
"""

import logging
import os
import subprocess
import threading
import time

from django.conf import settings
from django.db import DatabaseError, connection

from allowlist.unfinished_forgetting import left_behind
from gateway_project import command_line
from gateway_project.backups.scheduled import OWN_ENVIRONMENT
from gateway_project.processes import child

logger = logging.getLogger(__name__)

LOOK_SECONDS = 5.0
AGAIN_SECONDS = 60.0


def start() -> None:
    """Look for work until the process ends. Cleaning that is cut off is left to the next one."""
    threading.Thread(target=run_forever, name="leftovers", daemon=True).start()


def run_forever() -> None:
    while True:
        seconds = LOOK_SECONDS
        try:
            if left_behind():
                connection.close()
                seconds = LOOK_SECONDS if clean() else AGAIN_SECONDS
        except DatabaseError:
            # It is away, or older than this code; its own checks say so.
            logger.debug("forgotten people are not looked for", exc_info=True)
        except Exception:
            logger.exception("cleaning up after forgotten people failed; it is tried again soon")
            seconds = AGAIN_SECONDS
        finally:
            connection.close()
        time.sleep(seconds)


def clean() -> bool:
    """Run ``manage.py person clean``; return whether it succeeded."""
    done = subprocess.run(
        child.command(*command_line.command("person", "clean")),
        cwd=settings.BASE_DIR,
        env={name: value for name, value in os.environ.items() if name not in OWN_ENVIRONMENT},
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
