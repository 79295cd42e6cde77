"""Runs: claim, keep, settle, cancel, recover. The only place that changes a run's state."""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from datetime import datetime, timedelta
from typing import Any

from django.conf import settings
from django.db.models import (
    Case,
    DurationField,
    Exists,
    F,
    JSONField,
    OuterRef,
    QuerySet,
    Subquery,
    Value,
    When,
)
from django.db.models.functions import Coalesce, Now

from core.conversations.shares import Served, in_turn
from core.database import schema_version, statements, transactions
from core.database.queries import Among, HasRows, Instances, Param, Update, Values
from core.database.writes import Do, Insert, Write, write_all
from core.lib.tokens import estimate, of_calls
from core.models import (
    ChatSession,
    InboundMessage,
    Job,
    Message,
    Run,
    StoredFile,
    WorkerHeartbeat,
)
from core.signals import pubsub, wakeups

WORKER_GONE_SECONDS = 30
QUEUES_AT_ONCE = 1000
# Waiting runs that are looked at to share places by person: more are not told apart.
MOST_WAITING = 2000
CLAIM_LOCK = 0x6C616E65  # of PostgreSQL, among workers that take the next runs in turn
# How long a run is assumed to take until a worker has measured it.
USUAL_SECONDS = 10.0


@dataclass(frozen=True, slots=True)
class Outcome:
    """The result of a run: the fields of the final answer that every channel and endpoint shows.

    ``usage``, ``answered_by``, ``calls`` and ``stop_sequence`` are no part of what is shown.
    ``answered_by``: the label of the model, where another one than the first of its chain answered.
    ``calls``: see ``Message.calls``. ``stop_sequence``: see :func:`core.messages.stream_end`.
    ``code``: the kind of a failure.
    """

    state: str
    text: str = ""
    format: str = "plain"
    images: list[str] = field(default_factory=list)
    files: list[dict[str, str]] = field(default_factory=list)
    error: str = ""
    code: str = ""
    status: int = 200
    usage: dict[str, int] = field(default_factory=dict)
    finish_reason: str = "stop"
    answered_by: str = ""
    calls: list[dict[str, str]] = field(default_factory=list)
    stop_sequence: str = ""


# Fields of an outcome that are stored elsewhere than in ``Run.result``.
NOT_SHOWN = frozenset({"usage", "answered_by", "calls", "stop_sequence"})
Settled = Callable[[Run, Outcome], None]


def lease_end() -> object:
    """Return the database expression of a fresh lease's end."""
    return Now() + timedelta(seconds=settings.RUN_LEASE_SECONDS)


CLAIM = Update(
    lambda: (
        Run.objects.filter(Among("id", "ids"), state=Run.State.QUEUED).exclude(Exists(earlier())),
        {
            "state": Run.State.RUNNING,
            "attempt": F("attempt") + 1,
            "lease_until": Now() + Param("lease", DurationField()),
            "worker": Param("worker"),
            "started_at": Coalesce(F("started_at"), Now()),
        },
    )
)
WHOLE = Instances(
    lambda: (
        Run.objects.select_related("user", "session__account")
        .filter(Among("id", "ids"))
        .order_by("id")
    )
)


def claim(*, run_ids: list[int], worker: str) -> dict[int, Run]:
    """Take those of these queued runs that are first in their session; return them by id.

    Each carries its new ``attempt``: the token that every later write must show. Inside a
    transaction. Raises IntegrityError when another run of a session was claimed in the same moment.
    """
    lease = timedelta(seconds=settings.RUN_LEASE_SECONDS)
    taken = CLAIM.returning(ids=run_ids, worker=worker, lease=lease)
    return {run.id: run for run in WHOLE.all(ids=taken)} if taken else {}


# Runs that wait for a place only, not for another run of their session.
WAITING = Values(
    lambda: (
        Run.objects.filter(state=Run.State.QUEUED)
        .exclude(Exists(earlier()))
        .order_by("id")
        .values_list("id", "user_id")[:MOST_WAITING]
    )
)
# Counted here: for a GROUP BY, SQLite reads all runs in the order of their people.
HELD = Values(lambda: Run.objects.filter(state=Run.State.RUNNING).values_list("user_id"))


