"""Jobs: long tasks of a run. Begin, claim, keep, tell, finish, recover.

The only place that changes a job's state, always by conditional UPDATE. ``attempt`` is the fence,
as of a run: whoever holds an old one is refused. While a job is queued, ``lease_until`` is when its
worker is woken again, for a wake-up may be lost.
"""

from collections.abc import AsyncGenerator, Sequence
from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from hashlib import sha256
from itertools import takewhile
from typing import Any

from django.conf import settings
from django.db import connection, transaction
from django.db.models import F, Q, QuerySet
from django.db.models.functions import Coalesce, Greatest, Now

from core.database import transactions
from core.files import storage
from core.files.storage import Made
from core.lib.text import one_line
from core.models import Job, Run
from core.signals import pubsub, wakeups

WAKE_SECONDS = 30
POLL_SECONDS = 1.0
MESSAGE_CHARACTERS = 300
MOST_ATTEMPTS = 5
OPEN = (Run.State.QUEUED, Run.State.RUNNING)
GAVE_UP = "This could not be finished; please ask again."


class LostJobError(Exception):
    """The job was cancelled, or another worker has it now."""


@dataclass(frozen=True, slots=True)
class View:
    """What is seen of a job from outside. ``percent`` 0 to 100, where known. ``is_late``: nobody
    renewed its lease, or its wake-up was not heard. ``said``: how many messages it sent."""

    state: str
    message: str
    percent: int | None
    error: str
    result: dict[str, Any]
    is_late: bool = False
    said: int = 0

    @property
    def is_over(self) -> bool:
        """Whether nothing more will come."""
        return self.state in Run.FINAL


def begin(*, run_id: int, call_id: str, tool: str, parameters: dict[str, Any]) -> int:
    """The job of a tool call: made and woken now, or the one an earlier attempt of the run made."""
    if len(call_id) > 100:
        call_id = sha256(call_id.encode()).hexdigest()
    with transactions.atomic_write():
        job, made = Job.objects.get_or_create(
            run_id=run_id,
            tool_call_id=call_id,
            defaults={
                "tool": tool,
                "parameters": parameters,
                "lease_until": transactions.now() + timedelta(seconds=WAKE_SECONDS),
            },
        )
        if made:
            wakeups.on_commit("core.long.work", job.id, queue_name="long")
    return job.id


def begun(*, run_id: int) -> list[Job]:
    """The jobs that earlier attempts of a run began, in order: waited for, not repeated."""
    return list(Job.objects.filter(run_id=run_id).exclude(state=Run.State.CANCELLED).order_by("id"))


def claim(*, job_id: int) -> Job | None:
    """Take a queued job; None when somebody has it or it is over.

    One that died too often is failed instead.
    """
    with transactions.atomic_write():
        taken = Job.objects.filter(id=job_id, state=Run.State.QUEUED).update(
            state=Run.State.RUNNING, attempt=F("attempt") + 1, lease_until=lease_end()
        )
        if not taken:
            return None
        job = Job.objects.select_related("run", "run__session", "run__user").get(id=job_id)
    if job.attempt > MOST_ATTEMPTS:
        fail(job=job, error=GAVE_UP)
        return None
    return job


def lease_end() -> object:
    """The database expression of a fresh lease's end."""
    return Now() + timedelta(seconds=settings.RUN_LEASE_SECONDS)


def keep(*, job: Job) -> bool:
    """Renew the lease; False when the job is not ours any more."""
    with transactions.atomic_write():
        return bool(ours(job).update(lease_until=lease_end()))


def is_ours(*, job: Job) -> bool:
    """Whether the job still runs under our attempt, and nobody asked its run to end."""
    return ours(job).filter(run__cancel_requested_at__isnull=True).exists()


def has_succeeded(*, job: Job) -> bool:
    """Whether our attempt is the one whose files were kept."""
    rows = Job.objects.filter(id=job.id, attempt=job.attempt, state=Run.State.SUCCEEDED)
    return rows.exists()


def ours(job: Job) -> QuerySet[Job]:
    """The row of ``job`` as long as our attempt holds it."""
    return Job.objects.filter(id=job.id, attempt=job.attempt, state=Run.State.RUNNING)


def tell(*, job: Job, message: str, percent: float | None) -> None:
    """Say how far a job is; its percentage never falls, also not when a worker died and another
    one begins anew. Raises LostJobError when it is not ours any more."""
    line = one_line(message, MESSAGE_CHARACTERS)
    new: dict[str, Any] = {"message": line, "lease_until": lease_end()}
    if percent is not None:
        known = int(min(100, max(0, percent)))
        new["percent"] = Greatest(Coalesce(F("percent"), known), known)
    with transactions.atomic_write():
        told = is_ours(job=job) and ours(job).update(**new)
        transaction.on_commit(partial(announce, job.id), robust=True)
    if not told:
        raise LostJobError


