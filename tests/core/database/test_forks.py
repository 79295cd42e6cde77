"""A forked child can continue: it inherits no lock that a thread of its parent held."""

import fcntl
import os
import signal
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from django.db import connection

from channels_app.worker import tasks
from core.conversations import jobs, runs
from core.database import forks, transactions

WITHIN_SECONDS = 60.0


def forked(check: Callable[[], bool]) -> bool:
    """Return whether ``check`` was true in a child; a child that hangs is killed, and counts as
    false.
    """
    pid = os.fork()
    if pid == 0:
        signal.alarm(int(WITHIN_SECONDS))
        good = False
        with suppress(BaseException):
            good = check()
        os._exit(0 if good else 1)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0


class Busy:
    """A thread that runs ``work`` until ``go_on`` is set; ``work`` must call ``stand``."""

    def __init__(self, work: Callable[[], object]) -> None:
        self.arrived, self.go_on = threading.Event(), threading.Event()
        self.thread = threading.Thread(target=work, daemon=True)

    def stand(self, **_: Any) -> list[int]:
        self.arrived.set()
        assert self.go_on.wait(WITHIN_SECONDS)
        return []


def assert_no_fork_while_at(busy: Busy) -> None:
    """Assert that a fork requested meanwhile happens only afterwards."""
    busy.thread.start()
    assert busy.arrived.wait(WITHIN_SECONDS)
    children: list[int] = []
    over_in_child, comes = threading.Event(), threading.Event()

    def fork() -> None:
        comes.set()
        pid = os.fork()
        if pid == 0:
            os._exit(0 if over_in_child.is_set() else 1)
        children.append(pid)

    forking = threading.Thread(target=fork)
    forking.start()
    assert comes.wait(WITHIN_SECONDS)
    time.sleep(0.05)  # enough for an unguarded fork to happen
    over_in_child.set()
    busy.go_on.set()
    forking.join(WITHIN_SECONDS)
    assert os.waitstatus_to_exitcode(os.waitpid(children[0], 0)[1]) == 0


def test_no_fork_happens_in_a_block_that_holds_it_off() -> None:
    def work() -> None:
        with forks.held_off():
            busy.stand()

    busy = Busy(work)
    assert_no_fork_while_at(busy)


def test_no_pool_process_is_forked_while_the_heartbeat_is_written(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The child would inherit the writers' lock, held by a thread that it does not have."""

    def heard_from(**_: Any) -> None:
        busy.stand()
        sys.exit()  # it would run for ever

    def work() -> None:
        with suppress(SystemExit):
            tasks.send_heartbeats("long")

    busy = Busy(work)
    monkeypatch.setattr(runs, "heard_from", heard_from)
    monkeypatch.setattr("core.database.schema_version.problem", lambda: "")
    assert_no_fork_while_at(busy)


def test_no_pool_process_is_forked_while_waiting_jobs_are_woken(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    busy = Busy(tasks.wake_waiting)
    monkeypatch.setattr(jobs, "wake_waiting", busy.stand)
    assert_no_fork_while_at(busy)


def test_a_fork_may_write_while_its_parent_writes() -> None:
    """A thread other than the heartbeat that writes: the child does not wait for it."""

    def work() -> None:
        with transactions._write_lock:
            busy.stand()

    busy = Busy(work)
    busy.thread.start()
    assert busy.arrived.wait(WITHIN_SECONDS)
    try:
        assert forked(lambda: transactions._write_lock.acquire(timeout=WITHIN_SECONDS / 2))
    finally:
        busy.go_on.set()


def test_a_fork_has_a_turn_of_its_own_and_leaves_its_parent_s(tmp_path: Path) -> None:
    """A lock file that both had open would be released for both, and kept by the survivor."""
    name = str(tmp_path / "database")

    def turn() -> int:
        return transactions.lock_files(name)[1]

    before = turn()
    fcntl.flock(before, fcntl.LOCK_EX)

    def is_taken() -> bool:
        with suppress(OSError):
            os.fstat(before)
            return False
        try:
            fcntl.flock(turn(), fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
        return False

    try:
        assert forked(is_taken)
        fcntl.flock(before, fcntl.LOCK_UN)
        assert not forked(is_taken)
    finally:
        for file in ("gate", "turn"):
            os.close(transactions._lock_files.pop(f"{name}.{file}"))


@pytest.mark.skipif(connection.vendor != "sqlite", reason="PostgreSQL has no lock files")
def test_a_lock_file_that_cannot_be_opened_hinders_no_write(
    transactional_db: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As one that a command of root has made; SQLite's own lock is what counts."""
    name = str(tmp_path / "database")
    Path(f"{name}.turn").mkdir()  # root, as tests may be, opens any file
    with monkeypatch.context() as here:
        here.setitem(connection.settings_dict, "NAME", name)
        with transactions.writer_lock():
            pass
    os.close(transactions._lock_files.pop(f"{name}.gate"))
