"""Hold off forks of this process while one of its threads uses what a child could not release.

A fork copies the locks that other threads hold, and the internal state of SQLite's library, but not
the threads: the child waits for ever (measured: of pool processes forked while the heartbeat was
written, 1 of 3 took its job and never began it).
"""

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager

_lock = threading.Lock()
os.register_at_fork(
    before=_lock.acquire, after_in_parent=_lock.release, after_in_child=_lock.release
)


@contextmanager
def held_off() -> Iterator[None]:
    """Let no fork of this process begin inside the block, which must not fork itself.

    For threads beside one that forks. One block at a time: do not wait for the network in it longer
    than a fork may be delayed. ``subprocess`` is not affected.
    """
    with _lock:
        yield
