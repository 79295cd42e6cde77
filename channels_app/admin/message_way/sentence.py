"""Where a message is now, or why it got no answer: one sentence, a pure function of its rows."""

from collections.abc import Sequence
from datetime import datetime

from django.template.defaultfilters import pluralize
from django.utils import timezone

from allowlist.models import UnknownRequest
from channels_app.admin.message_way.facts import Facts, Queue
from core.lib.text import counted
from core.models import Delivery, InboundMessage, Job, Run, ToolCall, WorkerHeartbeat
from core.providers.failures import KINDS, OWN

NO_WORKER = "no runs worker has reported in the last 30 s"
NOT_LET_IN: dict[str, str] = {
    UnknownRequest.State.DENIED: "an owner has denied its sender",
    UnknownRequest.State.BLOCKED: "an owner has blocked its sender",
    UnknownRequest.State.EXPIRED: "no owner decided in time about its unknown sender",
}
# The first state that a delivery has is told.
WORST_FIRST = (
    Delivery.State.DEAD,
    Delivery.State.UNCERTAIN,
    Delivery.State.SENDING,
    Delivery.State.PENDING,
    Delivery.State.SENT,
    Delivery.State.DISMISSED,
)


def of(found: Facts, *, now: datetime) -> str:
    """Return the sentence. It names no sender and no text of a person."""
    run = found.run
    if run is None:
        return of_message(found, now) if found.messages else of_deliveries(found, now)
    if run.state == Run.State.HELD:
        return (
            "It waits for the owner: the gateway was restored from a backup, and its run is held."
        )
    if run.state == Run.State.QUEUED:
        return of_queued(run, found.queue)
    if run.state == Run.State.RUNNING:
        return of_running(run, found.jobs, now)
    if run.state == Run.State.CANCELLED:
        return "It got no whole answer: its run was stopped."
    if run.state == Run.State.FAILED:
        return of_failed(run, found, now)
    return of_succeeded(found, now)


def of_message(found: Facts, now: datetime) -> str:
    """Return the sentence about a message without a run."""
    message = found.messages[0]
    match message.state:
        case InboundMessage.State.HELD:
            return "It is held: its sender is unknown, and no owner has decided yet."
        case InboundMessage.State.PURGED:
            state = found.request.state if found.request is not None else ""
            why = NOT_LET_IN.get(state, "its sender was not let in")
            return f"It got no answer, and its content was deleted: {why}."
        case InboundMessage.State.QUARANTINED:
            return "It got no answer: it could not be read."
        case InboundMessage.State.IGNORED:
            return "It got no answer: messages of its kind are not answered."
        case InboundMessage.State.RECEIVED:
            return of_waiting(message, found.workers, now)
        case InboundMessage.State.BATCHED:
            return "Its run was deleted."
    if message.note.startswith(("command", "a command")):
        return "It was a command: the gateway has carried it out itself, without a run."
    return "It needed no run." if not message.note else f"It got no run: {message.note}."


def of_waiting(message: InboundMessage, workers: Sequence[WorkerHeartbeat], now: datetime) -> str:
    """Return the sentence about a message that is to become part of a run."""
    flush_at = message.session.flush_at if message.session is not None else None
    if flush_at is None:
        return "It waits until the program that has this conversation reads it."
    if flush_at > now:
        return f"It waits for more messages of its sender until {clock(flush_at)}."
    if not any(not each.problem for each in workers):
        return f"It waits for a worker: {problem_of(workers)}."
    return "It is about to become a run."


def of_queued(run: Run, queue: Queue | None) -> str:
    """Return the sentence about a run that no worker has."""
    again = (
        f" It was begun {run.attempt} time{pluralize(run.attempt)} before." if run.attempt else ""
    )
    if run.cancel_requested_at is not None:
        return "Its run is being stopped."
    if queue is None or queue.before:
        ahead = len(queue.before) if queue is not None else 0
        return f"It waits for {ahead} earlier run{pluralize(ahead)} of its conversation.{again}"
    if not queue.working:
        return f"It waits for a worker: {problem_of(queue.workers)}.{again}"
    places = sum(each.places for each in queue.working)
    if queue.in_use < places:
        return f"It is about to be taken by a worker.{again}"
    where = f"it is number {queue.place}" if queue.place else "many are before it"
    return f"It waits for a place: all {places} are in use, and {where} in the queue.{again}"


