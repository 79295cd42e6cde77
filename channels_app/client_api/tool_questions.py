"""Questions whether a tool may be used, for clients: the run that asks ends with them, a later
request answers them, and the run that goes on is followed (decision 204).

A person's own question is answered with their key. One for an owner needs an owner's key with the
scope ``admin:requests``, as the owner's commands do; all others learn that it waits.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from allowlist.models import ApiKey
from channels_app.asgi.principal import Principal
from channels_app.client_api.run_adapter import Frame, RunAdapter, RunConfig
from channels_app.tool_requests import asking, deciding
from channels_app.tool_requests.deciding import Choice, Outcome
from core.conversations import tool_calls
from core.database.transactions import atomic_write
from core.lib.ids import is_public_id
from core.models import ChatSession, Run, RunOptions, RunPause, ToolCall
from core.tools.mcp.oauth.pages import sign_in_page

State = ToolCall.State
VIA = "API"
ID_CHARACTERS = 22 + 1 + asking.DIGEST_CHARACTERS
CHOICES: tuple[Choice, ...] = ("once", "hour", "always")


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """A call that waits, or waited, for a yes. ``id``: for the client's answer, bound to the call's
    hash. ``text``: for the person. ``may_answer``: whether this client's key decides it.
    ``sign_in``: the page where the client's person signs in, which is the only yes. ``may_last``:
    whether a yes may hold for later calls, too.
    """

    id: str
    call_id: str
    tool: str
    arguments: str
    text: str
    cost: str
    of_person: bool
    may_answer: bool
    may_edit: bool
    state: str
    expires_at: datetime | None
    run_id: str
    sign_in: str = ""
    may_last: bool = True

    @property
    def choices(self) -> tuple[Choice, ...]:
        """Return for how long a yes may hold."""
        if not self.may_last:
            return ("once",)
        return ("once", "always") if self.of_person else CHOICES

    @property
    def asked_of(self) -> str:
        """Return who is asked: the person or the owner."""
        return "person" if self.of_person else "owner"


class AskingAdapter(RunAdapter[Frame]):
    """An adapter that shows the ``questions`` with which its run ended."""

    def __init__(self, config: RunConfig) -> None:
        super().__init__(config)
        self.questions: list[Question] = []


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """A client's answer. ``choice``: None leaves the question as it is; ``arguments``: a JSON
    object that replaces the call's. ``withdraws``: the questions of the conversation are taken
    back, as by ``/stop``, if this one is not the client's to answer.
    """

    id: str
    choice: Choice | None
    withdraws: bool = False
    arguments: str | None = None


@dataclass(frozen=True, slots=True)
class Before:
    """The run before a pause: its public id, and the states of its calls with questions, by id."""

    run_id: str = ""
    calls: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Resumed:
    """The outcome of answers. ``run``: the run that goes on; None while questions are open, or when
    they were withdrawn. ``problems``: those that were not decided, by id of the question.
    """

    run: Run | None
    open: list[Question]
    problems: dict[str, Outcome]


def of_run(run: Run, caller: Principal) -> list[Question]:
    """Return the questions with which a run ended, decided or not. May block on the database."""
    rows = list(ToolCall.objects.filter(run=run, expires_at__isnull=False).order_by("id"))
    for row in rows:
        row.run = run  # a run has the history that its client sent: it is not read again
    return [question_of(row, caller) for row in rows]


def are_waiting_of(caller: Principal) -> bool:
    """Return whether any question of a person waits. May block on the database."""
    return ToolCall.objects.filter(state=State.WAITING, run__user=caller.person).exists()


def waiting(caller: Principal, **where: object) -> list[Question]:
    """Return the open questions of a run or a conversation (``run__session``). May block."""
    rows = tool_calls.waiting().filter(**where).order_by("id")
    return [question_of(row, caller) for row in rows]


def question_of(row: ToolCall, caller: Principal) -> Question:
    """Return a stored question as this client sees it."""
    may = may_answer(row, caller) and row.kind != ToolCall.Kind.SIGN_IN
    user = caller.person
    text, page = asking.text_of(row, asking.language_of(user)), sign_in_of(row, caller)
    return Question(
        id=f"{row.public_id}.{row.digest[: asking.DIGEST_CHARACTERS]}",
        call_id=row.call_id,
        tool=row.tool,
        arguments=row.arguments,
        text=f"{text}\n{page}" if page else text,
        cost=row.cost,
        of_person=row.of_person,
        may_answer=may,
        may_edit=may and not row.of_person,
        state=row.state,
        expires_at=row.expires_at,
        run_id=row.run.public_id,
        sign_in=page,
        may_last=not may or asking.may_last(row),
    )


def sign_in_of(row: ToolCall, caller: Principal) -> str:
    """Return the caller's sign-in page for a call; empty if it waits for nothing of theirs."""
    if row.kind != ToolCall.Kind.SIGN_IN or row.sign_in is None:
        return ""
    return sign_in_page(row.sign_in.public_id) if row.sign_in.user == caller.user else ""


