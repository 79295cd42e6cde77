"""The machine under a benchmark: cores, CPU seconds and memory of process families."""

import os
import platform
import resource
import statistics
import sys
import time
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass

import psutil

from gateway_project.processes import footprint

WANTED_FILES = 65_536


@dataclass(frozen=True)
class Cores:
    """Where the measured processes and the measuring ones run; empty: anywhere."""

    served: frozenset[int]
    serving: frozenset[int]


def cores() -> Cores:
    """Return the first half of the cores for the measured processes, the rest for clients and
    stub."""
    if not hasattr(os, "sched_setaffinity"):
        return Cores(frozenset(), frozenset())
    every = sorted(os.sched_getaffinity(0))
    half = len(every) // 2
    if not half:
        return Cores(frozenset(), frozenset())
    return Cores(frozenset(every[:half]), frozenset(every[half:]))


def pin(pids: Iterable[int], to: frozenset[int]) -> None:
    """Keep these processes, their threads and their children on some cores, where allowed."""
    if not to:
        return
    for pid in pids:
        for process in family(pid):
            with suppress(psutil.Error, OSError):
                for thread in process.threads():
                    os.sched_setaffinity(thread.id, to)


def family(pid: int) -> list[psutil.Process]:
    """Return a process and its descendants."""
    with suppress(psutil.NoSuchProcess):
        parent = psutil.Process(pid)
        return [parent, *parent.children(recursive=True)]
    return []


def cpu_seconds(pid: int) -> float:
    """Return user and system time of a family so far, by the operating system's accounting."""
    total = 0.0
    for process in family(pid):
        with suppress(psutil.NoSuchProcess):
            total += own_cpu_seconds(process)
    return total


def own_cpu_seconds(process: psutil.Process) -> float:
    """Return user and system time of one process.

    On Linux by its CPU clock, which counts nanoseconds where ``/proc`` counts ticks of 10 ms; the
    number of the clock is that of clock_getcpuclockid(3).
    """
    if sys.platform == "linux":
        with suppress(OSError):
            return time.clock_gettime((~process.pid << 3) | 2)
    times = process.cpu_times()
    return float(times.user + times.system)


def cpu_of(pids: Mapping[str, int]) -> dict[str, float]:
    """Return the CPU seconds so far, by name."""
    return {name: cpu_seconds(pid) for name, pid in pids.items()}


def spent(before: Mapping[str, float], after: Mapping[str, float]) -> dict[str, float]:
    """Return the CPU seconds between two measurements, by name."""
    return {name: after[name] - before[name] for name in after}


def memory(pids: Mapping[str, int]) -> int:
    """Return the memory of the families in bytes (proportional)."""
    return footprint.total_pss(
        [each for name, pid in pids.items() for each in footprint.of_family(name, pid)]
    )


def allow_many_files() -> int:
    """Raise this process's limit of open files as far as possible; return the new limit."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = WANTED_FILES if hard == resource.RLIM_INFINITY else min(WANTED_FILES, hard)
    if soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
    return wanted


def percentile(values: Sequence[float], share: float) -> float:
    """Return the value below which ``share`` of them are; NaN for an empty list."""
    if not values:
        return float("nan")
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]


def median(values: Sequence[float]) -> float:
    """Return the median; NaN for an empty list."""
    return statistics.median(values) if values else float("nan")


def described() -> str:
    """Return a description of this machine in general words."""
    gigabytes = psutil.virtual_memory().total / 2**30
    return (
        f"{len(os.sched_getaffinity(0)) if hasattr(os, 'sched_getaffinity') else os.cpu_count()} "
        f"cores, {platform.machine()}, {gigabytes:.0f} GB, {platform.system()}, "
        f"Python {platform.python_version()}, load {os.getloadavg()[0]:.1f}"
    )
