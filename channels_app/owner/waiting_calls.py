"""Calls of tools that wait for a yes: their cards in web chats, and their number in the admin."""

from functools import partial
from typing import Any

from django.conf import settings
from django.db import transaction
from django.db.models import Q
from django.http import HttpRequest
from django.utils import timezone
from django.utils.http import urlencode

from allowlist import pending_count
from channels_app.owner.call_arguments import readable
from core.conversations import tool_calls
from core.lib.text import one_line
from core.models import ToolCall, User
from core.signals import pubsub

NAME_LENGTH = 60
# Not reversed: workers do not have the admin.
PAGE = "/admin/core/toolcall/{}/decide/"
# Of arguments, in a card.
SHOWN = 2000
EDIT = "edit"
OWNERS_CHOICES = ("once", "hour", "always", EDIT, "deny")
PERSONS_CHOICES = ("once", "always", "deny")


def count() -> int:
    """Return how many calls wait for a yes."""
    return tool_calls.waiting().filter(expires_at__gt=timezone.now()).count()


def count_on_page(request: HttpRequest) -> int:
    """Return the same for a page of the admin, which shows it twice."""
    kept = vars(request)
    if "waiting_calls" not in kept:
        kept["waiting_calls"] = count()
    found: int = kept["waiting_calls"]
    return found


def of_user(user: User) -> list[ToolCall]:
    """Return the calls that a user can decide, the oldest first."""
    rows = tool_calls.waiting().filter(expires_at__gt=timezone.now())
    mine = Q(asked_of=user.pk)
    return list(rows.filter(mine | Q(asked_of__is_owner=True) if user.is_owner else mine))


def choices_for(call: ToolCall, user: User) -> tuple[str, ...]:
    """Return how a user can decide a call now; none for a call of others, or one that is decided.

    A call that is asked of the person is theirs alone: no owner says yes for them.
    """
    waits = call.state == ToolCall.State.WAITING and not is_over(call)
    if not waits or not user.is_active:
        return ()
    if user.is_owner and (call.asked_of_id == user.pk or is_asked_of_owners(call)):
        return OWNERS_CHOICES
    return PERSONS_CHOICES if call.asked_of_id == user.pk else ()


def is_asked_of_owners(call: ToolCall) -> bool:
    """Return whether the owners decide a call, any of them."""
    return call.asked_of is not None and call.asked_of.is_owner


def is_over(call: ToolCall) -> bool:
    """Return whether the time to decide a call has passed."""
    return call.expires_at is None or call.expires_at <= timezone.now()


def headline(call: ToolCall) -> str:
    """Return who wants to use which tool where, on one line."""
    who = one_line(str(call.run.user), NAME_LENGTH)
    where = one_line(str(call.run.session.account), NAME_LENGTH)
    return f"{who} asks on {where} for the tool {one_line(call.tool, NAME_LENGTH)}."


def brief(call: ToolCall) -> str:
    """Return the beginning of the arguments on one line; empty for none."""
    found = one_line(call.arguments, 200)
    return "" if found in {"", "{}"} else found


def card(call: ToolCall, user: User) -> dict[str, Any]:
    """Return the card of a waiting call for a user who can decide it, with run and session read.

    ``arguments``: their readable JSON; a long one is cut, and cannot be edited in the card.
    """
    arguments, is_whole = readable(call.arguments, SHOWN)
    choices = [each for each in choices_for(call, user) if is_whole or each != EDIT]
    found: dict[str, Any] = {
        "tool_call": call.public_id,
        "digest": call.digest,
        "text": headline(call),
        "arguments": arguments if is_whole else f"{arguments}…",
        "choices": choices,
    }
    if call.cost:
        found["cost"] = one_line(call.cost, 200)
    if not is_whole and user.is_owner:
        found["page"] = page_of(call)
    return found


def settled(call: ToolCall, text: str) -> dict[str, Any]:
    """Return the card of a decided call, which replaces the one with buttons."""
    return {
        "tool_call": call.public_id,
        "text": f"{headline(call)}\n{text}",
        "decided": True,
    }


def page_of(call: ToolCall) -> str:
    """Return the path of the admin's page of a call."""
    return PAGE.format(call.public_id)


def link_to(call: ToolCall) -> str:
    """Return the address of the admin's page of a call, for a notice: who is not signed in signs
    in first.
    """
    path = f"{settings.LOGIN_URL}?{urlencode({'next': page_of(call)})}"
    return f"{settings.GATEWAY_URL}{path}"


def changed() -> None:
    """Make open pages of the admin count again, after the commit. A lost hint costs seconds."""
    pending_count.changed()


def asked(call: ToolCall) -> None:
    """Make open pages of the admin show a new question, after the commit."""
    frame: pubsub.Frame = {
        "keys": [pending_count.OPEN_ADMIN_PAGES],
        "kind": "tool_call",
        "request": call.public_id,
    }
    transaction.on_commit(partial(pubsub.publish, [frame]))
