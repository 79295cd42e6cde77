"""Two ``runs`` workers that are forked again when they die: ``python -m
tests.schedules_chaos.worker``."""

import os
import signal
import sys

from gateway_project.processes import child
from gateway_project.processes import workers as processes
from tests.chaos.worker import keep_forking


def work() -> None:
    """Run the normal worker; called in the child."""
    child.die_with_parent(parent=os.getppid())
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    sys.exit(processes.main("runs"))


if __name__ == "__main__":
    keep_forking(work, "celery.concurrency.thread", workers=2)
