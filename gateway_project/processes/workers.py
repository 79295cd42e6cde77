"""The Celery workers: ``python -m gateway_project.processes.workers runs|long``.

``runs`` hands ids to one asyncio runner in its process, so one light thread takes the messages;
``long`` is a prefork pool, because its tasks are killed when they exceed their time or memory.
Gossip, mingle and heartbeats between workers are off: the database knows who is alive.
"""

import os
import sys

from celery.signals import worker_process_init, worker_ready

from gateway_project.celery import app
from gateway_project.processes import child, ready

LEAN = (
    "--without-gossip",
    "--without-mingle",
    "--without-heartbeat",
    "--loglevel",
    "WARNING",
)
POOLS = {
    "runs": ("--pool", "threads", "--concurrency", "1"),
    "long": (
        "--pool",
        "prefork",
        "--max-tasks-per-child",
        "20",
        "--max-memory-per-child",
        "600000",  # KiB of RSS; looked at after each task
    ),
}


def arguments(queue: str) -> list[str]:
    """The command line of the worker of ``queue``."""
    pool = [*POOLS[queue]]
    if queue == "long":
        pool += ["--concurrency", os.environ.get("LONG_WORKERS") or "2"]
    return [
        "--quiet",
        "worker",
        "--queues",
        queue,
        "--hostname",
        f"{queue}-{os.getpid()}@%h",
        *pool,
        *LEAN,
    ]


def bind_pool_process(**_: object) -> None:
    """A pool process ends with its master, even when the master is killed."""
    if sys.platform == "linux":
        child.die_with_parent(parent=os.getppid())


def tell_ready(**_: object) -> None:
    """The worker takes messages now."""
    ready.tell()


def main(queue: str) -> None:
    """Run the worker of ``queue`` until SIGTERM."""
    worker_process_init.connect(bind_pool_process)
    worker_ready.connect(tell_ready)
    app.worker_main(arguments(queue))


if __name__ == "__main__":
    main(sys.argv[1])
