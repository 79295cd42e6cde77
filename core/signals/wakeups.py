"""Wake-ups: a message that carries only an id. Losing one costs time, never a message.

    runs ──► list "runs" of the broker ──► a worker with a free place     each wake-up reaches
    batches, deliveries ──► list "others" ──► any ``runs`` worker         one worker only

A ``runs`` worker takes its own wake-ups at once while it has a free place. Those of others it takes
from a list of the broker: of the workers that wait, the broker serves the one that has waited
longest; when all are full, wake-ups stay there. Jobs of the queue ``long`` are Celery's.
Publishing runs in its own thread, so that neither a transaction nor an event loop ever waits for
the broker. A wake-up that is lost (the broker is away, its worker dies) costs time until the
sweeper finds the work.
"""

import asyncio
import logging
import queue
import threading
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from functools import cache, partial
from typing import TYPE_CHECKING

import orjson
import redis
from django.conf import settings
from django.db import transaction
from django.utils.module_loading import import_string

from core.lib import broker
from core.signals import pubsub

if TYPE_CHECKING:
    from celery import Celery  # loaded with the first wake-up of its queue

logger = logging.getLogger(__name__)

MAX_WAITING = 10_000
AT_ONCE = 100
RUNS, LONG = "runs", "long"
# The tasks of Celery that a wake-up names.
RUN = "core.runs.wake"
BATCH = "core.runs.wake_batch"
DELIVERY = "core.runs.wake_delivery"
PUSH = "core.runs.wake_push"
JOB = "core.long.work"
# The broker's lists: of runs, which need a place, and of what every worker can begin at once.
RUN_LIST, OTHER_LIST = "latchkey:wake:runs", "latchkey:wake:others"
RETRY_SECONDS = 1.0
# A worker asks again after this time; a broker that hangs is given up a moment later.
ASK_SECONDS = 5.0
PATIENCE_SECONDS = 2.0

WakeUp = tuple[str, str, int]
# Takes a wake-up of RUNS in this process; False when it has no capacity left.
TakeHere = Callable[[str, int], bool]

_here: list[TakeHere] = []


class Publisher:
    """One thread that sends wake-ups; a full queue drops them, and the sweeper finds the work."""

    def __init__(self) -> None:
        self._queue: queue.Queue[WakeUp] = queue.Queue(MAX_WAITING)
        self._lists = Lists()
        threading.Thread(target=self._work, name="wake-ups", daemon=True).start()

    def put(self, task: str, queue_name: str, row_id: int) -> None:
        """Send ``task(row_id=…)`` soon: to a ``runs`` worker, else to the Celery queue."""
        try:
            self._queue.put_nowait((task, queue_name, row_id))
        except queue.Full:
            logger.warning("too many wake-ups are waiting; the sweeper will find the work")

    def _work(self) -> None:
        while True:
            waiting = [self._queue.get()]
            while len(waiting) < AT_ONCE and not self._queue.empty():
                waiting.append(self._queue.get())
            self._lists.push([(task, row_id) for task, name, row_id in waiting if name == RUNS])
            others = [each for each in waiting if each[1] != RUNS]
            for task, queue_name, row_id in others:
                enqueue(task, queue_name, row_id)
            self._lists.bound({queue_name for _, queue_name, _ in others})


class Lists:
    """The writing end of the broker's lists, over one kept connection."""

    def __init__(self) -> None:
        self._client = broker.client(seconds=pubsub.ANSWER_SECONDS)
        self._not_before = 0.0

    def push(self, wake_ups: list[tuple[str, int]]) -> bool:
        """Add wake-ups (task, row), each for one worker; return whether the broker has them.

        The oldest beyond MAX_WAITING are dropped. A broker that is away is tried once a second.
        """
        if not wake_ups:
            return True
        if time.monotonic() < self._not_before:
            return False
        try:
            with self._client.pipeline(transaction=False) as pipe:
                for task, row_id in wake_ups:
                    pipe.rpush(list_of(task), orjson.dumps([task, row_id]))
                for name in {list_of(task) for task, _ in wake_ups}:
                    pipe.ltrim(name, -MAX_WAITING, -1)
                pipe.execute()
        except (redis.RedisError, OSError) as error:
            self._not_before = time.monotonic() + RETRY_SECONDS
            logger.warning("a wake-up was lost, the sweeper will find the work: %s", error)
            return False
        return True

    def bound(self, queue_names: Iterable[str]) -> None:
        """Drop the oldest wake-ups beyond MAX_WAITING, which add up while no worker runs."""
        with suppress(redis.RedisError, OSError):  # it has no more than before
            for name in queue_names:
                self._client.ltrim(name, 0, MAX_WAITING - 1)  # a new one is the first


def list_of(task: str) -> str:
    """Return the broker's list for wake-ups of ``task``."""
    return RUN_LIST if task == RUN else OTHER_LIST


class Taker:
    """Takes wake-ups from one of the broker's lists. One event loop."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._is_away = self._lagged = False
        self._client = broker.async_client(
            seconds=ASK_SECONDS + PATIENCE_SECONDS, connect_seconds=PATIENCE_SECONDS
        )

    async def take(self, *, most: int) -> list[tuple[str, int]]:
        """Wait for wake-ups and take up to ``most`` (task, row); after ASK_SECONDS maybe none.

        While the broker is away none, once a second; see :meth:`take_lag`.
        """
        try:
            async with self._client.pipeline(transaction=False) as pipe:
                pipe.blpop(self._name, timeout=ASK_SECONDS)
                if most > 1:  # read after the first one has come
                    pipe.lpop(self._name, most - 1)
                found = await pipe.execute()
        except (redis.RedisError, OSError):
            if not self._is_away:
                logger.warning("the broker is away; the sweeper will find the work")
            self._is_away = True
            await asyncio.sleep(RETRY_SECONDS)
            return []
        self._lagged, self._is_away = self._lagged or self._is_away, False
        first = [found[0][1]] if found[0] else []
        rest = found[1] if most > 1 and found[1] else []
        return [(task, row_id) for task, row_id in map(orjson.loads, [*first, *rest])]

    def take_lag(self) -> bool:
        """Return whether the broker was away since the last call, and is back."""
        lagged, self._lagged = self._lagged, False
        return lagged

    async def close(self) -> None:
        await self._client.aclose()


def enqueue(task: str, queue_name: str, row_id: int) -> None:
    """Send a wake-up as a Celery message, if the broker takes it."""
    try:
        app: Celery = import_string(settings.CELERY_APPLICATION)
        app.send_task(task, kwargs={"row_id": row_id}, queue=queue_name)
    except Exception as error:  # noqa: BLE001 - a full broker raises the vendor's own errors
        logger.warning("a wake-up was lost, the worker will find the work: %s", error)


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


# Wake a ``runs`` worker for the row with this id: a queued run, a session whose batch it flushes
# when that is due, a pending delivery, a message to a browser.
run = partial(on_commit, RUN)
batch = partial(on_commit, BATCH)
delivery = partial(on_commit, DELIVERY)
push = partial(on_commit, PUSH)
# Wake a ``long`` worker for a queued job.
job = partial(on_commit, JOB, queue_name=LONG)
