"""The asyncio side of a ``runs`` worker: hundreds of model streams in one process.

    wake(run) ─► place ─► claims ─► turn (model, tools) ─► events ─► endings ─► next of session
      no place free ─► the run waits in the database ─► a place is free: the next in turn
    every second or two: renew leases, notice lost ones and cancellations
    every SWEEP_SECONDS and at start: recover work without a worker, chores

The lease in the database owns the work; everything here may die at any moment.
"""

import asyncio
import logging
import os
import socket
import threading
import time
from collections import deque
from collections.abc import Awaitable, Callable, Coroutine, Iterable
from datetime import datetime
from functools import partial
from typing import Any, TypeAlias

import uvloop
from django.conf import settings
from django.db import Error as DatabaseFailure
from django.db import connection
from django.utils import timezone

from channels_app import registry
from channels_app.owner import alerts
from channels_app.push import keys as push_keys
from channels_app.push import sending as push
from channels_app.replies import outbound, typing_and_reactions
from channels_app.worker import chores, run_turn, take_wakeups
from channels_app.worker import retention as rules_of_retention
from channels_app.worker.account_watcher import Gateways
from channels_app.worker.claim_runs import Begun, Claims, begin_next
from channels_app.worker.finish_run import end_queued
from channels_app.worker.places import Places
from channels_app.worker.run_turn import Held
from core.conversations import events, inbox, jobs, outbox, push_messages, runs, traces
from core.conversations.shares import Served
from core.database import schema_version
from core.database.batching import (
    attempt,
    in_shared_call,
    in_shared_transaction,
    threads_of_batches,
)
from core.database.transactions import (
    atomic_write,
    checkpoint,
    in_thread,
    in_thread_of,
    is_log_long,
)
from core.files import cleanup
from core.lib import leases
from core.lib.encryption import DecryptError
from core.models import ChatSession, Delivery, Run
from core.providers import registry as providers
from core.signals import pubsub, wakeups
from core.tools import registry as tools
from core.tools.mcp import refresh as mcp
from core.tools.mcp.oauth import revocations

logger = logging.getLogger(__name__)

KEEP_SECONDS = 2.0
BEAT_SECONDS, BUSY_BEAT_SECONDS = 5.0, 1.0
# Of SQLite's log: it is looked at each second, and moved when it is long, else seldom.
LOG_SECONDS, CHECKPOINT_SECONDS = 1.0, 15.0
SCHEDULES_SECONDS = 1.0
PURGE_SECONDS = 60.0
SWEEP_FILES_SECONDS = 3600.0
RETENTION_SECONDS, RETENTION_PAUSE_SECONDS = 3600.0, 0.5
STOP_SECONDS = 5.0
CANCEL_AGAIN_SECONDS = 0.2
HAND_OVER_SECONDS = 0.3
# Their rows are locked until all are stored: writers to these conversations wait.
FLUSHED_TOGETHER = 4
CHORE = "chore"
# Returns after how many seconds to do it again.
Chore: TypeAlias = Callable[[], Awaitable[float]]


