"""Events of runs on their way to readers, also before they are stored (docs/decisions/189).

One thread of a process sends them, in order: into a stream of the broker for each run, capped and
expiring, for readers that come later; and by pub/sub to those that are there. Sending may fail:
readers see a gap in the numbers and read the log.
"""

import logging
import queue
import threading
from functools import cache
from typing import Any, TypedDict

import orjson
import redis

from core.lib import broker
from core.signals import pubsub

logger = logging.getLogger(__name__)

# Frames in the stream of a run: readers have the log up to the last second.
CAPACITY = 500
KEPT_SECONDS = 3600
KEPT_AFTER_THE_END_SECONDS = 60
AT_ONCE = 100
STOP_SECONDS = 5.0

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
    """The thread that sends events."""

    def __init__(self) -> None:
        self._queue: queue.SimpleQueue[tuple[EventFrame, int] | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._work, name="live-events", daemon=True)
        self._thread.start()

    def put(self, frame: EventFrame, *, user_id: int) -> None:
        """Send ``frame`` of a run of this user soon, after those that were put before."""
        self._queue.put((frame, user_id))

    def stop(self) -> None:
        """Send what was put, and end the thread, within STOP_SECONDS."""
        self._queue.put(None)
        self._thread.join(STOP_SECONDS)

    def _work(self) -> None:
        stops = False
        while not stops:
            waiting = [self._queue.get()]
            while len(waiting) < AT_ONCE and not self._queue.empty():
                waiting.append(self._queue.get())
            stops = None in waiting
            commands = [
                command for each in waiting if each is not None for command in commands_of(*each)
            ]
            try:
                pubsub.sender().execute(commands)
            except Exception:
                logger.exception("live events could not be sent")


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
    """Return the sender of this process."""
    return Sender()


def close_sender() -> None:
    """Send what was put: at the stop of a process, and between tests."""
    if sender.cache_info().currsize:
        sender().stop()
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
