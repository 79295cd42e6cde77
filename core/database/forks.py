"""A process is not forked while one of its threads is at something that its child could not end.

A fork copies the locks that other threads hold, and what SQLite's library notes of its own, but not
the threads: the child waits for them for ever (measured: a pool process that was forked while the
heartbeat was written took its job and never began it, 1 start of 3).
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
    """No fork of this process begins before the end of this, which must not fork itself.

    For threads beside one that forks. One at a time, so nobody should wait here for the network
    longer than a fork may take. ``subprocess`` is no fork in this sense.
    """
    with _lock:
        yield
