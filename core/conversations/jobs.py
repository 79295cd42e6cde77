"""Jobs: long tasks of a run. Begin, claim, renew, report progress, finish, recover.

The only place that changes a job's state, always by conditional UPDATE. ``attempt`` is the fence,
as of a run: a writer with an old attempt is refused.
"""

from collections import Counter
from collections.abc import AsyncGenerator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import partial
from hashlib import sha256
from typing import Any

from django.conf import settings
from django.db.models import F, Q, QuerySet
from django.db.models.functions import Coalesce, Greatest, Now

from core.conversations import left_calls
from core.conversations.events import LostLeaseError
from core.conversations.runs import lease_end
from core.conversations.shares import in_turn
from core.database import transactions
from core.database.queries import HasRows, Param, Values
from core.files import storage
from core.files.storage import Made
from core.lib.text import one_line
from core.models import Job, Run
from core.signals import pubsub, wakeups

POLL_SECONDS = 1.0
MESSAGE_CHARACTERS = 300
MOST_ATTEMPTS = 5
# Queued jobs that are looked at to share workers by person.
MOST_WAITING = 500
GAVE_UP = "This could not be finished; please ask again."


class LostJobError(Exception):
    """The job was cancelled, or another worker owns it now."""


@dataclass(frozen=True, slots=True)
class View:
    """A job as the API and the tools show it.

    ``percent`` is 0 to 100, where known. ``is_late``: its lease ran out. ``said``: how many
    messages it sent.
    """

    state: str
    message: str
    percent: int | None
    error: str
    result: dict[str, Any]
    is_late: bool = False
    said: int = 0

    @property
    def is_over(self) -> bool:
        """Return whether the job has ended: no further state will come."""
        return self.state in Run.FINAL


def begin(*, run_id: int, call_id: str, tool: str, parameters: dict[str, Any]) -> int:
    """Return the job of a tool call: a new one, woken now, or that of an earlier attempt of the
    run. Raises LostLeaseError when another worker has ended the run.
    """
    if len(call_id) > 100:
        call_id = sha256(call_id.encode()).hexdigest()
    with transactions.atomic_write():
        # Locks the run: its end cancels the jobs that there are.
        runs = Run.objects.select_for_update(no_key=True).exclude(state__in=Run.FINAL)
        if not runs.filter(id=run_id).values_list("id"):
            raise LostLeaseError(run_id)
        job, made = Job.objects.get_or_create(
            run_id=run_id,
            tool_call_id=call_id,
            defaults={"tool": tool, "parameters": parameters},
        )
        if made:
            wakeups.job(job.id)
    return job.id


def begun(*, run_id: int) -> list[Job]:
    """Return the jobs that earlier attempts of a run began, in order: waited for, not repeated."""
    return list(Job.objects.filter(run_id=run_id).exclude(state=Run.State.CANCELLED).order_by("id"))


def claim(*, job_id: int) -> Job | None:
    """Take a queued job; return None when it is taken or over.

    A job that died too often is failed instead.
    """
    with transactions.atomic_write():
        taken = Job.objects.filter(id=job_id, state=Run.State.QUEUED).update(
            state=Run.State.RUNNING, attempt=F("attempt") + 1, lease_until=lease_end()
        )
        if not taken:
            return None
        job = with_run().get(id=job_id)
    if job.attempt > 1:
        left_calls.take_over(run_id=job.run_id, attempt=job.attempt, job_id=job.id)
    if job.attempt > MOST_ATTEMPTS:
        fail(job=job, error=GAVE_UP)
        return None
    return job


def claimed(*, job_id: int, attempt: int) -> Job | None:
    """Return a job that was claimed under ``attempt``; None when the claim is lost."""
    return with_run().filter(id=job_id, attempt=attempt, state=Run.State.RUNNING).first()


def with_run() -> QuerySet[Job]:
    return Job.objects.select_related("run__session", "run__user")


def claim_next() -> Job | None:
    """Take the queued job whose turn it is, as ``core.conversations.shares`` shares workers; return
    None when there is none.

    When all that it has seen are taken by others, it looks again: its wake-up may have come for a
    job that was queued after the look.
    """
    queued = Job.objects.filter(state=Run.State.QUEUED).order_by("id")
    running = Job.objects.filter(state=Run.State.RUNNING)
    while waiting := list(queued.values_list("id", "run__user_id")[:MOST_WAITING]):
        held = Counter(running.values_list("run__user_id", flat=True))
        for job_id in in_turn(waiting, held, most=len(waiting)):
            job = claim(job_id=job_id)
            if job is not None:
                return job
    return None


OLDEST_QUEUED = Values(
    lambda: Job.objects.filter(state=Run.State.QUEUED).order_by("id").values_list("created_at")[:1]
)
ARE_QUEUED = HasRows(lambda: Job.objects.filter(state=Run.State.QUEUED))


def waiting_since() -> datetime | None:
    """Return since when the oldest job waits for a worker; None when none does."""
    return OLDEST_QUEUED.first()


def keep(*, job: Job) -> bool:
    """Renew the lease; return False when the job belongs to another attempt now."""
    with transactions.unsynced_write():
        return bool(ours(job).update(lease_until=lease_end()))


def is_ours(*, job: Job) -> bool:
    """Return whether the job runs under our attempt and its run was not asked to end."""
    return ours(job).filter(run__cancel_requested_at__isnull=True).exists()


