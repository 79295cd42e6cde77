"""How runs begin: what is woken at once is claimed at once, in one transaction.

Each commit waits for the disk, and on SQLite for its turn; ten runs that are woken together wait
once. While one transaction is on its way the next ones gather.
"""

import asyncio
import logging
from dataclasses import dataclass, field

import orjson
from django.db import DatabaseError

from channels_app.endings import end_queued, opening_of
from core import events, jobs, runs
from core.agent import prompt
from core.agent.loop import Call
from core.db import in_thread, write
from core.events import Log
from core.messages import MessageDict, reset_delta
from core.models import Run
from core.providers.base import ChatMessage

logger = logging.getLogger(__name__)

# One writer at a time on SQLite: the doors must not wait for a crowd.
AT_ONCE = 16


@dataclass(frozen=True, slots=True)
class Begun:
    """A claimed run with all that its turn needs; ``events`` is its log so far.

    ``resumed``: the long tasks that an earlier attempt began.
    """

    run: Run
    log: Log
    messages: list[ChatMessage]
    events: list[MessageDict]
    resumed: list[Call]


@dataclass(slots=True)
class Claims:
    """Claims runs for ``worker``. One event loop."""

    worker: str
    _waiting: dict[int, asyncio.Future[Begun | None]] = field(default_factory=dict)
    _task: asyncio.Task[None] | None = None

    async def begin(self, run_id: int) -> Begun | None:
        """Claim a run and read what its turn needs; None when it is not for us to begin."""
        begun = asyncio.get_running_loop().create_future()
        self._waiting[run_id] = begun
        if self._task is None or self._task.done():
            self._task = asyncio.create_task(self._work())
        found: Begun | None = await begun
        return found

    async def _work(self) -> None:
        while self._waiting:
            batch = {each: self._waiting.pop(each) for each in list(self._waiting)[:AT_ONCE]}
            try:
                found = await in_thread(begin, sorted(batch), self.worker)
            except Exception as error:  # noqa: BLE001 - whoever waits raises it
                for future in batch.values():
                    if not future.done():
                        future.set_exception(error)
                continue
            for run_id, future in batch.items():
                if not future.done():
                    future.set_result(found.get(run_id))


def begin(run_ids: list[int], worker: str) -> dict[int, Begun]:
    """Claim runs and read what their turns need, in one visit to the database; by id.

    A run that cannot be prepared is left out: its lease runs out, and it is tried again.
    """
    claimed = claim(run_ids, worker)
    found = {}
    for run_id in run_ids:
        run = claimed.get(run_id)
        if run is None:
            end_queued(run_id)
            continue
        try:
            found[run_id] = prepare(run)
        except Exception:
            logger.exception("a run could not be prepared")
    return found


def claim(run_ids: list[int], worker: str) -> dict[int, Run]:
    """The runs that are ours now, by id, in one transaction; one each when that one fails.

    Begins their logs with ``stream_start``.
    """
    try:
        with write():
            taken = [runs.claim(run_id=each, worker=worker) for each in run_ids]
            claimed = {run.id: run for run in taken if run is not None}
            new = [run for run in claimed.values() if run.attempt == 1]
            events.append_all_unheld([(run, 0, [opening_of(run)]) for run in new])
    except DatabaseError:
        if len(run_ids) == 1:
            raise
        logger.warning("%d runs could not be claimed together; now one by one", len(run_ids))
        return claim_singly(run_ids, worker)
    return claimed


def claim_singly(run_ids: list[int], worker: str) -> dict[int, Run]:
    """:func:`claim`, a transaction each: what goes wrong with one costs the others nothing."""
    claimed: dict[int, Run] = {}
    for run_id in run_ids:
        try:
            claimed |= claim([run_id], worker)
        except DatabaseError:
            logger.exception("a run could not be claimed; the sweeper will try again")
    return claimed


def prepare(run: Run) -> Begun:
    """What the turn of a claimed run needs; a further attempt empties what the last one said."""
    logged = [event for _, event in events.after(run_id=run.id, seq=0)] if run.attempt > 1 else []
    log = events.log_of(run=run, seq=len(logged) or 1)
    again = [reset_delta(kind, message_id=name) for name, kind in said(logged).items()]
    logged += [log.append(message) for message in again]
    resumed = [
        Call(id=job.tool_call_id, name=job.tool, arguments=orjson.dumps(job.parameters).decode())
        for job in (jobs.begun(run_id=run.id) if run.attempt > 1 else [])
    ]
    return Begun(run, log, prompt.build(run), logged, resumed)


def said(events: list[MessageDict]) -> dict[str, str]:
    """Message id -> type of the texts and thoughts that ``events`` hold."""
    return {
        event["message_id"]: event["type"]
        for event in events
        if event["type"] in {"text", "thinking"} and "message_id" in event
    }
