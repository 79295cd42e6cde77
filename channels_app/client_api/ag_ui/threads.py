"""Threads of AG-UI clients: their messages go into the inbox, and come back as a snapshot."""

from dataclasses import dataclass, field
from itertools import chain

from django.db.models import QuerySet
from django.db.models.fields.json import KT

from channels_app.asgi.builtin_accounts import builtin_account
from channels_app.asgi.http import RefusedError
from channels_app.asgi.principal import Principal
from channels_app.client_api import chats, tool_questions
from channels_app.client_api.acceptance import Ask, Said
from channels_app.client_api.ag_ui.adapter import Frame, unique
from channels_app.client_api.ag_ui.fields import Asked
from channels_app.client_api.chats import Cut, Seen
from channels_app.client_api.tool_questions import Question
from channels_app.intake.inbound import Receipt
from core.conversations import sessions
from core.conversations.inbox import RepeatKey, body_digest
from core.database.transactions import atomic_write
from core.models import ChatSession, InboundMessage, Message, Run, RunOptions

ORIGIN = "ag-ui"
MOST_MESSAGES = 200
CLIENT_ID = "client_id"  # in the data of a stored message


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """A thread to reconnect to: the run with the client's id ``name``, or open ``questions``."""

    rest: Cut | None
    name: str
    state: object
    snapshot: Frame
    questions: list[Question] = field(default_factory=list)


def repeat_key(caller: Principal, thread: str, name: str, digest: str = "") -> RepeatKey:
    """Return the key by which a request with the same ``runId`` in a thread is the same run."""
    return RepeatKey(f"ag-ui:{caller.person.pk}", body_digest(thread, name), "runId", digest)


def accepted(caller: Principal, thread: str, name: str) -> QuerySet[InboundMessage]:
    """Return the message that a thread accepted under this ``runId``."""
    known = repeat_key(caller, thread, name).stored("")
    rows = InboundMessage.objects.filter(account=builtin_account(ORIGIN))
    return rows.filter(external_update_id=known).exclude(external_update_id="")


def is_repeated(caller: Principal, asked: Asked) -> bool:
    """Return whether a request with its ``runId`` was accepted before. May block."""
    return accepted(caller, asked.thread, asked.run_id).exists()


def kept(asked: Asked) -> RunOptions:
    """Return what is kept with the run of a request."""
    named: dict[str, object] = {"run": asked.run_id, "message": asked.message_id}
    return {"ag_ui": named if asked.state is None else {**named, "state": asked.state}}


def accept(caller: Principal, asked: Asked) -> Receipt:
    """Put the message into the inbox. Raises RefusedError."""
    context: RunOptions = {"client_context": asked.context} if asked.context else {}
    ask = Ask(
        model="",
        messages=asked.messages,
        sends_history=asked.history,
        tools=asked.tools,
        more={**kept(asked), **context},
    )
    with atomic_write():
        receipt = chats.accept(
            caller,
            Said.of(ask),
            origin=ORIGIN,
            chat=asked.thread,
            wanted=asked.wanted,
            repeat=repeat_key(caller, asked.thread, asked.run_id, asked.digest),
        )
        if asked.message_id and receipt.run is not None:
            keep_id(receipt.run, asked.message_id)
    return receipt


def keep_id(run: Run, message_id: str) -> None:
    """Keep the client's id of its message in the stored one, where a snapshot finds it: not in the
    run, which has the whole history that its client sent.
    """
    said = Message.objects.filter(run=run, role="user").first()
    if said is not None and CLIENT_ID not in said.data:
        said.data[CLIENT_ID] = message_id
        said.save(update_fields=["data"])


def look_up(caller: Principal, thread: str, *, name: str, seen: Seen) -> Found:
    """Return the thread and the run to go on with (:func:`chats.rest_of`): that with the client's
    id ``name``, if it gives one. Raises RefusedError 404.
    """
    session = chats.session_of(caller.person, ORIGIN, thread)
    if session is None:
        raise RefusedError(404, "This thread does not exist.", field="threadId")
    named = run_named(caller, session, thread, name) if name else None
    rest = chats.rest_of(session, seen, named)
    last = rest.run if rest else Run.objects.filter(session=session).order_by("-id").first()
    questions = [] if rest is not None else tool_questions.waiting(caller, run__session=session)
    return Found(
        rest=rest,
        name=name_of(last) if last is not None else thread,
        state=(last.options.get("ag_ui") or {}).get("state") if last is not None else None,
        snapshot=snapshot_of(session, rest.run if rest else None, questions),
        questions=questions,
    )


def run_named(caller: Principal, session: ChatSession, thread: str, name: str) -> Run:
    """Return the run with the client's id ``name``, or the gateway's. Raises RefusedError 404.

    A message's run is found by the inbox's index. A run that goes on with the answer to a question
    has no message, only its name: few are looked at.
    """
    rows = Run.objects.filter(session=session)
    ids = accepted(caller, thread, name).values_list("run_id", flat=True)
    resumed = rows.filter(continues__isnull=False, options__ag_ui__run=name)
    for found in (rows.filter(id__in=list(ids)), rows.filter(public_id=name), resumed):
        if run := found.order_by("id").first():
            return run
    raise RefusedError(404, "This run does not exist.", field="runId")


def name_of(run: Run) -> str:
    """Return the client's id of a run; for one that it did not ask for, the gateway's own."""
    given = run.options.get("ag_ui") or {}
    is_asked = tool_questions.is_followed(run)
    return str(given.get("run") or run.public_id) if is_asked else run.public_id


def snapshot_of(session: ChatSession, run: Run | None, questions: list[Question]) -> Frame:
    """Return the messages of a thread, each answer below its question, without that of ``run``,
    which follows; and the calls that wait for a yes. The words are the person's own: the contents
    of files were added for the model only.
    """
    rows = Message.objects.filter(session=session, id__gt=session.history_from)
    if run is not None:
        rows = rows.exclude(run=run, role="assistant")
    named = rows.annotate(given=KT(f"data__{CLIENT_ID}"), said=KT("data__said")).order_by("-id")
    newest = named.only("role", "text", "run_id")
    turns = sessions.in_turns(reversed(newest[:MOST_MESSAGES]))
    messages = [
        message_of(row.pk, row.role, row.text if row.said is None else row.said, row.given)
        for row in chain(*turns)
    ]
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
