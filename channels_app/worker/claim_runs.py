"""Claim runs in batches: simultaneous wake-ups share one transaction.

Each commit waits for the disk, and on SQLite for the write lock; ten simultaneous wake-ups wait
once. While one transaction runs, the next wake-ups are collected.
"""

import logging
from dataclasses import dataclass
from functools import partial

import orjson
from django.conf import settings
from django.db import DatabaseError, IntegrityError

from channels_app.worker.finish_run import end_queued, opening_of
from core.agent import prompt
from core.agent.calling import Call
from core.agent.output import message_name
from core.agent.prompt import Prompt
from core.conversations import events, jobs, left_calls, runs, tool_calls, traces
from core.conversations.events import Log
from core.conversations.shares import Served
from core.conversations.tool_calls import Kept
from core.database.batching import Batcher, attempt
from core.database.transactions import unsynced_write
from core.lib.leases import OWN_LEASE, Lease, elapsed
from core.messages import MessageDict, reset_delta
from core.models import Run
from core.providers import catalogue
from core.providers.catalogue import Catalogue
from core.tools.mcp import offered

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Begun:
    """A claimed run with everything that its turn needs; ``events`` is its log so far.

    ``known``: the models and assistants at its beginning. ``resumed``: the long tasks of an earlier
    attempt. ``kept``: of the turn that it goes on with. ``lease``: as it is measured here.
    """

    run: Run
    log: Log
    known: Catalogue
    prompt: Prompt
    events: list[MessageDict]
    resumed: list[Call]
    kept: Kept
    lease: Lease


class Claims:
    """Claims runs for ``worker``; wake-ups during one claim share the next one."""

    def __init__(self, worker: str) -> None:
        self._batcher = Batcher()
        self._begin = lambda run_ids: begin(run_ids, worker)

    async def submit(self, run_id: int) -> Begun | None:
        """Claim a run; return it with the data of its turn, or None if it cannot begin here."""
        return await self._batcher.submit(self._begin, run_id)


def begin(run_ids: list[int], worker: str) -> list[Begun | Exception | None]:
    """Claim runs and read the data of their turns, in one round trip; None for each that is not for
    us to begin. A run that cannot be prepared is tried again when its lease expires.
    """
    # In the order of their ids: two workers do not wait for each other crosswise.
    began = elapsed()
    claimed = claim(sorted(run_ids), worker)
    return [
        attempt(partial(prepare_or_end, run_id, claimed.get(run_id), began)) for run_id in run_ids
    ]


@dataclass(frozen=True, slots=True)
class Turn:
    """The runs that a worker has claimed by turn. ``others_wait``: there may be more."""

    begun: list[Begun]
    others_wait: bool


def begin_next(most: int, worker: str, served: Served) -> Turn:
    """Claim up to ``most`` of the runs that wait for a place, in the order of
    :func:`core.conversations.runs.next_in_turn`, and read the data of their turns.
    """
    began = elapsed()
    with unsynced_write():
        run_ids = runs.next_in_turn(most=most, served=served)
        claimed = claim(run_ids, worker) if run_ids else {}
    found = [attempt(partial(prepare, run, began)) for run in claimed.values()]
    for error in found:
        if isinstance(error, Exception):
            logger.error("a run could not be prepared; its lease will end", exc_info=error)
    return Turn([each for each in found if isinstance(each, Begun)], len(run_ids) == most)


def prepare_or_end(run_id: int, run: Run | None, began: float) -> Begun | None:
    """Return a claimed run with the data of its turn; end an unclaimed one if needed ([C9])."""
    if run is None:
        end_queued(run_id)
        return None
    return prepare(run, began)


def claim(run_ids: list[int], worker: str) -> dict[int, Run]:
    """Claim runs by id in one transaction; one transaction each when that one fails.

    Begins their logs with ``stream_start``.
    """
    try:
        with unsynced_write():
            claimed = runs.claim(run_ids=run_ids, worker=worker)
            new = [run for run in claimed.values() if run.attempt == 1]
            events.append_all_unheld([(run, 0, [opening_of(run)]) for run in new])
    except DatabaseError as error:
        if len(run_ids) == 1 and isinstance(error, IntegrityError):
            return {}  # another run of its session was claimed in the same moment
        if len(run_ids) == 1:
            raise
        logger.warning("%d runs could not be claimed at once; now one by one", len(run_ids))
        return claim_singly(run_ids, worker)
    return claimed


def claim_singly(run_ids: list[int], worker: str) -> dict[int, Run]:
    """Claim each run in its own transaction: a failure does not affect the others."""
    claimed: dict[int, Run] = {}
    for run_id in run_ids:
        try:
            claimed |= claim([run_id], worker)
        except DatabaseError:
            logger.exception("a run could not be claimed; the sweeper will try again")
    return claimed


def prepare(run: Run, began: float) -> Begun:
    """Read the data of a turn that was claimed at ``began`` (:func:`core.lib.leases.elapsed`).

    A further attempt retracts the texts of the previous one.
    """
    stored = events.whole_log(run.id) if run.attempt > 1 else []
    logged = [event for _, event in stored]
    log = events.log_of(run=run, seq=stored[-1][0] + events.AHEAD if stored else 1)
    if run.attempt > 1:
        left_calls.take_over(run_id=run.id, attempt=run.attempt, logged=logged)
        again = [reset_delta(kind, message_id=name) for name, kind in shown(logged).items()]
        logged += [log.append(message) for message in again]
    kept = tool_calls.kept_for(run)
    known_calls = {each.call_id for each in (*kept.asked, *kept.made)}
    resumed = [
        Call(id=job.tool_call_id, name=job.tool, arguments=orjson.dumps(job.parameters).decode())
        for job in (jobs.begun(run_id=run.id) if run.attempt > 1 else [])
        if job.tool_call_id not in known_calls
    ]
    lease = Lease(seconds=settings.RUN_LEASE_SECONDS * OWN_LEASE, began=began)
    known = catalogue.current()
    offered.refresh(known.version)
    made = prompt.prepare(run, known=known)
    traces.claimed(run, seconds=elapsed() - began)
    return Begun(run, log, known, made, logged, resumed, kept, lease)


def shown(logged: list[MessageDict]) -> dict[str, str]:
    """Return message id -> type of the texts and thoughts that readers may have.

    The next one of each type may have been shown before it was stored.
    """
    found = {
        event["message_id"]: event["type"]
        for event in logged
        if event["type"] in events.GROWING and "message_id" in event
    }
    for kind in events.GROWING:
        numbers = [name.removeprefix(f"{kind}-") for name, each in found.items() if each == kind]
        last = max((int(number) for number in numbers if number.isdecimal()), default=0)
        found[message_name(kind, last + 1)] = kind
    return found
