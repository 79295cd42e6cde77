"""Run a command that ends with its parent: ``python child.py PARENT_PID COMMAND ARGUMENT…``.

On Linux the kernel does it (``PR_SET_PDEATHSIG``, prctl(2); it survives ``execve``), and this
process becomes the command. Elsewhere it stays, watches its parent and ends the command with it.
Run as a file, isolated and without site-packages, it costs about 20 ms.
"""

import ctypes
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from pathlib import Path

PR_SET_PDEATHSIG = 1
LIBC = ctypes.CDLL(None, use_errno=True)
# Found here: after a fork the loader's lock may be held by a thread that the child has not.
PRCTL = LIBC.prctl if sys.platform == "linux" else None
WATCH_SECONDS = 1.0


def command(*arguments: str) -> list[str]:
    """Return the command line that runs ``arguments`` for the lifetime of the calling process.

    Call it and start it from a thread that lives as long as the process: the kernel watches the
    thread that forked.
    """
    wrapper = [sys.executable, "-I", "-S", str(Path(__file__).resolve()), str(os.getpid())]
    return [*wrapper, *arguments]


def die_with_parent(*, parent: int) -> None:
    """Request SIGKILL from the kernel (Linux) when ``parent`` ends; exit now if it already has."""
    if PRCTL is not None and PRCTL(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "prctl(PR_SET_PDEATHSIG) failed")
    if os.getppid() != parent:
        os._exit(1)


def watch_parent(*, parent: int, process: subprocess.Popen[bytes]) -> None:
    """Kill ``process`` once this process is no longer a child of ``parent``; return then."""
    while os.getppid() == parent:
        time.sleep(WATCH_SECONDS)
    process.kill()


def stay_and_watch(*, parent: int, arguments: Sequence[str], fds: Sequence[int]) -> int:
    """Run the command until it or ``parent`` ends, and forward signals; return its exit code."""
    process = subprocess.Popen(arguments, pass_fds=fds)
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGQUIT, signal.SIGHUP):
        signal.signal(number, lambda received, _frame: process.send_signal(received))
    threading.Thread(
        target=watch_parent, kwargs={"parent": parent, "process": process}, daemon=True
    ).start()
    return process.wait()


def inherited_fds() -> list[int]:
    """Return the descriptors beyond stdio that the parent passed on purpose."""
    names = ("GATEWAY_READY_FD", "GATEWAY_LISTEN_FD")
    return [int(value) for name in names if (value := os.environ.get(name))]


def main(arguments: Sequence[str]) -> int:
    parent, *rest = arguments
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)
    if sys.platform == "linux":
        die_with_parent(parent=int(parent))
        os.execv(rest[0], rest)  # noqa: S606 - there is no shell here on purpose
    return stay_and_watch(parent=int(parent), arguments=rest, fds=inherited_fds())


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
