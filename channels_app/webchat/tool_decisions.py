"""Calls of tools in the web chat: cards of those that wait, and the decision of who is asked."""

from typing import Any

from django.db.models import Exists, OuterRef
from django.utils import timezone
from django.utils.translation import gettext, gettext_lazy

from channels_app.asgi.http import RefusedError
from channels_app.asgi.principal import Principal
from channels_app.tool_requests import asking, deciding
from channels_app.webchat import frames
from core.conversations import tool_calls
from core.models import Delivery, ToolCall, User

SHOWN_CALLS = 10
VIA = "web chat"
GONE = gettext_lazy("This request does not exist.")


def waiting_cards(principal: Principal) -> list[dict[str, Any]]:
    """Return the cards of the newest calls that the user of a browser was asked about, and in no
    other channel: each is asked in one place.
    """
    user = principal.user
    if user is None or not principal.session_key:
        return []
    same = ToolCall.objects.filter(run=OuterRef("run"), sign_in=OuterRef("sign_in"))
    before = same.filter(state=ToolCall.State.WAITING, pk__lt=OuterRef("pk"))  # asked for both
    rows = tool_calls.waiting().filter(asked_of=user.pk, expires_at__gt=timezone.now())
    rows = rows.exclude(Exists(before))
    newest = list(rows.order_by("-pk")[:SHOWN_CALLS])[::-1]
    elsewhere = Delivery.objects.filter(dedupe_key__in=[asking.key_of(row, user) for row in newest])
    keys = set(elsewhere.exclude(state=Delivery.State.DEAD).values_list("dedupe_key", flat=True))
    return [card(row, user) for row in newest if asking.key_of(row, user) not in keys]


def asked_calls(principal: Principal, names: list[str]) -> dict[str, ToolCall]:
    """Return those of these calls that the user of a browser was asked about, by their ids."""
    if principal.user is None or not principal.session_key:
        return {}
    rows = ToolCall.objects.filter(asked_of=principal.user.pk, public_id__in=names)
    return {row.public_id: row for row in rows.select_related(*tool_calls.PARTS)}


def ended(row: ToolCall) -> dict[str, Any]:
    """Return the card of a call that is decided, for who was asked."""
    language = asking.language_of(row.asked_of) if row.asked_of is not None else ""
    return settled(row, deciding.settled_text(row, language))


def decide(frame: frames.DecideCall, *, principal: Principal) -> dict[str, Any]:
    """Carry out a decision; return the card's new state. Raises RefusedError 404.

    The card of a call that has changed comes with its new state and the buttons again.
    """
    user = principal.user
    if user is None or not principal.session_key:
        raise RefusedError(404, GONE, field="tool_call")
    user.refresh_from_db(fields=["is_owner", "is_active"])
    decision = deciding.decide(
        call_id=frame.tool_call,
        digest=frame.digest,
        by=user,
        choice=frame.choice,
        via=VIA,
        now=timezone.now(),
    )
    row = decision.call
    if row is None or decision.outcome == "not_yours":
        raise RefusedError(404, GONE, field="tool_call")
    if decision.outcome == "changed":
        return card(row, user) | {"problem": gettext(decision.text)}
    text = f"{asking.text_of(row, asking.language_of(user))}\n\n{gettext(decision.text)}"
    return settled(row, text)


def settled(row: ToolCall, text: str) -> dict[str, Any]:
    """Return the frame of a card without buttons."""
    return {"type": "notice", "tool_call": row.public_id, "text": text, "decided": True}


def card(row: ToolCall, user: User) -> dict[str, Any]:
    """Return the frame of a waiting call's card."""
    return {
        "type": "notice",
        **asking.card(row, user, asking.text_of(row, asking.language_of(user))),
    }
