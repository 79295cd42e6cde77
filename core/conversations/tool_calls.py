"""Calls of tools that wait for a yes, or that must not be made twice.

    turn ends with questions ─► run ended, RunPause + ToolCall rows, in one transaction
    decision (or expiry) ─► the call's row; with the last one a run that goes on is queued, too
    that run: allowed ─► started (committed) ─► the call ─► done (committed), or unsure after a kill

The lock of a pause is that of its calls. Decision 194.
"""

import hashlib
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass, field, fields
from datetime import datetime, timedelta
from typing import Any

import orjson
from django.conf import settings
from django.db.models import DateTimeField, Exists, OuterRef, Q, QuerySet
from django.db.models.functions import Now

from core.conversations import assistants, traces
from core.conversations.events import LostLeaseError
from core.database import transactions
from core.database.queries import Instances, Param, Values
from core.database.transactions import atomic_write
from core.lib.ids import public_id
from core.models import McpServer, McpSignIn, Run, RunOptions, RunPause, ToolCall, ToolGrant
from core.providers import catalogue
from core.providers.base import ChatMessage
from core.signals import wakeups

State = ToolCall.State
HOUR = timedelta(hours=1)
AT_ONCE = 100
RESULT_CHARACTERS = 50_000
PARTS = ("run__user", "run__session__account", "asked_of", "sign_in__server")
GRANTING = {ToolCall.Scope.HOUR, ToolCall.Scope.ALWAYS}


@dataclass(frozen=True, slots=True)
class SignInWanted:
    """A sign-in at an MCP server: of the person, or, ``of_gateway``, of the owner for the gateway.

    ``scope``, ``resource_metadata``: as the server has demanded them. ``public_id``: of the sign-in
    that is made with the question.
    """

    server_id: int
    server: str
    of_gateway: bool = False
    scope: str = ""
    resource_metadata: str = ""
    public_id: str = field(default_factory=public_id)


@dataclass(frozen=True, slots=True)
class Asked:
    """A call that waits for a yes: ``arguments`` are JSON; ``cost`` is in words; ``of_person``:
    the person's own yes is needed, not the owner's. ``sign_in``: it waits for that, not for a yes.
    """

    call_id: str
    tool: str
    arguments: str
    cost: str = ""
    of_person: bool = False
    sign_in: SignInWanted | None = None


@dataclass(frozen=True, slots=True)
class Stored:
    """The part of a result that is kept; see ``core.tools.base.ToolResult``."""

    text: str
    ok: bool = True
    final: bool = False
    shown: str = ""
    files: list[dict[str, str]] = field(default_factory=list)
    sign_in: SignInWanted | None = None


def digest_of(tool: str, arguments: str) -> str:
    """Return the hash of a tool and its arguments, in any order of keys and with any spaces."""
    try:
        plain = orjson.dumps(orjson.loads(arguments or "{}"), option=orjson.OPT_SORT_KEYS)
    except (orjson.JSONDecodeError, orjson.JSONEncodeError):  # or it is nested too deeply
        plain = arguments.encode(errors="surrogatepass")
    return hashlib.sha256(tool.encode() + b"\0" + plain).hexdigest()


def is_granted(*, tool: str, run: Run) -> bool:
    """Return whether an earlier yes holds for calls of a tool in a run. May block."""
    rows = ToolGrant.objects.filter(tool=tool, user_id=run.user_id)
    rows = rows.filter(Q(session=None) | Q(session=run.session_id))
    return rows.filter(Q(until=None) | Q(until__gt=Now())).exists()


