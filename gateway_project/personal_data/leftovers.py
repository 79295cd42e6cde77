"""Traces of people who were forgotten in the admin are cleaned up by a thread of each ``runs``
worker (decision 217), which starts a process for it: rewriting SQLite's file takes longer than a
browser waits, and a worker has not loaded all apps.

The audit says for whom: begun, not done, and the user's row is gone.
"""

import subprocess

from django.conf import settings

from allowlist.unfinished_forgetting import left_behind
from core.lib import child
from gateway_project import command_line
from gateway_project.processes import periodic

AGAIN_SECONDS = 60.0


class CleaningError(Exception):
    """The process failed; the text is the end of what it said."""


def start() -> None:
    """Look for work until the process ends. Cleaning that is cut off is left to the next one."""
    periodic.start("leftovers", left_behind, clean, again=AGAIN_SECONDS)


def clean(_: list[int]) -> None:
    """Run ``manage.py person clean``. Raises CleaningError."""
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
        raise CleaningError(done.stdout.strip()[-2000:])
