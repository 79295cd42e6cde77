"""Calls of tools in the admin: the list, and the page on which an owner decides about one."""

from typing import Any

from django.contrib import admin, messages
from django.core.exceptions import PermissionDenied
from django.db.models import F
from django.http import HttpRequest, HttpResponse, HttpResponseBadRequest, HttpResponseRedirect
from django.shortcuts import get_object_or_404
from django.template.loader import render_to_string
from django.template.response import TemplateResponse
from django.urls import reverse
from django.utils import timezone
from django.utils.decorators import method_decorator
from django.utils.safestring import SafeString
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_http_methods, require_safe

from allowlist import audit
from channels_app.admin import call_arguments
from channels_app.admin.call_arguments import ArgumentsError
from channels_app.tool_requests import asking, deciding
from core.admin.base import ExtraContext, ReadOnlyAdmin, shown, state_badge, visible_line
from core.lib.text import one_line
from core.models import ToolCall, User
from core.tools.mcp import offered

# Characters that a page shows of arguments and of a result; the whole arguments are a page too.
SHOWN = 20_000
SHOWN_RESULT = 2000
SHOWN_DESCRIPTION = 1500
EDITED = "edited"
COLOURS = {
    ToolCall.State.WAITING: "pending",
    ToolCall.State.ALLOWED: "approved",
    ToolCall.State.DENIED: "blocked",
    ToolCall.State.STARTED: "running",
    ToolCall.State.DONE: "sent",
    ToolCall.State.UNSURE: "uncertain",
}
SETTLED = ("allowed", "denied")


def badge_of(call: ToolCall) -> SafeString:
    """Return the state of a call as a label."""
    state = ToolCall.State(call.state)
    return state_badge(COLOURS.get(state, state), call.get_state_display())