class Runner:
    """An event loop in a thread of its own; public methods may be called from any thread."""

    def __init__(self) -> None:
        """Name this worker; nothing runs before :meth:`start`."""
        self.name = f"{socket.gethostname()}:{os.getpid()}:{int(time.time())}"[-100:]
        self.loop = uvloop.new_event_loop()
        self.held: dict[int, Held] = {}
        self._again: dict[tuple[str, int], bool] = {}
        # Runs of batches that were flushed here: their messages have the reaction already.
        self._seen: deque[int] = deque(maxlen=settings.RUNS_PER_WORKER)
        # Runs whose deliveries ended before the run did.
        self._settled: deque[int] = deque(maxlen=settings.RUNS_PER_WORKER)
        self._typists = typing_and_reactions.Typists()
        self._gateways = Gateways(worker=self.name)
        self._claims = Claims(worker=self.name)
        self._places = Places(settings.RUNS_PER_WORKER, on_free=self._place_is_free)
        self._refilling = False
        self._served = Served()
        self._retention = rules_of_retention.Chore()
        self._tasks: set[asyncio.Task[None]] = set()
        self._stopping = False
        self._clock = chores.Clock()
        # The reason for taking no work: the database is of another version than this code.
        self.outdated = ""
        self._compared_at = float("-inf")
        self._checkpoint_at = 0.0
        # Wake-ups from before that was known; None afterwards.
        self._early: list[tuple[str, int]] | None = []
        self._thread = threading.Thread(target=self._run, name="runner", daemon=True)

    def start(self) -> None:
        wakeups.take_here(self._take_here)
        self._thread.start()

    def stop(self) -> None:
        """Release all work within STOP_SECONDS: other workers can continue it immediately."""
        if self._stopping:
            return
        self._stopping = True
        wakeups.leave(self._take_here)
        self.loop.call_soon_threadsafe(lambda: self._tasks.add(self.loop.create_task(self._stop())))
        self._thread.join(STOP_SECONDS)
        events.close_writer()
        runs.release(held={run_id: held.run.attempt for run_id, held in list(self.held.items())})

    async def _stop(self) -> None:
        """Cancel the runs, wait for deliveries and runs that are finishing, end the loop."""
        work = {task for task in self._tasks if task is not asyncio.current_task()}
        chores = {task for task in work if task.get_name() == CHORE}
        for held in list(self.held.values()):
            self._interrupt(held.run.id, lost=True)
        for task in chores:
            task.cancel()
        if work - chores:
            await asyncio.wait(work - chores, timeout=STOP_SECONDS / 2)
        await self._gateways.close()
        await providers.close()
        await registry.close()
        await pubsub.local().close()
        await end_others(seconds=STOP_SECONDS / 4)
        self.loop.stop()

    def wake(self, task: str, row_id: int) -> None:
        """Carry out the wake-up called ``task``."""
        for kind in take_wakeups.KINDS[task]:
            self.submit(kind, row_id)

    def _take_here(self, task: str, row_id: int) -> bool:
        """Handle a wake-up from this process, unless another worker may have a place for it."""
        if self._stopping or self.outdated or self._early is not None:
            return False
        if task == wakeups.RUN and not self._places.free:
            return False
        self.wake(task, row_id)
        return True

    def submit(self, kind: str, row_id: int) -> None:
        """Start work soon: ``run``, ``batch``, ``ack``, ``delivery`` or ``push`` with this id."""
        if not self._stopping:
            self.loop.call_soon_threadsafe(self._spawn, kind, row_id)

    def _run(self) -> None:
        asyncio.set_event_loop(self.loop)
        self._tasks.add(self.loop.create_task(self._open(), name=CHORE))
        self.loop.run_forever()
        self.loop.close()

    async def _open(self) -> None:
        """Start work, once the versions were compared."""
        for old, new in settings.GATEWAY_OLD_NAMES.items():
            logger.warning("the setting %s is now called %s; the old name will go", old, new)
        await self._guard(self._compare_versions())
        while_outdated: tuple[Chore, ...] = (
            self._keep,
            self._sweep,
            *([self._checkpoint] if connection.vendor == "sqlite" else []),
            self._send_heartbeat,
            self._listen,
            self._look_after_accounts,
            self._places.measure,
        )
        others: tuple[Chore, ...] = (
            self._fire_schedules,
            self._refresh_mcp,
            self._purge_files,
            self._sweep_files,
            self._remove_old,
            self._count_old,
            self._watch_installation,
            self._take_runs,
            self._take_others,
        )
        others_guarded = (partial(self._unless_outdated, each) for each in others)
        every: list[Chore] = [*while_outdated, *others_guarded]
        for chore in every:
            self._tasks.add(self.loop.create_task(self._forever(chore), name=CHORE))
        await self._load()
        if not self.outdated:
            await self._guard(self._make_push_keys())
        early, self._early = self._early or [], None
        for key in early:
            self._spawn(*key)

    def _spawn(self, kind: str, row_id: int) -> None:
        """Start one task per row; a wake-up in the meantime makes it look once more."""
        key = (kind, row_id)
        if self._early is not None:
            self._early.append(key)
            return
        if self._stopping or self.outdated:
            return
        if key in self._again:
            self._again[key] = True
            return
        if kind == "run" and not self._places.free:
            self._places.others_wait = True
            return
        self._again[key] = False
        if kind == "run":
            self._places.take()
        work = {
            "run": self._execute,
            "cancel": lambda run_id: in_thread(end_queued, run_id),
            "batch": self._flush,
            "ack": typing_and_reactions.refresh,
            "delivery": self._deliver,
            "push": self._push,
        }[kind]
        self._begin(work(row_id)).add_done_callback(lambda _: self._finished(key))

    def _begin(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        """Run ``work`` as a background task that is tracked until it ends."""
        task = self.loop.create_task(self._guard(work))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    def _finished(self, key: tuple[str, int]) -> None:
        if self._again.pop(key):
            self._spawn(*key)

    async def _guard(self, work: Coroutine[Any, Any, None]) -> None:
        try:
            await work
        except Exception:
            logger.exception("work in the runner failed; the sweeper will try again")

    async def _forever(self, chore: Chore) -> None:
        while True:
            try:
                seconds = await chore()
            except Exception:
                logger.exception("a chore of the runner failed")
                seconds = 1.0
            await asyncio.sleep(seconds)

    async def _unless_outdated(self, chore: Chore) -> float:
        """Do a chore; an outdated worker leaves it to the others."""
        return BEAT_SECONDS if self.outdated else await chore()

    async def _keep(self) -> float:
        held = {run_id: each.run.attempt for run_id, each in self.held.items()}
        if not held:
            return keep_seconds()
        began = leases.elapsed()
        lost, cancelled = await in_thread(runs.keep, held=held, worker=self.name)
        for run_id in held.keys() - lost:
            if run_id in self.held:
                self.held[run_id].lease.renew(began=began)
        for run_id in lost:
            self._interrupt(run_id, lost=True)
        for run_id in cancelled:
            self._interrupt(run_id, lost=False)
        return keep_seconds()

    def _interrupt(self, run_id: int, *, lost: bool) -> None:
        held = self.held.get(run_id)
        if held is None or held.cancelled or held.lost or held.closing:
            return
        held.lost, held.cancelled = lost, not lost
        # Soon: a task that is cancelled before its first step never gets to settle its run.
        self.loop.call_soon(self._cancel, held)

    def _cancel(self, held: Held) -> None:
        if not held.closing:
            held.task.cancel()

    async def _compare_versions(self) -> None:
        """Take no work while the database and this code are of different versions."""
        self._compared_at = time.monotonic()
        problem = await in_thread(schema_version.problem)
        if problem != self.outdated:
            self.outdated = problem
            logger.error("this worker takes %s", f"no more work: {problem}" if problem else "work")

    async def _load(self) -> None:
        """Load what every turn needs before the first one: loading blocks the event loop."""
        try:
            await asyncio.to_thread(tools.every)
        except Exception:
            logger.exception("the tools could not be loaded; the next turn tries again")

    async def _make_push_keys(self) -> None:
        """Make the keys of Web Push at the first start."""
        try:
            await in_thread(push_keys.private_key)
        except DecryptError:
            logger.warning("the keys of Web Push cannot be opened: was the encryption key changed?")

    async def _sweep(self) -> float:
        await self._compare_versions()
        if self.outdated:
            return float(settings.SWEEP_SECONDS)
        await in_thread(chores.bring_near)
        await self._clock.watch()
        await chores.before_work()
        await self._look_for_work()
        await chores.after_work()
        return float(settings.SWEEP_SECONDS)

    async def _look_after_accounts(self) -> float:
        """Poll and check the accounts; an outdated worker lets go of them, for the others."""
        if self.outdated:
            await self._gateways.close()
            return BEAT_SECONDS
        return await self._gateways.look_after()

    async def _fire_schedules(self) -> float:
        """Fire the occurrences that are due, by the database's clock."""
        has_more = await in_thread(chores.fire_due)
        return 0.0 if has_more else SCHEDULES_SECONDS

    async def _refresh_mcp(self) -> float:
        """Ask MCP servers for their tools, and revoke tokens that are not used any more."""
        await revocations.revoke_due()
        return await mcp.refresh_due()

    async def _watch_installation(self) -> float:
        """Tell the owners of a full disk, a long queue, and keys and certificates that end."""
        await alerts.watch(now=timezone.now())
        return float(settings.SWEEP_SECONDS)

    async def _checkpoint(self) -> float:
        if is_log_long() or time.monotonic() > self._checkpoint_at:
            await in_thread(checkpoint)
            self._checkpoint_at = time.monotonic() + CHECKPOINT_SECONDS
        return LOG_SECONDS

    async def _purge_files(self) -> float:
        await chores.done(lambda: cleanup.purge(now=timezone.now()))
        return PURGE_SECONDS

    async def _sweep_files(self) -> float:
        await chores.hourly()
        return SWEEP_FILES_SECONDS

    async def _remove_old(self) -> float:
        """Fold event logs and remove old rows by the owner's rules, with pauses for writers."""
        has_more = await in_thread(self._retention.go_on, now=timezone.now())
        return RETENTION_PAUSE_SECONDS if has_more else RETENTION_SECONDS

    async def _count_old(self) -> float:
        """Count what a rule would remove, where the admin asks for it."""
        has_more = await in_thread(rules_of_retention.count_next, now=timezone.now())
        return 0.0 if has_more else float(settings.SWEEP_SECONDS)

    async def _look_for_work(self) -> None:
        """Start all work that is due in the database. A look that fails holds up no other."""
        for run_id in await chores.found(runs.recover):
            self._spawn("run", run_id)
        if self._places.others_wait:
            for run_id in await chores.found(runs.asked_to_end):
                self._spawn("cancel", run_id)
        await chores.done(jobs.recover)
        for session_id in await chores.found(lambda: inbox.due_sessions(now=timezone.now())):
            self._spawn("ack", session_id)
            self._spawn("batch", session_id)
        for delivery_id in await chores.found(outbox.due):
            self._spawn("delivery", delivery_id)
        for message_id in await chores.found(push_messages.due):
            self._spawn("push", message_id)
        for session_id in await chores.found(typing_and_reactions.leftovers):
            self._spawn("ack", session_id)

    async def _send_heartbeat(self) -> float:
        if time.monotonic() - self._compared_at > BEAT_SECONDS / 2:
            await self._compare_versions()
        places = self._places
        try:
            await in_thread(
                runs.heard_from,
                worker=self.name,
                queue="runs",
                problem=self.outdated,
                places=places.usable,
                place_seconds=places.seconds,
            )
        except DatabaseFailure:
            if not self.outdated:  # else the table may be one that we do not know
                raise
        return BUSY_BEAT_SECONDS if places.others_wait or places.is_slow else BEAT_SECONDS

    async def _listen(self) -> float:
        with pubsub.local().listen(["runs"]) as listener:
            while True:
                frames = await listener.wait()
                if listener.take_lag():  # cancellations may have been lost
                    self._look_soon()
                for frame in frames:
                    if frame["kind"] == "cancel" and frame["run_id"] in self.held:
                        self._interrupt(frame["run_id"], lost=False)
                    elif frame["kind"] == "cancel":
                        self._spawn("cancel", frame["run_id"])

    async def _take_runs(self) -> float:
        await take_wakeups.take_runs(self._places, spawn=self._spawn, look=self._look_soon)
        return BEAT_SECONDS

    async def _take_others(self) -> float:
        await take_wakeups.take_others(spawn=self._spawn, look=self._look_soon)
        return BEAT_SECONDS

    def _look_soon(self) -> None:
        """Look for work in the database: wake-ups may have been lost."""
        self._begin(self._look_for_work())

    def _place_is_free(self) -> None:
        """Give free places to the runs that wait in the database, if there may be any."""
        if self._places.others_wait and not (self._refilling or self._stopping or self.outdated):
            self._refilling = True
            self._begin(self._refill())

    async def _refill(self) -> None:
        """Claim waiting runs by turn until no place is free or none waits."""
        try:
            while self._places.others_wait and self._places.free and not self._stopping:
                with self._places.reserved() as number:
                    self._places.others_wait = False
                    turn = await in_thread_of(
                        threads_of_batches(), begin_next, number, self.name, self._served
                    )
                    for begun in turn.begun:
                        self._served.note(begun.run.user_id)
                        self._places.take()
                        self._begin(self._hold(begun))
                    self._places.others_wait |= turn.others_wait
        finally:
            self._refilling = False
            self._places.announce()

    async def _flush(self, session_id: int) -> None:
        """Wait until the batch of a session is due, and create its run ([C2])."""
        at, place = await in_shared_call(waiting, session_id)
        if at is None:
            return
        async with self._typists.typing(place):
            while at is not None:
                await asyncio.sleep(
                    min(at - timezone.now(), inbox.furthest_flush()).total_seconds()
                )
                at, run = await in_shared_transaction(
                    partial(flush, session_id), most=FLUSHED_TOGETHER
                )
            if run is not None:
                self._seen.append(run.id)
                await asyncio.sleep(HAND_OVER_SECONDS)  # the run goes on typing

    async def _deliver(self, delivery_id: int) -> None:
        following = await outbound.deliver(delivery_id, ended=self._delivered)
        while following is not None and not following.seconds:
            following = await outbound.deliver(following.delivery_id, ended=self._delivered)
        if following is not None:
            self.loop.call_later(following.seconds, self._spawn, "delivery", following.delivery_id)

    async def _push(self, message_id: int) -> None:
        seconds = await push.send(message_id)
        if seconds is not None:
            self.loop.call_later(seconds, self._spawn, "push", message_id)

    def _delivered(self, delivery: Delivery) -> None:
        """Remove the reactions after an answer was delivered; those of an unfinished run stay."""
        if delivery.run_id in self.held:
            self._settled.append(delivery.run_id)
        elif delivery.run_id is not None and delivery.session_id is not None:
            self._spawn("ack", delivery.session_id)

    async def _execute(self, run_id: int) -> None:
        """Claim a run that has a place, and hold it; give the place back if it is not for us."""
        begun: Begun | None = None
        try:
            begun = await self._claims.submit(run_id)
        finally:
            if begun is None:
                self._places.give_back()
        if begun is not None:
            self._served.note(begun.run.user_id)
            await self._hold(begun)

    async def _hold(self, begun: Begun) -> None:
        """Run the turn of a claimed run in the place that was taken for it."""
        began = self.loop.time()
        try:
            await self._run_turn(begun)
        finally:
            self._places.note(self.loop.time() - began)
            self._places.give_back()

    async def _run_turn(self, begun: Begun) -> None:
        run_id = begun.run.id
        # An earlier attempt may still end here: its lease was over before that was noticed.
        self._interrupt(run_id, lost=True)
        task = self.loop.create_task(self._turn(begun))
        held = self.held[run_id] = Held(run=begun.run, task=task, lease=begun.lease)
        place = typing_and_reactions.place_of_run(begun.run)
        if place is not None and run_id not in self._seen:
            self._spawn("ack", begun.run.session_id)
        try:
            async with self._typists.typing(place):
                await asyncio.wait([task])
        finally:
            if not self._stopping and self.held.get(run_id) is held:
                del self.held[run_id]
                # Else its deliveries are pending: the last one removes the reaction.
                if place is not None and run_id in self._settled:
                    self._spawn("ack", begun.run.session_id)
        if not task.cancelled() and (error := task.exception()) is not None:
            raise error

    async def _turn(self, begun: Begun) -> None:
        with traces.turn(begun.run):
            await run_turn.take(begun, self.held[begun.run.id])


async def end_others(*, seconds: float) -> None:
    """Cancel all other tasks of the loop until they have ended, or the time is over.

    Again and again: a connection that is being made or given back may swallow a cancellation.
    """
    deadline = asyncio.get_running_loop().time() + seconds
    while rest := asyncio.all_tasks() - {asyncio.current_task()}:
        left = deadline - asyncio.get_running_loop().time()
        if left <= 0:
            logger.warning("%d tasks did not end at the stop: %s", len(rest), names_of(rest))
            return
        for task in rest:
            task.cancel()
        await asyncio.wait(rest, timeout=min(CANCEL_AGAIN_SECONDS, left))


def names_of(tasks: Iterable[asyncio.Task[Any]]) -> str:
    """Return the coroutines of tasks, for the log."""
    return ", ".join(sorted(getattr(task.get_coro(), "__qualname__", "?") for task in tasks))


def keep_seconds() -> float:
    """Return the interval of renewing leases in seconds."""
    return min(KEEP_SECONDS, settings.RUN_LEASE_SECONDS / 3)


Due: TypeAlias = tuple[datetime | None, typing_and_reactions.Place | None]


def waiting(session_ids: list[int]) -> list[Due | Exception]:
    """Return for each session when its batch is due, and where "typing…" is shown meanwhile."""
    found = {session.id: session for session in inbox.WITH_ACCOUNTS.all(ids=session_ids)}
    return [attempt(partial(due, found.get(session_id))) for session_id in session_ids]


def due(session: ChatSession | None) -> Due:
    """Return when the batch of a session is due, and its chat. Raises DecryptError."""
    if session is None or session.flush_at is None:
        return None, None
    return session.flush_at, typing_and_reactions.place_of(session)


def flush(session_id: int) -> tuple[datetime | None, Run | None]:
    """Start the run of a session's batch if it is due; else return when it will be."""
    with atomic_write(joins=True):
        run = inbox.flush_due(session_id=session_id, now=timezone.now())
    return (inbox.flush_at(session_id) if run is None else None), run
