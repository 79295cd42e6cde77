"""``/trace/<run>/view`` for the run's own user and for owners; ``/agent/view/…`` redirects
there.
"""

from typing import cast

from django.contrib.auth.decorators import login_required
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.templatetags.static import static
from django.urls import reverse
from django.utils.translation import gettext, gettext_noop
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_safe

from channels_app.asgi.middleware import PAGE, policy
from channels_app.trace import page
from core.conversations import events
from core.lib.ids import is_public_id
from core.models import Run, User

MAX_EVENTS = 5000
STATES = {
    Run.State.QUEUED: gettext_noop("Queued"),
    Run.State.RUNNING: gettext_noop("Running"),
    Run.State.SUCCEEDED: gettext_noop("Succeeded"),
    Run.State.FAILED: gettext_noop("Failed"),
    Run.State.CANCELLED: gettext_noop("Cancelled"),
    Run.State.HELD: gettext_noop("Waiting for the owner"),
}
# Only our own style sheet, data: pictures, and the script that sets the chosen theme.
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
    """Show a run's log. 404 for another user's run, as for a missing one."""
    run = visible_run(cast("User", request.user), run_id)
    log = events.whole_log(run.id)[:MAX_EVENTS]
    theme = request.build_absolute_uri(static("latchkey/theme-early.js"))
    context = {
        "run": run,
        "title": gettext("View process"),
        "state": gettext(STATES[Run.State(run.state)]),
        "messages": page.messages(log),
        "events": page.events(log),
        "cut": len(log) == MAX_EVENTS,
    }
    response = render(request, "trace/view.html", context)
    response.headers["Content-Security-Policy"] = policy({**STRICT, "script-src": theme})
    return response


@never_cache
@require_safe
@login_required
def message(request: HttpRequest, message_type: str, message_id: str) -> HttpResponse:
    """Redirect to one message on the page of its run, given by ``?run=``."""
    run = visible_run(cast("User", request.user), request.GET.get("run", ""))
    where = page.anchor(message_type, message_id)
    return redirect(f"{reverse('trace', args=[run.public_id])}#{where}")


def visible_run(user: User, run_id: str) -> Run:
    """Return the run, for its user or for an owner. Raises Http404."""
    if not is_public_id(run_id):
        raise Http404
    runs = Run.objects.select_related("session", "user")
    return get_object_or_404(runs if user.is_owner else runs.filter(user=user), public_id=run_id)
