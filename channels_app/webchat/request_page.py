"""The pages of one unknown request and its decision: of the link in an owner's notice, and of a
notification, which asks for the sign-in.

The link does not sign in and shows nothing else ([A5], [A6], decision 165). A notification stays in
a browser when another person uses it: the page that it opens decides for the owner who is signed in
there only.
"""

from django.contrib.auth.decorators import login_required
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import render
from django.utils import timezone
from django.utils.translation import gettext
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_http_methods

from allowlist import decision_links, unknown_requests
from allowlist.identities import InvalidIdentity
from allowlist.models import UnknownRequest
from channels_app.intake import decisions
from channels_app.owner import notices
from channels_app.webchat.views import person
from core.lib.ids import is_public_id
from core.lib.text import as_sentence
from core.models import User

VIA, VIA_PAGE = "link in a notice", "page"
PAGE = "webchat/decision.html"


@never_cache
@require_http_methods(["GET", "HEAD", "POST"])
def decision(request: HttpRequest, token: str) -> HttpResponse:
    """GET shows the request and its state; POST ``verdict`` decides it, once. 403: invalid link."""
    opened = decision_links.opened(token)
    if opened is None:
        return render(request, PAGE, {"is_open": False}, status=403)
    return shown(request, opened.request, owner=opened.owner, via=VIA)


@never_cache
@require_http_methods(["GET", "HEAD", "POST"])
@login_required
def unknown_request(request: HttpRequest, public_id: str) -> HttpResponse:
    """Do as :func:`decision` for the owner who is signed in. 404 for others, as for none."""
    user = person(request)
    rows = UnknownRequest.objects.select_related("account", "decided_by")
    may_look = user.is_owner and is_public_id(public_id)
    row = rows.filter(public_id=public_id).first() if may_look else None
    if row is None:
        raise Http404("There is no such request.")
    return shown(request, row, owner=user, via=VIA_PAGE)


def shown(request: HttpRequest, row: UnknownRequest, *, owner: User, via: str) -> HttpResponse:
    """Return the page of a request, after the decision of a POST."""
    said, problem = "", ""
    if request.method == "POST":
        try:
            verdict = decisions.decide(
                request=row.public_id,
                verdict=unknown_requests.choice(request.POST.get("verdict", "")),
                owner=owner,
                via=via,
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
