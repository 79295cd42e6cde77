"""The page itself: a search by id, the sentence, and the rows that its reader may see."""

from typing import Any

from django import forms
from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponse
from django.template.response import TemplateResponse
from django.utils import timezone
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_safe

from channels_app.admin.message_way import facts, sentence
from core.admin.base import PlainForm, state_badge
from core.conversations import traces
from core.lib import tracing
from core.models import Run

TITLE = "What happened to this message?"
# A part of the page -> the right to see it.
RIGHTS = {
    "messages": "core.view_inboundmessage",
    "request": "allowlist.view_unknownrequest",
    "model_calls": "core.view_modelcall",
    "tool_calls": "core.view_toolcall",
    "jobs": "core.view_job",
    "answers": "core.view_chatsession",
    "deliveries": "core.view_delivery",
}
TEXTS = "core.view_chatsession"


class SearchForm(PlainForm):
    """An id, and of what it is; a public id is always that of a run."""

    kind = forms.ChoiceField(
        label="What",
        required=False,
        choices=[
            (facts.RUN, "Run"),
            (facts.MESSAGE, "Inbound message"),
            (facts.DELIVERY, "Delivery"),
        ],
    )
    id = forms.CharField(
        label="Id or public id",
        max_length=64,
        strip=True,
        widget=forms.TextInput(attrs={"autocomplete": "off", "spellcheck": "false"}),
    )


@never_cache
@require_safe
def view(request: HttpRequest, context: dict[str, Any]) -> HttpResponse:
    """Show the search, and the way of what was found. ``context``: of every page of the admin."""
    if not request.user.has_perm("core.view_run"):
        raise PermissionDenied
    form = SearchForm(request.GET or None)
    context |= {"title": TITLE, "form": form}
    status = 200
    if request.GET and form.is_valid():
        found = facts.find(form.cleaned_data["kind"], form.cleaned_data["id"])
        if found is None:
            form.add_error("id", "There is nothing with this id.")
            status = 404
        else:
            context |= shown(found, request)
    return TemplateResponse(request, "dashboard/message_way.html", context, status=status)


def shown(found: facts.Facts, request: HttpRequest) -> dict[str, Any]:
    """Return what the reader of the page may see."""
    may = {name: request.user.has_perm(right) for name, right in RIGHTS.items()}
    parts = {name: getattr(found, name) if may[name] else None for name in RIGHTS}
    runs = [(each, state_badge(each.state), trace_of(each)) for each in found.runs]
    return {
        "way": {**parts, "runs": runs},
        "has_traces": tracing.is_on(),
        "sentence": sentence.of(found, now=timezone.now()),
        "has_texts": request.user.has_perm(TEXTS),
        "is_partial": not all(may.values()),
        "made_calls": made_calls(found) if may["tool_calls"] else [],
    }


def trace_of(run: Run) -> str:
    """Return the id of a run's OpenTelemetry trace; empty while none are exported."""
    return f"{traces.of_run(run):032x}" if tracing.is_on() else ""


def made_calls(found: facts.Facts) -> list[str]:
    """Return the names of the tools that were called, as they are kept with the answer."""
    kept = [call for answer in found.answers for call in answer.calls or []]
    return [str(call.get("name", "")) for call in kept]
