"""The page of the link in an owner's notice: one unknown request and its decision.

It does not sign in and shows nothing else ([A5], [A6], decision 165).
"""

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.utils import timezone
from django.utils.translation import gettext
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_http_methods

from allowlist import decision_links, unknown_requests
from allowlist.identities import InvalidIdentity
from channels_app.intake import decisions
from channels_app.owner import notices
from core.lib.text import as_sentence

VIA = "link in a notice"
PAGE = "webchat/decision.html"


@never_cache
@require_http_methods(["GET", "HEAD", "POST"])
def decision(request: HttpRequest, token: str) -> HttpResponse:
    """GET shows the request and its state; POST ``verdict`` decides it, once. 403: invalid link."""
    opened = decision_links.opened(token)
    if opened is None:
        return render(request, PAGE, {"is_open": False}, status=403)
    row, said, problem = opened.request, "", ""
    if request.method == "POST":
        try:
            verdict = decisions.decide(
                request=row.public_id,
                verdict=unknown_requests.choice(request.POST.get("verdict", "")),
                owner=opened.owner,
                via=VIA,
                now=timezone.now(),
            )
            row, said = verdict.request, verdict.text
        except (
            unknown_requests.RequestNotFound,
            unknown_requests.NotAnOwner,
            InvalidIdentity,
        ) as error:
            problem = as_sentence(error)
    waits = row.state == row.State.PENDING and row.expires_at > timezone.now()
    context = {
        "is_open": True,
        "subject": notices.subject(row),
        "quote": notices.quote(row),
        "chosen": request.GET.get("choice", ""),  # by a notification: it decides nothing
        "buttons": [(gettext(label), choice) for label, choice in notices.BUTTONS] if waits else [],
        "standing": said or ("" if waits else unknown_requests.Verdict(row, first=True).standing),
        "problem": problem,
    }
    return render(request, PAGE, context, status=400 if problem else 200)
