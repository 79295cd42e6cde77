"""A ``long`` worker that dies on order: ``python -m tests.long.dying_worker``.

It loads everything once and forks the normal worker again and again, as ``tests.chaos.worker``
does. The order in CHAOS_FOLDER names a point; the process that comes to it kills the worker and
itself with SIGKILL. Each death is noted.
"""

import json
import os
import signal
import sys
from collections.abc import Callable
from functools import wraps
from importlib import import_module
from pathlib import Path
from typing import Any

from gateway_project.processes import child, workers
from tests.chaos.worker import keep_forking
from tests.long.points import POINTS, TEST_PLUGINS

FOLDER = Path(os.environ["CHAOS_FOLDER"])
_worker = 0


def die(point: str) -> None:
    """Note it, and end the worker and this process."""
    with (FOLDER / "deaths").open("a") as file:
        file.write(f"{point}\n")
    os.kill(_worker, signal.SIGKILL)
    os.kill(os.getpid(), signal.SIGKILL)


def arm(point: str) -> None:
    """Wrap the function of ``point``."""
    module, path, when = POINTS[point]
    owner: Any = import_module(module)
    *parents, name = path.split(".")
    for parent in parents:
        owner = getattr(owner, parent)
    setattr(owner, name, deadly(getattr(owner, name), point, when))


def deadly(original: Callable[..., Any], point: str, when: str) -> Callable[..., Any]:
    """``original`` with a death before or after it."""

    @wraps(original)
    def call(*args: Any, **kwargs: Any) -> Any:
        if when == "before":
            die(point)
        result = original(*args, **kwargs)
        if result is not None or point != "after claim":
            die(point)
        return result

    return call


def run_worker() -> None:
    """In the child: carry out the order, then be the normal worker with the plugins of the tests."""
    global _worker  # noqa: PLW0603 - what the forks of this process must know
    _worker = os.getpid()
    child.die_with_parent(parent=os.getppid())
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    order = FOLDER / "order.json"
    if order.exists():
        point = json.loads(order.read_text())["point"]
        order.unlink()
        arm(point)
    registry: Any = import_module("core.plugins.registry")
    registry.PLUGINS |= TEST_PLUGINS
    sys.exit(workers.main("long"))


if __name__ == "__main__":
    keep_forking(run_worker, "celery.concurrency.prefork")
