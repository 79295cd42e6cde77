"""The jobs of this machine: claims them while a place is free, and watches their processes.

    wake() or every LOOK_SECONDS: a job is queued, a place is free ─► claimed ─► a process for it
    every WATCH_SECONDS, of each process: it has ended; it is killed; or its lease is renewed

The process works and updates its own row (``core.jobs_worker.process``).
"""

import logging
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import ParamSpec

from django.conf import settings
from django.db import Error as DatabaseFailure
from django.db import connections

from core.conversations import jobs, runs
from core.database import schema_version
from core.jobs_worker import steps
from core.jobs_worker.process import ENDED_WELL, NOT_NOW, OUT_OF_MEMORY
from core.jobs_worker.work import TOO_MUCH_MEMORY, discard
from core.lib.log_ids import Ids, under
from core.models import Job

logger = logging.getLogger(__name__)

WATCH_SECONDS, LOOK_SECONDS, BEAT_SECONDS = 0.25, 2.0, 5.0
STOP_SECONDS = 2.0
PAUSE_SECONDS = 5.0  # after a process that could not begin
MODULE = "core.jobs_worker"
TOO_LONG = "This took too long and was ended."
P = ParamSpec("P")


class Child:
    """A claimed job and its process, which leads a session."""

    def __init__(self, job: Job) -> None:
        """Start the process. Raises OSError."""
        self.job = job
        self.ids = Ids(job.run.public_id, job.run.session.public_id)
        self.process = subprocess.Popen(
            [sys.executable, "-m", MODULE, *map(str, (os.getpid(), job.id, job.attempt))],
            stdin=subprocess.DEVNULL,
            start_new_session=True,
        )
        self._deadline = time.monotonic() + settings.JOB_SECONDS
        self._keep_at = 0.0

    def watch(self) -> None:
        """Clean up after its end, end it, or renew the lease, as is due."""
        code = self.process.poll()
        if code is not None:
            self._kill_group()
            after(self.job, code)
            return
        reason = why_not(self.job, self._deadline)
        if reason is not None:
            self._kill()
            reason()
            quietly(partial(discard, self.job))
            quietly(partial(steps.drop_answers, self.job.id))
        elif time.monotonic() > self._keep_at:
            self._keep_at = time.monotonic() + settings.RUN_LEASE_SECONDS / 3
            if not quietly(partial(jobs.keep, job=self.job)):
                self._deadline = self._keep_at  # the job is over: so long its process may take

    def end(self) -> None:
        """Kill it at the stop of its worker: another one begins the job again at once."""
        self._kill()
        if self.process.returncode != ENDED_WELL:
            quietly(partial(discard, self.job))
            jobs.release(job=self.job)

    def _kill(self) -> None:
        """Kill it and its descendants."""
        self._kill_group()
        self.process.kill()
        self.process.wait()

    def _kill_group(self) -> None:
        """Kill what it started and did not end itself."""
        with suppress(ProcessLookupError, PermissionError):  # macOS: all have just ended
            os.killpg(self.process.pid, signal.SIGKILL)


class Starter:
    """One thread that starts and watches up to LONG_WORKERS jobs. The kernel ends them with it."""

    def __init__(self) -> None:
        self._name = f"long:{socket.gethostname()}:{os.getpid()}"[-100:]
        self._problem = ""  # why it takes no work
        self._children: list[Child] = []
        self._beat_at = self._begin_at = 0.0
        self._stopping = False
        self._woken = threading.Event()
        self._stop_by = 0.0
        self._thread = threading.Thread(target=self._run, name="jobs", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def wake(self) -> None:
        """Look for a queued job now."""
        self._woken.set()

    def leave(self) -> None:
        """Let the thread kill the processes and put their jobs back into the queue."""
        self._stop_by = self._stop_by or time.monotonic() + STOP_SECONDS
        self._stopping = True
        self.wake()

    def stop(self) -> None:
        """Wait until the thread has left, at most STOP_SECONDS from the first :meth:`leave`."""
        self.leave()
        self._thread.join(max(0.0, self._stop_by - time.monotonic()))

    def _run(self) -> None:
        while not self._stopping:
            self._woken.clear()
            self._step()
            self._woken.wait(WATCH_SECONDS if self._children else LOOK_SECONDS)
        for child in self._children:
            guarded(under, child.ids, child.end)
        connections.close_all()

    def _step(self) -> None:
        """Look after the jobs under way, and begin others."""
        for child in list(self._children):
            guarded(under, child.ids, child.watch)
            if child.process.returncode is not None:
                self._children.remove(child)
            if child.process.returncode == NOT_NOW:
                self._pause()
        guarded(self._send_heartbeat)
        guarded(self._begin)

    def _send_heartbeat(self) -> None:
        """Record every few seconds that this worker is alive, and whether it takes work."""
        if time.monotonic() > self._beat_at:
            self._beat_at = time.monotonic() + BEAT_SECONDS
            self._compare_versions()
            runs.heard_from(worker=self._name, queue="long", problem=self._problem)

    def _compare_versions(self) -> None:
        """Take no work while the database and this code are of different versions."""
        problem = schema_version.problem()
        if problem and problem != self._problem:
            logger.error("this worker takes no more work: %s", problem)
        self._problem = problem

    def _has_place(self) -> bool:
        is_paused = time.monotonic() < self._begin_at
        return not (self._stopping or is_paused) and len(self._children) < settings.LONG_WORKERS

    def _pause(self) -> None:
        """Begin no job for a while: others may have it."""
        self._begin_at = time.monotonic() + PAUSE_SECONDS

    def _begin(self) -> None:
        """Begin queued jobs until no place is free or none is queued."""
        while self._has_place() and jobs.ARE_QUEUED():
            self._compare_versions()
            job = None if self._problem else jobs.claim_next()
            if job is None:
                return
            try:
                self._children.append(Child(job))
            except OSError as error:
                logger.warning("no process can be started for job %s: %s", job.id, error)
                self._pause()
                jobs.put_back(job=job)


def guarded(call: Callable[P, object], *args: P.args, **kwargs: P.kwargs) -> None:
    """Make a call of the thread; its errors are logged."""
    try:
        call(*args, **kwargs)
    except DatabaseFailure:
        logger.warning("the worker of long tasks has no answer of the database")
        connections.close_all()
    except Exception:
        logger.exception("a step of the worker of long tasks failed")


def why_not(job: Job, deadline: float) -> Callable[[], None] | None:
    """Return how to end the job after killing its process; None: it may continue."""
    if time.monotonic() > deadline:
        return partial(jobs.fail, job=job, error=TOO_LONG)
    if not quietly(partial(jobs.is_wanted, job=job)):
        return partial(logger.info, "job %s was cancelled or taken over", job.id)
    return None


def quietly(ask: Callable[[], bool]) -> bool:
    """Query the database; True while it is unavailable: the child's fence protects the row."""
    try:
        return ask()
    except DatabaseFailure:
        connections.close_all()
        return True


def after(job: Job, code: int) -> None:
    """Let another process try the job of one that crashed, or could not begin."""
    if code == ENDED_WELL:
        return
    logger.warning("the process of job %s ended with %s", job.id, code)
    quietly(partial(discard, job))
    if code == OUT_OF_MEMORY:
        jobs.fail(job=job, error=TOO_MUCH_MEMORY)
        steps.drop_answers(job.id)
    elif code == NOT_NOW:
        jobs.put_back(job=job)
    else:
        jobs.retry(job=job)
