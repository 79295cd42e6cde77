"""Threads of AG-UI clients: their messages go into the inbox, and come back as a snapshot."""

from dataclasses import dataclass, field
from typing import Any

from django.db.models import Q
from django.db.models.fields.json import KT

from channels_app.asgi.builtin_accounts import builtin_account
from channels_app.asgi.http import RefusedError
from channels_app.asgi.principal import Principal
from channels_app.client_api import chats, tool_questions
from channels_app.client_api.acceptance import Ask, Said
from channels_app.client_api.ag_ui.adapter import Frame, unique
from channels_app.client_api.ag_ui.fields import Asked
from channels_app.client_api.tool_questions import Question
from channels_app.intake.inbound import Receipt
from core.conversations import runs
from core.conversations.inbox import RepeatKey, body_digest
from core.models import ChatSession, InboundMessage, Message, Run

ORIGIN = "ag-ui"
MOST_MESSAGES = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """A thread to reconnect to. ``name``: the client's id of the run; without a run ``questions``
    are those that wait.
    """

    run: Run | None
    name: str
    state: object
    snapshot: Frame
    questions: list[Question] = field(default_factory=list)


def repeat_of(caller: Principal, asked: Asked) -> RepeatKey:
    """Return the key by which a request with the same ``runId`` in a thread is the same run."""
    scope = f"ag-ui:{caller.person.pk}"
    return RepeatKey(scope, body_digest(asked.thread, asked.run_id), "runId", asked.digest)


def is_repeated(caller: Principal, asked: Asked) -> bool:
    """Return whether a request with its ``runId`` was accepted before. May block."""
    known = repeat_of(caller, asked).stored("")
    rows = InboundMessage.objects.filter(account=builtin_account(ORIGIN))
    return rows.filter(external_update_id=known).exists()


def kept(asked: Asked) -> dict[str, Any]:
    """Return what is kept with the run of a request."""
    named = {"run": asked.run_id, "message": asked.message_id}
    return {"ag_ui": named if asked.state is None else {**named, "state": asked.state}}


def accept(caller: Principal, asked: Asked) -> Receipt:
    """Put the message into the inbox. Raises RefusedError."""
    context = {"context": asked.context} if asked.context else {}
    ask = Ask(
        model="",
        messages=asked.messages,
        sends_history=asked.history,
        tools=asked.tools,
        more={**kept(asked), **context},
    )
    repeat = repeat_of(caller, asked)
    return chats.accept(
        caller,
        Said.of(ask),
        origin=ORIGIN,
        chat=asked.thread,
        wanted=asked.wanted,
        repeat=repeat,
    )


def look_up(caller: Principal, thread: str, *, name: str, is_cut: bool) -> Found:
    """Return the thread and the run to go on with: that with the client's id ``name``, else the
    open one, else, for a stream that ``is_cut``, the newest. Raises RefusedError 404.
    """
    session = chats.session_of(caller.person, ORIGIN, thread)
    if session is None:
        raise RefusedError(404, "This thread does not exist.", field="threadId")
    rows = Run.objects.filter(session=session)
    if name:
        # A run that goes on after a decision elsewhere has the name of the first, which is older.
        named = rows.filter(Q(options__ag_ui__run=name) | Q(public_id=name))
        run = named.order_by("id").first()
        if run is None:
            raise RefusedError(404, "This run does not exist.", field="runId")
    else:
        run = runs.open_of([session.pk]).get(session.pk)
    last = run or rows.order_by("-id").first()
    if run is None and is_cut:
        run = last
    questions = [] if run is not None else tool_questions.waiting_in(session, caller)
    return Found(
        run=run,
        name=name_of(last) if last is not None else thread,
        state=(last.options.get("ag_ui") or {}).get("state") if last is not None else None,
        snapshot=snapshot_of(session, run, questions),
        questions=questions,
    )


def name_of(run: Run) -> str:
    """Return the client's id of a run; for one that it did not ask for, the gateway's own."""
    given = run.options.get("ag_ui") or {}
    is_asked = tool_questions.is_followed(run)
    return str(given.get("run") or run.public_id) if is_asked else run.public_id


def snapshot_of(session: ChatSession, run: Run | None, questions: list[Question]) -> Frame:
    """Return the messages of a thread, without the answer of ``run``, which follows; and the calls
    that wait for a yes.
    """
    rows = Message.objects.filter(session=session, id__gt=session.history_from)
    if run is not None:
        rows = rows.exclude(run=run, role="assistant")
    # Not the run itself: it has the whole history that its client sent.
    newest = rows.annotate(given=KT("run__options__ag_ui__message")).order_by("-id")
    fields = newest.values_list("id", "role", "text", "given")[:MOST_MESSAGES]
    messages = [message_of(*row) for row in reversed(fields)]
    if questions:
        messages.append(asked_by(questions))
    return {"type": "MESSAGES_SNAPSHOT", "messages": messages}


def message_of(number: int, role: str, text: str, given: str | None) -> Frame:
    """Return a stored message; the person's by the client's own id, if it is ``given``."""
    name = given if given and role == "user" else f"message-{number}"
    return {"id": name, "role": "user" if role == "user" else "assistant", "content": text}


def asked_by(questions: list[Question]) -> Frame:
    """Return the message with the calls that wait for a yes."""
    calls = [
        {
            "id": unique(each.call_id, each.run_id),
            "type": "function",
            "function": {"name": each.tool, "arguments": each.arguments},
        }
        for each in questions
    ]
    return {"id": f"{questions[0].run_id}:asked", "role": "assistant", "toolCalls": calls}
