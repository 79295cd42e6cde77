"""Calls of tools in the web chat: the cards of those that wait, and the decision of their person or
an owner.
"""

from typing import Any

from django.utils import timezone

from channels_app.asgi.http import RefusedError
from channels_app.asgi.principal import Principal
from channels_app.owner import call_arguments, tool_decisions, waiting_calls
from channels_app.webchat import frames
from core.lib.ids import is_public_id
from core.models import ToolCall, User

SHOWN_CALLS = 10
MISSING = "This request does not exist."


def waiting_cards(principal: Principal) -> list[dict[str, Any]]:
    """Return the cards of the newest calls that the user of a browser can decide."""
    if principal.user is None or not principal.session_key:
        return []
    user = principal.user
    rows = waiting_calls.of_user(user)[-SHOWN_CALLS:]
    return [{"type": "notice", **waiting_calls.card(call, user)} for call in rows]


def decide(frame: frames.DecideCall, *, principal: Principal) -> dict[str, Any]:
    """Carry out a decision; return the card's new state. Raises RefusedError 404.

    A card keeps its buttons after a mistake, with ``problem``.
    """
    user = principal.user
    if user is None or not principal.session_key:
        raise RefusedError(404, MISSING, field="tool_call")
    user.refresh_from_db(fields=["is_owner", "is_active"])
    call = call_of(frame.tool_call)
    try:
        arguments = None if frame.arguments is None else call_arguments.edited(frame.arguments)
    except call_arguments.ArgumentsError as error:
        return again(call, user, str(error))
    outcome = tool_decisions.decide(
        call_id=call.public_id,
        digest=frame.digest,
        by=user,
        choice=frame.choice,
        arguments=arguments,
        now=timezone.now(),
    )
    if outcome.outcome == "not_yours":
        raise RefusedError(404, MISSING, field="tool_call")
    if outcome.outcome == "changed":
        return again(call_of(frame.tool_call), user, outcome.text)
    return {"type": "notice", **waiting_calls.settled(call, outcome.text)}


def call_of(public_id: str) -> ToolCall:
    """Return a call. Raises RefusedError 404."""
    rows = ToolCall.objects.select_related("run__user", "run__session__account", "asked_of")
    found = rows.filter(public_id=public_id).first() if is_public_id(public_id) else None
    if found is None:
        raise RefusedError(404, MISSING, field="tool_call")
    return found


def again(call: ToolCall, user: User, problem: str) -> dict[str, Any]:
    """Return the card of a call as it is now, with what is wrong. Raises RefusedError 404 for one
    that the user cannot decide.
    """
    if not waiting_calls.choices_for(call, user):
        raise RefusedError(404, MISSING, field="tool_call")
    return {"type": "notice", **waiting_calls.card(call, user), "problem": problem}