def finish(*, job: Job, result: dict[str, Any], made: Sequence[Made]) -> None:
    """End a job well, its files stored in the same transaction. Raises LostJobError."""
    with transactions.atomic_write():
        if not is_ours(job=job):
            raise LostJobError
        stored = [storage.adopt(each, run=job.run) for each in made]
        done = ours(job).update(
            state=Run.State.SUCCEEDED,
            result={**result, "files": [file.public_id for file in stored]},
            percent=100,
            lease_until=None,
            finished_at=Now(),
        )
        if not done:
            raise LostJobError
        transaction.on_commit(partial(announce, job.id), robust=True)


def fail(*, job: Job, error: str) -> None:
    """End a job badly; ``error`` is for the user. Nothing happens when it is not ours any more."""
    with transactions.atomic_write():
        ours(job).update(
            state=Run.State.FAILED,
            error=one_line(error, 500),
            lease_until=None,
            finished_at=Now(),
        )
        transaction.on_commit(partial(announce, job.id), robust=True)


def release(*, job: Job) -> None:
    """Put a job whose process died back in the queue at once."""
    with transactions.atomic_write():
        if ours(job).update(state=Run.State.QUEUED, lease_until=Now()):
            wakeups.on_commit("core.long.work", job.id, queue_name="long")


def recover(*, job_id: int | None = None, limit: int = 100) -> list[int]:
    """Requeue jobs (all, or this one) whose lease ran out; the queued ones whose worker should be
    woken (again)."""
    rows = Job.objects.all() if job_id is None else Job.objects.filter(id=job_id)
    expired = rows.filter(state=Run.State.RUNNING, lease_until__lt=Now())
    due = rows.filter(
        Q(lease_until__lt=Now()) | Q(lease_until__isnull=True), state=Run.State.QUEUED
    )
    if not (expired.exists() or due.exists()):
        return []
    with transactions.atomic_write():
        if connection.features.has_select_for_update_skip_locked:
            # A process that froze inside a transaction must not stop every sweeper with it.
            free = expired.select_for_update(skip_locked=True, no_key=True)
            expired = expired.filter(id__in=list(free.values_list("id", flat=True)))
            due = due.select_for_update(skip_locked=True, no_key=True)
        expired.update(state=Run.State.QUEUED, lease_until=None)
        found = list(due.order_by("id").values_list("id", flat=True)[:limit])
        again = Now() + timedelta(seconds=WAKE_SECONDS)
        Job.objects.filter(id__in=found).update(lease_until=again)
        for found_id in found:
            wakeups.on_commit("core.long.work", found_id, queue_name="long")
    return found


def bring_near() -> None:
    """Shorten leases that a clock which was set back left in the far future."""
    running = Job.objects.filter(state=Run.State.RUNNING)
    transactions.bring_near(
        running, "lease_until", most=timedelta(seconds=settings.RUN_LEASE_SECONDS)
    )
    queued = Job.objects.filter(state=Run.State.QUEUED)
    transactions.bring_near(queued, "lease_until", most=timedelta(seconds=WAKE_SECONDS))


def wake_waiting(*, limit: int = 100) -> list[int]:
    """Wake a worker for each queued job once more: the wake-ups of the worker whose place a new one
    takes may have died with it. While the broker is away the rest is left to the sweeper."""
    waiting = Job.objects.filter(state=Run.State.QUEUED).order_by("id")
    found = list(waiting.values_list("id", flat=True)[:limit])
    return list(takewhile(partial(wakeups.enqueue, "core.long.work", "long"), found))


def announce(job_id: int) -> None:
    """Hint whoever waits for the job that its row has changed."""
    pubsub.publish([{"keys": [f"job:{job_id}"], "kind": "job"}])


def view(job_id: int) -> View | None:
    """How a job stands; None when it is gone."""
    row = Job.objects.filter(id=job_id).annotate(is_late=Q(lease_until__lt=Now())).first()
    if row is None:
        return None
    late = bool(row.is_late)
    return View(row.state, row.message, row.percent, row.error, row.result, late, row.said)


async def follow(*, job_id: int) -> AsyncGenerator[View, None]:
    """The state of a job, whenever it may have changed and once a second; ends when it is over.

    Whoever waits for a job sees first that nobody works on it, and need not wait for the sweeper.
    """
    with pubsub.local().listen([f"job:{job_id}"]) as listener:
        while True:
            now = await transactions.in_thread(view, job_id)
            if now is None:
                return
            yield now
            if now.is_over:
                return
            if now.is_late:
                await transactions.in_thread(recover, job_id=job_id)
            await listener.wait(seconds=POLL_SECONDS)
