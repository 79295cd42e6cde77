"""The disk's own latency: a page written and synced repeatedly, as a commit does.

``python -m tests.benchmarks.disk FOLDER SECONDS PER_SECOND`` prints the ms of each sync, as JSON.
It is the floor of all commits: no acknowledgement is faster than the disk.
"""

import json
import os
import sys
import time
from pathlib import Path

PAGE = 8192  # bytes: PostgreSQL's
PAGES = 256
sync = getattr(os, "fdatasync", os.fsync)


def syncs(folder: Path, *, seconds: float, per_second: float) -> list[float]:
    """Return the ms of each sync; they are due at a steady pace, and none waits for the one
    before."""
    path = folder / "synced"
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        os.write(descriptor, bytes(PAGE * PAGES))
        os.fsync(descriptor)
        began, found = time.monotonic(), []
        for number in range(int(seconds * per_second)):
            time.sleep(max(0.0, began + number / per_second - time.monotonic()))
            os.pwrite(descriptor, os.urandom(PAGE), PAGE * (number % PAGES))
            before = time.perf_counter()
            sync(descriptor)
            found.append((time.perf_counter() - before) * 1000)
        return found
    finally:
        os.close(descriptor)
        path.unlink()


if __name__ == "__main__":
    where, how_long, pace = sys.argv[1:]
    print(json.dumps(syncs(Path(where), seconds=float(how_long), per_second=float(pace))))
