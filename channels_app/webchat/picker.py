"""Calls of the page: the assistant and model of a chat, pictures, and the user's own usage."""

import re
from typing import cast

from django.http import HttpRequest, HttpResponse
from django.http.response import HttpResponseBase
from django.utils import timezone
from django.utils.cache import get_conditional_response
from django.utils.translation import gettext
from django.views.decorators.http import require_GET, require_POST, require_safe

from channels_app.asgi import http
from channels_app.asgi.builtin_accounts import builtin_account
from channels_app.webchat import choices, files, frames, views
from channels_app.webchat.views import Json
from core.conversations import assistants, budget_words, usage_reports

NUMBER = re.compile(r"[0-9]{1,18}", re.ASCII)
# The address of a picture changes with it.
KEPT = "private, max-age=31536000, immutable"


@require_GET
@views.for_signed_in
def assistant_list(request: HttpRequest) -> Json:
    """Return the assistant and model of the chat ``?session=``, and those that may be chosen.

    A new chat is not stored yet: its choice is given (``?assistant_id=&model_id=``).
    """
    name = request.GET.get("session", "")
    if name:
        return choices.of_session(views.own(request, name))
    given = {each: str(request.GET.get(each, 0)) for each in choices.FIELDS}
    asked = {each: int(text) if NUMBER.fullmatch(text) else text for each, text in given.items()}
    return choices.of_new_chat(views.person(request), wanted_in(asked))


def wanted_in(given: Json) -> choices.Picked:
    """Return the choice in ``assistant_id`` and ``model_id``. Raises RefusedError 400."""
    return choices.Picked(*(frames.row_id(given, name) for name in choices.FIELDS))


@require_POST
@views.for_signed_in
def choose_assistant(request: HttpRequest, session_id: str) -> Json | HttpResponse:
    """Handle ``{"assistant_id"?, "model_id"?}``: choose for this chat, from the next turn on.

    0 takes the choice back. One that is not offered to the person is a 404.
    """
    session = views.own(request, session_id)
    asked = http.parse_object(request.body)
    wanted = wanted_in(asked)
    refused = choices.field_refused(assistants.requester_in(session), wanted)
    if refused:
        return views.refusal(404, str(choices.MISSING[refused]))
    changes = {name: getattr(wanted, name) for name in choices.FIELDS if name in asked}
    if not changes:
        raise views.BadRequestError("assistant_id or model_id is required.")
    assistants.pick(session, **changes)
    return choices.of_session(session)


@require_safe
def assistant_picture(request: HttpRequest, assistant_id: int) -> HttpResponseBase:
    """Serve the picture of an assistant to signed-in users; browsers keep it until it changes."""
    if not request.user.is_authenticated:
        return views.refusal(401, gettext("Sign in again."))
    found = choices.picture_of(assistant_id)
    if found is None:
        return views.refusal(404, gettext("This assistant has no picture."))
    answer = HttpResponse(found.data, content_type=found.content_type)
    answer.headers["Content-Security-Policy"] = files.NOTHING
    current = request.GET.get("v") == found.tag
    answer.headers["Cache-Control"] = KEPT if current else "private, no-cache"
    answer.headers["ETag"] = etag = f'"{found.tag}"'
    return cast("HttpResponse", get_conditional_response(request, etag=etag, response=answer))


@require_GET
@views.for_signed_in
def usage(request: HttpRequest) -> Json:
    """Return the user's tokens and cost of today and this month, and the budgets that limit them.

    ``cost`` is empty where no price is known; ``used`` is the spent part of a budget, of 1.
    """
    web = builtin_account("web").pk
    found = usage_reports.figures(views.person(request), timezone.now(), account_id=web)
    periods = {gettext("Today"): found.today, gettext("This month"): found.month}
    return {
        "periods": [{"name": name, **sum_of(used)} for name, used in periods.items()],
        "budgets": [left_of(each) for each in found.budgets],
    }


def sum_of(used: usage_reports.Used) -> Json:
    return {
        "tokens": used.tokens,
        "calls": used.calls,
        "cost": budget_words.dollars(used.cost) if used.cost else "",
        "is_estimated": bool(used.estimated),
    }


def left_of(each: usage_reports.Left) -> Json:
    budget, spent, free_at = each
    return {
        "name": budget_words.named(budget),
        "left": budget_words.amount(budget.unit, max(0, budget.limit - spent)),
        "used": min(1.0, spent / budget.limit) if budget.limit else 1.0,
        "free_at": free_at.isoformat(),
    }
