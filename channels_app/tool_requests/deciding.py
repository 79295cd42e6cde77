"""Decide whether a tool may be used: once, by who was asked, about the very arguments shown."""

from dataclasses import dataclass
from datetime import datetime
from typing import Literal
from urllib.parse import urlencode

import orjson
from django.conf import settings

from allowlist import audit, pending_count, tool_rights
from channels_app.schedules.rights import is_group
from channels_app.tool_requests import asking, asking_elsewhere
from core.agent.calling import parsed
from core.conversations import tool_calls
from core.database.transactions import atomic_write
from core.lib.ids import is_public_id
from core.lib.text import one_line
from core.models import ToolCall, User
from core.providers import catalogue
from core.tools import phrases
from core.tools import rules as tool_rules
from core.tools.mcp import offered
from core.tools.mcp.oauth import sign_ins

State = ToolCall.State
Choice = Literal["once", "hour", "always", "deny"]
CHOICES: tuple[Choice, ...] = ("once", "hour", "always", "deny")
Outcome = Literal[
    "allowed",
    "denied",
    "already",
    "expired",
    "withdrawn",
    "gone",
    "changed",
    "not_yours",
    "invalid",
    "sign_in",
]
TEXTS: dict[str, str] = {
    "allowed": "Allowed.",
    "denied": "Denied.",
    "already": "This was decided already.",
    "expired": "Too late: the question has expired.",
    "withdrawn": "The question was taken back.",
    "gone": "This question does not exist any more.",
    "changed": "The call has changed since: look at it again.",
    "not_yours": "Only the owner can decide.",
    "edit": "The page for it is in the chat.",
    "invalid": "The arguments must be a JSON object.",
    "sign_in": "This waits for a sign-in: open its link.",
}
# Of a question that is over, in its place.
SHOWN = {
    State.ALLOWED: "✓ Allowed.",
    State.DENIED: "✗ Denied.",
    State.EXPIRED: TEXTS["expired"],
    State.WITHDRAWN: TEXTS["withdrawn"],
}
SHOWN_OF_SIGN_IN = {**SHOWN, State.ALLOWED: "✓ Signed in.", State.DENIED: "✗ Not signed in."}
LONGEST_ARGUMENTS = 50_000


@dataclass(frozen=True, slots=True)
class Decision:
    """The outcome of a decision; ``text`` is the sentence to show, in English."""

    outcome: Outcome
    call: ToolCall | None = None

    @property
    def text(self) -> str:
        """Return the sentence to show."""
        return TEXTS[self.outcome]


def decide(
    *,
    call_id: str,
    digest: str,
    by: User,
    choice: Choice,
    via: str,
    now: datetime,
    arguments: str | None = None,
) -> Decision:
    """Decide a question; ``call_id`` is its public id, ``digest`` (16 characters or more) of the
    call as it was shown, ``arguments`` a JSON object that replaces the call's.

    The first decision counts. With the last one of a run the run goes on. ``via``: for the record.
    """
    found = ToolCall.objects.filter(public_id=call_id).first() if is_public_id(call_id) else None
    if found is None:
        return Decision("gone")
    with atomic_write():
        row = tool_calls.locked(found)
        if row is None:
            return Decision("gone")
        outcome = judged(row, digest=digest, by=by, now=now)
        if outcome is None and row.kind == ToolCall.Kind.SIGN_IN and choice != "deny":
            outcome = "sign_in"
        if outcome is None and arguments is not None and not is_object(arguments):
            outcome = "invalid"
        if outcome is None and not tool_rights.may_go_on(
            row.run, is_group=is_group(row.run.session), now=now
        ):
            for each in tool_calls.withdraw(session_id=row.run.session_id):
                show(each)
            outcome = "gone"
        if outcome is not None:
            return Decision(outcome, row)
        if choice == "deny":
            for each in [row, *end_sign_in(row)]:
                tool_calls.deny(call=each, by=by.pk)
                show(each)
        else:
            is_enough = choice == "once" and arguments is None and asks_only_first(row)
            wanted = "always" if is_enough else choice
            scope = wanted if asking.may_last(row) else "once"
            tool_calls.allow(call=row, by=by.pk, scope=scope, arguments=arguments)
            show(row)
        record(row, by=by, via=via, now=now)
    return Decision("denied" if choice == "deny" else "allowed", row)


