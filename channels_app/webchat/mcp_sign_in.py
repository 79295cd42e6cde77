"""The pages of a sign-in at an MCP server: its link, the way back, and who the gateway is.

The link needs the session of who is asked: one that is passed on would give the sender the account
of the person who opens it. The callback needs the cookie of the browser in which the link was used,
and no session of somebody else (decision 199).
"""

import secrets
from urllib.parse import urlsplit

from django.conf import settings
from django.contrib.auth.views import redirect_to_login
from django.http import Http404, HttpRequest, HttpResponse, JsonResponse
from django.http.response import HttpResponseBase
from django.shortcuts import get_object_or_404, render
from django.urls import reverse
from django.utils import timezone
from django.utils.translation import gettext, gettext_noop
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_http_methods, require_safe

from channels_app.asgi import throttling
from channels_app.asgi.http import RefusedError
from channels_app.tool_requests import asking, signing_in
from core.lib.ids import is_public_id
from core.models import McpSignIn, User
from core.tools.mcp.errors import McpError
from core.tools.mcp.oauth import pages, sign_ins

PAGE = "webchat/mcp_sign_in.html"
COOKIE = "mcp-sign-in"
COOKIE_SECONDS = 3600
COOKIE_LENGTH = 43
LONGEST = 4096  # of a parameter of the callback
GONE = gettext_noop("This sign-in is over. Ask again for what you wanted.")


@never_cache
@require_http_methods(["GET", "HEAD", "POST"])
def page(request: HttpRequest, value: str) -> HttpResponseBase:
    """GET says where the person is to sign in; POST ``choice`` begins it (``start``) or declines.

    404 for a sign-in of somebody else, as for one that does not exist.
    """
    if not is_public_id(value):
        raise Http404("There is no such sign-in.")
    if not isinstance(request.user, User):
        return redirect_to_login(request.path)
    user = request.user
    row = opened(user, value)
    if not sign_ins.is_open(row, timezone.now()):
        return shown(request, row, said=gettext(GONE))
    if not sign_ins.may_open(row, user, timezone.now()):
        raise Http404("There is no such sign-in.")
    match request.POST.get("choice") if request.method == "POST" else None:
        case "start":
            return start(request, row, by=user)
        case "deny":
            signing_in.decline(row, by=user)
            return shown(request, row, said=gettext(signing_in.TEXTS["declined"]))
        case _:
            return shown(request, row, asks=True)


def opened(user: User, public_id: str) -> McpSignIn:
    """Return the sign-in of a link for who opens it. Raises Http404."""
    rows = McpSignIn.objects.select_related("server", "user")
    row = get_object_or_404(rows, public_id=public_id)
    if row.user_id != user.pk and not (row.of_gateway and user.is_owner):
        raise Http404("There is no such sign-in.")
    return row


def start(request: HttpRequest, row: McpSignIn, *, by: User) -> HttpResponse:
    """Begin a sign-in; the page has the link to the authorization server: a form may not lead to
    another site, and the person sees its name first.
    """
    limit = settings.WRONG_KEYS_PER_MINUTE
    try:
        throttling.server_sign_ins.check(subject=str(by.pk), limit=limit)
    except RefusedError as error:
        refused = shown(request, row, problem=str(error), asks=True, status=429)
        refused.headers["Retry-After"] = error.headers["Retry-After"]
        return refused
    browser = request.COOKIES.get(COOKIE, "")
    if len(browser) != COOKIE_LENGTH:
        browser = secrets.token_urlsafe(32)
    try:
        address = signing_in.begin(row, browser=browser, by=by)
    except McpError as error:
        return shown(request, row, problem=signing_in.shown(error), asks=True)
    response = shown(request, row, address=address)
    response.set_cookie(
        COOKIE,
        browser,
        max_age=COOKIE_SECONDS,
        path="/mcp/oauth/",
        secure=settings.GATEWAY_HTTPS,
        httponly=True,
        samesite="Lax",
    )
    return response


@never_cache
@require_http_methods(["GET"])  # a HEAD would use up the code
def callback(request: HttpRequest, server: str) -> HttpResponse:
    """End a sign-in: the authorization server has sent the browser back with a code."""
    given = {
        name: request.GET.get(name, "")[:LONGEST] for name in ("state", "code", "iss", "error")
    }
    finished = signing_in.finish(
        slug=server,
        state=given["state"],
        browser=request.COOKIES.get(COOKIE, "")[:COOKIE_LENGTH],
        code=given["code"],
        issuer=given["iss"] or None,
        error=given["error"],
        visitor=request.user.pk,
        now=timezone.now(),
    )
    is_fine = finished.outcome in {"done", "declined"}
    context = {"said" if is_fine else "problem": gettext(finished.text)}
    if finished.server and isinstance(request.user, User) and request.user.is_owner:
        context["server_page"] = reverse("admin:core_mcpserver_change", args=[finished.server])
    return render(request, PAGE, context, status=200 if is_fine else 400)


@require_safe
def client_document(request: HttpRequest, server: str) -> JsonResponse:
    """Describe the gateway to the authorization server of ``server`` (OAuth Client ID Metadata
    Document): the same for a short name that no server has.
    """
    del request
    about = {
        "client_id": pages.document_address(server),
        "client_name": "Latchkey",
        "client_uri": settings.GATEWAY_URL,
        "redirect_uris": [pages.callback(server)],
        "grant_types": ["authorization_code", "refresh_token"],
        "response_types": ["code"],
        "token_endpoint_auth_method": "none",
    }
    return JsonResponse(about)


def shown(
    request: HttpRequest,
    row: McpSignIn,
    *,
    said: str = "",
    problem: str = "",
    address: str = "",
    asks: bool = False,
    status: int = 502,
) -> HttpResponse:
    """Return the page of a sign-in. ``status``: where there is a problem."""
    call = row.calls.select_related("run__user", "run__session__account").first()
    context = {
        "row": row,
        "name": str(row.user),
        "channel": asking.chat_of(call) if call is not None else "",
        "host": urlsplit(row.server.url).netloc,
        "said": said,
        "problem": problem,
        "address": address,
        "address_host": urlsplit(address).netloc,
        "asks": asks,
    }
    return render(request, PAGE, context, status=status if problem else 200)
