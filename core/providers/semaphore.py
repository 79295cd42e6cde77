"""A semaphore of all processes, fair, by leases in the broker (decision 215).

A holder that dies loses its place within LEASE_SECONDS. While the broker is away each process
counts its own holders; nothing fails because of it.
"""

import asyncio
import logging
import secrets
from collections.abc import AsyncGenerator, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager, nullcontext, suppress
from contextvars import Context
from dataclasses import dataclass
from itertools import count

import redis

from core.lib import broker
from core.lib.per_loop import per_loop

logger = logging.getLogger(__name__)

PREFIX = "latchkey:calls:"
LEASE_SECONDS = 6.0
RENEW_SECONDS = 2.0
POLL_SECONDS = 0.05
RETRY_SECONDS = 1.0
BROKER_SECONDS = 0.5
# Keys: members by ticket, members by the end of their lease. Arguments: the lease in microseconds;
# the number of members that left, and these; then pairs of a member and its ticket ("" for a new
# one). Answers a ticket and a rank for each pair. Times are the broker's, in microseconds; a lease
# that ends later than any new one is from before the clock was set back.
SCRIPT = """
local clock = redis.call('TIME')
local now, lease = clock[1] * 1000000 + clock[2], tonumber(ARGV[1])
local function text(number) return string.format('%.0f', number) end
local function drop(members)
  for _, member in ipairs(members) do
    redis.call('ZREM', KEYS[1], member)
    redis.call('ZREM', KEYS[2], member)
  end
end
drop(redis.call('ZRANGEBYSCORE', KEYS[2], '-inf', text(now)))
drop(redis.call('ZRANGEBYSCORE', KEYS[2], '(' .. text(now + lease), '+inf'))
local first = 3 + tonumber(ARGV[2])
for at = 3, first - 1 do drop({ARGV[at]}) end
local last = tonumber(redis.call('ZREVRANGE', KEYS[1], 0, 0, 'WITHSCORES')[2] or 0)
local tickets = {}
for at = first, #ARGV, 2 do
  local ticket = ARGV[at + 1]
  if ticket == '' then
    last = math.max(now, last + 1)
    ticket = text(last)
  end
  redis.call('ZADD', KEYS[1], ticket, ARGV[at])
  redis.call('ZADD', KEYS[2], text(now + lease), ARGV[at])
  tickets[at] = ticket
end
local answer = {}
for at = first, #ARGV, 2 do
  answer[#answer + 1] = tickets[at]
  answer[#answer + 1] = redis.call('ZRANK', KEYS[1], ARGV[at])
end
redis.call('PEXPIRE', KEYS[1], math.ceil(lease / 1000))
redis.call('PEXPIRE', KEYS[2], math.ceil(lease / 1000))
return answer
"""


@dataclass(slots=True, eq=False)
class Holder:
    """One that waits for a place, or has it. ``ticket``: its number in the order, of the broker."""

    member: str
    granted: asyncio.Event
    ticket: str = ""


class SharedSemaphore:
    """At most ``most`` holders in all processes, first come, first served. One event loop."""

    def __init__(self, name: str, *, most: int) -> None:
        self.most = most
        self._keys = (f"{PREFIX}{name}", f"{PREFIX}{name}:leases")
        self._client = broker.async_client(seconds=BROKER_SECONDS, connect_seconds=BROKER_SECONDS)
        self._script = self._client.register_script(SCRIPT)
        self._process = secrets.token_hex(8)
        self._numbers = count()
        self._holders: list[Holder] = []  # in the order of their requests
        self._left: list[str] = []
        self._changed = asyncio.Event()
        self._is_away = False
        self._task: asyncio.Task[None] | None = None

    @asynccontextmanager
    async def slot(self) -> AsyncGenerator[None, None]:
        """Wait for a place, and hold it during the block."""
        holder = Holder(f"{self._process}:{next(self._numbers)}", asyncio.Event())
        self._holders.append(holder)
        self._go_on()
        try:
            await holder.granted.wait()
            yield
        finally:
            if holder in self._holders:  # else it is closed
                self._holders.remove(holder)
                self._left.append(holder.member)
                self._go_on()

    async def close(self) -> None:
        """Give up all places, and close the connection."""
        self._left += [each.member for each in self._holders]
        self._holders.clear()
        self._changed.set()
        if self._task is not None:
            await self._task
        await self._client.aclose()

    def _go_on(self) -> None:
        """Note a change: the broker is told; while it is away the own places are given."""
        if self._is_away:
            self._grant(range(len(self._holders)))
        else:
            self._changed.set()
        if self._task is None or self._task.done():
            # In a context of its own: it serves all who ask.
            self._task = asyncio.get_running_loop().create_task(self._work(), context=Context())

    async def _work(self) -> None:
        """Tell the broker of holders and leavers, until there are none."""
        while self._holders or self._left:
            self._changed.clear()
            await self._tell()
            if not self._holders and (self._is_away or not self._left):
                return
            waits = any(not each.granted.is_set() for each in self._holders)
            seconds = RETRY_SECONDS if self._is_away else POLL_SECONDS if waits else RENEW_SECONDS
            with suppress(TimeoutError):
                async with asyncio.timeout(seconds):
                    await self._changed.wait()

    async def _tell(self) -> None:
        holders, left = [*self._holders], [*self._left]
        pairs = [part for each in holders for part in (each.member, each.ticket)]
        arguments: list[str | int] = [int(LEASE_SECONDS * 1_000_000), len(left), *left, *pairs]
        self._left.clear()  # where this fails, their leases end by themselves
        try:
            found = await self._script(keys=self._keys, args=arguments)
        except (redis.RedisError, OSError):
            if not self._is_away:
                logger.warning("the broker is away; each process counts its own calls of models")
            self._is_away = True
            self._grant(range(len(self._holders)))
            return
        self._is_away = False
        for holder, ticket in zip(holders, found[::2], strict=True):
            holder.ticket = ticket.decode()
        self._grant(found[1::2], holders)

    def _grant(self, ranks: Sequence[int], holders: Sequence[Holder] | None = None) -> None:
        for holder, rank in zip(self._holders if holders is None else holders, ranks, strict=True):
            if rank < self.most:
                holder.granted.set()


class Semaphores:
    """The semaphores of an event loop, by name."""

    def __init__(self) -> None:
        self._made: dict[str, SharedSemaphore] = {}

    def slot(self, name: str, *, most: int) -> AbstractAsyncContextManager[None]:
        """Return what waits for a place and holds it; nothing for a limit of 0."""
        if not most:
            return nullcontext()
        made = self._made.get(name)
        if made is None:
            made = self._made[name] = SharedSemaphore(name, most=most)
        made.most = most
        return made.slot()

    async def close(self) -> None:
        """Give up all places."""
        made, self._made = self._made, {}
        for each in made.values():
            await each.close()


@per_loop
def semaphores() -> Semaphores:
    """Return the semaphores of the running event loop."""
    return Semaphores()
