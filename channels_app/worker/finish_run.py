"""End runs: the result of a turn, committed in one transaction."""

import asyncio
import logging
import time
from dataclasses import dataclass, replace
from functools import partial

from django.conf import settings
from django.utils import timezone

from channels_app.push import announcing
from channels_app.rendering.answer import answer_of, reply
from channels_app.rendering.links import Links
from channels_app.rendering.translations import wording
from channels_app.replies import outbound
from channels_app.tool_requests import answers, asking, deciding
from core.agent.loop import Turn
from core.conversations import events, restored_deliveries, runs, traces, usage
from core.conversations.events import Log, LostLeaseError
from core.database.transactions import atomic_write, in_thread
from core.files import storage
from core.messages import Message, StreamStatus, Transcript, stream_end, stream_start
from core.models import Run
from core.providers import health
from core.providers.base import ProviderError

logger = logging.getLogger(__name__)

STOPPED = "Stopped."
STATUS: dict[str, StreamStatus] = {
    "succeeded": "completed",
    "failed": "error",
    "cancelled": "cancelled",
}


@dataclass(frozen=True, slots=True)
class Ending:
    """The result of a turn, and why it failed. ``answered``: the model gave an answer."""

    state: str
    error: str = ""
    failure: ProviderError | None = None
    answered: bool = False


def opening_of(run: Run) -> Message:
    """Return the first event of a run's log."""
    return stream_start(
        request_id=run.public_id,
        chat_id=run.session.public_id,
        trace_id=run.public_id,
        timestamp_ms=int(time.time() * 1000),
    )


def closing_of(run: Run, outcome: runs.Outcome, failure: ProviderError | None = None) -> Message:
    """Return the last event of a run's log."""
    # The clock may have been set back meanwhile.
    duration = max(0.0, (timezone.now() - run.created_at).total_seconds())
    return stream_end(
        status=STATUS[outcome.state],
        request_id=run.public_id,
        timestamp_ms=int(time.time() * 1000),
        duration_ms=int(duration * 1000),
        error=outcome.error,
        usage=outcome.usage,
        finish_reason=outcome.finish_reason if outcome.state == Run.State.SUCCEEDED else "",
        stop_sequence=outcome.stop_sequence,
        retry_after=failure.retry_after if failure is not None else None,
    )


def end_queued(run_id: int) -> None:
    """End a queued run that was asked to stop; it does not wait for its turn ([C9])."""
    if runs.cancelled_while_queued(run_id) is None:
        return
    with atomic_write():
        run = runs.cancelled_while_queued(run_id)
        if run is None:
            return
        logged = events.whole_log(run.id)
        # Readers may have more of it than was stored.
        before = logged[-1][0] + events.AHEAD if logged else 0
        transcript = Transcript()
        for _, event in logged:
            transcript.read(event)
        outcome = outcome_of(run, transcript, Ending(Run.State.CANCELLED, error=STOPPED))
        added = (
            [closing_of(run, outcome)] if logged else [opening_of(run), closing_of(run, outcome)]
        )
        last_seq = before + len(added)
        if runs.settle_queued(run=run, outcome=outcome, last_seq=last_seq, also=put_answer):
            events.append_unheld(run=run, seq=before, messages=added)


def put_answer(run: Run, outcome: runs.Outcome) -> None:
    """Put the messages of an answer into the outbox, in the transaction that ends the run.

    Not of a run that was to end before it was claimed, and was shown before a restore: its message
    may show the whole answer, which the edit to "stopped" would take back.
    """
    is_dropped = run.cancel_requested_at is not None
    if not (is_dropped and restored_deliveries.was_shown_before_restore(run)):
        outbound.enqueue_answer(run, outcome)


def outcome_of(
    run: Run, transcript: Transcript, ending: Ending, turn: Turn | None = None
) -> runs.Outcome:
    """Return the result of a turn as endpoints show it, in the person's language."""
    end = {"status": STATUS[ending.state], "error": ending.error}
    links = Links(base_url=settings.GATEWAY_URL, run_id=run.public_id)
    words = wording(run.user.language)
    given = answer_of(transcript.messages(), end, links=links, words=words)
    shown = reply(given, inline=partial(storage.inline, user_id=run.user_id))
    return runs.Outcome(
        state=ending.state,
        text=shown.text,
        format=shown.format,
        images=shown.images,
        files=turn.files if turn else [],
        error=shown.error,
        code=shown.code,
        status=shown.status,
        finish_reason=turn.finish_reason if turn else "stop",
        stop_sequence=turn.stop_sequence if turn else "",
        answered_by=turn.answered_by if turn else "",
        # Those of a paused turn are kept with the answer of the run that goes on.
        calls=turn.made_calls() if turn and not turn.questions else [],
    )


def priced_outcome(
    run: Run, transcript: Transcript, ending: Ending, turn: Turn, meter: usage.RunMeter
) -> runs.Outcome:
    """Return :func:`outcome_of` with tokens and prices. Call it outside of a transaction."""
    usage.price(meter)
    return replace(outcome_of(run, transcript, ending, turn), usage=meter.tokens)


def ask(run: Run, turn: Turn) -> None:
    """Ask the questions with which a turn ended; they are taken back at once if the run was to be
    stopped while its end was being written. In the transaction that ends it.
    """
    asking.ask(run=run, messages=turn.added(), questions=turn.questions)
    if Run.objects.filter(pk=run.pk, cancel_requested_at__isnull=False).exists():
        deciding.withdraw(session_id=run.session_id)


async def settle(
    run: Run,
    log: Log,
    outcome: runs.Outcome,
    ending: Ending,
    meter: usage.RunMeter | None = None,
    turn: Turn | None = None,
) -> None:
    """Commit the end of a run in one transaction: last event, row, transcript, deliveries, calls of
    models, and the questions with which its turn ended.
    """

    def finish(last_seq: int) -> None:
        calls = usage.settle(meter) if meter is not None else []
        runs.settle(
            run=run,
            outcome=outcome,
            last_seq=last_seq,
            also=put_answer,
            with_it=calls,
        )
        if turn is not None and turn.questions and ending.state == Run.State.SUCCEEDED:
            ask(run, turn)
        else:
            announcing.answered(run, outcome.state)
        answers.put_elsewhere(run, outcome)
        if ending.failure is not None:
            health.failed(run=run, error=ending.failure)
        elif ending.answered:
            health.answered()

    last = closing_of(run, outcome, ending.failure)
    try:
        await asyncio.wrap_future(log.close(finish, [last]))
        logger.info("the run has %s", outcome.state)
        traces.ended(outcome.state, code=ending.failure.code if ending.failure else "")
    except LostLeaseError:
        logger.warning("run %s was taken over by another worker", run.id)
        if meter is not None:
            await in_thread(usage.store, meter)
