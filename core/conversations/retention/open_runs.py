"""Which runs something still needs: nothing of theirs is removed."""

from datetime import datetime

from django.db.models import Exists, OuterRef, Q, QuerySet

from core.conversations import outbox
from core.conversations.retention.rules import LEAST_AGE
from core.models import (
    Delivery,
    InboundMessage,
    Job,
    ModelCall,
    Occurrence,
    Run,
    RunPause,
    ToolCall,
)

Waiting = ToolCall.State
OPEN_DELIVERIES = (*outbox.OPEN, Delivery.State.UNCERTAIN)


def is_open(now: datetime) -> Q:
    """Return the condition that a run is unfinished, ended lately, or has open work: deliveries,
    jobs, questions, calls, messages that are not answered, an occurrence that is looked at.
    """
    of_run = {"run": OuterRef("pk")}
    # Read once: SQLite would look among all of them for each run.
    looked_at = Occurrence.objects.filter(look_at__isnull=False, run__isnull=False)
    return (
        ~Q(state__in=Run.FINAL)
        | Q(finished_at__isnull=True, created_at__gte=now - LEAST_AGE)
        | Q(finished_at__gte=now - LEAST_AGE)
        | Exists(Delivery.objects.filter(**of_run, state__in=OPEN_DELIVERIES))
        | Exists(Job.objects.filter(**of_run, state__in=Run.UNFINISHED))
        | Exists(ToolCall.objects.filter(**of_run, state__in=(Waiting.WAITING, Waiting.STARTED)))
        | Exists(ToolCall.objects.filter(carried_out_in=OuterRef("pk"), state=Waiting.STARTED))
        | Exists(ModelCall.objects.filter(**of_run, state=ModelCall.State.OPEN))
        | Exists(unanswered())
        | Q(pk__in=looked_at.values("run"))
        | goes_on()
    )


def unanswered() -> QuerySet[InboundMessage]:
    """Return the messages of a run that are not answered, or whose reaction is still shown."""
    answered = Q(state=InboundMessage.State.ANSWERED) & ~Q(ack=InboundMessage.Ack.SHOWN)
    return InboundMessage.objects.filter(~answered, run=OuterRef("pk"))


def goes_on() -> Q:
    """Return the condition that a run has a pause, and its conversation an open run or question:
    the run that goes on looks at the calls of all before it.
    """
    beside = Run.objects.filter(session=OuterRef("session"), state__in=Run.UNFINISHED)
    asked = ToolCall.objects.filter(run__session=OuterRef("session"), state=Waiting.WAITING)
    return Q(Exists(RunPause.objects.filter(run=OuterRef("pk")))) & (Exists(beside) | Exists(asked))


def open_run(now: datetime) -> Exists:
    """Return the condition that the run of a row (its column ``run``) is open."""
    return Exists(Run.objects.filter(is_open(now), pk=OuterRef("run")))
