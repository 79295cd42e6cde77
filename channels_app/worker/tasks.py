"""The Celery tasks: ``runs`` hands an id to the runner, ``long`` works on a job."""

import logging
import os
import socket
import threading
import time
from functools import cache

import psutil
from celery import Celery, shared_task
from celery.signals import worker_init, worker_ready, worker_shutting_down
from celery.worker import state
from django.db import Error as DatabaseFailure
from django.db import connection

from channels_app.worker.runner import BEAT_SECONDS, Runner
from core.conversations import jobs, runs
from core.database import forks, schema_version
from core.jobs_worker import process

logger = logging.getLogger(__name__)

LOST_SECONDS = 60.0


@cache
def runner() -> Runner:
    """The runner of this worker process."""
    started = Runner()
    started.start()
    return started


@worker_init.connect
def begin(sender: object, **_: object) -> None:
    """Start what a worker process does besides tasks: the runner and its sweeper, or heartbeats."""
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

    The pool's processes are forked from this one: meanwhile they are not, and the connection is not
    kept, for a child must not inherit one.
    """
    name = f"{queue}:{socket.gethostname()}:{os.getpid()}"[-100:]
    seen: dict[str, float] = {}
    while True:
        with forks.held_off():
            forget_lost(seen, now=time.monotonic())
            say_alive(name, queue)
        time.sleep(BEAT_SECONDS)


def say_alive(name: str, queue: str) -> None:
    """One heartbeat, with a connection of its own."""
    try:
        runs.heard_from(worker=name, queue=queue, problem=schema_version.problem())
    except DatabaseFailure:
        logger.warning("the heartbeat could not be written")
    finally:
        connection.close()


def forget_lost(seen: dict[str, float], *, now: float) -> None:
    """Forget requests whose pool process died before it said that it had them.

    Celery would count them as its own for ever, and take nothing more when they are as many as its
    processes. ``seen``: since when each has no process. The sweeper wakes their jobs anew.
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
    """A new ``long`` worker asks for what waits: wake-ups may have died with the one before it."""
    app = getattr(sender, "app", None)
    if isinstance(app, Celery) and "long" in app.amqp.queues.consume_from:
        threading.Thread(target=wake_waiting, name="catch-up", daemon=True).start()


def wake_waiting() -> None:
    """Wake what waits; the sweeper does when the database is away."""
    with forks.held_off():
        try:
            jobs.wake_waiting()
        except DatabaseFailure:
            logger.warning("what waits could not be looked up; the sweeper will")
        finally:
            connection.close()


@worker_shutting_down.connect
def end(**_: object) -> None:
    """Give claimed runs back at a clean stop."""
    if runner.cache_info().currsize:
        runner().stop()


@shared_task(name="core.runs.wake")
def wake_run(*, row_id: int, **_: object) -> None:
    """A run is queued."""
    runner().wake("core.runs.wake", row_id)


@shared_task(name="core.runs.wake_batch")
def wake_batch(*, row_id: int, **_: object) -> None:
    """A session has a batch that will be due."""
    runner().wake("core.runs.wake_batch", row_id)


@shared_task(name="core.runs.wake_delivery")
def wake_delivery(*, row_id: int, **_: object) -> None:
    """A delivery is pending."""
    runner().wake("core.runs.wake_delivery", row_id)


@shared_task(name="core.long.work")
def work_on_job(*, row_id: int, **_: object) -> None:
    """A job is queued; returns when it is over."""
    process.work(row_id)
