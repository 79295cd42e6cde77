"""The Celery workers: ``python -m gateway_project.processes.workers runs|long``.

``runs`` hands ids to one asyncio runner in its process, so one light thread takes the messages;
``long`` is a prefork pool, because its tasks are killed when they exceed their time or memory.
Gossip, mingle and heartbeats between workers are off: liveness is in the database. The worker is
built without Celery's command line, which would import a terminal toolkit (0.6 s, 15 MB).
"""

import logging
import os
import sys
import time
import warnings
from collections.abc import Callable
from typing import Any

from celery import Celery
from celery.exceptions import SecurityWarning
from celery.signals import worker_init, worker_process_init, worker_ready
from celery.worker import state

from core.lib import tracing
from gateway_project import environment
from gateway_project.processes import begin, child, garbage, ready

logger = logging.getLogger(__name__)

PROCESS = "GATEWAY_PROCESS"
AGAIN_SECONDS = 2.0
LEAN = {
    "without_gossip": True,
    "without_mingle": True,
    "without_heartbeat": True,
    "quiet": True,
    "loglevel": "WARNING",
    "redirect_stdouts": False,
}
MAX_TASKS_PER_CHILD = 20
MAX_KIB_PER_CHILD = 600_000  # RSS, looked at after each task


def options(queue: str) -> dict[str, Any]:
    """Return the options of the worker of ``queue``. ``LONG_WORKERS``: processes of ``long``."""
    common = {"queues": [queue], "hostname": f"{queue}-{os.getpid()}@{os.uname().nodename}", **LEAN}
    if queue == "runs":
        return {**common, "pool_cls": "threads", "concurrency": 1}
    return {
        **common,
        "pool_cls": "prefork",
        "concurrency": environment.number("LONG_WORKERS", 2, minimum=1),
        "max_tasks_per_child": MAX_TASKS_PER_CHILD,
        "max_memory_per_child": MAX_KIB_PER_CHILD,
    }


def bound_to(master: int) -> Callable[..., None]:
    """Return an initialiser that binds a pool process to the life of ``master``, even if that has
    already ended: reading the parent's pid only now could return the process that adopts
    orphans.
    """

    def bind(**_: object) -> None:
        if sys.platform == "linux":
            child.die_with_parent(parent=master)

    return bind


def report_ready(**_: object) -> None:
    ready.report()


def settle_memory(**_: object) -> None:
    """Freeze loaded code before the pool of ``long`` is forked, so that its pages stay shared."""
    garbage.settle()


def start_chores(**_: object) -> None:
    """Make backups, and clean after forgotten people, beside the runs: their workers are
    everywhere.
    """
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


def main(queue: str) -> int:
    """Run the worker of ``queue`` until SIGTERM. Returns its exit code."""
    # The warning is about pickle as root; root is usual in containers, and we accept only JSON.
    warnings.simplefilter("ignore", SecurityWarning)
    worker_process_init.connect(bound_to(os.getpid()), weak=False)
    worker_ready.connect(report_ready)
    if queue == "long":
        worker_init.connect(settle_memory)
    else:
        worker_ready.connect(settle_with_tools)
        worker_ready.connect(start_chores)
    app = load()
    begin.begin("worker", queue=queue)
    tracing.load(queue, forks=queue == "long")
    # A pool process that is busy for minutes must not hold the next wake-up while others are
    # free, nor lose it when it is killed: it stays in the broker until a process is free. (The
    # tasks of `runs` end immediately; its pool would notice a free thread a second later.)
    app.conf.worker_disable_prefetch = queue == "long"
    try:
        return work(app, queue)
    finally:
        tracing.close()


def work(app: Celery, queue: str) -> int:
    """Let a worker take messages until SIGTERM. Returns its exit code."""
    while True:
        worker = app.Worker(**options(queue))
        worker.start()
        if queue != "runs" or not worker.exitcode or is_stopping():
            return int(worker.exitcode or 0)
        # Celery stops by itself on unexpected errors of a broker. The runner continues without
        # wake-ups: its sweeper works when the broker is full.
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
    sys.exit(main(sys.argv[1]))
