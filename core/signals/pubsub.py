"""Redis pub/sub between processes.

Each key has a channel of its own, so a process receives only what it has a listener for. A frame
may be lost; listeners of runs check numbers and read the log.

    publish(frame with keys) ─► a channel for each key ─► hub of each such process ─► listeners
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
from itertools import groupby
from operator import itemgetter
from typing import Any

import orjson
import redis
from django.conf import settings
from redis.asyncio.client import PubSub

from core.lib import broker
from core.lib.log_ids import IDS
from core.lib.per_loop import per_loop

logger = logging.getLogger(__name__)

PREFIX = "latchkey:"
# A subscription without channels cannot be read: each process has this one, of which it knows that
# the connection stands.
ALWAYS = "latchkey:"
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

    def publish(self, frames: list[Frame]) -> int:
        """Send ``frames``; return how many processes received one.

        A failure is harmless and logged once a second.
        """
        messages = [
            ("PUBLISH", channel_of(key), data)
            for data, keys in [(orjson.dumps(frame), frame["keys"]) for frame in frames]
            for key in keys
        ]
        return sum(answer for answer in self.execute(messages) if isinstance(answer, int))

    def execute(self, commands: list[tuple[Any, ...]]) -> list[Any]:
        """Send ``commands`` in one round trip; return their answers, none while Redis is away."""
        with self._lock:
            if not commands or time.monotonic() < self._not_before:
                return []
            try:
                pipeline: Any  # redis-py has no types for it
                with self._client.pipeline(transaction=False) as pipeline:
                    for command in commands:
                        pipeline.execute_command(*command)
                    answers: list[Any] = pipeline.execute(raise_on_error=False)
                    return answers
            except (redis.RedisError, OSError):
                self._not_before = time.monotonic() + RETRY_SECONDS
                logger.warning("the hub is away; listeners read the log instead")
                return []


def channel_of(key: str) -> str:
    """Return the name of the channel of ``key``."""
    return prefix_of(settings.REDIS_URL) + key


@cache
def prefix_of(url: str) -> str:
    """Return what begins the channels of a gateway whose broker is at ``url``.

    A channel belongs to the whole server (Redis, "Database & Scoping"): gateways that share one by
    the numbers of its databases would hear each other.
    """
    parse: Any = redis.connection.parse_url  # it has no types
    number = int(parse(url).get("db") or 0)
    return f"{PREFIX}{number}:" if number else PREFIX


@cache
def sender() -> Sender:
    return Sender()


def publish(frames: list[Frame]) -> int:
    """Send ``frames``, each to the listeners of its ``keys``; return how many processes received
    one.
    """
    return sender().publish(frames)


class Listener:
    """A bounded queue of frames for one socket, stream or runner."""

    def __init__(self) -> None:
        self.keys: set[str] = set()
        # Keys whose subscription is not confirmed yet: their frames may be missed.
        self.unconfirmed: set[str] = set()
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
        self._confirmed: set[str] = set()
        self._task: asyncio.Task[None] | None = None
        # Changes that the subscription does not have yet: (is wanted, channel), in order.
        self._changes: deque[tuple[bool, str]] = deque()
        self._changed = asyncio.Event()
        self._confirmation = asyncio.Condition()

    @contextmanager
    def listen(self, keys: Iterable[str]) -> Iterator[Listener]:
        """Open a listener for frames with any of ``keys``, for as long as the block lasts."""
        if self._task is None or self._task.done():
            self._task = asyncio.get_running_loop().create_task(self._subscribe())
        listener = Listener()
        self.add(listener, keys)
        try:
            yield listener
        finally:
            self.remove(listener, list(listener.keys))

    def add(self, listener: Listener, keys: Iterable[str]) -> None:
        """Add ``keys`` to ``listener``. It misses frames until they are :meth:`confirmed`."""
        for key in keys:
            if key not in self._listeners:
                self._listeners[key] = set()
                self._change(key, wanted=True)
            self._listeners[key].add(listener)
            listener.keys.add(key)
            if key not in self._confirmed:
                listener.unconfirmed.add(key)

    def remove(self, listener: Listener, keys: Iterable[str]) -> None:
        for key in keys:
            listener.keys.discard(key)
            listener.unconfirmed.discard(key)
            listeners = self._listeners.get(key, set())
            listeners.discard(listener)
            if not listeners and self._listeners.pop(key, None) is not None:
                self._confirmed.discard(key)
                self._change(key, wanted=False)

    async def confirmed(self, listener: Listener) -> bool:
        """Wait until ``listener`` misses nothing any more; return False when Redis is away.

        Frames that were published before are not in it: read the log then.
        """
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(ANSWER_SECONDS), self._confirmation:
                while self.connected and listener.unconfirmed:
                    await self._confirmation.wait()
        return self.connected and not listener.unconfirmed

    def count(self) -> int:
        return len({each for some in self._listeners.values() for each in some})

    async def close(self) -> None:
        """End the subscription: at the end of an event loop."""
        while self._task is not None and not self._task.done():
            self._task.cancel()  # again and again: the client swallows it while it connects
            await asyncio.wait([self._task], timeout=0.1)
        self._task, self.connected = None, False

    def dispatch(self, key: str, frame: Frame) -> None:
        """Hand ``frame`` to the local listeners of ``key``."""
        for listener in self._listeners.get(key, ()):
            listener.put(frame)

    def _change(self, key: str, *, wanted: bool) -> None:
        if self.connected:  # else everything is subscribed to when it is
            self._changes.append((wanted, channel_of(key)))
            self._changed.set()

    async def _subscribe(self) -> None:
        IDS.set(None)  # it serves all of this process
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
        client = broker.async_client(seconds=2, connect_seconds=2)
        async with client, client.pubsub() as subscription:
            await subscription.subscribe(ALWAYS)
            writing = asyncio.ensure_future(self._write(subscription))
            try:
                await self._hear_all(subscription)
            finally:
                writing.cancel()
                await asyncio.gather(writing, return_exceptions=True)

    async def _hear_all(self, subscription: PubSub) -> None:
        asked = False
        while True:
            message = await subscription.get_message(timeout=SILENCE_SECONDS)
            if message is None and asked:
                raise TimeoutError("the hub does not answer")
            asked = message is None
            if message is None:
                await subscription.ping()
            else:
                await self._hear(message)

    async def _write(self, subscription: PubSub) -> None:
        """Tell the subscription which channels are wanted, as they change."""
        while True:
            await self._changed.wait()
            self._changed.clear()
            changes = list(self._changes)
            self._changes.clear()
            for wanted, group in groupby(changes, key=itemgetter(0)):
                channels = [channel for _, channel in group]
                if wanted:
                    await subscription.subscribe(*channels)
                else:
                    await subscription.unsubscribe(*channels)

    async def _hear(self, message: Frame) -> None:
        channel = message["channel"].decode() if message["channel"] else ""
        key = channel.removeprefix(prefix_of(settings.REDIS_URL))
        if message["type"] == "subscribe" and channel == ALWAYS:
            self._connect()
        elif message["type"] == "subscribe":
            await self._confirm(key)
        elif message["type"] == "message":
            self.dispatch(key, orjson.loads(message["data"]))

    def _connect(self) -> None:
        """Subscribe to everything: this connection is new, and earlier frames may be lost."""
        self.connected = True
        self._confirmed.clear()
        self._changes.clear()
        for key, listeners in self._listeners.items():
            self._change(key, wanted=True)
            for listener in listeners:
                listener.unconfirmed.add(key)
                listener.lagged = True

    async def _confirm(self, key: str) -> None:
        """Note that frames of ``key`` arrive from now on."""
        if key not in self._listeners:
            return
        self._confirmed.add(key)
        for listener in self._listeners[key]:
            listener.unconfirmed.discard(key)
            if listener.lagged:
                listener.resync()
        async with self._confirmation:
            self._confirmation.notify_all()


@per_loop
def local() -> Hub:
    """Return the hub of the running event loop: one per process, except in tests."""
    return Hub()