def next_in_turn(*, most: int, served: Served | None = None) -> list[int]:
    """Return the next runs to claim, as ``core.conversations.shares`` shares places.

    Inside the transaction that claims them: of several workers one looks at a time.
    """
    transactions.lock_until_commit(CLAIM_LOCK)
    waiting = [(row[0], row[1]) for row in WAITING()]
    return in_turn(waiting, held_places(), served, most=most) if waiting else []


def held_places() -> dict[int, int]:
    """Return person -> running runs."""
    return Counter(row[0] for row in HELD())


def waiting_since() -> datetime | None:
    """Return since when the run waits for a worker that waits longest; None when none does.

    A run waits for a worker from the end of the run before it in its conversation.
    """
    if not OLDEST_QUEUED():
        return None
    before = Run.objects.filter(session=OuterRef("session"), id__lt=OuterRef("id"))
    ended = before.order_by("-id").values("finished_at")[:1]
    first = Run.objects.filter(state=Run.State.QUEUED).exclude(Exists(earlier())).order_by("id")
    rows = first.annotate(free_at=Subquery(ended)).values_list("created_at", "free_at")
    return min((max(row[0], row[1] or row[0]) for row in rows[:MOST_WAITING]), default=None)


def queue_place(run_id: int, held: Mapping[int, int]) -> int:
    """Return the place of a run among those that wait for a worker, from 1, as they are claimed in
    turn; 0 when it waits for something else, or when more than MOST_WAITING wait.

    ``held``: see :func:`held_places`.
    """
    waiting = [(row[0], row[1]) for row in WAITING()]
    order = in_turn(waiting, held, most=len(waiting))
    return order.index(run_id) + 1 if run_id in order else 0


@dataclass(frozen=True, slots=True)
class Load:
    """How much work there is: person -> runs that wait for a place, and that have one.

    ``places`` of all ``runs`` workers, and how many runs a second get a place when all are taken.
    """

    waiting: Mapping[int, int]
    held: Mapping[int, int]
    places: int
    pace: float


def load() -> Load:
    """Return how much work there is now, as the database and the workers' heartbeats have it."""
    waiting = Counter(row[1] for row in WAITING())
    workers = heard().filter(queue="runs", problem="", places__gt=0)
    rows = workers.values_list("places", "place_seconds")
    pace = sum(places / (seconds or USUAL_SECONDS) for places, seconds in rows)
    return Load(waiting, held_places(), sum(row[0] for row in rows), pace)


def keep(*, held: dict[int, int], worker: str) -> tuple[set[int], set[int]]:
    """Renew the leases of ``held`` (run id -> attempt); return the lost and those to cancel."""
    if not held:
        return set(), set()
    with transactions.unsynced_write():
        Run.objects.filter(id__in=held, worker=worker, state=Run.State.RUNNING).update(
            lease_until=lease_end()
        )
    rows = Run.objects.filter(id__in=held, state=Run.State.RUNNING).values_list(
        "id", "attempt", "cancel_requested_at"
    )
    alive = {row[0] for row in rows if held[row[0]] == row[1]}
    cancelled = {row[0] for row in rows if row[2] is not None and row[0] in alive}
    return set(held) - alive, cancelled


END = Update(
    lambda: (
        Run.objects.filter(id=Param("id"), attempt=Param("attempt"), state=Param("before")),
        {
            "state": Param("state"),
            "result": Param("result", JSONField()),
            "usage": Param("usage", JSONField()),
            "error": Param("error"),
            "last_seq": Param("last_seq"),
            "lease_until": None,
            "finished_at": Now(),
        },
    )
)
ANSWERED = Update(
    lambda: (
        InboundMessage.objects.filter(run_id=Param("run"), state=InboundMessage.State.BATCHED),
        {"state": InboundMessage.State.ANSWERED},
    )
)
END_JOBS = Update(
    lambda: (
        Job.objects.filter(run_id=Param("run"), state__in=Run.UNFINISHED),
        {"state": Run.State.CANCELLED, "finished_at": Now()},
    )
)
FOLLOWING = Values(
    lambda: (
        Run.objects.filter(session_id=Param("session"), state=Run.State.QUEUED)
        .order_by("id")
        .values_list("id")[:1]
    )
)