def pause(
    *, run: Run, messages: Sequence[ChatMessage], asked: Sequence[tuple[Asked, int | None]]
) -> list[ToolCall]:
    """Store the questions of a run that ends with them, each with the id of the user who decides.

    In the transaction that ends the run. Returns the rows.
    """
    RunPause.objects.create(run=run, messages=list(messages))
    expires_at = transactions.now() + timedelta(hours=settings.TOOL_QUESTION_HOURS)
    wanted = [(each.sign_in, user_id) for each, user_id in asked if each.sign_in is not None]
    sign_ins = {each.public_id: sign_in_of(each, user_id, expires_at) for each, user_id in wanted}
    # A call that must not be made twice has a row: its start was stored before it was refused.
    refused = [each.call_id for each, _ in asked if each.sign_in is not None]
    ToolCall.objects.filter(run=run, call_id__in=refused).delete()
    rows = [
        ToolCall(
            run=run,
            call_id=each.call_id,
            tool=each.tool,
            arguments=each.arguments,
            digest=digest_of(each.tool, each.arguments),
            cost=each.cost[:200],
            state=State.WAITING,
            of_person=each.of_person,
            asked_of_id=user_id,
            expires_at=expires_at,
            kind=ToolCall.Kind.YES if each.sign_in is None else ToolCall.Kind.SIGN_IN,
            sign_in=sign_ins.get(each.sign_in.public_id) if each.sign_in is not None else None,
        )
        for each, user_id in asked
    ]
    return ToolCall.objects.bulk_create(rows)


def sign_in_of(wanted: SignInWanted, user_id: int | None, expires_at: datetime) -> McpSignIn | None:
    """Return the stored sign-in of a question; None without its person or server."""
    if user_id is None or not McpServer.objects.filter(pk=wanted.server_id).exists():
        return None
    row, _ = McpSignIn.objects.get_or_create(
        public_id=wanted.public_id,
        defaults={
            "server_id": wanted.server_id,
            "user_id": user_id,
            "of_gateway": wanted.of_gateway,
            "scope": wanted.scope,
            "resource_metadata": wanted.resource_metadata,
            "expires_at": expires_at,
        },
    )
    return row


def waiting() -> QuerySet[ToolCall]:
    """Return the calls that wait for a yes, the oldest first."""
    rows = ToolCall.objects.filter(state=State.WAITING).order_by("expires_at", "id")
    return rows.select_related(*PARTS)


def locked(call: ToolCall) -> ToolCall | None:
    """Reload a call with its pause locked; None where its chat was deleted meanwhile."""
    list(RunPause.objects.select_for_update(no_key=True).filter(run_id=call.run_id))
    return ToolCall.objects.select_related(*PARTS).filter(pk=call.pk).first()


def allow(*, call: ToolCall, by: int, scope: str, arguments: str | None = None) -> None:
    """Allow a waiting call, with other ``arguments`` where they were edited, and store what the yes
    holds for besides. Inside a transaction that has it :func:`locked`.
    """
    call.state, call.decided_by_id, call.scope = State.ALLOWED, by, scope
    call.decided_at = transactions.now()
    if arguments is not None and digest_of(call.tool, arguments) != call.digest:
        call.arguments, call.edited = arguments, True
        call.digest = digest_of(call.tool, arguments)
    call.save()
    if scope in GRANTING:
        grant(call, by=by, scope=scope)
    go_on([call.run_id])


def grant(call: ToolCall, *, by: int, scope: str) -> None:
    """Store that later calls of the tool by the person need no yes."""
    is_hour = scope == ToolCall.Scope.HOUR
    until = transactions.now() + HOUR if is_hour else None
    ToolGrant.objects.update_or_create(
        user_id=call.run.user_id,
        tool=call.tool,
        session_id=call.run.session_id if is_hour else None,
        defaults={"until": until, "created_by_id": by},
    )


def deny(*, call: ToolCall, by: int) -> None:
    """Deny a waiting call. Inside a transaction that has it :func:`locked`."""
    call.state, call.decided_by_id, call.decided_at = State.DENIED, by, transactions.now()
    call.save(update_fields=["state", "decided_by", "decided_at"])
    go_on([call.run_id])


OVER = Instances(lambda: waiting().filter(expires_at__lte=Param("now", DateTimeField()))[:AT_ONCE])


def expire(*, now: datetime, show: Callable[[ToolCall], None]) -> None:
    """End the questions without an answer in time; ``show`` is called for each. A chore."""
    for call in OVER.all(now=now):
        with atomic_write():
            row = locked(call)
            if row is None or row.state != State.WAITING:
                continue
            row.state, row.decided_at = State.EXPIRED, now
            row.save(update_fields=["state", "decided_at"])
            go_on([row.run_id])
            show(row)