@admin.register(ToolCall)
class ToolCallAdmin(ExtraContext, ReadOnlyAdmin[ToolCall]):
    """Calls that waited for a yes, or must not be made twice. Owners decide on the page of one."""

    shown_tool = shown("tool", limit=60)
    shown_cost = shown("cost")

    pages = {"decide": "<int:pk>/decide/", "arguments": "<int:pk>/arguments/"}
    list_display = (
        "shown_tool",
        "person",
        "place",
        "status",
        "created_at",
        "until",
        "decided_by",
        "page",
    )
    list_filter = ("state", "kind", "scope", "edited", "created_at")
    list_select_related = ("run__user", "run__session__account", "asked_of", "decided_by")
    search_fields = ("tool", "public_id", "run__user__username", "run__user__display_name")
    newest_by = F("pk")
    public_ids = ("public_id", "run__public_id")
    ordering = ("-id",)
    change_form_template = "dashboard/tool_call.html"
    fields = (
        ("shown_tool", "status"),
        "kind",
        ("run", "carried_out_in"),
        ("asked_of", "attempt"),
        ("created_at", "expires_at"),
        ("decided_by", "decided_at"),
        ("scope", "edited"),
        ("started_at", "finished_at"),
    )

    @admin.display(description="person", ordering="run__user")
    def person(self, call: ToolCall) -> str:
        return visible_line(str(call.run.user), 60)

    @admin.display(description="where")
    def place(self, call: ToolCall) -> str:
        """Show the account of the conversation."""
        return visible_line(str(call.run.session.account), 60)

    @admin.display(description="state", ordering="state")
    def status(self, call: ToolCall) -> SafeString:
        return badge_of(call)

    @admin.display(description="expires", ordering="expires_at")
    def until(self, call: ToolCall) -> Any:
        """Show until when a waiting call can be decided."""
        return call.expires_at if call.state == ToolCall.State.WAITING else None

    @admin.display(description="decide")
    def page(self, call: ToolCall) -> SafeString | str:
        """Show the link to the decision while the call waits."""
        if call.state != ToolCall.State.WAITING:
            return ""
        return render_to_string("dashboard/tool_call_link.html", {"call": call})

    def has_decide_permission(self, request: HttpRequest) -> bool:
        return isinstance(request.user, User) and request.user.is_owner

    def page_context(self, request: HttpRequest, row: ToolCall) -> dict[str, Any]:
        return context_of(row, request)

    def call_of(self, request: HttpRequest, pk: int) -> ToolCall:
        """Return a call for owners and for those who may see calls. Raises Http404."""
        if not (self.has_decide_permission(request) or self.has_view_permission(request)):
            raise PermissionDenied
        rows = ToolCall.objects.select_related(*self.list_select_related)
        return get_object_or_404(rows, pk=pk)

    @method_decorator(never_cache)
    @method_decorator(require_http_methods(["GET", "HEAD", "POST"]))
    def decide_view(self, request: HttpRequest, pk: int) -> HttpResponse:
        """GET shows a call with the buttons, POST ``choice`` and ``digest`` decides it, once."""
        call, typed, problem = self.call_of(request, pk), None, ""
        if request.method == "POST":
            choice = request.POST.get("choice", "")
            if choice not in {*deciding.CHOICES, EDITED}:
                return HttpResponseBadRequest("A decision must be a POST with a choice.")
            try:
                self.decide(request, call, choice)
            except ArgumentsError as error:
                problem = str(error)
                typed = request.POST.get("arguments", "")[: deciding.LONGEST_ARGUMENTS]
            else:
                return HttpResponseRedirect(reverse("admin:core_toolcall_decide", args=[call.pk]))
        context = self.admin_site.each_context(request) | {
            "title": "Call of a tool",
            "opts": self.model._meta,
            "dashboard": context_of(call, request) | {"problem": problem, "typed": typed},
        }
        page = "dashboard/tool_call_decide.html"
        return TemplateResponse(request, page, context, status=400 if problem else 200)

    @method_decorator(require_safe)
    def arguments_view(self, request: HttpRequest, pk: int) -> HttpResponse:
        """Return the whole arguments of a call as plain text."""
        call = self.call_of(request, pk)
        text, _ = call_arguments.readable(call.arguments, len(call.arguments) * 8 + 100)
        return HttpResponse(text, content_type="text/plain; charset=utf-8")

    def decide(self, request: HttpRequest, call: ToolCall, choice: str) -> None:
        """Decide a call, with a message on the next page. Raises ArgumentsError."""
        if not isinstance(request.user, User):
            raise PermissionDenied
        if not self.has_decide_permission(request):
            record_refused(request.user, call)
            raise PermissionDenied
        arguments = None
        if choice == EDITED:
            arguments = call_arguments.edited(request.POST.get("arguments", ""))
            choice = asking.ONCE
        decision = deciding.decide(
            call_id=call.public_id,
            digest=request.POST.get("digest", "")[:64],
            by=request.user,
            choice=choice,  # type: ignore[arg-type]  # one of deciding.CHOICES
            via="admin",
            arguments=arguments,
            now=timezone.now(),
        )
        level = messages.SUCCESS if decision.outcome in SETTLED else messages.WARNING
        messages.add_message(request, level, decision.text)


def record_refused(user: User, call: ToolCall) -> None:
    """Write to the audit that somebody tried to decide who may not."""
    audit.record(
        actor=audit.actor_of(user),
        action="tool.refused",
        subject=one_line(call.tool, 100),
        data={"via": "admin", "call": call.public_id, "why": "not an owner"},
        now=timezone.now(),
    )


def context_of(call: ToolCall, request: HttpRequest) -> dict[str, Any]:
    """Return what the page of a call shows: texts, and the buttons of who can decide it."""
    user, is_over = request.user, deciding.is_over(call, timezone.now())
    may = isinstance(user, User) and user.is_owner and deciding.may_decide(call, user)
    text, is_whole = call_arguments.readable(call.arguments, SHOWN)
    result = call.result if isinstance(call.result, dict) else {}
    is_lasting = not may or asking.may_last(call)
    lasting = deciding.CHOICES if is_lasting else (asking.ONCE, asking.DENY)
    choices = [(each, asking.LABELS[each]) for each in lasting]
    if call.kind == ToolCall.Kind.SIGN_IN:
        choices = [(asking.DENY, asking.OF_SIGN_IN[asking.DENY])]
    return {
        "call": call,
        "badge": badge_of(call),
        "description": visible_line(description_of(call.tool), SHOWN_DESCRIPTION),
        "arguments": text,
        "is_whole": is_whole,
        "buttons": choices if may and not is_over else [],
        "is_over": is_over,
        "result": str(result.get("text", ""))[:SHOWN_RESULT],
    }


def description_of(name: str) -> str:
    """Return what a tool says that it does; empty for one that is not there any more."""
    tool = offered.named(name)
    return tool.description if tool is not None else ""
