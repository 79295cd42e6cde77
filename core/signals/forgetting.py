"""Remove keys from the broker, and from the file to which it appends its writes."""

import time
from collections.abc import Callable, Iterable
from typing import Any

import redis
from redis.exceptions import NoPermissionError

from core.lib import broker
from core.signals import live_events, pubsub

ANSWER_SECONDS = 5.0
REWRITE_SECONDS = 30.0
AT_ONCE = 500
COUNTERS = f"{pubsub.PREFIX}rate:"  # then the kind, and the subject


class NotPermittedError(Exception):
    """The broker does not permit this user to have its file written anew."""


def forget_runs(public_ids: Iterable[str]) -> None:
    """Remove the live events of these runs. Raises redis.RedisError."""
    names = [pubsub.channel_of(live_events.key_of(each)) for each in public_ids]
    with broker.client(seconds=ANSWER_SECONDS) as client:
        for start in range(0, len(names), AT_ONCE):
            client.unlink(*names[start : start + AT_ONCE])


def forget_counters(is_meant: Callable[[str], bool]) -> None:
    """Remove the counters of requests whose subject is meant. Raises redis.RedisError."""
    with broker.client(seconds=ANSWER_SECONDS) as client:
        for key in client.scan_iter(match=f"{COUNTERS}*", count=AT_ONCE):
            _, _, subject = key.decode("utf-8", "replace").removeprefix(COUNTERS).partition(":")
            if is_meant(subject):
                client.unlink(key)


def rewrite_file() -> bool:
    """Have the broker write its file anew, where it keeps one; return whether that has ended.

    Raises redis.RedisError, NotPermittedError.
    """
    with broker.client(seconds=ANSWER_SECONDS) as client:
        try:
            return is_rewritten(client)
        except redis.ResponseError as error:
            # A service may lack the command.
            if isinstance(error, NoPermissionError) or "unknown command" in str(error):
                raise NotPermittedError(str(error)) from error
            raise


def is_rewritten(client: redis.Redis) -> bool:
    """Have the file written anew; return whether that has ended. Raises redis.RedisError."""
    if not state(client).get("aof_enabled"):
        return True
    deadline = time.monotonic() + REWRITE_SECONDS
    # One that is under way may have begun before the keys were removed.
    for begin in (False, True):
        if begin:
            client.bgrewriteaof()
        while is_busy(state(client)):
            if time.monotonic() > deadline:
                return False
            time.sleep(0.05)
    return True


def state(client: redis.Redis) -> dict[str, Any]:
    found: Any = client.info("persistence")
    return dict(found)


def is_busy(found: dict[str, Any]) -> bool:
    return bool(found["aof_rewrite_in_progress"] or found.get("aof_rewrite_scheduled"))
