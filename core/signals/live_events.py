"""Events of runs on their way to readers, also before they are stored (docs/decisions/189).

They go into a stream of the broker for each run, capped and expiring, for readers that come later;
and by pub/sub to those that are there. Sending may fail: readers see a gap in the numbers and read
the log.
"""

import asyncio
import logging
import threading
import time
from functools import cache
from typing import Any, TypedDict

import orjson
import redis

from core.lib import broker
from core.signals import pubsub

logger = logging.getLogger(__name__)

# Frames in the stream of a run: readers have the log up to the last two seconds.
CAPACITY = 500
KEPT_SECONDS = 3600
KEPT_AFTER_THE_END_SECONDS = 60
RETRY_SECONDS = 1.0
# The longest wait for a broker that takes nothing: events of all runs wait for it.
FULL_SECONDS = 0.1

Numbered = tuple[int, Any]


class EventFrame(TypedDict):
    """Neighbouring events of a run: protocol messages; ``first`` is the number of the first one.

    ``ends``: the last one ends the run.
    """

    kind: str
    run: str
    session: str
    first: int
    events: list[Any]
    ends: bool


class Sender:
    """Sends events over a connection that is asked for no answers: it never waits for the broker.

    While the broker is away events are dropped, and a thread connects again.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._pending: list[tuple[Any, ...]] = []
        self._connects = self._closed = False
        self._connection: Any = connected()  # redis-py has no types for it

    def put(self, frame: EventFrame, *, user_id: int) -> None:
        """Send ``frame`` of a run of this user, after those that were put before.

        In an event loop the frames of all its ready callbacks are sent at once.
        """
        with self._lock:
            self._pending += commands_of(frame, user_id)
        try:
            loop = asyncio.get_running_loop()
        except RuntimeError:
            self.flush()
        else:
            loop.call_soon(self.flush)

    def flush(self) -> None:
        """Send what was put."""
        with self._lock:
            commands, self._pending = self._pending, []
            try:
                if self._connection is not None and commands:
                    packed = self._connection.pack_commands(commands)
                    self._connection.send_packed_command(packed, check_health=False)
            except (redis.RedisError, OSError):
                logger.warning("the broker is away; readers get answers from the log")
                self._connection = None
            if self._connection is None and not self._connects:
                threading.Thread(target=self._connect_again, daemon=True).start()
                self._connects = True

    def close(self) -> None:
        """Send what was put, and close the connection."""
        self.flush()
        with self._lock:
            self._closed = True
            if self._connection is not None:
                self._connection.disconnect()

    def _connect_again(self) -> None:
        connection = None
        while connection is None and not self._closed:
            time.sleep(RETRY_SECONDS)
            connection = connected()
        with self._lock:
            self._connection, self._connects = connection, False


def connected() -> Any:
    """Return a connection to the broker that answers nothing; None while it is away."""
    connection: Any = broker.client(seconds=FULL_SECONDS).connection_pool.make_connection()
    try:
        connection.connect()
        connection.send_command("CLIENT", "REPLY", "OFF")
    except (redis.RedisError, OSError):
        return None
    return connection


def commands_of(frame: EventFrame, user_id: int) -> list[tuple[Any, ...]]:
    """Return the broker's commands that send ``frame``.

    The beginning and the end of a run are for all sockets of its user, the rest for readers of the
    run.
    """
    key = key_of(frame["run"])
    name = pubsub.channel_of(key)
    data = orjson.dumps(frame)
    last = frame["first"] + len(frame["events"]) - 1
    begins, over = frame["first"] == 1, frame["ends"]
    commands: list[tuple[Any, ...]] = [
        ("XADD", name, "MAXLEN", "~", CAPACITY, f"{last}-0", "frame", data),
        ("PUBLISH", name, data),
    ]
    if begins or over:
        kept = KEPT_AFTER_THE_END_SECONDS if over else KEPT_SECONDS
        commands.append(("EXPIRE", name, kept))
        commands.append(("PUBLISH", pubsub.channel_of(f"user:{user_id}"), data))
    return commands


def key_of(run: str) -> str:
    """Return the pub/sub key of a run, by its public id."""
    return f"run:{run}"


@cache
def sender() -> Sender:
    return Sender()


def close_sender() -> None:
    """Close the connection: at the stop of a process, and between tests."""
    if sender.cache_info().currsize:
        sender().close()
        sender.cache_clear()


@cache
def reader() -> redis.Redis:
    """Return the connection that reads streams; of this process."""
    return broker.client(seconds=pubsub.ANSWER_SECONDS)


def after(*, run: str, seq: int) -> list[Numbered]:
    """Return the live events of a run from number ``seq`` + 1 on, without a gap.

    Empty when that one is not there, or the broker is away.
    """
    try:
        found: Any = reader().xrange(pubsub.channel_of(key_of(run)), f"{seq + 1}-0", "+")
    except (redis.RedisError, OSError):
        return []
    events: list[Numbered] = []
    for _, fields in found:
        frame = orjson.loads(fields[b"frame"])
        if frame["first"] > seq + 1:
            break
        for number, event in enumerate(frame["events"], frame["first"]):
            if number > seq:
                events.append((number, event))
                seq = number
    return events
