"""A job's process without Django: ``python -m tests.core.jobs_worker.pretend PARENT JOB ATTEMPT``.

It starts a process, writes both pids to a file of the folder PRETEND, and ends with the code in the
file ``end`` of that folder when it is there.
"""

import os
import subprocess
import sys
import time
from pathlib import Path

from core.lib.child import die_with_parent

if __name__ == "__main__":
    die_with_parent(parent=int(sys.argv[1]))
    folder, number = Path(os.environ["PRETEND"]), "-".join(sys.argv[2:])
    started = subprocess.Popen(["sleep", "600"])
    (folder / f"{number}.new").write_text(f"{os.getpid()} {started.pid}")
    (folder / f"{number}.new").rename(folder / number)
    while not (folder / "end").exists():
        time.sleep(0.01)
    sys.exit(int((folder / "end").read_text()))
