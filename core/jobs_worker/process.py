"""The work of a job's own process; ``core.jobs_worker.starter`` starts it and ends it."""

import asyncio
import logging
import resource
import sys

import psutil
from django.conf import settings

from core.conversations import jobs, traces
from core.database import schema_version
from core.jobs_worker.work import perform
from core.lib import log_ids, resource_limits, tracing
from core.models import Job
from core.providers import registry as providers
from core.signals import pubsub

logger = logging.getLogger(__name__)

MEGABYTE = 1024 * 1024
ENDED_WELL, FAILED, NOT_NOW, OUT_OF_MEMORY = 0, 1, 75, 77


def work(*, job_id: int, attempt: int) -> int:
    """Run a claimed job, unless the claim is lost already; return the exit code.

    A deployment may have replaced the files since the worker began, and not yet migrated.
    """
    tracing.load("long")
    try:
        if problem := schema_version.problem():
            logger.error("a long task waits: %s", problem)
            return NOT_NOW
        limit_memory()
        job = jobs.claimed(job_id=job_id, attempt=attempt)
        if job is not None:
            log_ids.begin(run=job.run.public_id, session=job.run.session.public_id)
            logger.info("a long task begins, attempt %d", attempt)
            asyncio.run(perform_and_close(job))
    except MemoryError:
        return OUT_OF_MEMORY
    except (Exception, SystemExit):  # a plugin may call `sys.exit`
        logger.exception("the process of a job failed")
        return FAILED
    finally:
        tracing.close()
    return ENDED_WELL


async def perform_and_close(job: Job) -> None:
    """Run the job, then close the model's connections."""
    try:
        with traces.long_task(job):
            await perform(job)
    finally:
        await providers.close()
        await pubsub.local().close()


def limit_memory() -> None:
    """Let this process take JOB_MEMORY_MEGABYTES more address space than it has now."""
    if sys.platform == "linux":
        most = psutil.Process().memory_info().vms + settings.JOB_MEMORY_MEGABYTES * MEGABYTE
        resource_limits.lower(resource.RLIMIT_AS, most)
