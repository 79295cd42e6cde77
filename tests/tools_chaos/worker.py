"""Two ``runs`` workers that are forked again when they die: ``python -m tests.tools_chaos.worker``.

Most of them kill themselves at a step of a question or a call, until CHAOS_FOLDER has a file
``over``.
"""

import os
import random
import signal
import sys

from gateway_project.processes import child
from gateway_project.processes import workers as processes
from tests.chaos.worker import FOLDER, arm, keep_forking
from tests.chaos.worker_points import POINTS

CALLS = "core.conversations.tool_calls"
STEPS = {
    f"{when} {name}": (module, name, when)
    for module, name in (
        (CALLS, "pause"),
        (CALLS, "kept_for"),
        (CALLS, "start"),
        (CALLS, "finish"),
        ("tests.tools_chaos.effect", "carry_out"),
        ("channels_app.tool_requests.asking", "put"),
        ("core.conversations.runs", "settle"),
    )
    for when in ("before", "after")
}
FORKS = FOLDER / "forks"


def work() -> None:
    """Run the normal worker, which may kill itself; called in the child."""
    child.die_with_parent(parent=os.getppid())
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    with FORKS.open("a") as file:
        file.write(".")
    dice = random.Random(f"{os.environ['KILLS_SEED']} {FORKS.stat().st_size}")
    if dice.random() < 0.8 and not (FOLDER / "over").exists():
        POINTS.update(STEPS)
        arm(point=dice.choice(list(STEPS)), at=dice.randint(1, 4))
    sys.exit(processes.main("runs"))


if __name__ == "__main__":
    keep_forking(work, "celery.concurrency.thread", "tests.tools_chaos.effect", workers=2)
