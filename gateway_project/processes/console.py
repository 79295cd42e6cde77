"""Console output of `up`: one line per state, with the seconds since the start."""

import io
import os
import sys
import time
from pathlib import Path

STARTED = "GATEWAY_UP_STARTED"


def settle() -> None:
    """Let a terminal of another encoding than UTF-8 get an escape for what it cannot show, as in
    the name of an unknown sender: an error would end the command, or the gateway. An output that is
    closed (`>&-`) takes everything.
    """
    if sys.stdout is None:
        sys.stdout = Path(os.devnull).open("w", encoding="utf-8")  # noqa: SIM115 - as long as we run
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")


def reason(error: Exception) -> str:
    """Return the first line of an error, without its full stop; the name of its type for none."""
    return (str(error).strip() or type(error).__name__).splitlines()[0].rstrip(".")


def seconds() -> float:
    """Return the seconds since `manage.py` started, from the environment (a POSIX time)."""
    return max(time.time() - float(os.environ.get(STARTED) or time.time()), 0.0)


def say(name: str, text: str) -> None:
    write(f"[{seconds():6.1f} s] {name:<9} {text}")


def write(text: str) -> None:
    """Print a line verbatim; a closed terminal is ignored."""
    try:
        sys.stdout.write(f"{text}\n")
        sys.stdout.flush()
    except OSError:
        return
