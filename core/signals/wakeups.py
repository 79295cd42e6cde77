"""Wake-ups: a message that carries only an id. Losing one costs time, never a message.

A ``runs`` worker takes its own wake-ups at once, and gets those of others by pub/sub, which costs a
tenth of a Celery message. When no worker receives it, and for every other queue, Celery keeps the
wake-up until one comes. Publishing runs in its own thread, so that neither a transaction nor an
event loop ever waits for the broker. When the broker is away the sweeper finds the work.
"""

import logging
import queue
import threading
from collections.abc import Callable
from functools import cache, partial

from celery import Celery
from django.conf import settings
from django.db import transaction
from django.utils.module_loading import import_string

from core.signals import pubsub

logger = logging.getLogger(__name__)

MAX_WAITING = 10_000
AT_ONCE = 100
RUNS = "runs"

WakeUp = tuple[str, str, int]
# Takes a wake-up of RUNS in this process; False when it has no capacity left.
TakeHere = Callable[[str, int], bool]

_here: list[TakeHere] = []


class Publisher:
    """One thread that sends wake-ups; a full queue drops them, and the sweeper finds the work."""

    def __init__(self) -> None:
        self._queue: queue.Queue[WakeUp] = queue.Queue(MAX_WAITING)
        threading.Thread(target=self._work, name="wake-ups", daemon=True).start()

    def put(self, task: str, queue_name: str, row_id: int) -> None:
        """Send ``task(row_id=…)`` to the Celery queue ``queue_name`` soon."""
        try:
            self._queue.put_nowait((task, queue_name, row_id))
        except queue.Full:
            logger.warning("too many wake-ups are waiting; the sweeper will find the work")

    def _work(self) -> None:
        while True:
            waiting = [self._queue.get()]
            while len(waiting) < AT_ONCE and not self._queue.empty():
                waiting.append(self._queue.get())
            for task, queue_name, row_id in not_heard(waiting):
                enqueue(task, queue_name, row_id)


def not_heard(waiting: list[WakeUp]) -> list[WakeUp]:
    """Wake the ``runs`` workers by pub/sub; return the wake-ups that no worker received."""
    frames: list[pubsub.Frame] = [
        {"keys": ["runs"], "kind": "wake", "task": task, "row_id": row_id}
        for task, queue_name, row_id in waiting
        if queue_name == RUNS
    ]
    if not (frames and pubsub.publish(frames)):
        return waiting
    return [each for each in waiting if each[1] != RUNS]


def enqueue(task: str, queue_name: str, row_id: int) -> bool:
    """Send a wake-up as a Celery message; return whether the broker has it."""
    try:
        app: Celery = import_string(settings.CELERY_APPLICATION)
        app.send_task(task, kwargs={"row_id": row_id}, queue=queue_name)
    except Exception as error:  # noqa: BLE001 - a full broker raises the vendor's own errors
        logger.warning("a wake-up was lost, the sweeper will find the work: %s", error)
        return False
    return True


@cache
def publisher() -> Publisher:
    """Return the publisher of this process, made on first use."""
    return Publisher()


def on_commit(task: str, row_id: int, *, queue_name: str = RUNS) -> None:
    """Wake a worker for ``row_id`` when the transaction is committed."""
    transaction.on_commit(partial(send, task, row_id, queue_name=queue_name))


def send(task: str, row_id: int, *, queue_name: str = RUNS) -> None:
    """Wake a worker for ``row_id`` now: this process's, else any."""
    if queue_name == RUNS and any(take(task, row_id) for take in _here):
        return
    publisher().put(task, queue_name, row_id)


def take_here(take: TakeHere) -> None:
    """Give ``take`` the wake-ups that this process sends, without the broker."""
    _here.append(take)


def leave(take: TakeHere) -> None:
    """Give ``take`` no more wake-ups."""
    if take in _here:
        _here.remove(take)


def run(run_id: int) -> None:
    """Wake a ``runs`` worker for a queued run, after the commit."""
    on_commit("core.runs.wake", run_id)


def batch(session_id: int) -> None:
    """Wake a ``runs`` worker that will flush a session's batch when it is due."""
    on_commit("core.runs.wake_batch", session_id)


def delivery(delivery_id: int) -> None:
    """Wake a ``runs`` worker for a pending delivery."""
    on_commit("core.runs.wake_delivery", delivery_id)
