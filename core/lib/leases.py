"""Leases as their holder measures them: no call to a platform is made after the end of one.

A suspended process (SIGSTOP, a sleeping laptop) does not know that another one has taken over. The
clock here also counts the time for which the machine was suspended.
"""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

import aiohttp

# The part of a lease that its holder uses: it ends here before it ends in the database.
OWN_LEASE = 0.9


class LeaseOverError(Exception):
    """The lease has ended and the work may belong to another process: the call was not made."""


def elapsed() -> float:
    """Return seconds of a clock that cannot be set and that runs while the machine is suspended."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)


class Lease:
    def __init__(self, *, seconds: float, began: float | None = None) -> None:
        """Start at ``began``: :func:`elapsed` before the lease was requested; now unless given."""
        self.seconds = seconds
        self.until = (elapsed() if began is None else began) + seconds

    def renew(self, *, began: float) -> None:
        """Extend the lease by a renewal requested at ``began`` (:func:`elapsed`)."""
        self.until = began + self.seconds

    @property
    def left(self) -> float:
        """Return the seconds until its end; negative afterwards."""
        return self.until - elapsed()


_current: ContextVar[Lease | None] = ContextVar("lease", default=None)


@contextmanager
def under(lease: Lease) -> Iterator[None]:
    """Make the calls of the block under ``lease``."""
    token = _current.set(lease)
    try:
        yield
    finally:
        _current.reset(token)


def check() -> None:
    """Raise LeaseOverError when the lease of the running block, if any, has ended."""
    lease = _current.get()
    if lease is not None and lease.left <= 0:
        raise LeaseOverError("The lease is over.")


class LeasedRequest(aiohttp.ClientRequest):
    """A request of aiohttp that looks at the lease once more before it is sent: a connection may
    take seconds, in which the process may be suspended.
    """

    async def send(self, conn: aiohttp.connector.Connection) -> aiohttp.ClientResponse:
        """Send it. Raises LeaseOverError."""
        check()
        return await super().send(conn)