def known_choice(word: str) -> Choice | None:
    """Return a word as a decision about a call; None for any other word."""
    return next((each for each in CHOICES if each == word), None)


def end_sign_in(row: ToolCall) -> list[ToolCall]:
    """End a call's sign-in; return the run's other calls that waited for it. In the transaction
    that has the call locked.
    """
    if row.sign_in is None:
        return []
    sign_ins.end(row.sign_in)
    rows = ToolCall.objects.filter(run=row.run_id, sign_in=row.sign_in, state=State.WAITING)
    return list(rows.exclude(pk=row.pk))


def asks_only_first(row: ToolCall) -> bool:
    """Return whether the tool asks until the first yes for a person: then a plain one is for ever.

    One to other arguments than those that were asked about is not.
    """
    rule = tool_rules.rule_of(catalogue.current(), tool_rules.where(row.run), row.tool)
    if rule is not None:
        return rule.ask == "first"
    tool = offered.named(row.tool)
    return tool is not None and tool.ask == "first"


def judged(row: ToolCall, *, digest: str, by: User, now: datetime) -> Outcome | None:
    """Return why somebody may not decide a call; None if they may."""
    if not may_decide(row, by):
        return "not_yours"
    if row.state == State.WITHDRAWN:
        return "withdrawn"
    if row.state == State.EXPIRED or (row.state == State.WAITING and is_over(row, now)):
        return "expired"
    if row.state != State.WAITING:
        return "already"
    is_same = len(digest) >= asking.DIGEST_CHARACTERS and row.digest.startswith(digest)
    return None if is_same else "changed"


def may_decide(row: ToolCall, user: User) -> bool:
    """Return whether a person may answer: an owner, or for their own call, the person asked."""
    if not user.is_active:
        return False
    return row.asked_of_id == user.pk if row.of_person else user.is_owner


def is_over(row: ToolCall, now: datetime) -> bool:
    return row.expires_at is not None and row.expires_at <= now


def is_object(arguments: str) -> bool:
    """Return whether edited arguments are a JSON object of a bearable length."""
    if len(arguments) > LONGEST_ARGUMENTS:
        return False
    try:
        return isinstance(parsed(arguments), dict)
    except (orjson.JSONDecodeError, orjson.JSONEncodeError):
        return False


def show(row: ToolCall) -> None:
    """Show what became of a question in its place. Inside a transaction."""
    user = row.asked_of
    language = asking.language_of(user) if user is not None else ""
    asking.settle(row, settled_text(row, language))
    pending_count.changed()


def settled_text(row: ToolCall, language: str) -> str:
    """Return a question that is over with what became of it; one that was allowed may be made."""
    shown = SHOWN_OF_SIGN_IN if row.kind == ToolCall.Kind.SIGN_IN else SHOWN
    line = shown.get(State(row.state), shown[State.ALLOWED])
    return f"{asking.text_of(row, language)}\n\n{phrases.in_language(line, language)}"


def record(row: ToolCall, *, by: User, via: str, now: datetime) -> None:
    """Write a decision into the audit log: without the arguments, which may be private."""
    audit.record(
        actor=by.username,
        action=f"tool.{row.state}",
        subject=one_line(row.tool, 100),
        data={
            "via": via,
            "call": row.public_id,
            "person": row.run.user.username,
            "scope": row.scope,
            "edited": row.edited,
            "hash": row.digest,
        },
        now=now,
    )


def withdraw(*, session_id: int) -> int:
    """Take back the questions of a conversation; return how many."""
    with atomic_write(joins=True):
        taken = tool_calls.withdraw(session_id=session_id)
        for row in taken:
            show(row)
    return len(taken)


def look(*, now: datetime) -> None:
    """End the questions that expired, and calls that were left without a result; ask elsewhere what
    could not be delivered. A chore.
    """
    tool_calls.expire(now=now, show=show)
    asking_elsewhere.look()
    tool_calls.close_left()
    sign_ins.purge(now=now)


def page_link(call_id: str) -> str:
    """Return the address of the page where a call is edited; empty when it is gone."""
    row = ToolCall.objects.filter(public_id=call_id).first() if is_public_id(call_id) else None
    if row is None:
        return ""
    return f"{settings.GATEWAY_URL}/sign-in?{urlencode({'next': asking.page_of(row)})}"
