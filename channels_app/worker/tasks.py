"""The Celery tasks: wake-ups, of which ``runs`` hands an id to the runner, ``long`` none."""

from functools import cache

from celery import Celery, Task, shared_task
from celery.signals import worker_init, worker_shutting_down

from channels_app.worker.runner import Runner
from core.jobs_worker.starter import Starter
from core.signals import wakeups


@cache
def runner() -> Runner:
    """Return the runner of this worker process."""
    started = Runner()
    started.start()
    return started


@cache
def starter() -> Starter:
    """Return the starter of jobs of this worker process."""
    started = Starter()
    started.start()
    return started


@worker_init.connect
def begin(sender: object, **_: object) -> None:
    """Start the background work of a worker process, by its queues."""
    app = getattr(sender, "app", None)
    if not isinstance(app, Celery):
        return
    if "runs" in app.amqp.queues.consume_from:
        runner()
    if "long" in app.amqp.queues.consume_from:
        starter()


@worker_shutting_down.connect
def end(**_: object) -> None:
    """Release claimed jobs and runs at a clean stop, at the same time: `up` waits 7 s for both."""
    if starter.cache_info().currsize:
        starter().leave()
    for each in (runner, starter):
        if each.cache_info().currsize:
            each().stop()


def waker(name: str) -> "Task[..., None]":
    """Return the task called ``name``, which hands the id of a row to the runner."""

    @shared_task(name=name)
    def wake(*, row_id: int, **_: object) -> None:
        runner().wake(name, row_id)

    return wake


wake_run = waker(wakeups.RUN)
wake_batch = waker(wakeups.BATCH)
wake_delivery = waker(wakeups.DELIVERY)
wake_push = waker(wakeups.PUSH)


@shared_task(name=wakeups.JOB)
def wake_job(*, row_id: int, **_: object) -> None:
    """Look for queued jobs: ``row_id`` is one; the next is of the person whose turn it is."""
    del row_id
    starter().wake()