WANTED = HasRows(
    lambda: Job.objects.filter(
        Q(state=Run.State.RUNNING, run__cancel_requested_at=None)
        | Q(state__in=(Run.State.SUCCEEDED, Run.State.FAILED)),
        id=Param("id"),
        attempt=Param("attempt"),
    )
)


def is_wanted(*, job: Job) -> bool:
    """Return whether the process of our attempt may continue: it is ours, or just ending."""
    return WANTED(id=job.id, attempt=job.attempt)


def has_succeeded(*, job: Job) -> bool:
    """Return whether our attempt is the one whose files were kept."""
    rows = Job.objects.filter(id=job.id, attempt=job.attempt, state=Run.State.SUCCEEDED)
    return rows.exists()


def ours(job: Job) -> QuerySet[Job]:
    """Return the row of ``job`` while our attempt holds it, else no row."""
    return Job.objects.filter(id=job.id, attempt=job.attempt, state=Run.State.RUNNING)


def tell(*, job: Job, message: str, percent: float | None) -> None:
    """Record a job's progress; the percentage never falls, even when another worker starts over.

    Raises LostJobError when another attempt owns the job.
    """
    line = one_line(message, MESSAGE_CHARACTERS)
    new: dict[str, Any] = {"message": line, "lease_until": lease_end()}
    if percent is not None:
        known = int(min(100, max(0, percent)))
        new["percent"] = Greatest(Coalesce(F("percent"), known), known)
    with transactions.atomic_write():
        told = is_ours(job=job) and ours(job).update(**new)
        transactions.after_commit(announce, job.id)
    if not told:
        raise LostJobError


def finish(*, job: Job, result: dict[str, Any], made: Sequence[Made]) -> None:
    """Record success, with the job's files in the same transaction. Raises LostJobError."""
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
        transactions.after_commit(announce, job.id)


def fail(*, job: Job, error: str) -> None:
    """Record failure; ``error`` is for the user. Does nothing when another attempt owns the job."""
    with transactions.atomic_write():
        ours(job).update(
            state=Run.State.FAILED,
            error=one_line(error, 500),
            lease_until=None,
            finished_at=Now(),
        )
        transactions.after_commit(announce, job.id)


def release(*, job: Job) -> None:
    """Put a job whose process was ended back in the queue at once."""
    with transactions.atomic_write():
        if ours(job).update(state=Run.State.QUEUED, lease_until=None):
            wakeups.job(job.id)


def retry(*, job: Job) -> None:
    """Put a job whose process died back in the queue: the first time at once, then when its lease
    ends, which is later each time: the cause may pass. The last time at once: it is given up.
    """
    if job.attempt in {1, MOST_ATTEMPTS}:
        release(job=job)
        return
    seconds = settings.RUN_LEASE_SECONDS * (job.attempt - 1) / MOST_ATTEMPTS
    with transactions.atomic_write():
        ours(job).update(lease_until=Now() + timedelta(seconds=seconds))


def put_back(*, job: Job) -> None:
    """Put a job that no process could begin back in the queue, as it was before it was claimed."""
    with transactions.atomic_write():
        before = {"state": Run.State.QUEUED, "attempt": F("attempt") - 1, "lease_until": None}
        ours(job).update(**before)


def expired_jobs() -> QuerySet[Job]:
    """Return the running jobs whose lease ran out."""
    return Job.objects.filter(state=Run.State.RUNNING, lease_until__lt=Now())


ARE_EXPIRED = HasRows(expired_jobs)


def recover(*, job_id: int | None = None) -> list[int]:
    """Requeue jobs (all, or this one) whose lease ran out, and return them."""
    if not ARE_EXPIRED():
        return []
    expired = expired_jobs().filter(Q() if job_id is None else Q(id=job_id))
    with transactions.atomic_write():
        found = list(transactions.unlocked(expired).order_by("id").values_list("id", flat=True))
        Job.objects.filter(id__in=found).update(state=Run.State.QUEUED, lease_until=None)
        for found_id in found:
            wakeups.job(found_id)
    return found


LEASES = transactions.FarTimes(lambda: Job.objects.filter(state=Run.State.RUNNING), "lease_until")


def bring_near() -> None:
    """Shorten leases that a clock which was set back left in the far future."""
    LEASES.bring_near(most=timedelta(seconds=settings.RUN_LEASE_SECONDS))


def announce(job_id: int) -> None:
    """Send the listeners of the job a hint that its row has changed."""
    pubsub.publish([{"keys": [f"job:{job_id}"], "kind": "job"}])


def view(job_id: int) -> View | None:
    """Return the state of a job; None when it was deleted."""
    row = Job.objects.filter(id=job_id).annotate(is_late=Q(lease_until__lt=Now())).first()
    if row is None:
        return None
    late = bool(row.is_late)
    return View(row.state, row.message, row.percent, row.error, row.result, late, row.said)


async def follow(*, job_id: int) -> AsyncGenerator[View, None]:
    """Yield the state of a job at each change and at least once a second, until it is over.

    A job whose lease ran out is recovered here, before the sweeper gets to it. A database that
    is away for longer than a lease is waited for, too.
    """
    asked = partial(transactions.patiently, seconds=settings.JOB_SECONDS)
    with pubsub.local().listen([f"job:{job_id}"]) as listener:
        await pubsub.local().confirmed(listener)
        while True:
            now = await asked(partial(view, job_id))
            if now is None:
                return
            yield now
            if now.is_over:
                return
            if now.is_late:
                with suppress(*transactions.AWAY):  # the sweeper does it later
                    await transactions.in_thread(partial(recover, job_id=job_id))
            await listener.wait(seconds=POLL_SECONDS)
