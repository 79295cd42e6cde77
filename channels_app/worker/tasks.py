"""The Celery tasks: ``runs`` hands an id to the runner, ``long`` works on a job."""

import logging
import os
import socket
import threading
import time
from functools import cache

import psutil
from celery import Celery, Task, shared_task
from celery.signals import worker_init, worker_ready, worker_shutting_down
from celery.worker import state
from django.db import Error as DatabaseFailure
from django.db import connection

from channels_app.worker.runner import BEAT_SECONDS, Runner
from core.conversations import jobs, runs
from core.database import forks, schema_version
from core.jobs_worker import process
from core.signals import wakeups

logger = logging.getLogger(__name__)

LOST_SECONDS = 60.0


@cache
def runner() -> Runner:
    """Return the runner of this worker process."""
    started = Runner()
    started.start()
    return started


@worker_init.connect
def begin(sender: object, **_: object) -> None:
    """Start the background work of a worker process: the runner and its sweeper, or heartbeats."""
    app = getattr(sender, "app", None)
    if not isinstance(app, Celery):
        return
    queues = list(app.amqp.queues.consume_from)
    if "runs" in queues:
        runner()
    else:
        threading.Thread(
            target=send_heartbeats, args=(queues[0],), name="heartbeat", daemon=True
        ).start()


def send_heartbeats(queue: str) -> None:
    """Record every few seconds that this worker is alive.

    Pool processes are forked from this one: the two exclude each other, and the connection is
    closed after use, since a child must not inherit it.
    """
    name = f"{queue}:{socket.gethostname()}:{os.getpid()}"[-100:]
    seen: dict[str, float] = {}
    while True:
        with forks.held_off():
            forget_lost(seen, now=time.monotonic())
            say_alive(name, queue)
        time.sleep(BEAT_SECONDS)


def say_alive(name: str, queue: str) -> None:
    """Record one heartbeat, with a connection of its own."""
    try:
        runs.heard_from(worker=name, queue=queue, problem=schema_version.problem())
    except DatabaseFailure:
        logger.warning("the heartbeat could not be written")
    finally:
        connection.close()


def forget_lost(seen: dict[str, float], *, now: float) -> None:
    """Forget requests whose pool process died before it acknowledged them.

    Celery would count them as active forever, and accept nothing more once their number reaches
    that of its processes. ``seen``: since when each has no process. The sweeper wakes
    their jobs again.
    """
    try:
        reserved = {request.id: request for request in state.reserved_requests}
    except RuntimeError:  # the set changed meanwhile: the next heartbeat tries again
        return
    for known in set(seen) - set(reserved):
        del seen[known]
    for name, request in reserved.items():
        if request.worker_pid is not None and psutil.pid_exists(request.worker_pid):
            seen.pop(name, None)
        elif now - seen.setdefault(name, now) > LOST_SECONDS:
            logger.error("a wake-up was lost with its process: %s", name)
            state.task_ready(request)


@worker_ready.connect
def catch_up(sender: object, **_: object) -> None:
    """Wake all waiting jobs when a ``long`` worker starts: wake-ups may have been lost with the
    previous one.
    """
    app = getattr(sender, "app", None)
    if isinstance(app, Celery) and "long" in app.amqp.queues.consume_from:
        threading.Thread(target=wake_waiting, name="catch-up", daemon=True).start()


def wake_waiting() -> None:
    """Wake all waiting jobs; the sweeper does so when the database is unavailable."""
    with forks.held_off():
        try:
            jobs.wake_waiting()
        except DatabaseFailure:
            logger.warning("waiting jobs could not be read; the sweeper will wake them")
        finally:
            connection.close()


@worker_shutting_down.connect
def end(**_: object) -> None:
    """Release claimed runs at a clean stop."""
    if runner.cache_info().currsize:
        runner().stop()


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
def work_on_job(*, row_id: int, **_: object) -> None:
    """Work on a queued job, of the person whose turn it is; return when it is finished.

    ``row_id``: the job that is queued; as many wake-ups come as there are jobs.
    """
    del row_id
    process.work()
