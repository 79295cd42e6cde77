"""The page of one waiting call, which decides it without the admin: for people who are asked for
their own yes, and for owners on a channel without buttons. It asks for the sign-in first.
"""

from django.contrib.auth.views import redirect_to_login
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseBadRequest
from django.http.response import HttpResponseBase
from django.shortcuts import render
from django.urls import reverse
from django.utils import timezone
from django.utils.translation import get_language, gettext
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_http_methods

from channels_app.tool_requests import asking, deciding
from core.conversations import tool_calls
from core.lib.ids import is_public_id
from core.models import ToolCall, User
from core.tools.mcp.oauth.pages import sign_in_page

VIA = "page"
PAGE = "webchat/tool_call.html"


@never_cache
@require_http_methods(["GET", "HEAD", "POST"])
def tool_call(request: HttpRequest, public_id: str) -> HttpResponseBase:
    """GET shows a call and its state; POST ``choice`` and ``digest`` decides it, once.

    404 for a call that the user does not decide, as for one that does not exist.
    """
    user = request.user
    if not isinstance(user, User):
        return redirect_to_login(request.path)
    row, said = call_of(public_id, user), ""
    if request.method == "POST":
        choice = deciding.known_choice(request.POST.get("choice", ""))
        if choice is None:
            return HttpResponseBadRequest("A decision must be a POST with a choice.")
        decision = deciding.decide(
            call_id=row.public_id,
            digest=request.POST.get("digest", "")[:64],
            by=user,
            choice=choice,
            via=VIA,
            now=timezone.now(),
        )
        row, said = call_of(public_id, user), gettext(decision.text)
    return shown(request, row, user, said)


def call_of(public_id: str, user: User) -> ToolCall:
    """Return a call that a user decides. Raises Http404."""
    rows = ToolCall.objects.select_related(*tool_calls.PARTS)
    row = rows.filter(public_id=public_id).first() if is_public_id(public_id) else None
    if row is None or row.expires_at is None or not deciding.may_decide(row, user):
        raise Http404("There is no such call.")
    return row


def shown(request: HttpRequest, row: ToolCall, user: User, said: str) -> HttpResponse:
    """Return the page of a call, with what a decision said."""
    question, *lines = asking.text_of(row, get_language() or "").split("\n")
    over = deciding.is_over(row, timezone.now())
    waits = row.state == ToolCall.State.WAITING and not over
    choices = asking.choices_of(row)
    is_sign_in = row.kind == ToolCall.Kind.SIGN_IN
    context = {
        "row": row,
        "question": question,
        "lines": lines,
        "said": said,
        "standing": "" if said or waits else standing(row),
        "choices": [
            (each, gettext(asking.label_of(row, each)))
            for line in choices
            for each in line
            if each != asking.EDIT
        ]
        if waits
        else [],
        "edit": reverse("admin:core_toolcall_decide", args=[row.pk])
        if waits and user.is_owner and user.is_staff and not is_sign_in
        else "",
        "sign_in": sign_in_page(row.sign_in.public_id) if waits and row.sign_in is not None else "",
    }
    return render(request, PAGE, context)


def standing(row: ToolCall) -> str:
    """Return what became of a call."""
    if row.state == ToolCall.State.WAITING:
        return gettext(deciding.TEXTS["expired"])
    return gettext(deciding.TEXTS.get(row.state, deciding.TEXTS["already"]))
