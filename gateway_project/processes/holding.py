"""A running `up` that waits while an update replaces its code, and the way back of an update.

`update` holds the lock of updates, sends HOLD to the supervisor and waits for the mark. When the
lock is free again, the supervisor becomes a new `up`. Of an update that was cut off a script is
left, which brings the old version back (docs/decisions/213). The supervisor imports this, and no
Django with it.
"""

import fcntl
import os
import shlex
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import NoReturn, TextIO

from gateway_project import command_line, home
from gateway_project.processes import console
from gateway_project.processes.preflight import StartError, run_folder

HOLD = signal.SIGUSR1
LOOK_SECONDS = 0.1
IS_HELD = "GATEWAY_IS_HELD"  # tells the script that nothing runs, though a supervisor has the lock


def held_mark(folder: Path) -> Path:
    """Return the file that is there while the supervisor waits; it holds its pid."""
    return run_folder(folder) / "held"


def way_back(folder: Path) -> Path:
    """Return the script that brings the old version back, while an update replaces it."""
    return run_folder(folder) / "way-back.sh"


def lock(folder: Path) -> TextIO | None:
    """Lock the updates of this home until the result is closed, also in processes that inherit it:
    the commands of an updater that was killed end first. None while others have the lock.
    """
    file = (run_folder(folder) / "update.lock").open("a+", encoding="utf-8")
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        file.close()
        return None
    fcntl.fcntl(file, fcntl.F_SETFD, 0)  # not closed by `exec`
    return file


def wait(folder: Path, *, pause: Callable[[float], None], is_over: Callable[[], bool]) -> None:
    """Return when no update runs any more, or ``is_over``; ``pause``: sleeps so many seconds."""
    mark = held_mark(folder)
    try:
        mark.write_text(str(os.getpid()), encoding="utf-8")
    except OSError as error:  # a full disk: the update gives up, and the gateway goes on
        console.say("up", f"cannot wait for an update ({error.strerror}); it starts again")
        return
    console.say("up", "an update replaces the code; it starts again afterwards")
    try:
        while not is_over():
            if (file := lock(folder)) is not None:
                file.close()
                return
            pause(LOOK_SECONDS)
    finally:
        mark.unlink(missing_ok=True)


def go_back(folder: Path) -> bool:
    """Bring the old version back if an update was cut off; return whether it was.

    Raises StartError when that fails, or while the update runs.
    """
    script = way_back(folder)
    if not script.exists():
        return False
    file = lock(folder)
    if file is None:
        raise StartError("an update of this installation runs; wait for its end")
    with file:
        console.say("update", "was cut off: the version before it comes back")
        run_way_back(folder)
    return True


def run_way_back(folder: Path) -> None:
    """Run the script, under the lock of updates, which its commands inherit.

    Raises StartError; the script is there to be run again then.
    """
    script = way_back(folder)
    done = subprocess.run(
        ["/bin/sh", str(script)],
        env={**os.environ, IS_HELD: "1"},
        stdin=subprocess.DEVNULL,
        check=False,
        close_fds=False,
    )
    if done.returncode:
        raise StartError(
            "the version before an update could not be brought back. Run `sh "
            f"{shlex.quote(str(script))}` with the settings of the gateway, and mend what it says; "
            "it can be run again."
        )


def become_up() -> NoReturn:
    """Replace this process by `up` of the code that is there now."""
    os.environ.pop(console.STARTED, None)
    os.chdir(home.BASE_DIR)  # where the code is
    os.execv(sys.executable, command_line.command("up"))  # noqa: S606 - no shell on purpose
