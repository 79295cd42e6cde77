"""Answers of AG-UI clients to interrupts: checked by the protocol's rules, then decided."""

from collections.abc import Mapping
from dataclasses import dataclass, field

import orjson
from django.utils import timezone

from channels_app.asgi.principal import Principal
from channels_app.client_api import chats, tool_questions
from channels_app.client_api.ag_ui import adapter, threads
from channels_app.client_api.ag_ui.fields import Asked, Reply
from channels_app.client_api.ag_ui.threads import ORIGIN
from channels_app.client_api.tool_questions import Answer, Question
from channels_app.tool_requests import deciding
from channels_app.tool_requests.deciding import Choice
from core.models import Run, ToolCall

UNKNOWN = "There is no such interrupt in this thread."
LEFT_OPEN = "resume must answer every open interrupt of the run."
MUST_RESUME = "This thread has open interrupts: send resume."
NOT_BY_SCHEMA = "The payload does not follow responseSchema."


@dataclass(frozen=True, slots=True)
class Outcome:
    """The result of answers: an error, the next run, or open questions; nothing when taken back."""

    problem: adapter.Frame | None = None
    run: Run | None = None
    open: list[Question] = field(default_factory=list)


def problem_of(caller: Principal, asked: Asked) -> adapter.Frame | None:
    """Return the error of a request that leaves the open interrupts of its thread out; None for any
    other, and for one that was accepted before.
    """
    if asked.resume or not tool_questions.are_waiting_of(caller):
        return None
    if threads.is_repeated(caller, asked):
        return None
    session = chats.session_of(caller.person, ORIGIN, asked.thread)
    if session is None or not tool_questions.waiting(caller, run__session=session):
        return None
    return adapter.error(MUST_RESUME, "interrupt_open")


def resume(caller: Principal, asked: Asked) -> Outcome:
    """Carry out the answers of a request."""
    session = chats.session_of(caller.person, ORIGIN, asked.thread)
    ids = [each.id for each in asked.resume]
    rows = tool_questions.found(ids, session) if session is not None else {}
    if not rows or set(ids) - set(rows):
        return Outcome(adapter.error(UNKNOWN, "interrupt_unknown"))
    [paused] = {row.run_id for row in rows.values()}
    answered = {row.public_id for row in rows.values()}
    open_ones = tool_questions.waiting(caller, run=paused)
    if any(tool_questions.known_id(each.id) not in answered for each in open_ones):
        return Outcome(adapter.error(LEFT_OPEN, "interrupt_open"))
    answers = answers_of(asked.resume, rows, caller)
    if answers is None:
        return Outcome(adapter.error(NOT_BY_SCHEMA, "interrupt_payload"))
    more = threads.kept(asked)
    found = tool_questions.answer(rows, answers, caller=caller, now=timezone.now(), more=more)
    given = {each.id for each in asked.resume if not each.is_cancelled}
    for name, outcome in found.problems.items():
        if name in given:
            return Outcome(adapter.error(deciding.TEXTS[outcome], f"interrupt_{outcome}"))
    return Outcome(None, found.run, found.open)


def answers_of(
    replies: list[Reply], rows: Mapping[str, ToolCall], caller: Principal
) -> list[Answer] | None:
    """Return the answers; None if a payload is not what its question asks for."""
    found = []
    for each in replies:
        question = tool_questions.question_of(rows[each.id], caller)
        if each.is_cancelled:
            found.append(Answer(id=each.id, choice="deny", withdraws=True))
        elif not question.may_answer:
            found.append(Answer(id=each.id, choice=None))
        elif (answer := answer_of(each, question)) is not None:
            found.append(answer)
        else:
            return None
    return found


def answer_of(reply: Reply, question: Question) -> Answer | None:
    """Return the answer in a payload; None if it does not follow the question's schema."""
    given = reply.payload if isinstance(reply.payload, dict) else {}
    scope, edited = given.get("scope", "once"), given.get("editedArgs")
    if not isinstance(given.get("approved"), bool) or scope not in question.choices:
        return None
    if edited is not None and not (question.may_edit and isinstance(edited, dict)):
        return None
    choice: Choice = scope if given["approved"] else "deny"
    arguments = orjson.dumps(edited).decode() if edited is not None and choice != "deny" else None
    return Answer(id=reply.id, choice=choice, arguments=arguments)
