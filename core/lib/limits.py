"""Limits that a process sets to itself, or that a forked one gets before its program."""

import resource


def limit(*, memory: int, seconds: int, file_bytes: int = 0) -> None:
    """Limit the memory in bytes, the CPU time, and the size of each file that is written.

    A lower limit stays, as that of a long task whose process starts this one: to raise it is
    refused.
    """
    for what, most in (
        (resource.RLIMIT_AS, memory),
        (resource.RLIMIT_CPU, seconds),
        (resource.RLIMIT_FSIZE, file_bytes),
        (resource.RLIMIT_CORE, 0),
    ):
        hard = resource.getrlimit(what)[1]
        lowest = most if hard == resource.RLIM_INFINITY else min(most, hard)
        resource.setrlimit(what, (lowest, lowest))
