"""Memory of the processes of a running gateway.

RSS counts a shared page in every process; PSS divides it among them, so only PSS can be summed
(proc_pid_smaps(5)). Where the kernel reports no PSS, RSS is used.
"""

from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import psutil

from gateway_project.processes.state import State


@dataclass(frozen=True)
class Footprint:
    """One process; sizes in bytes."""

    name: str
    pid: int
    rss: int
    pss: int


def measure(running: State) -> list[Footprint]:
    """Return every process of the gateway: the supervisor and its descendants."""
    found = [of_process("up", psutil.Process(running.pid))]
    for name, process in running.processes.items():
        if process.pid:
            found.extend(of_family(name, process.pid))
    return found


def of_family(name: str, pid: int) -> Iterator[Footprint]:
    """Return a process and its descendants; one that ends meanwhile is left out."""
    with suppress(psutil.NoSuchProcess):
        parent = psutil.Process(pid)
        yield of_process(name, parent)
        for below in parent.children(recursive=True):
            with suppress(psutil.NoSuchProcess):
                yield of_process(f"{name} task", below)


def of_process(name: str, process: psutil.Process) -> Footprint:
    rss = process.memory_info().rss
    return Footprint(name=name, pid=process.pid, rss=rss, pss=pss(process.pid) or rss)


def pss(pid: int) -> int:
    """Return the proportional set size in bytes; 0 when the kernel does not report it."""
    with suppress(OSError):
        for line in Path(f"/proc/{pid}/smaps_rollup").read_text(encoding="ascii").splitlines():
            if line.startswith("Pss:"):
                return int(line.split()[1]) * 1024
    return 0


def report(footprints: Sequence[Footprint]) -> list[str]:
    """Return a table in MB (2**20 bytes)."""
    without = [each for each in footprints if each.name != "model"]
    rows = [line(each.name, each.pid, each.rss, each.pss) for each in footprints]
    return [
        f"{'process':<16} {'pid':>8} {'RSS MB':>8} {'PSS MB':>8}",
        *rows,
        line("without model", "", sum(each.rss for each in without), total_pss(without)),
        line("all", "", sum(each.rss for each in footprints), total_pss(footprints)),
    ]


def total_pss(footprints: Sequence[Footprint]) -> int:
    return sum(each.pss for each in footprints)


def line(name: str, pid: int | str, rss: int, pss: int) -> str:
    return f"{name:<16} {pid:>8} {rss / 2**20:>8.1f} {pss / 2**20:>8.1f}"
