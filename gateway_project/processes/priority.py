"""Workers step back: who takes a message goes before who answers it (docs/decisions/159)."""

import os
import time
from pathlib import Path

NICENESS = {"runs": 5, "long": 10}
SESSION = Path("/proc/self/autogroup")
# The kernel takes one such change a tenth of a second from all who are not root.
TRIES = 20
PAUSE_SECONDS = 0.1


def step_back(by: int) -> None:
    """Let others have the processor first: this thread, its later ones, and its children.

    Linux weighs the sessions of processes against each other before it looks at what is nice within
    one (``sched_autogroup``, sched(7)), so our session steps back as well, where it is ours alone.
    """
    os.nice(by)
    if os.getsid(0) != os.getpid():
        return
    for _ in range(TRIES):
        try:
            SESSION.write_text(str(by))
        except BlockingIOError:
            time.sleep(PAUSE_SECONDS)
        except OSError:
            return  # no Linux, or one that weighs by other groups
        else:
            return
