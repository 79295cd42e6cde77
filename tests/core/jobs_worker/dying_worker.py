"""``long`` workers that die on order: ``python -m tests.core.jobs_worker.dying_worker``.

It loads everything once and forks LONG_MASTERS normal workers, a new one for each that died, as
``tests.chaos.worker`` does; with arguments it is the process of a job. Orders are files in CHAOS_FOLDER/orders, named after a point and a
number. A process that reaches a point with a job that has not died yet takes an order of it,
records it, and ends its worker and itself with SIGKILL: each order is one death, and each job dies
once.
"""

import os
import signal
import sys
from collections.abc import Callable
from functools import partial, wraps
from importlib import import_module
from pathlib import Path
from typing import Any

import django

from core.jobs_worker import __main__ as job
from core.lib import child
from gateway_project.processes import workers
from tests.chaos.worker import keep_forking
from tests.core.jobs_worker.points import POINTS, prepare

FOLDER = Path(os.environ["CHAOS_FOLDER"])
_worker = 0
_job = 0  # the job of this process


def arm(point: str) -> None:
    """Wrap the function of ``point``."""
    module, path, when = POINTS[point]
    owner: Any = import_module(module)
    *parents, name = path.split(".")
    for parent in parents:
        owner = getattr(owner, parent)
    setattr(owner, name, deadly(getattr(owner, name), point, when))


def deadly(original: Callable[..., Any], point: str, when: str) -> Callable[..., Any]:
    """Return ``original`` with a death before or after it."""

    @wraps(original)
    def call(*args: Any, **kwargs: Any) -> Any:
        global _job  # noqa: PLW0603 - the job of this process
        _job = kwargs.get("job_id", _job)
        if when == "before":
            obey(point)
            return original(*args, **kwargs)
        result = original(*args, **kwargs)
        if result is not None or original.__name__ != "claim":
            obey(point)
        return result

    return call


def obey(point: str) -> None:
    """Die, if there is an order and the job may die."""
    noted = FOLDER / "deaths" / str(_job)
    if noted.exists():
        return
    for order in (FOLDER / "orders").glob(f"{point}.*"):
        try:
            os.link(order, noted)
        except FileExistsError:
            return  # another worker dies with this job: both were about to claim it
        except FileNotFoundError:
            continue
        try:
            order.unlink()
        except FileNotFoundError:  # another job has taken it
            noted.unlink()
            continue
        noted.write_text(point)
        os.kill(_worker, signal.SIGKILL)
        os.kill(os.getpid(), signal.SIGKILL)


def run_worker() -> None:
    """Run the normal worker, in the child."""
    child.die_with_parent(parent=os.getppid())
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    starter: Any = import_module("core.jobs_worker.starter")
    starter.MODULE = "tests.core.jobs_worker.dying_worker"
    make_deadly(os.getpid())
    sys.exit(workers.main("long"))


def make_deadly(worker: int) -> None:
    """Obey orders in this process, which is ``worker`` or does a job of it."""
    global _worker  # noqa: PLW0603 - the worker of this process
    _worker = worker
    for point in POINTS:
        arm(point)
    prepare()


def run_job(parent: int, job_id: int, attempt: int) -> None:
    """Do a job as its own process does."""
    global _job  # noqa: PLW0603 - the job of this process
    _job = job_id
    django.setup()
    make_deadly(parent)
    code = job.main(parent, job_id, attempt)
    sys.stderr.flush()
    os._exit(code)


if __name__ == "__main__" and sys.argv[1:]:
    run_job(*map(int, sys.argv[1:]))
elif __name__ == "__main__":
    for name in ("orders", "deaths"):
        (FOLDER / name).mkdir(exist_ok=True)
    fork = partial(keep_forking, workers=int(os.environ.get("LONG_MASTERS", "1")))
    fork(run_worker, "celery.concurrency.thread", "core.jobs_worker.starter")
