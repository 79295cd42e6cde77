"""A ``runs`` worker that kills itself: ``python -m tests.chaos.worker runs``.

This process loads everything once and then forks the normal worker, again and again: a death costs
a fork, not a start. Before each fork it reads the order in CHAOS_FOLDER (``{"point", "at"}``, taken
away when read) and wraps the named function in the child, which sends itself SIGKILL at its
``at``-th call. Each death is noted in the folder.
"""

import json
import os
import random
import signal
import sys
import threading
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import partial
from importlib import import_module
from pathlib import Path
from types import FrameType
from typing import Any

import django

from core.lib import child
from gateway_project.processes import ready
from gateway_project.processes import workers as processes
from tests.chaos.worker_points import POINTS

FOLDER = Path(os.environ["CHAOS_FOLDER"])
ORDER = FOLDER / "order.json"
TAKER = FOLDER / "taker"  # the pid of the worker that took the last order
DEATHS = FOLDER / "deaths"
FORKS = FOLDER / "forks"
# Imported before the fork: in the workers it would cost 0.3 s a death.
CELERY = (
    "celery.apps.worker",
    "celery.backends.base",
    "celery.contrib.django.task",
    "celery.worker.components",
    "celery.worker.consumer",
    "celery.worker.control",
    "celery.worker.strategy",
    "kombu.transport.redis",
)


class Trigger:
    """Counts the calls of one point and dies at the right one."""

    def __init__(self, *, name: str, at: int) -> None:
        self.name, self.left = name, at
        self.lock = threading.Lock()

    def __call__(self) -> None:
        with self.lock:
            self.left -= 1
            if self.left == 0:
                with DEATHS.open("a") as file:
                    file.write(f"{self.name}\n")
                os.kill(os.getpid(), signal.SIGKILL)


def arm(*, point: str, at: int) -> None:
    """Wrap the function of ``point`` in this process."""
    module_name, path, when = POINTS[point]
    owner: Any = import_module(module_name)
    *parents, name = path.split(".")
    for parent in parents:
        owner = getattr(owner, parent)
    trigger = Trigger(name=point, at=at)
    setattr(owner, name, wrapped(getattr(owner, name), trigger, when))


def wrapped(original: Callable[..., Any], trigger: Trigger, when: str) -> Callable[..., Any]:
    """Return ``original`` with the trigger before it, or after it when it did something."""

    def call(*args: Any, **kwargs: Any) -> Any:
        if when == "before":
            trigger()
            return original(*args, **kwargs)
        result = original(*args, **kwargs)
        if result is not None or original.__name__ != "claim":
            trigger()
        return result

    return call


def run_worker() -> None:
    """Carry out the order, then run the normal worker; called in the child."""
    child.die_with_parent(parent=os.getppid())
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    if ORDER.exists():
        order = json.loads(ORDER.read_text())
        TAKER.write_text(str(os.getpid()))
        ORDER.unlink()
        arm(**order)
    registry = import_module("channels_app.registry")
    registry.CHANNELS["recorder"] = "tests.chaos.recorder.CHANNEL"
    sys.exit(processes.main("runs"))


def around(*functions: tuple[str, str]) -> dict[str, tuple[str, str, str]]:
    """Return the points before and after functions (module, name), as ``POINTS`` has them."""
    return {
        f"{when} {name}": (module, name, when)
        for module, name in functions
        for when in ("before", "after")
    }


def work_and_die(steps: Mapping[str, tuple[str, str, str]], *, at_most: int) -> None:
    """Run the normal worker, which in four of five cases kills itself at one of ``steps``, at its
    first to ``at_most``-th call, unless the folder has a file ``calm``; called in the child.
    """
    child.die_with_parent(parent=os.getppid())
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    with FORKS.open("a") as file:
        file.write(".")
    dice = random.Random(f"{os.environ['KILLS_SEED']} {FORKS.stat().st_size}")
    if dice.random() < 0.8 and not (FOLDER / "calm").exists():
        POINTS.update(steps)
        arm(point=dice.choice(list(steps)), at=dice.randint(1, at_most))
    sys.exit(processes.main("runs"))


def stop(pids: set[int], number: int, _frame: FrameType | None) -> None:
    """End with the children."""
    for pid in pids:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGTERM)
    for pid in pids:
        with suppress(ChildProcessError):
            os.waitpid(pid, 0)
    os._exit(0)


def keep_forking(work: Callable[[], None], *modules: str, workers: int = 1) -> None:
    """Load everything and ``modules`` once, say so, and fork ``work`` whenever one is missing."""
    processes.load()
    django.setup()
    for name in ("channels_app.worker.tasks", "core.providers.scripted", *CELERY, *modules):
        import_module(name)
    ready.report()
    alive: set[int] = set()
    signal.signal(signal.SIGTERM, partial(stop, alive))
    while True:
        while len(alive) < workers:
            pid = os.fork()
            if pid == 0:
                work()
            alive.add(pid)
        alive.discard(os.wait()[0])


if __name__ == "__main__":
    keep_forking(run_worker, "celery.concurrency.thread")