def problem_of(workers: Sequence[WorkerHeartbeat]) -> str:
    """Return why no worker takes a run."""
    return workers[0].problem.rstrip(".") if workers else NO_WORKER


def of_running(run: Run, jobs: Sequence[Job], now: datetime) -> str:
    """Return the sentence about a run that a worker has."""
    if run.lease_until is not None and run.lease_until < now:
        return "The worker of its run has stopped; another one will go on with it."
    times = f" (attempt {run.attempt})" if run.attempt > 1 else ""
    for job in jobs:
        if job.state in Run.OPEN:
            part = "" if job.percent is None else f", {job.percent} % of it is done"
            return f"Its run waits for a long task{part}."
    return f"A worker is answering it now{times}."


def of_failed(run: Run, found: Facts, now: datetime) -> str:
    """Return the sentence about a run that failed, and whether its sender was told."""
    failure = getattr(run, "failure", None)
    said = f"It got no answer: the run failed ({failure.code if failure else 'unknown'})."
    if failure is not None and failure.code in KINDS:
        said = f"{said} {KINDS.get(failure.code, OWN).owner}"
    is_told = all(each.state == Delivery.State.SENT for each in found.deliveries)
    return (
        said if is_told else f"{said} About the message that says so: {of_deliveries(found, now)}"
    )


def of_succeeded(found: Facts, now: datetime) -> str:
    """Return the sentence about a run that has ended well."""
    last = found.runs[-1].pk
    waiting = [
        each
        for each in found.tool_calls
        if each.run_id == last and each.state == ToolCall.State.WAITING
    ]
    if waiting:
        call = waiting[0]
        until = f" until {clock(call.expires_at)}" if call.expires_at else ""
        if call.kind == ToolCall.Kind.SIGN_IN:
            return f"It waits until its person signs in for a tool{until}."
        who = "its person" if call.of_person else "an owner"
        return f"It waits for a yes of {who} to a tool{until}."
    if not found.deliveries:
        return "It was answered: the answer is stored, and its client reads it from there."
    return of_deliveries(found, now)


def of_deliveries(found: Facts, now: datetime) -> str:
    """Return the sentence about messages for a platform: of the one that is worst off."""
    states = [each.state for each in found.deliveries]
    worst = next(state for state in WORST_FIRST if state in states)
    number = states.count(worst)
    messages = f"{number} message{pluralize(number)}"
    if worst == Delivery.State.PENDING:
        return of_pending(found, now)
    said: dict[str, str] = {
        Delivery.State.DEAD: f"The gateway has given up {messages} of the answer.",
        Delivery.State.UNCERTAIN: "It is not known whether the platform has the whole answer.",
        Delivery.State.SENDING: "The answer is being sent to the platform now.",
        Delivery.State.SENT: f"It was delivered: the platform has accepted {messages}.",
        Delivery.State.DISMISSED: "Nothing of it was sent: its deliveries were dismissed.",
    }
    return said[worst]


def of_pending(found: Facts, now: datetime) -> str:
    """Return what the first message that is not sent waits for."""
    first = next(each for each in found.deliveries if each.state == Delivery.State.PENDING)
    if not first.account.enabled:
        return "The answer waits: its account is disabled."
    if first.account.deliveries_held:
        return "The answer waits: the platform rejects the account's credentials."
    if found.behind is not None:
        return "The answer waits until an earlier message of the same chat has been sent."
    if first.retry_at is not None and first.retry_at > now:
        again = clock(first.retry_at)
        if first.tries:
            failed = counted(first.tries, "failed try", "failed tries")
            return f"The answer waits after {failed}, again at {again}."
        return f"The answer waits: the platform accepts nothing before {again}."
    return "The answer is about to be sent."


def clock(moment: datetime) -> str:
    return f"{timezone.localtime(moment):%Y-%m-%d %H:%M:%S}"
