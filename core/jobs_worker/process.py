"""One process per job, so that it can be ended at any moment: stop, time, memory.

Celery's pool process forks; the child works and updates its own row, the parent renews the lease,
checks every half second whether the job is still wanted, and kills.
"""

import asyncio
import logging
import os
import resource
import signal
import sys
import time
from collections.abc import Callable
from contextlib import suppress

import psutil
from django.conf import settings
from django.db import Error as DatabaseFailure
from django.db import connections

from core.conversations import events, jobs, traces
from core.database import schema_version, transactions
from core.jobs_worker import steps
from core.jobs_worker.work import TOO_MUCH_MEMORY, discard, perform
from core.lib import log_ids, tracing
from core.lib.processes import die_with
from core.models import Job
from core.providers import registry as providers
from core.signals import live_events, pubsub, wakeups

logger = logging.getLogger(__name__)

LOOK_SECONDS = 0.25
MEGABYTE = 1024 * 1024
TOO_LONG = "This took too long and was ended."
ENDED_WELL, OUT_OF_MEMORY = 0, 77


def work() -> None:
    """Claim the next job and run it; does nothing when there is none, or when this code is of
    another version than the database: jobs stay in the queue.
    """
    if problem := schema_version.problem():
        logger.error("this worker takes no more work: %s", problem)
        return
    job = jobs.claim_next()
    if job is None:
        return
    log_ids.begin(run=job.run.public_id, session=job.run.session.public_id)
    logger.info("a long task begins, attempt %d", job.attempt)
    connections.close_all()  # a connection must not be in two processes
    parent = os.getpid()
    pid = os.fork()
    if pid == 0:
        be_the_child(job, parent)
    watch(job, pid)
    log_ids.IDS.set(None)


def be_the_child(job: Job, parent: int) -> None:
    """Work, and exit without a pool process's clean-up."""
    code = 1
    try:
        os.setsid()
        die_with(parent)
        limit_memory()
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        for thread_of_the_parent in (
            wakeups.publisher,
            pubsub.sender,
            transactions.pools,
            events.writer,
            live_events.sender,
            live_events.reader,
            tracing.exporter,
        ):
            thread_of_the_parent.cache_clear()
        asyncio.run(performed(job))
        tracing.close()
        code = ENDED_WELL
    except MemoryError:
        code = OUT_OF_MEMORY
    except Exception:
        logger.exception("the process of a job failed")
    finally:
        with suppress(OSError, ValueError):
            sys.stderr.flush()
        os._exit(code)


async def performed(job: Job) -> None:
    """Run the job, then close the model's connections."""
    try:
        with traces.long_task(job):
            await perform(job)
    finally:
        await providers.close()
        await pubsub.local().close()


def limit_memory() -> None:
    """Let this process take JOB_MEMORY_MEGABYTES more address space than it has now."""
    if sys.platform == "linux":  # elsewhere the parent looks
        most = psutil.Process().memory_info().vms + settings.JOB_MEMORY_MEGABYTES * MEGABYTE
        resource.setrlimit(resource.RLIMIT_AS, (most, most))


def watch(job: Job, pid: int) -> None:
    """Wait until the child has ended, by itself or killed."""
    deadline = time.monotonic() + settings.JOB_SECONDS
    keep_at = 0.0
    while True:
        ended, status = os.waitpid(pid, os.WNOHANG)
        if ended:
            kill_group(pid)
            after(job, os.waitstatus_to_exitcode(status))
            return
        reason = why_not(job, deadline)
        if reason is not None:
            kill(pid)
            reason()
            quietly(lambda: discard(job))
            quietly(lambda: steps.drop_answers(job.id))
            return
        if time.monotonic() > keep_at:
            keep_at = time.monotonic() + settings.RUN_LEASE_SECONDS / 3
            quietly(lambda: jobs.keep(job=job))
        time.sleep(LOOK_SECONDS)


def why_not(job: Job, deadline: float) -> Callable[[], None] | None:
    """Return how to end the job after killing the child; None: it may continue."""
    if time.monotonic() > deadline:
        return lambda: jobs.fail(job=job, error=TOO_LONG)
    if not quietly(lambda: jobs.is_ours(job=job) or jobs.has_succeeded(job=job)):
        return lambda: logger.info("job %s was cancelled or taken over", job.id)
    return None


def quietly(ask: Callable[[], bool]) -> bool:
    """Query the database; while it is unavailable return True: the child's own fence protects
    the row.
    """
    try:
        return ask()
    except DatabaseFailure:
        connections.close_all()
        return True


def kill(pid: int) -> None:
    """Kill the child and its descendants."""
    kill_group(pid)
    with suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)


def kill_group(pid: int) -> None:
    """Kill what the child started and did not end itself."""
    with suppress(ProcessLookupError):
        os.killpg(pid, signal.SIGKILL)


def after(job: Job, code: int) -> None:
    """Requeue the job of a child that crashed: another process tries again."""
    if code == ENDED_WELL:
        return
    logger.warning("the process of job %s ended with %s", job.id, code)
    quietly(lambda: discard(job))
    if code == OUT_OF_MEMORY:
        jobs.fail(job=job, error=TOO_MUCH_MEMORY)
        steps.drop_answers(job.id)
    else:
        jobs.release(job=job)
