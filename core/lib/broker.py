"""Connections to the broker."""

import redis
import redis.asyncio
from django.conf import settings
from redis.asyncio.retry import Retry as AsyncRetry
from redis.backoff import NoBackoff
from redis.retry import Retry


def client(*, seconds: float) -> redis.Redis:
    """Return a client that tries once and waits at most ``seconds``; it connects when it is used.

    By default the library tries four times with pauses, and its callers wait for it.
    """
    return redis.Redis.from_url(
        settings.REDIS_URL,
        socket_timeout=seconds,
        socket_connect_timeout=seconds,
        retry=Retry(NoBackoff(), 0),
    )


def async_client(*, seconds: float, connect_seconds: float) -> redis.asyncio.Redis:
    """Return :func:`client` for an event loop, with a limit of its own for connecting."""
    return redis.asyncio.Redis.from_url(
        settings.REDIS_URL,
        socket_timeout=seconds,
        socket_connect_timeout=connect_seconds,
        retry=AsyncRetry(NoBackoff(), 0),
    )
