"""``/trace/<run>/view`` for the run's own person and for owners; ``/agent/view/…`` leads there."""

from typing import cast

from django.contrib.auth.decorators import login_required
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_safe

from channels_app.asgi.middleware import PAGE, policy
from channels_app.rendering.translations import wording
from channels_app.trace import page
from core.conversations import events
from core.lib.ids import is_public_id
from core.models import Run, User

MAX_EVENTS = 5000
# Nothing but our own style sheet and pictures that came as data: no script at all.
STRICT = {
    **{name: "'none'" for name in PAGE if name.endswith("-src")},
    "style-src": "'self'",
    "img-src": "'self' data:",
    "frame-ancestors": "'none'",
    "base-uri": "'none'",
    "form-action": "'none'",
}


@never_cache
@require_safe
@login_required
def trace(request: HttpRequest, run_id: str) -> HttpResponse:
    """What a run did. 404 for anybody else's run, as for one that is not there."""
    run = visible_run(cast("User", request.user), run_id)
    if run is None:
        raise Http404
    log = events.after(run_id=run.id, seq=0, limit=MAX_EVENTS)
    context = {
        "run": run,
        "title": wording(language(request)).view_process,
        "messages": page.messages(log),
        "events": page.events(log),
        "cut": len(log) == MAX_EVENTS,
    }
    response = render(request, "trace/view.html", context)
    response.headers["Content-Security-Policy"] = policy(STRICT)
    return response


@never_cache
@require_safe
@login_required
def message(request: HttpRequest, message_type: str, message_id: str) -> HttpResponse:
    """The place of one message on the page of its run, which ``?run=`` names."""
    run = visible_run(cast("User", request.user), request.GET.get("run", ""))
    if run is None:
        raise Http404
    where = page.anchor(message_type, message_id)
    return redirect(f"{reverse('trace', args=[run.public_id])}#{where}")


def visible_run(user: User, run_id: str) -> Run | None:
    """The run, when it is the person's own, or when an owner looks."""
    if not is_public_id(run_id):
        return None
    found = Run.objects.select_related("session", "user").filter(public_id=run_id)
    return found.first() if user.is_owner else found.filter(user=user).first()


def language(request: HttpRequest) -> str:
    """The person's own language, else the browser's first."""
    own = cast("User", request.user).language
    return own or request.headers.get("Accept-Language", "").split(",", 1)[0]