def withdraw(*, session_id: int | None = None, user_id: int | None = None) -> list[ToolCall]:
    """Take back the questions of a conversation or of a person: their runs are not continued.

    Inside a transaction. Returns the calls.
    """
    rows = waiting()
    if session_id is not None:
        rows = rows.filter(run__session=session_id)
    if user_id is not None:
        rows = rows.filter(run__user=user_id)
    taken = []
    for call in rows:
        row = locked(call)
        if row is not None and row.state == State.WAITING:
            row.state, row.decided_at = State.WITHDRAWN, transactions.now()
            row.save(update_fields=["state", "decided_at"])
            taken.append(row)
    return taken


def go_on(run_ids: Iterable[int]) -> None:
    """Queue the runs that go on with paused ones, of which no question is open any more.

    Inside a transaction that has the pauses locked. One with a withdrawn question is not continued.
    """
    rows = RunPause.objects.filter(run_id__in=run_ids, continued_by=None)
    ends = ToolCall.objects.filter(run=OuterRef("run"), state__in=(State.WAITING, State.WITHDRAWN))
    for each in rows.exclude(Exists(ends)).select_related("run__session__user"):
        run = following(each.run)
        run.save()
        each.continued_by = run
        each.save(update_fields=["continued_by"])
        transactions.after_commit(wakeups.run, run.pk)


def following(run: Run) -> Run:
    """Return the run that goes on with a paused one, which is not stored yet."""
    known = catalogue.current()
    chosen = assistants.choose(
        known,
        assistants.requester_in(run.session, key_id=run.via_key),
        assistant_id=run.assistant_id,
        model_id=run.model_id,
    )
    is_same = chosen.assistant.id == run.assistant_id
    return Run(
        session=run.session,
        user_id=run.user_id,
        origin=run.origin,
        route=traces.inherited(run),
        options=options_of(run),
        via_key=run.via_key,
        assistant_id=chosen.assistant.id,
        assistant_version=run.assistant_version if is_same else chosen.assistant.version,
        model_id=chosen.model_id,
        text=run.text,
    )


def options_of(run: Run) -> RunOptions:
    """Return the options of the run that goes on with a paused one: without a client's own tools,
    whose response has ended: a call of one would leave no answer.
    """
    options = run.options.copy()
    options.pop("tools", None)
    given = options.get("model_options") or {}
    if "tool_choice" in given:
        left = {name: value for name, value in given.items() if name != "tool_choice"}
        options["model_options"] = left
    return {**options, "continues": run.pk}


@dataclass(frozen=True, slots=True)
class Kept:
    """The part of a turn that an earlier run or attempt left.

    ``messages``: those that the paused run had added, ``asked``: its calls that waited for a yes.
    ``made``: calls of earlier attempts of this run that were begun, or denied.
    """

    messages: list[ChatMessage] = field(default_factory=list)
    asked: list[ToolCall] = field(default_factory=list)
    made: list[ToolCall] = field(default_factory=list)


def kept_for(run: Run) -> Kept:
    """Return what a claimed run goes on with. May block on the database.

    The messages name the arguments with which the calls were allowed.
    """
    made: list[ToolCall] = []
    if run.attempt > 1:
        made += ToolCall.objects.filter(run=run).exclude(state=State.WAITING).order_by("id")
    paused = run.options.get("continues")
    before = RunPause.objects.filter(run_id=paused).first() if paused else None
    if before is None:
        return Kept(made=made)
    rows = ToolCall.objects.filter(run_id=before.run_id, expires_at__isnull=False)
    asked = list(rows.order_by("id"))
    edited = {each.call_id: each.arguments for each in asked if each.edited}
    return Kept([with_arguments(each, edited) for each in before.messages], asked, made)


def with_arguments(message: ChatMessage, edited: dict[str, str]) -> ChatMessage:
    """Return a message with the arguments that were edited (by the id of the call)."""
    if not edited or not message.get("tool_calls"):
        return message
    calls = [
        {**each, "function": {**each["function"], "arguments": edited[each["id"]]}}
        if each["id"] in edited
        else each
        for each in message["tool_calls"]
    ]
    return {**message, "tool_calls": calls}


