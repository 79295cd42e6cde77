"""The outcome of a fired occurrence, as its run and its deliveries show it."""

from dataclasses import dataclass
from datetime import datetime

from django.utils.translation import gettext_noop

from core.conversations import outbox
from core.models import Delivery, Occurrence, Run, RunPause, Schedule, ToolCall

STOPPED = gettext_noop("The task was stopped.")
NOT_DELIVERED = "It was not delivered: "  # before the platform's reason
UNDELIVERED = gettext_noop("Not delivered: {reason}")
WITHDRAWN = gettext_noop("Not delivered")
UNSURE = gettext_noop("It is not known whether it was delivered.")


@dataclass(frozen=True, slots=True)
class Outcome:
    """The outcome of a fired occurrence: whether it was carried out, and whether it arrived.

    ``failure``: why it was not, in a sentence; ``is_unsure``: nothing tells whether it arrived;
    ``is_over``: nothing more will happen.
    """

    executed_at: datetime | None = None
    delivered_at: datetime | None = None
    failure: str = ""
    is_unsure: bool = False
    is_over: bool = False


def outcome_of(occurrence: Occurrence, *, now: datetime) -> Outcome:
    """Return what has become of the run of an occurrence, and of its deliveries."""
    run = occurrence.run
    if run is None and occurrence.schedule.kind == Schedule.Kind.TEXT:
        # Its conversation was deleted since, with its deliveries.
        return Outcome(occurrence.fired_at, is_unsure=True, is_over=True)
    if run is None:
        return Outcome(
            occurrence.executed_at,
            failure=gettext_noop("Its conversation was deleted."),
            is_over=True,
        )
    run = last_of(run)
    if run.state in Run.UNFINISHED or is_asking(run):
        return Outcome()
    # The question of a pause without a run that goes on was taken back.
    if run.state == Run.State.CANCELLED or pause_of(run) is not None:
        return Outcome(failure=STOPPED, is_over=True)
    executed = run.finished_at or now
    if run.state == Run.State.FAILED:
        reason = run.error or gettext_noop("The assistant could not answer.")
        sent = delivery_of(run, run.finished_at or run.created_at)
        return Outcome(failure=reason, delivered_at=sent.delivered_at, is_over=True)
    return delivery_of(run, executed)


def last_of(run: Run) -> Run:
    """Return the run that goes on with a run after the last of its pauses for a yes."""
    while (pause := pause_of(run)) is not None and pause.continued_by is not None:
        run = pause.continued_by
    return run


def pause_of(run: Run) -> RunPause | None:
    """Return the pause with which a run has ended; None for any other run."""
    return getattr(run, "pause", None)


def is_asking(run: Run) -> bool:
    """Return whether a run has ended with a question that is open."""
    calls = ToolCall.objects.filter(run=run, state=ToolCall.State.WAITING)
    return pause_of(run) is not None and calls.exists()


def is_going_on(schedule: Schedule) -> bool:
    """Return whether a task of a schedule waits for its turn or for a yes, or is being carried out;
    not one that the owner holds, for as long as they like.
    """
    fired = Occurrence.objects.filter(
        schedule=schedule, state=Occurrence.State.FIRED, look_at__isnull=False
    )
    runs = [last_of(row.run) for row in fired.select_related("run") if row.run is not None]
    return any(each.state in Run.OPEN for each in runs) or any(map(is_asking, runs))


def delivery_of(run: Run, executed: datetime) -> Outcome:
    """Return the outcome of a run that was carried out, by its deliveries."""
    rows = list(Delivery.objects.filter(run=run).values_list("state", "sent_at", "error"))
    if any(row[0] in outbox.OPEN for row in rows):
        return Outcome(executed)
    unsent = [row for row in rows if row[0] != Delivery.State.SENT]
    lost = [row for row in unsent if row[0] != Delivery.State.UNCERTAIN]
    if unsent and not lost:
        return Outcome(executed, is_unsure=True, is_over=True)
    if lost:
        error = lost[0][2]
        failure = f"{NOT_DELIVERED}{error}" if error else WITHDRAWN
        return Outcome(executed, failure=failure, is_over=True)
    sent = [row[1] for row in rows if row[1] is not None]
    return Outcome(executed, max(sent, default=executed), is_over=True)
