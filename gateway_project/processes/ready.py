"""Readiness of a child, reported to the supervisor as one byte on an inherited pipe."""

import os

READY_FD = "GATEWAY_READY_FD"


def report() -> None:
    """Report once that this process is ready; does nothing without a supervisor."""
    descriptor = os.environ.pop(READY_FD, "")
    if descriptor:
        os.write(int(descriptor), b"1")
        os.close(int(descriptor))
