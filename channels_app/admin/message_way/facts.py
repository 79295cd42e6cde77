"""The rows of a message's way, found from the message, a run or a delivery.

At most 15 queries, however many rows there are.
"""

from dataclasses import dataclass, field

from django.db.models import QuerySet

from allowlist.models import UnknownRequest
from core.conversations import outbox, runs
from core.lib import tracing
from core.lib.ids import is_public_id
from core.lib.text import is_number
from core.models import (
    Delivery,
    InboundMessage,
    Installation,
    Job,
    Message,
    ModelCall,
    Run,
    RunPause,
    ToolCall,
    WorkerHeartbeat,
)

# The names of their models, as the links of the admin have them.
MESSAGE, RUN, DELIVERY = "inboundmessage", "run", "delivery"
MOST_ROWS = 100


@dataclass(frozen=True, slots=True)
class Queue:
    """The queue as a run sees it: ``before`` are open runs of its conversation."""

    before: list[Run]
    place: int
    workers: list[WorkerHeartbeat]
    in_use: int

    @property
    def working(self) -> list[WorkerHeartbeat]:
        """Return the workers that take runs."""
        return [each for each in self.workers if not each.problem]


@dataclass(slots=True)
class Facts:
    """All that is stored about one message. ``runs``: the first has the message, each of the others
    goes on with the one before it. ``behind``: an earlier delivery of the chat that is not sent.
    """

    messages: list[InboundMessage] = field(default_factory=list)
    request: UnknownRequest | None = None
    runs: list[Run] = field(default_factory=list)
    queue: Queue | None = None
    installation: Installation | None = None
    model_calls: list[ModelCall] = field(default_factory=list)
    tool_calls: list[ToolCall] = field(default_factory=list)
    jobs: list[Job] = field(default_factory=list)
    answers: list[Message] = field(default_factory=list)
    deliveries: list[Delivery] = field(default_factory=list)
    behind: Delivery | None = None
    workers: list[WorkerHeartbeat] = field(default_factory=list)

    @property
    def run(self) -> Run | None:
        """Return the run that the turn is in now."""
        return self.runs[-1] if self.runs else None


def find(kind: str, name: str) -> Facts | None:
    """Return the way of the message, run or delivery with this id, or None."""
    if is_public_id(name):
        return of_run(Run.objects.filter(public_id=name).first())
    if not is_number(name):
        return None
    if kind == MESSAGE:
        return of_message(messages().filter(pk=int(name)).first())
    if kind == DELIVERY:
        return of_delivery(deliveries().filter(pk=int(name)).first())
    return of_run(Run.objects.filter(pk=int(name)).first())


def messages() -> QuerySet[InboundMessage]:
    """Return messages without what the page does not show."""
    rows = InboundMessage.objects.select_related("account", "user", "session", "run")
    return rows.defer("raw", "media", "options", "run__text", "run__result", "run__route")


def deliveries() -> QuerySet[Delivery]:
    """Return deliveries with their account; their texts are not read."""
    return Delivery.objects.select_related("account", "run").defer("payload", "run__text")


def of_message(message: InboundMessage | None) -> Facts | None:
    if message is None:
        return None
    if message.run is not None:
        return of_run(message.run)
    found = Facts(messages=[message])
    found.request = request_of(message)
    if message.session is not None and message.state == InboundMessage.State.RECEIVED:
        found.workers = list(runs.heard().filter(queue="runs"))
    return found


def of_delivery(delivery: Delivery | None) -> Facts | None:
    """Return the way of a delivery: of its run, or, for a notice, the delivery alone."""
    if delivery is None:
        return None
    if delivery.run is not None:
        return of_run(delivery.run)
    return Facts(deliveries=[delivery], behind=behind(delivery))


def of_run(run: Run | None) -> Facts | None:
    """Return the way of the message of a run."""
    if run is None:
        return None
    ids = turn_of(run)
    every = (
        Run.objects.filter(pk__in=ids)
        .order_by("pk")
        .select_related("user", "session__account", "failure")
    )
    found = Facts(
        runs=list(every.defer("result", "options", *([] if tracing.is_on() else ["route"])))
    )
    found.messages = list(messages().filter(run__in=ids).order_by("pk")[:MOST_ROWS])
    if found.messages:
        found.request = request_of(found.messages[0])
    found.model_calls = list(ModelCall.objects.filter(run__in=ids).order_by("pk")[:MOST_ROWS])
    calls = ToolCall.objects.filter(run__in=ids).select_related("asked_of", "decided_by")
    found.tool_calls = list(calls.order_by("pk").defer("arguments", "result")[:MOST_ROWS])
    found.jobs = list(Job.objects.filter(run__in=ids).order_by("pk")[:MOST_ROWS])
    answers = Message.objects.filter(run__in=ids, role="assistant", session=run.session_id)
    found.answers = list(answers.order_by("pk")[:MOST_ROWS])
    found.deliveries = list(deliveries().filter(run__in=ids).order_by("pk")[:MOST_ROWS])
    add_obstacles(found)
    return found


def add_obstacles(found: Facts) -> None:
    """Read what a run that is not finished, or a delivery that is not sent, waits for."""
    run = found.run
    if run is not None and run.state == Run.State.QUEUED:
        found.queue = queue_of(run)
    elif run is not None and run.state == Run.State.HELD:
        found.installation = Installation.objects.first()
    for delivery in found.deliveries:
        if delivery.state in outbox.OPEN:
            found.behind = behind(delivery)
            return


def turn_of(run: Run) -> list[int]:
    """Return the ids of the runs of a turn: over its pauses, from the first to the last."""
    pauses = RunPause.objects.filter(run__session=run.session_id, continued_by__isnull=False)
    # Few, as each was decided by a person; in an order, the whole table would be read in it.
    after = dict(pauses.values_list("run_id", "continued_by_id"))
    before = {later: earlier for earlier, later in after.items()}
    first = run.pk
    while first in before:
        first = before[first]
    ids = [first]
    while ids[-1] in after:
        ids.append(after[ids[-1]])
    return ids


def queue_of(run: Run) -> Queue:
    """Return what a queued run waits for."""
    before = Run.objects.filter(session=run.session_id, pk__lt=run.pk, state__in=Run.OPEN)
    workers = list(runs.heard().filter(queue="runs").order_by("name"))
    held = runs.held_places()
    first = list(before.order_by("pk").defer("text")[:MOST_ROWS])
    return Queue(first, runs.queue_place(run.pk, held), workers, sum(held.values()))


def request_of(message: InboundMessage) -> UnknownRequest | None:
    """Return the request of the sender, or of the group, of a message."""
    if not message.sender:
        return None
    rows = UnknownRequest.objects.filter(account=message.account_id, kind=message.kind)
    named = rows.filter(sender__in=[message.sender, message.chat]).select_related("decided_by")
    return named.order_by("is_group").first()


def behind(delivery: Delivery) -> Delivery | None:
    """Return the delivery of the same conversation that has to be sent before this one."""
    rows = Delivery.objects.filter(
        conversation=delivery.conversation, pk__lt=delivery.pk, state__in=outbox.OPEN
    )
    return rows.exclude(run=delivery.run_id).order_by("pk").only("pk", "state").first()
