"""Limits that a process sets to itself, or that a forked one gets before its program."""

import resource


def limit(*, memory: int, seconds: int, file_bytes: int = 0) -> None:
    """Limit the memory in bytes, the CPU time, and the size of each file that is written."""
    for what, most in (
        (resource.RLIMIT_AS, memory),
        (resource.RLIMIT_CPU, seconds),
        (resource.RLIMIT_FSIZE, file_bytes),
        (resource.RLIMIT_CORE, 0),
    ):
        lower(what, most)


def lower(kind: int, most: int) -> None:
    """Lower a limit of this process; a lower one stays, as raising it is refused."""
    hard = resource.getrlimit(kind)[1]
    lowest = most if hard == resource.RLIM_INFINITY else min(most, hard)
    resource.setrlimit(kind, (lowest, lowest))