def start(*, run: Run, call_id: str, tool: str, arguments: str, idempotent: bool) -> ToolCall:
    """Store that a call leaves now; return its row: ``started`` if this attempt may make it.

    Else it was denied, is over, or may have happened (``unsure``). Raises
    LostLeaseError when the run belongs to another worker.
    """
    with atomic_write():
        check_fence(run)
        runs = [run.pk, run.options.get("continues") or 0]
        row = ToolCall.objects.filter(run__in=runs, call_id=call_id).first()
        row = row or unsure_twin(run, tool, arguments)
        if row is None:
            row = ToolCall(
                run=run,
                call_id=call_id,
                tool=tool,
                arguments=arguments,
                digest=digest_of(tool, arguments),
                state=State.ALLOWED,
            )
        if row.state == State.STARTED:
            is_own = (row.carried_out_in_id, row.attempt) == (run.pk, run.attempt)
            if idempotent and not is_own:  # the same attempt makes a call once
                row.state = State.ALLOWED
            else:
                row.state, row.finished_at = State.UNSURE, transactions.now()
        if row.state == State.ALLOWED:
            row.state, row.started_at = State.STARTED, transactions.now()
            row.carried_out_in, row.attempt = run, run.attempt
        row.save()
    return row


def unsure_twin(run: Run, tool: str, arguments: str) -> ToolCall | None:
    """Return the same call, of this run or before its pauses, that may have happened."""
    runs, options = [run.pk], run.options
    while before := options.get("continues"):
        runs.append(before)
        options = Run.objects.filter(pk=before).values_list("options", flat=True).first() or {}
    rows = ToolCall.objects.filter(run__in=runs, digest=digest_of(tool, arguments))
    return rows.filter(state=State.UNSURE).first()


def check_fence(run: Run) -> None:
    """Raise LostLeaseError unless this attempt of a run is the one that runs."""
    rows = Run.objects.select_for_update(no_key=True).filter(
        pk=run.pk, attempt=run.attempt, state=Run.State.RUNNING
    )
    if not rows.values_list("pk"):
        raise LostLeaseError(run.pk)


def finish(*, call: ToolCall, result: Stored | None) -> None:
    """Store the result of a started call; None: it had none in time, and is ``unsure``."""
    state = State.UNSURE if result is None else State.DONE
    data: dict[str, Any] | None = None
    if result is not None:
        data = {each.name: getattr(result, each.name) for each in fields(Stored)}
        data["text"] = result.text[:RESULT_CHARACTERS]
        data["sign_in"] = result.sign_in and asdict(result.sign_in)
    with atomic_write():
        rows = ToolCall.objects.filter(
            pk=call.pk,
            state=State.STARTED,
            attempt=call.attempt,
            carried_out_in=call.carried_out_in_id,
        )
        rows.update(state=state, result=data, finished_at=Now())


def left() -> QuerySet[ToolCall]:
    """Return the calls without a result whose attempt has ended, and whose run does not go on."""
    going_on = Run.objects.filter(id=OuterRef("carried_out_in"), state__in=Run.UNFINISHED)
    return ToolCall.objects.filter(state=State.STARTED).exclude(Exists(going_on))


LEFT = Values(lambda: left().values_list("pk")[:AT_ONCE])


def close_left() -> int:
    """Mark the calls whose attempt ended without their result as unsure; return how many. A chore.

    Those of a run that goes on are settled by its next attempt.
    """
    ids = LEFT.column()
    if not ids:
        return 0
    with atomic_write():
        rows = ToolCall.objects.filter(pk__in=ids, state=State.STARTED)
        return rows.update(state=State.UNSURE, finished_at=Now())


GRANTS = transactions.FarTimes(lambda: ToolGrant.objects.exclude(until=None), "until")
QUESTIONS = transactions.FarTimes(
    lambda: ToolCall.objects.filter(state=State.WAITING), "expires_at"
)


def bring_near() -> None:
    """Shorten the validity of questions, and of each yes for an hour, that a clock set back left
    far ahead.
    """
    GRANTS.bring_near(most=HOUR)
    QUESTIONS.bring_near(most=timedelta(hours=settings.TOOL_QUESTION_HOURS))