def settle(
    *,
    run: Run,
    outcome: Outcome,
    last_seq: int,
    also: Settled | None = None,
    with_it: Sequence[Insert] = (),
) -> None:
    """End a run, its messages and its transcript line. In the writer's transaction.

    ``also`` is called in the same transaction (deliveries). ``with_it``: rows to be stored with the
    end. The fence was checked by the writer.
    """
    fence = {"id": run.id, "attempt": run.attempt, "before": Run.State.RUNNING}
    leave_behind(run, outcome, also, Do(END, fence | final(outcome, last_seq)), *with_it)


# Queried for every run that is woken before its turn: often, where a conversation is busy.
CANCELLED = Instances(
    lambda: Run.objects.select_related("user", "session__account").filter(
        id=Param("id"), state=Run.State.QUEUED, cancel_requested_at__isnull=False
    )
)


def cancelled_while_queued(run_id: int) -> Run | None:
    """Return the queued run with this id if it was asked to end: it need not wait for its turn."""
    return CANCELLED.first(id=run_id)


def settle_queued(*, run: Run, outcome: Outcome, last_seq: int, also: Settled | None) -> bool:
    """End a queued run that no worker holds; return False when one took it. In a transaction."""
    before = Run.State.QUEUED
    ended = END(id=run.id, attempt=run.attempt, before=before, **final(outcome, last_seq))
    if ended:
        leave_behind(run, outcome, also)
    return ended == 1


def final(outcome: Outcome, last_seq: int) -> dict[str, Any]:
    """Return the final fields of a run that ended as ``outcome``, as JSON."""
    return {
        "state": outcome.state,
        "result": {key: value for key, value in asdict(outcome).items() if key not in NOT_SHOWN},
        "usage": outcome.usage,
        "error": outcome.error[:500],
        "last_seq": last_seq,
    }


def leave_behind(run: Run, outcome: Outcome, also: Settled | None, *with_it: Write) -> None:
    """Write the messages, jobs and deliveries of a run that ends; wake the session's next run."""
    said = Message(
        session_id=run.session_id,
        run_id=run.id,
        role="assistant",
        text=outcome.text,
        format=outcome.format,
        tokens=estimate(outcome.text),
        call_tokens=of_calls(outcome.calls) or None,
        calls=outcome.calls or None,
        data={
            "images": outcome.images,
            "files": outcome.files,
            "error": outcome.error,
            "interrupted": outcome.state == Run.State.CANCELLED,
            **({"answered_by": outcome.answered_by} if outcome.answered_by else {}),
        },
    )
    if is_of_earlier_conversation(run):  # it is shown, but not told to the model
        said.tell_model("")
        said.calls = said.call_tokens = None
    of_it = {"run": run.id}
    write_all(*with_it, Do(ANSWERED, of_it), Do(END_JOBS, of_it), Insert(said))
    if outcome.state == Run.State.CANCELLED:
        # Files that a job finished at the moment of the stop are not handed over. After the jobs:
        # one that was just finishing is waited for.
        StoredFile.objects.filter(run_id=run.id, origin="made", revoked_at__isnull=True).exclude(
            public_id__in=[file.get("id", "") for file in outcome.files]
        ).update(revoked_at=Now())
    if also is not None:
        also(run, outcome)
    # Looked for after the commit: a process that queues a run meanwhile still sees this one open.
    transactions.after_commit(wake_next, run.session_id)


def is_of_earlier_conversation(run: Run) -> bool:
    """Return whether a new conversation has begun since a run paused with which this one goes on:
    its answer comes between the messages of the new one.
    """
    if not run.options.get("continues"):
        return False
    begun = ChatSession.objects.filter(id=run.session_id, history_from__gt=run.history_from)
    return begun.exists()


def wake_next(session_id: int) -> None:
    """Wake a worker for the session's oldest queued run, if there is one."""
    for row in FOLLOWING(session=session_id):
        wakeups.run(row[0])


def request_cancel(*, run: Run) -> bool:
    """Ask for a run to end, within 3 s ([C9]); return whether it was still open."""
    with transactions.atomic_write():
        asked = Run.objects.filter(id=run.id, state__in=Run.UNFINISHED).update(
            # Queued runs that were asked to end do so without a place; a held one joins them.
            state=Case(
                When(state=Run.State.HELD, then=Value(Run.State.QUEUED)), default=F("state")
            ),
            cancel_requested_at=Coalesce(F("cancel_requested_at"), Now()),
        )
        if asked:
            transactions.after_commit(tell_cancel, run.id)
    return asked == 1


