"""What `up` tells the person in front of it: one line a state, with the seconds since the start."""

import os
import sys
import time

STARTED = "GATEWAY_UP_STARTED"


def seconds() -> float:
    """Seconds since `manage.py` started, which the environment remembers (a POSIX time)."""
    return max(time.time() - float(os.environ.get(STARTED) or time.time()), 0.0)


def say(name: str, text: str) -> None:
    """One line: when, which process, what."""
    write(f"[{seconds():6.1f} s] {name:<9} {text}")


def write(text: str) -> None:
    """A line as it is. A closed terminal is no reason to stop."""
    try:
        sys.stdout.write(f"{text}\n")
        sys.stdout.flush()
    except OSError:
        return
