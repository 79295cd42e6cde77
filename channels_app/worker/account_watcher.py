"""Poll the accounts on platforms and check their health, in the ``runs`` workers.

An account that is polled has one poller at a time: a lease on its row, so a second worker takes
over when the first dies. The same lease is held while a worker tells a platform that an account was
saved, which stays pending until that has ended. Without a holder, a change that the platform did
not take for the moment is told again when the lease is over. When a platform reports another
poller, the account shows the error and is left alone for a while.
"""

import asyncio
import logging
from collections.abc import Coroutine, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from functools import partial
from typing import Any, TypeVar

from django.conf import settings
from django.db import Error as DatabaseFailure
from django.db.models import Q
from django.db.models.functions import Now

from channels_app import registry
from channels_app.base import ChannelError, Gateway, Health, Polls
from channels_app.delivery.sending import account_of
from channels_app.owner import notices
from core.conversations import outbox
from core.database import transactions
from core.database.queries import Instances
from core.database.transactions import atomic_write, in_thread
from core.lib.encryption import DecryptError
from core.models import ChannelAccount

logger = logging.getLogger(__name__)
T = TypeVar("T")

LOOK_SECONDS = 2.0
LEASE = timedelta(seconds=15)
CHECK_SECONDS = 60.0
CALL_SECONDS = 20.0
# While a worker tells a platform of a change: longer than the call may take.
CHANGE_LEASE = timedelta(seconds=25)
# Until a change that a platform did not take for the moment is told again: the longest lease.
CHANGE_RETRY = timedelta(seconds=30)
CONFLICT_SECONDS = 60.0
RETRY_SECONDS = 3.0
STARTING = "starting"
STOPPING = "stopping"
TO_TELL = (STARTING, STOPPING)
# The text of an account while a worker tells its platform of a change.
UNDER_WAY = "…"
# Troubles of an account that no retry repairs.
LASTING = frozenset({"conflict", "auth"})
FAILED = "No messages are fetched: something went wrong in the gateway. Its log says what."
NOT_TOLD = "The platform was not told: something went wrong in the gateway. Its log says what."
LOOKED_AT = Instances(
    lambda: ChannelAccount.objects.filter(
        Q(enabled=True) | Q(status__in=TO_TELL) | Q(poller="", poller_until__isnull=False)
    ).order_by("id")
)


@dataclass(frozen=True, slots=True)
class Poller:
    """A task that polls an account, and the account's settings when it was started."""

    task: asyncio.Task[None]
    settings: tuple[object, ...]