def tell_cancel(run_id: int) -> None:
    """Tell every worker at once; one that misses it reads the database."""
    pubsub.publish([{"keys": ["runs"], "kind": "cancel", "run_id": run_id}])
    wakeups.send(wakeups.RUN, run_id)


def cancel_all_of(*, user_id: int) -> None:
    """Ask for every open run of a person to end: the person was revoked ([A9])."""
    for run in Run.objects.filter(user_id=user_id, state__in=Run.UNFINISHED):
        request_cancel(run=run)


def hold_open() -> int:
    """Hold every run that is open, with its jobs; return how many: the database was restored.

    Those that were asked to end do so. Inside a transaction, while no worker runs.
    """
    Run.objects.filter(state=Run.State.RUNNING).update(
        state=Run.State.QUEUED, lease_until=None, worker=""
    )
    wanted = Run.objects.filter(state=Run.State.QUEUED, cancel_requested_at__isnull=True)
    jobs = Job.objects.filter(run__in=wanted, state__in=Run.OPEN)
    jobs.update(state=Run.State.HELD, lease_until=None)
    return wanted.update(state=Run.State.HELD)


def let_go(rows: QuerySet[Run]) -> int:
    """Queue those of these runs that are held, with their jobs; return how many."""
    with transactions.atomic_write():
        held = rows.filter(state=Run.State.HELD).select_for_update(no_key=True)
        ids = list(held.values_list("id", flat=True))
        Job.objects.filter(run__in=ids, state=Run.State.HELD).update(state=Run.State.QUEUED)
        Run.objects.filter(id__in=ids).update(state=Run.State.QUEUED)
        for run_id in ids:
            wakeups.run(run_id)
    return len(ids)


def held() -> QuerySet[Run]:
    """Return the runs that wait for the owner since the database was restored."""
    return Run.objects.filter(state=Run.State.HELD)


def expired() -> QuerySet[Run]:
    """Return the running runs whose lease ran out."""
    return Run.objects.filter(state=Run.State.RUNNING, lease_until__lt=Now())


ARE_EXPIRED = HasRows(expired)
# Without the order SQLite reads all runs.
OLDEST_QUEUED = Values(
    lambda: Run.objects.filter(state=Run.State.QUEUED).order_by("id").values_list("id")[:1]
)
OLDEST_TO_ANSWER = Values(
    lambda: (
        Run.objects.filter(state=Run.State.QUEUED, cancel_requested_at=None)
        .order_by("id")
        .values_list("created_at")[:1]
    )
)
ANSWERED_NOW = Values(
    lambda: Run.objects.filter(state=Run.State.RUNNING, cancel_requested_at=None).values_list(
        "created_at"
    )
)
LEASES = transactions.FarTimes(lambda: Run.objects.filter(state=Run.State.RUNNING), "lease_until")


def recover(*, limit: int = 500) -> list[int]:
    """Requeue runs whose lease ran out; return the ids of all runs that may start.

    Queued runs that were asked to end are among them, in any position of their session's queue.
    """
    if ARE_EXPIRED():
        with transactions.atomic_write():
            rows = transactions.unlocked(expired())
            rows.update(state=Run.State.QUEUED, lease_until=None, worker="")
    return startable(limit=limit) if OLDEST_QUEUED() else []


def oldest_to_answer() -> datetime | None:
    """Return when the oldest run began that is being answered, or will be."""
    return min((at for (at,) in (*OLDEST_TO_ANSWER(), *ANSWERED_NOW())), default=None)


def startable(*, limit: int) -> list[int]:
    """Return queued runs that may start, oldest first: the first ones of their sessions, and those
    that were asked to end.

    Looks at the first run of QUEUES_AT_ONCE sessions and at the oldest ``limit`` runs, however many
    wait: the oldest come first, and no session waits for the queues of others.
    """
    queued = Run.objects.filter(state=Run.State.QUEUED).order_by("id")
    oldest = list(queued.values_list("id", "cancel_requested_at")[:limit])
    if not oldest:
        return []
    found = {run_id for run_id, asked_at in oldest if asked_at is not None}
    heads = {run_id for run_id, _ in oldest}
    if len(oldest) == limit:  # there are more
        heads |= {*statements.oldest_queued(sessions=QUEUES_AT_ONCE)}
        found |= {*asked_to_end(limit=limit)}
    first = queued.filter(~Exists(earlier()), id__in=heads)
    return sorted({*found, *first.values_list("id", flat=True)})[:limit]


