"""The Celery workers: ``python -m gateway_project.processes.workers runs``, ``long``, or both.

Their tasks are wake-ups that end at once, so one light thread takes the messages of all queues:
``runs`` hands ids to one asyncio runner in its process, and ``long`` wakes one thread that starts a
process for each job. Gossip, mingle and heartbeats between workers are off: liveness is in the
database. The worker is built without Celery's command line, which would import a terminal toolkit
(0.6 s, 15 MB).
"""

import logging
import os
import signal
import sys
import time
import warnings
from collections.abc import Sequence
from typing import Any

from celery import Celery
from celery.apps import worker as celery_worker
from celery.exceptions import SecurityWarning
from celery.signals import worker_ready
from celery.worker import WorkController, state

from core.lib import tracing
from gateway_project.processes import begin, garbage, ready

logger = logging.getLogger(__name__)

PROCESS = "GATEWAY_PROCESS"
AGAIN_SECONDS = 2.0
WRONG_ARGUMENTS = 2
LEAN = {
    "without_gossip": True,
    "without_mingle": True,
    "without_heartbeat": True,
    "quiet": True,
    "loglevel": "WARNING",
    "redirect_stdouts": False,
    "pool_cls": "threads",
    "concurrency": 1,
}


class Worker(celery_worker.Worker):
    """Celery's worker, without its restart at SIGHUP, which leaves runs and jobs claimed."""

    def install_platform_tweaks(self, worker: WorkController) -> None:
        ours = signal.getsignal(signal.SIGHUP)
        super().install_platform_tweaks(worker)
        signal.signal(signal.SIGHUP, ours)


def options(queues: Sequence[str]) -> dict[str, Any]:
    name = f"{'-'.join(queues)}-{os.getpid()}@{os.uname().nodename}"
    return {"queues": list(queues), "hostname": name, **LEAN}


def report_ready(**_: object) -> None:
    ready.report()


def start_chores(**_: object) -> None:
    """Make backups and clean up after forgotten people beside the runs."""
    from gateway_project.backups import scheduled  # noqa: PLC0415 - needs Django's settings
    from gateway_project.personal_data import leftovers  # noqa: PLC0415

    scheduled.start()
    leftovers.start()


def settle_with_tools(**_: object) -> None:
    """Freeze loaded code in ``runs``, whose runner is still loading its tools."""
    from core.tools import registry  # noqa: PLC0415 - needs Django's settings

    registry.schemas()
    garbage.settle()


def load() -> Celery:
    """Return the Celery application, in a process that serves no pages."""
    os.environ[PROCESS] = "worker"
    os.environ.setdefault(
        "CELERY_SKIP_CHECKS", "1"
    )  # `up` and CI run them; 1 s and all of the URLs
    from gateway_project.celery import app  # noqa: PLC0415 - the settings read the line above

    return app


def main(*queues: str) -> int:
    """Run the worker of ``queues`` until SIGTERM; return its exit code, 2 for an unknown queue."""
    if not queues or set(queues) - {"runs", "long"}:
        sys.stderr.write("Name the queues of this worker: runs, long, or both.\n")
        return WRONG_ARGUMENTS
    # The warning is about pickle as root; root is usual in containers, and we accept only JSON.
    warnings.simplefilter("ignore", SecurityWarning)
    worker_ready.connect(report_ready)
    if "runs" in queues:
        worker_ready.connect(settle_with_tools)
        worker_ready.connect(start_chores)
    app = load()
    begin.begin("worker", queue=" and ".join(queues))
    tracing.load(queues[0])
    try:
        return work(app, queues)
    finally:
        tracing.close()


def work(app: Celery, queues: Sequence[str]) -> int:
    """Let a worker take messages until SIGTERM. Returns its exit code."""
    while True:
        worker = Worker(app=app, **options(queues))
        worker.start()
        if not worker.exitcode or is_stopping():
            return int(worker.exitcode or 0)
        # Celery stops by itself on unexpected errors of a broker. The runner and the starter of
        # jobs continue without wake-ups: they look for work when the broker is full.
        logger.error("the broker refuses wake-ups; asking again in %s s", AGAIN_SECONDS)
        if stopped_within(AGAIN_SECONDS):
            return 0


def is_stopping() -> bool:
    return state.should_stop is not None or state.should_terminate is not None


def stopped_within(seconds: float) -> bool:
    """Wait; return whether a stop was requested meanwhile."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline and not is_stopping():
        time.sleep(0.1)
    return is_stopping()


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