@dataclass(slots=True)
class Gateways:
    """Polls and checks the accounts of one worker; ``look_after`` is called repeatedly."""

    worker: str
    pollers: dict[int, Poller] = field(default_factory=dict)
    checks: dict[int, float] = field(default_factory=dict)

    async def look_after(self) -> float:
        """Start and stop pollers, check due accounts; return the seconds until the next look."""
        rows, changed = await in_thread(look)
        found = ((row, polling_gateway(row)) for row in rows)
        polled = {row.id: (row, gateway) for row, gateway in found if gateway is not None}
        await self._stop_outdated({account_id: row for account_id, (row, _) in polled.items()})
        # Before polling, which a webhook that is still set prevents.
        await self._at_once(self._switch(row) for row in changed)
        for account_id, (row, gateway) in polled.items():
            # Also while its poller pauses after an error: no other worker polls it then.
            if await self._holds(account_id):
                self._poll(row, gateway)
        unknown = (row for row in rows if row.id not in polled or row.deliveries_held)
        await self._at_once(self._check(row) for row in unknown if self._is_check_due(row.id))
        return LOOK_SECONDS

    async def _at_once(self, calls: Iterable[Coroutine[Any, Any, None]]) -> None:
        """Make slow calls to platforms; renew the leases on the polled accounts meanwhile."""
        renewing = asyncio.create_task(self._renew())
        try:
            ended = await asyncio.gather(*calls, return_exceptions=True)  # none goes on alone
        finally:
            renewing.cancel()
        for each in ended:
            if isinstance(each, BaseException):
                raise each

    async def _renew(self) -> None:
        """Renew the leases on the polled accounts until cancelled."""
        while True:
            await asyncio.sleep(LOOK_SECONDS)
            try:
                for account_id in list(self.pollers):
                    if account_id in self.pollers:  # not let go meanwhile
                        await self._holds(account_id)
            except DatabaseFailure:
                logger.warning("the leases on accounts could not be renewed")

    async def _holds(self, account_id: int) -> bool:
        """Take or renew the lease on an account; where another worker has it, end its poller."""
        is_mine = await in_thread(hold, account_id=account_id, worker=self.worker)
        if not is_mine and account_id in self.pollers:
            self.pollers.pop(account_id).task.cancel()
        return is_mine

    def _is_check_due(self, account_id: int) -> bool:
        """Return whether an account is to be checked now; the next time is in a minute then."""
        now = asyncio.get_running_loop().time()
        if self.checks.get(account_id, 0.0) > now:
            return False
        self.checks[account_id] = now + CHECK_SECONDS
        return True

    async def _stop_outdated(self, polled: Mapping[int, ChannelAccount]) -> None:
        """Stop pollers of accounts that are no longer polled, that were saved, or whose settings
        have changed.

        Such an account is polled immediately, even during a pause after an error.
        """
        for account_id, poller in list(self.pollers.items()):
            row = polled.get(account_id)
            if row is not None and is_unchanged(row, poller):
                continue
            self.pollers.pop(account_id).task.cancel()
            if row is None:
                await in_thread(let_go, account_id=account_id, worker=self.worker)

    async def close(self) -> None:
        """Stop polling and release the leases, so that another worker can continue at once."""
        while self.pollers:
            account_id, poller = self.pollers.popitem()
            poller.task.cancel()
            await in_thread(let_go, account_id=account_id, worker=self.worker)

    def _poll(self, row: ChannelAccount, gateway: Polls) -> None:
        if row.id not in self.pollers:
            task = asyncio.create_task(self._work(row, gateway))
            self.pollers[row.id] = Poller(task, settings_of(row))

    async def _work(self, row: ChannelAccount, gateway: Polls) -> None:
        """Poll until cancelled, after an error again."""
        while True:
            seconds = RETRY_SECONDS
            try:
                seconds = await self._poll_once(row, gateway)
            except Exception:
                logger.exception("a poller failed")
            await asyncio.sleep(seconds)

    async def _poll_once(self, row: ChannelAccount, gateway: Polls) -> float:
        """Poll until an error, which is shown in the account; return the seconds of the pause."""
        await in_thread(show, account_id=row.id, status="running", text="polling")
        try:
            await gateway.poll(account_of(row))
        except ChannelError as error:
            await in_thread(show, account_id=row.id, status="error", text=str(error))
            if error.trouble in LASTING:
                await self._tell(row, error)
                return CONFLICT_SECONDS
            return error.retry_after or RETRY_SECONDS
        except Exception:
            await in_thread(show, account_id=row.id, status="error", text=FAILED)
            raise
        return RETRY_SECONDS

    async def _tell(self, row: ChannelAccount, error: ChannelError) -> None:
        """Notify the owner, once a day, of an account that no retry repairs."""
        if error.trouble in LASTING:
            await in_thread(
                notices.trouble, account=row, chat="", trouble=error.trouble, words=str(error)
            )

    async def _switch(self, row: ChannelAccount) -> None:
        """Apply a saved account to its platform; the outcome becomes its status."""
        channel = registry.get(row.channel)
        taken = await in_thread(take_change, row, worker=self.worker) if channel else None
        if channel is None or taken is None:
            return
        status, text, again = "stopped", "", False
        try:
            async with asyncio.timeout(CALL_SECONDS):
                account = account_of(taken)
                if taken.enabled:
                    text = await channel.gateway.prepare(account, base_url=settings.GATEWAY_URL)
                    status = "running"
                else:
                    await channel.gateway.retire(account)
        except ChannelError as error:
            status, text, again = "error", str(error), not error.permanent
        except DecryptError as error:
            status, text = "error", str(error)
        except TimeoutError:
            status, text, again = "error", "The platform does not answer.", True
        except Exception:
            logger.exception("a platform could not be told of a change")
            status, text = "error", NOT_TOLD
        end = partial(end_change, account_id=row.id, worker=self.worker, again=again)
        await in_thread(end, status=status, text=text)

    async def _check(self, row: ChannelAccount) -> None:
        """Ask the platform for the account's health, and record it."""
        channel = registry.get(row.channel)
        if channel is None:
            return
        try:
            async with asyncio.timeout(CALL_SECONDS):
                health = await channel.gateway.check(account_of(row))
        except ChannelError as error:
            health = Health(problem=str(error))
            await self._tell(row, error)
        except DecryptError as error:
            health = Health(problem=str(error))
        except TimeoutError:
            health = Health(problem="The platform does not answer.")
        await in_thread(note, account_id=row.id, health=health)