def asked_to_end(*, limit: int = 500) -> list[int]:
    """Return queued runs that were asked to end: they need no place for that."""
    asked = Run.objects.filter(state=Run.State.QUEUED, cancel_requested_at__isnull=False)
    return list(asked.order_by("id").values_list("id", flat=True)[:limit])


def bring_near() -> None:
    """Shorten leases that a clock which was set back left in the far future."""
    LEASES.bring_near(most=timedelta(seconds=settings.RUN_LEASE_SECONDS))


def earlier() -> QuerySet[Run]:
    """Return the open runs of the same session that come before the outer query's run."""
    return Run.objects.filter(
        session=OuterRef("session"),
        id__lt=OuterRef("id"),
        state__in=Run.OPEN,
    )


def release(*, held: dict[int, int]) -> None:
    """Give claimed runs back at a clean stop: another worker continues them at once."""
    with transactions.atomic_write():
        for run_id, attempt in held.items():
            Run.objects.filter(id=run_id, attempt=attempt, state=Run.State.RUNNING).update(
                state=Run.State.QUEUED, lease_until=None, worker=""
            )
    for run_id in held:
        wakeups.send(wakeups.RUN, run_id)


def heard_from(
    *, worker: str, queue: str, problem: str = "", places: int = 0, place_seconds: float = 0.0
) -> None:
    """Record that a worker process is alive, and why it takes no work (``problem``).

    ``places``: how many runs it has at once; ``place_seconds``: how long one takes lately.
    """
    beat = WorkerHeartbeat(
        name=worker,
        queue=queue,
        seen_at=Now(),
        problem=problem[:200],
        places=places,
        place_seconds=place_seconds,
    )
    with transactions.unsynced_write():
        WorkerHeartbeat.objects.bulk_create(
            [beat],
            update_conflicts=True,
            update_fields=["queue", "seen_at", "problem", "places", "place_seconds"],
            unique_fields=["name"],
        )


def forget_silent() -> None:
    """Delete workers that have been silent for a day."""
    with transactions.atomic_write():
        WorkerHeartbeat.objects.filter(seen_at__lt=Now() - timedelta(days=1)).delete()


def workers_alive(queue: str) -> int:
    """Return how many workers of ``queue`` were heard from in the last 30 s and take work."""
    return heard().filter(queue=queue, problem="").count()


def idle_workers(queue: str) -> list[str]:
    """Return why live workers of ``queue`` take no work, each reason once, for the owner."""
    rows = heard().filter(queue=queue).exclude(problem="").order_by("name")
    reasons = [f"A {row.queue} worker takes no work: {row.problem}" for row in rows]
    return list(dict.fromkeys(reasons))


def why_none_works() -> str:
    """Return why a new run would not be answered; empty when a worker takes work or none is alive.

    The reason: this code, or all live ``runs`` workers, do not fit the database. (With no worker
    alive, runs wait.) Raises DatabaseError.
    """
    if problem := schema_version.problem():
        return problem
    idle = idle_workers("runs")
    return idle[0] if idle and not workers_alive("runs") else ""


def heard() -> QuerySet[WorkerHeartbeat]:
    """Return the workers that were heard from in the last 30 s."""
    gone = timedelta(seconds=WORKER_GONE_SECONDS)
    # A worker heard from in the future tells nothing: the clock was set back.
    return WorkerHeartbeat.objects.filter(seen_at__gte=Now() - gone, seen_at__lte=Now() + gone)


def open_of(session_ids: Iterable[int]) -> dict[int, Run]:
    """Return the oldest open run of each of these sessions, by session id."""
    found: dict[int, Run] = {}
    for run in Run.objects.filter(session_id__in=session_ids, state__in=Run.OPEN).order_by("id"):
        found.setdefault(run.session_id, run)
    return found