def may_answer(row: ToolCall, caller: Principal) -> bool:
    """Return whether a key decides a question; one to sign in can only be denied."""
    user = caller.user
    if user is None or not deciding.may_decide(row, user):
        return False
    return row.of_person or ApiKey.Scope.ADMIN_REQUESTS in caller.scopes


def known_id(value: object) -> str:
    """Return the public id of the call in the id of a question; empty for another text."""
    if not isinstance(value, str) or len(value) != ID_CHARACTERS:
        return ""
    public, dot, _ = value.partition(".")
    return public if dot and is_public_id(public) else ""


def found(ids: Sequence[str], session: ChatSession) -> dict[str, ToolCall]:
    """Return the calls of a conversation that ids of questions name; of several runs, those of the
    newest. May block on the database.
    """
    public = {known_id(each): each for each in ids}
    rows = ToolCall.objects.filter(public_id__in=public, run__session=session)
    rows = rows.exclude(expires_at=None).select_related("run__user", "run__session__account")
    newest = max((row.run_id for row in rows), default=0)
    return {public[row.public_id]: row for row in rows if row.run_id == newest}


def answer(
    rows: Mapping[str, ToolCall],
    answers: Sequence[Answer],
    *,
    caller: Principal,
    now: datetime,
    more: RunOptions | None = None,
) -> Resumed:
    """Decide the questions ``rows`` (by the ids of their answers), which a run ended with; return
    the run that goes on. ``more``: options of that run.

    The first decision counts, wherever it was made; answers to others' questions decide nothing.
    """
    problems: dict[str, Outcome] = {}
    [paused] = {row.run_id for row in rows.values()}
    user = caller.person
    with atomic_write():
        before = follower(paused)
        for each in answers:
            row = rows[each.id]
            if each.withdraws and not may_answer(row, caller):
                deciding.withdraw(session_id=row.run.session_id)
            if each.choice is None or not may_answer(row, caller):
                continue
            decision = deciding.decide(
                call_id=row.public_id,
                digest=each.id.partition(".")[2],
                by=user,
                choice=each.choice,
                via=VIA,
                now=now,
                arguments=each.arguments,
            )
            if decision.outcome not in ("allowed", "denied", "already"):
                problems[each.id] = decision.outcome
        run = follower(paused)
        if run is not None and before is None:
            run.options = {**run.options, "resumed_by_client": paused, **(more or {})}
            run.save(update_fields=["options"])
    if "expired" in problems.values():
        deciding.look(now=now)  # the run goes on without the call
        run = follower(paused)
    return Resumed(run, waiting(caller, run=paused), problems)


def follower(run_id: int) -> Run | None:
    """Return the run that goes on with a paused one; None while there is none."""
    rows = RunPause.objects.filter(run=run_id).select_related(
        "continued_by__session__account", "continued_by__user"
    )
    pause = rows.first()
    return pause.continued_by if pause is not None else None


def is_followed(run: Run) -> bool:
    """Return whether a client asked for a run itself: not for one that goes on with a paused run
    because the question was decided elsewhere.
    """
    paused = run.options.get("continues")
    return not paused or run.options.get("resumed_by_client") == paused


def before(run: Run) -> Before:
    """Return the paused run that a run goes on with. May block on the database."""
    paused = run.options.get("continues")
    if not paused:
        return Before()
    rows = ToolCall.objects.filter(run=paused, expires_at__isnull=False)
    found = list(rows.values_list("call_id", "state", "run__public_id"))
    name = found[0][2] if found else ""
    return Before(name, {call_id: state_of(state) for call_id, state, _ in found})


def state_of(state: str) -> str:
    """Return how a question was decided: allowed, denied or expired."""
    return state if state in (State.DENIED, State.EXPIRED) else State.ALLOWED