def mark_saved(*, account_id: int) -> None:
    """Mark an account as saved; a worker tells its platform soon. Inside a transaction."""
    # One that cannot be loaded now is told when it can.
    known = [*registry.names(), *registry.installed().broken]
    rows = ChannelAccount.objects.filter(id=account_id, channel__in=known)
    rows.filter(poller="").update(poller_until=None)
    rows.filter(enabled=True).update(status=STARTING, status_text="")
    rows.filter(enabled=False).exclude(status="stopped").update(status=STOPPING, status_text="")
    outbox.release(account_id=account_id)


def look() -> tuple[list[ChannelAccount], list[ChannelAccount]]:
    """Return the enabled accounts on platforms, and those with a change to report there."""
    rows, names = LOOKED_AT.all(), registry.names()
    enabled = [row for row in rows if row.enabled and row.channel in names]
    return enabled, [row for row in rows if row.status in TO_TELL or is_owed(row)]


def is_owed(row: ChannelAccount) -> bool:
    """Return whether a change is to be told again that a platform did not take for the moment."""
    return row.poller == "" and row.poller_until is not None


def settings_of(row: ChannelAccount) -> tuple[object, ...]:
    """Return the settings of an account as a plugin sees them, to find outdated pollers."""
    return row.channel, row.name, row.config, row.secrets


def is_unchanged(row: ChannelAccount, poller: Poller) -> bool:
    """Return whether an account is as it was when its poller began, and no change is pending."""
    return row.status not in TO_TELL and settings_of(row) == poller.settings


def take_change(row: ChannelAccount, *, worker: str) -> ChannelAccount | None:
    """Take the lease on an account with a pending change; return it as it is stored now, or None
    where another worker polls it or tells of the change, or it is too early to tell of it again.
    """
    status, until = STARTING if row.enabled else STOPPING, Now() + CHANGE_LEASE
    with atomic_write():
        taken = ChannelAccount.objects.filter(free_for(worker), id=row.id, status=row.status)
        values = {"status": status, "status_text": UNDER_WAY}
        if not taken.update(**values, poller=worker, poller_until=until):
            return None
        return ChannelAccount.objects.get(id=row.id)


def end_change(*, account_id: int, worker: str, status: str, text: str, again: bool) -> None:
    """Record how a change ended, release the lease; ``again``: the platform is told later. A change
    that was saved meanwhile stays pending.
    """
    with atomic_write():
        rows = ChannelAccount.objects.filter(id=account_id, poller=worker)
        told = rows.filter(status__in=TO_TELL, status_text=UNDER_WAY)
        is_told = told.update(status=status, status_text=text[:500])
        rows.update(poller="", poller_until=Now() + CHANGE_RETRY if again and is_told else None)


