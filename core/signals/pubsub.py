"""Redis pub/sub: carries what was just committed from workers to web processes.

Each process holds one subscription and hands frames to its local listeners by key. A frame may be
lost; listeners check ``seq`` and read the log. Two kinds have a channel of their own, so that the
other processes do not read them: the events of runs, which no worker needs, and the wake-ups, which
only ``runs`` workers need. Control frames (revoked, stop, unknown request) reach every process.
"""

import asyncio
import contextlib
import logging
import threading
import time
from collections import deque
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any

import orjson
import redis
import redis.asyncio
from django.conf import settings
from redis.asyncio.retry import Retry as AsyncRetry
from redis.backoff import NoBackoff

from core.lib import broker
from core.lib.per_loop import per_loop

logger = logging.getLogger(__name__)

CHANNEL = "latchkey:hub"
EVENTS = "latchkey:events"
WAKES = "latchkey:wakes"
RETRY_SECONDS = 1.0
# A transaction's caller waits for the publishing: a broker that stands still may not hold it.
ANSWER_SECONDS = 0.5
# A server that hangs is silent: it is pinged after this time, and given up after the same again.
SILENCE_SECONDS = 5.0

Frame = dict[str, Any]


class Sender:
    """Publishes frames over one kept connection; while Redis is away it tries once a second."""

    def __init__(self) -> None:
        self._client = broker.client(seconds=ANSWER_SECONDS)
        self._lock = threading.Lock()
        self._not_before = 0.0

    def publish(self, frames: list[Frame], *, channel: str = CHANNEL) -> int:
        """Send ``frames`` as one message; return how many processes received it.

        A failure is harmless and logged once a second.
        """
        with self._lock:
            if not frames or time.monotonic() < self._not_before:
                return 0
            try:
                return int(self._client.publish(channel, orjson.dumps(frames)))
            except (redis.RedisError, OSError):
                self._not_before = time.monotonic() + RETRY_SECONDS
                logger.warning("the hub is away; listeners read the log instead")
                return 0


@cache
def sender() -> Sender:
    """Return the sender of this process."""
    return Sender()


def publish(frames: list[Frame]) -> None:
    """Send ``frames`` to every process. Each has ``keys``: those of the listeners that get it."""
    sender().publish(frames)


def publish_events(frames: list[Frame]) -> None:
    """Send events of runs to every process that shows them."""
    sender().publish(frames, channel=EVENTS)


def publish_wakeups(frames: list[Frame]) -> int:
    """Send wake-ups to every ``runs`` worker; return how many received them."""
    return sender().publish(frames, channel=WAKES)


class Listener:
    """A bounded queue of frames for one socket, stream or runner."""

    def __init__(self, keys: frozenset[str]) -> None:
        self.keys = keys
        self.lagged = False
        self._frames: deque[Frame] = deque()
        self._ready = asyncio.Event()

    def put(self, frame: Frame) -> None:
        """Add a frame; a full queue is emptied and ``lagged`` tells the reader to read the log."""
        if len(self._frames) >= settings.MAX_QUEUED_FRAMES:
            self._frames.clear()
            self.lagged = True
        else:
            self._frames.append(frame)
        self._ready.set()

    def resync(self) -> None:
        """Note that frames may be lost: the reader should read the log."""
        self.lagged = True
        self._ready.set()

    def nudge(self) -> None:
        """Wake the reader without a frame."""
        self._ready.set()

    async def wait(self, *, seconds: float | None = None) -> list[Frame]:
        """Return the frames that came, at the latest after ``seconds`` (then maybe none)."""
        if not self._ready.is_set():
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(seconds):
                    await self._ready.wait()
        self._ready.clear()
        frames = list(self._frames)
        self._frames.clear()
        return frames

    def take_lag(self) -> bool:
        """Return whether frames may have been lost since the last call."""
        lagged, self.lagged = self.lagged, False
        return lagged


class Hub:
    """The listeners of this process and the one subscription that feeds them. One event loop."""

    def __init__(self) -> None:
        self.connected = False
        self._listeners: dict[str, set[Listener]] = {}
        self._task: asyncio.Task[None] | None = None
        self._channels: tuple[str, ...] = (CHANNEL, EVENTS)

    def subscribe_to(self, *channels: str) -> None:
        """Subscribe to these channels instead of a web process's; before the first listener."""
        self._channels = channels

    @contextmanager
    def listen(self, keys: Iterable[str]) -> Iterator[Listener]:
        """Open a listener for frames with any of ``keys``, for as long as the block lasts."""
        if self._task is None or self._task.done():
            self._task = asyncio.get_running_loop().create_task(self._subscribe())
        listener = Listener(frozenset(keys))
        self.add(listener, listener.keys)
        try:
            yield listener
        finally:
            self.remove(listener)

    def add(self, listener: Listener, keys: Iterable[str]) -> None:
        """Add ``keys`` to ``listener``."""
        listener.keys |= frozenset(keys)
        for key in keys:
            self._listeners.setdefault(key, set()).add(listener)

    def remove(self, listener: Listener) -> None:
        """Remove ``listener``."""
        for key in listener.keys:
            listeners = self._listeners.get(key, set())
            listeners.discard(listener)
            if not listeners:
                self._listeners.pop(key, None)

    def count(self) -> int:
        """Return the number of listeners."""
        return len({each for some in self._listeners.values() for each in some})

    async def close(self) -> None:
        """End the subscription: at the end of an event loop."""
        while self._task is not None and not self._task.done():
            self._task.cancel()  # again and again: the client swallows it while it connects
            await asyncio.wait([self._task], timeout=0.1)
        self._task, self.connected = None, False

    def dispatch(self, frames: Iterable[Frame]) -> None:
        """Hand each frame to the local listeners of its keys, once each."""
        for frame in frames:
            heard: set[Listener] = set()
            for key in frame["keys"]:
                heard |= self._listeners.get(key, set())
            for listener in heard:
                listener.put(frame)

    async def _subscribe(self) -> None:
        while True:
            try:
                await self._read()
            except (redis.RedisError, OSError):
                logger.warning("the hub is away; trying again")
            except Exception:
                logger.exception("the hub could not be read")
            self.connected = False
            await asyncio.sleep(RETRY_SECONDS)

    async def _read(self) -> None:
        client = redis.asyncio.Redis.from_url(
            settings.REDIS_URL,
            socket_timeout=2,
            socket_connect_timeout=2,
            retry=AsyncRetry(NoBackoff(), 0),
        )
        async with client, client.pubsub() as subscription:
            await subscription.subscribe(*self._channels)
            asked = False
            while True:
                message = await subscription.get_message(timeout=SILENCE_SECONDS)
                if message is None and asked:
                    raise TimeoutError("the hub does not answer")
                if message is None:
                    await subscription.ping()
                    asked = True
                    continue
                asked = False
                self._hear(message)

    def _hear(self, message: Frame) -> None:
        if message["type"] == "subscribe":
            self.connected = True
            self._resync()
        elif message["type"] == "message":
            self.dispatch(orjson.loads(message["data"]))

    def _resync(self) -> None:
        for listener in {each for some in self._listeners.values() for each in some}:
            listener.resync()


@per_loop
def local() -> Hub:
    """Return the hub of the running event loop: one per process, except in tests."""
    return Hub()
