"""Console output of `up`: one line per state, with the seconds since the start."""

import os
import sys
import time

STARTED = "GATEWAY_UP_STARTED"


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
