"""Rate limits by address, person and key: a sliding minute, shared by all processes.

All processes count in the broker, so that a limit holds for all web servers in total. While the
broker is unavailable each process counts for itself: the limit is then multiplied by the number of
processes.
"""

import ipaddress
import logging
import math
import threading
import time
from collections import OrderedDict, deque
from collections.abc import Iterator
from contextlib import contextmanager
from typing import ClassVar

import redis
from django.utils.text import format_lazy
from django.utils.translation import gettext_lazy

from channels_app.asgi.http import RefusedError
from core.lib import broker

logger = logging.getLogger(__name__)

WINDOW_SECONDS = 60.0
MAX_COUNTED = 50_000
IPV6_NETWORK_BITS = 64
BROKER_SECONDS = 0.25
RETRY_SECONDS = 1.0
# The times of the last ``limit`` events, newest first, by the broker's own clock in milliseconds.
# It answers 0, or the milliseconds that the caller has to wait. Events in the future do not count:
# the broker's clock was set back.
SCRIPT = """
local clock = redis.call('TIME')
local now = clock[1] * 1000 + math.floor(clock[2] / 1000)
local limit, window = tonumber(ARGV[1]), tonumber(ARGV[2])
local oldest = redis.call('LINDEX', KEYS[1], limit - 1)
if oldest and now >= tonumber(oldest) and now - tonumber(oldest) < window then
  return window - (now - tonumber(oldest))
end
redis.call('LPUSH', KEYS[1], string.format('%.0f', now))
redis.call('LTRIM', KEYS[1], 0, limit - 1)
redis.call('PEXPIRE', KEYS[1], window)
return 0
"""


def refusal(seconds: float) -> RefusedError:
    """Return the error for one request too many."""
    wait = max(1, math.ceil(seconds))
    return RefusedError(
        429,
        format_lazy(gettext_lazy("Too many requests. Try again in {seconds} s."), seconds=wait),
        headers={"Retry-After": str(wait)},
    )


class Broker:
    """Counts in the broker. While it is unavailable, only one try a second is made."""

    not_before: ClassVar[float] = 0.0

    def __init__(self) -> None:
        """Prepare the script; the connection is opened by the first call."""
        self._script = broker.client(seconds=BROKER_SECONDS).register_script(SCRIPT)

    def wait_seconds(self, *, key: str, limit: int) -> float:
        """Count one event; return the seconds to wait. 0 also when the broker does not answer."""
        if time.monotonic() < Broker.not_before:
            return 0.0
        try:
            answer = self._script(keys=[key], args=[limit, int(WINDOW_SECONDS * 1000)])
        except (redis.RedisError, OSError):
            Broker.not_before = time.monotonic() + RETRY_SECONDS
            logger.warning("the broker counts no requests; each process counts its own")
            return 0.0
        return int(answer) / 1000


class Rate:
    """At most ``limit`` events a minute for each subject; 0 means no limit.

    With a ``name`` the count is shared by all processes. The least recently seen subjects are
    forgotten beyond MAX_COUNTED.
    """

    def __init__(self, name: str = "") -> None:
        self._name = name
        self._broker: Broker | None = None
        self._seen: OrderedDict[str, deque[float]] = OrderedDict()
        self._lock = threading.Lock()  # used from the loop and from database threads

    def check(self, *, subject: str, limit: int, now: float | None = None) -> None:
        """Count one event of ``subject``; may block on the broker, so not on an event loop.

        Raises RefusedError 429 with ``Retry-After``.
        """
        self.here(subject=subject, limit=limit, now=now)
        self.everywhere(subject=subject, limit=limit)

    def here(self, *, subject: str, limit: int, now: float | None = None) -> None:
        """Count one event in this process only. Raises RefusedError 429."""
        if not limit:
            return
        with self._lock:
            self._count(subject, limit, time.monotonic() if now is None else now)

    def everywhere(self, *, subject: str, limit: int) -> None:
        """Count one event in the broker. Raises RefusedError 429."""
        if not (limit and self._name):
            return
        if self._broker is None:
            self._broker = Broker()
        wait = self._broker.wait_seconds(key=f"latchkey:rate:{self._name}:{subject}", limit=limit)
        if wait:
            raise refusal(wait)

    def _count(self, subject: str, limit: int, moment: float) -> None:
        times = self._seen.setdefault(subject, deque())
        self._seen.move_to_end(subject)
        if len(self._seen) > MAX_COUNTED:
            self._seen.popitem(last=False)
        while times and times[0] <= moment - WINDOW_SECONDS:
            times.popleft()
        if len(times) >= limit:
            raise refusal(times[0] + WINDOW_SECONDS - moment)
        times.append(moment)


def network_of(address: str) -> str:
    """Return the key to count for an address: for IPv6 its /64, usually one customer."""
    try:
        parsed = ipaddress.ip_address(address)
    except ValueError:
        return address
    if isinstance(parsed, ipaddress.IPv4Address):
        return str(parsed)
    if parsed.ipv4_mapped:
        return str(parsed.ipv4_mapped)
    return str(ipaddress.ip_network((parsed, IPV6_NETWORK_BITS), strict=False))


addresses = Rate("address")
people = Rate("person")
keys = Rate("key")
failures = Rate("failure")
sign_ins = Rate("sign-in")
server_sign_ins = Rate("server-sign-in")


class Streams:
    """The number of streams or sockets that each user has open in this process."""

    def __init__(self) -> None:
        self._open: dict[int | str, int] = {}

    def enter(self, *, user_id: int | str, limit: int) -> None:
        """Count one more. Raises RefusedError 429 when ``limit`` are open."""
        if self._open.get(user_id, 0) >= limit:
            raise RefusedError(
                429, gettext_lazy("Too many open streams."), headers={"Retry-After": "5"}
            )
        self._open[user_id] = self._open.get(user_id, 0) + 1

    @contextmanager
    def one(self, *, user_id: int | str, limit: int) -> Iterator[None]:
        """Count one more while the block runs. Raises RefusedError 429."""
        self.enter(user_id=user_id, limit=limit)
        try:
            yield
        finally:
            self.leave(user_id=user_id)

    def leave(self, *, user_id: int | str) -> None:
        """Count one less."""
        left = self._open[user_id] - 1
        if left:
            self._open[user_id] = left
        else:
            del self._open[user_id]


streams = Streams()
sockets = Streams()
admin_sockets = Streams()
