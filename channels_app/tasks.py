"""The Celery tasks of the ``runs`` queue: they hand an id to the runner and return."""

from functools import cache

from celery import shared_task
from celery.signals import worker_init, worker_shutting_down

from channels_app.runner import Runner


@cache
def runner() -> Runner:
    """The runner of this worker process."""
    started = Runner()
    started.start()
    return started


@worker_init.connect
def begin(sender: object, **_: object) -> None:
    """Start the runner with the worker, so that the sweeper works before the first task."""
    queues = getattr(getattr(sender, "app", None), "amqp", None)
    if queues is not None and "runs" in queues.queues.consume_from:
        runner()


@worker_shutting_down.connect
def end(**_: object) -> None:
    """Give claimed runs back at a clean stop."""
    if runner.cache_info().currsize:
        runner().stop()


@shared_task(name="core.runs.wake")
def wake_run(*, row_id: int, **_: object) -> None:
    """A run is queued."""
    runner().submit("run", row_id)


@shared_task(name="core.runs.wake_batch")
def wake_batch(*, row_id: int, **_: object) -> None:
    """A session has a batch that will be due."""
    runner().submit("batch", row_id)


@shared_task(name="core.runs.wake_delivery")
def wake_delivery(*, row_id: int, **_: object) -> None:
    """A delivery is pending."""
    runner().submit("delivery", row_id)