def free_for(worker: str) -> Q:
    """Return the condition that an account is free for ``worker``, and no retry is pending."""
    over = transactions.passed("poller_until", most=CHANGE_RETRY)
    return Q(poller=worker) | Q(poller_until=None) | over


def polling_gateway(row: ChannelAccount) -> Polls | None:
    """Return the gateway that polls an account; None for an account that is not to be polled."""
    channel = registry.get(row.channel)
    if channel is None or not isinstance(channel.gateway, Polls):
        return None
    try:
        account = account_of(row)
        is_polled = not channel.config.problems(account) and channel.gateway.wants_polling(account)
    except DecryptError:
        return None
    except Exception:  # another package's: the other accounts are looked after
        logger.exception("the settings of %s could not be examined", row)
        return None
    return channel.gateway if is_polled else None


def hold(*, account_id: int, worker: str) -> bool:
    """Take or renew the lease on an account; return whether ``worker`` has it now."""
    with atomic_write():
        rows = ChannelAccount.objects.filter(free_for(worker), id=account_id, enabled=True)
        return rows.update(poller=worker, poller_until=Now() + LEASE) == 1


def let_go(*, account_id: int, worker: str) -> None:
    """Release the lease. A disabled account is stopped, unless its platform must know first."""
    with atomic_write():
        rows = ChannelAccount.objects.filter(id=account_id)
        rows.filter(poller=worker).update(poller="", poller_until=None)
        disabled = rows.filter(enabled=False).exclude(status__in=TO_TELL)
        disabled.update(status="stopped", status_text="")


def show(*, account_id: int, status: str, text: str) -> None:
    """Record an account's status; a change that the platform does not know stays pending."""
    with atomic_write():
        rows = ChannelAccount.objects.filter(id=account_id).exclude(status__in=TO_TELL)
        rows.update(status=status, status_text=text[:500])


def note(*, account_id: int, health: Health) -> None:
    """Record the platform's answer: a problem as status error, its end as running."""
    with atomic_write():
        rows = ChannelAccount.objects.filter(id=account_id, enabled=True)
        rows.update(health=dict(health.facts))
        settled = rows.exclude(status__in=TO_TELL)
        if health.problem:
            settled.update(status="error", status_text=health.problem[:500])
        else:
            settled.exclude(status="running").update(status="running", status_text="")
            if rows.exclude(deliveries_held="").exists():
                outbox.release(account_id=account_id)


def waiting() -> dict[str, int]:
    """Return the updates pending at the platforms of enabled accounts, as last reported."""
    rows = ChannelAccount.objects.filter(enabled=True).order_by("id")
    return {str(row): row.health["pending"] for row in rows if "pending" in row.health}


def problems() -> list[str]:
    """Return the problems of enabled accounts, in sentences for the owner."""
    rows = ChannelAccount.objects.filter(enabled=True, status="error").order_by("id")
    return [f"{row}: {row.status_text}" for row in rows]


def test_now(row: ChannelAccount) -> str:
    """Query the platform for the account's own name. Raises ChannelError, DecryptError.

    For synchronous callers: it waits at most CALL_SECONDS.
    """
    channel = registry.get(row.channel)
    if channel is None:
        raise ChannelError("This channel has no platform to test.")
    return call_now(channel.gateway, channel.gateway.test(account_of(row)))


def retire_now(row: ChannelAccount) -> None:
    """Tell the platform that an account stops. Raises ChannelError, DecryptError.

    For synchronous callers: it waits at most CALL_SECONDS.
    """
    channel = registry.get(row.channel)
    if channel is not None:
        call_now(channel.gateway, channel.gateway.retire(account_of(row)))


def call_now(gateway: Gateway, call: Coroutine[Any, Any, T]) -> T:
    """Return the result of a call of a gateway. Raises ChannelError."""

    async def ask() -> T:
        try:
            async with asyncio.timeout(CALL_SECONDS):
                return await call
        except TimeoutError as error:
            raise ChannelError("The platform does not answer.") from error
        finally:
            await gateway.close()

    return asyncio.run(ask())
