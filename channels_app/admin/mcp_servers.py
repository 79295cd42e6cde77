"""MCP servers in the admin: add, test, accept their tools and switch them on one by one."""

import asyncio
from typing import Any

from django.contrib import admin, messages
from django.core.exceptions import PermissionDenied
from django.db.models import Count, F, Q, QuerySet
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.template.response import TemplateResponse
from django.urls import reverse
from django.utils import timezone
from django.utils.decorators import method_decorator
from django.views.decorators.http import require_POST

from channels_app.admin import mcp_differences
from channels_app.admin.mcp_server_form import McpServerForm
from channels_app.admin.service_admin import ServiceAdmin, page_of
from channels_app.tool_requests import signing_in
from core.admin.base import annotated, visible_line
from core.database.transactions import atomic_write
from core.lib.text import counted, is_number, one_line
from core.models import McpServer, McpTool, User
from core.tools.mcp import pins, refresh
from core.tools.mcp.errors import McpError
from core.tools.mcp.oauth import sign_ins
from core.tools.mcp.oauth.signed_in import OWNER_FIRST
from core.tools.mcp.servers import info_of

COLOURS = {"accepted": "success", "changed": "danger", "new": "info", "gone": ""}
USED = Q(
    tools__enabled=True, tools__accepted_hash=F("tools__offered_hash"), tools__accepted_hash__gt=""
)


@admin.register(McpServer)
class McpServerAdmin(ServiceAdmin[McpServer]):
    """MCP servers, for owners only: their tools act, and see what they are given."""

    address = "url"
    asked_again_for = frozenset({"url", "enabled", "key_header", "authentication"})

    pages = {
        **ServiceAdmin.pages,
        "connect": "<int:pk>/connect/",
        "disconnect": "<int:pk>/disconnect/",
        "tools": "<int:pk>/tools/",
        "changes": "<int:pk>/changes/",
        "accept": "<int:pk>/accept/",
    }

    tool_count = annotated("tools in use")
    form = McpServerForm
    list_display = ("shown_name", "slug", "state", "tool_count", "shown_check", "checked_at")
    list_filter = ("enabled",)
    search_fields = ("name", "slug", "url")
    ordering = ("name",)
    autocomplete_fields = recorded_sets = ("assistants", "people")
    change_form_outer_before_template = "mcp/server_above.html"
    change_form_outer_after_template = "mcp/server_tools.html"

    @admin.display(description="last test")
    def shown_check(self, row: McpServer) -> str:
        return visible_line(row.check_result, 160) or "–"

    def get_queryset(self, request: HttpRequest) -> QuerySet[McpServer]:
        return super().get_queryset(request).annotate(number=Count("tools", filter=USED))

    def get_readonly_fields(
        self, request: HttpRequest, obj: McpServer | None = None
    ) -> tuple[str, ...]:
        """Fix the short name: rules and yeses name tools by it."""
        return ("slug", "key_state") if obj is not None else ()

    def get_fieldsets(self, request: HttpRequest, obj: McpServer | None = None) -> Any:
        """Show, in place of the key, whether it is set, to readers."""
        key: tuple[str, ...] = ("key_state",)
        client: tuple[str, ...] = ("client_id",)
        if self.may_edit(request, obj):
            key = ("key", "remove_key") if obj is not None and obj.secrets else ("key",)
            client = ("client_id", "client_secret")
        top = (("name", "slug"), "url", "allow_private", "seconds", "enabled")
        return (
            (None, {"fields": top}),
            ("Authentication", {"fields": ("authentication", *key, "key_header", *client)}),
            ("Assistants and people", {"fields": ("assistants", "people")}),
        )

    def ask(self, request: HttpRequest, row: McpServer) -> None:
        show_test(request, row)

    def save_model(self, request: HttpRequest, obj: McpServer, form: Any, change: Any) -> None:
        """Forget what belongs to another address or another way to sign in."""
        if "url" in form.changed_data:
            obj.protocol = ""
        if is_moved(form):
            obj.registration = ""
        if is_moved(form) and change and isinstance(request.user, User):
            # The server and the calls, before the version that its change raises.
            list(McpServer.objects.select_for_update(no_key=True).filter(pk=obj.pk))
            for begun in sign_ins.open_at(obj):
                signing_in.decline(begun, by=request.user)
        super().save_model(request, obj, form, change)

    def save_related(self, request: HttpRequest, form: Any, formsets: Any, change: Any) -> None:
        """Remove the accounts of another address: no token is sent to another one than that for
        which it was given. That is written to the audit, and so comes last.
        """
        super().save_related(request, form, formsets, change)
        if is_moved(form) and change and isinstance(request.user, User):
            found = form.instance.connections.select_related("user", "server")
            signing_in.remove(found, by=request.user, now=timezone.now())

    def page_context(self, request: HttpRequest, row: McpServer) -> dict[str, Any]:
        """Return the tools of a server, and what the page may do."""
        tools = list(row.tools.order_by("name"))
        return {
            "tools": tools,
            "colours": COLOURS,
            "asks": McpTool.Ask.choices,
            "waiting": sum(each.state in {"new", "changed"} for each in tools),
            "may_decide": self.may_decide(request),
            "signs_in": row.authentication != McpServer.Authentication.KEY,
            "connections": list(row.connections.select_related("user")),
        }

    def test(self, request: HttpRequest, row: McpServer) -> None:
        show_test(request, row)

    @method_decorator(require_POST)
    def connect_view(self, request: HttpRequest, pk: int) -> HttpResponse:
        """Let the owner sign in: for the gateway, or with their own account."""
        row = self.row_of(request, pk)
        if not isinstance(request.user, User) or not request.user.is_owner:
            raise PermissionDenied
        if row.authentication == McpServer.Authentication.KEY:
            messages.warning(request, "Choose OAuth as its authentication first.")
            return HttpResponseRedirect(page_of(row))
        if not row.enabled:
            messages.warning(
                request, "Enable the server first: it takes no sign-in while it is off."
            )
            return HttpResponseRedirect(page_of(row))
        with atomic_write():
            sign_in = sign_ins.create(row, request.user, now=timezone.now())
        return HttpResponseRedirect(reverse("mcp-sign-in", args=[sign_in.public_id]))

    @method_decorator(require_POST)
    def disconnect_view(self, request: HttpRequest, pk: int) -> HttpResponse:
        """Remove an account that is connected, whosever it is."""
        row = self.row_of(request, pk)
        number = str(request.POST.get("connection", ""))
        rows = row.connections.select_related("user", "server")
        found = rows.filter(pk=number).first() if is_number(number) else None
        if found is not None and isinstance(request.user, User):
            signing_in.remove([found], by=request.user, now=timezone.now())
            messages.success(request, "The account was removed.")
        return HttpResponseRedirect(page_of(row))

    @method_decorator(require_POST)
    def tools_view(self, request: HttpRequest, pk: int) -> HttpResponse:
        """Switch accepted tools on and off, and set when each asks: those that were changed on the
        page, which another owner may have changed since it was loaded.
        """
        row = self.row_of(request, pk)
        number = 0
        for tool in row.tools.exclude(accepted_hash=""):
            ask = str(request.POST.get(f"ask-{tool.pk}", tool.ask))
            enabled = f"on-{tool.pk}" in request.POST
            given = f"{'on' if enabled else 'off'} {ask}"
            if request.POST.get(f"shown-{tool.pk}", given) == given:
                continue
            if ask not in McpTool.Ask.values or (ask, enabled) == (tool.ask, tool.enabled):
                continue
            with atomic_write():
                changed = {"ask": [tool.ask, ask], "enabled": [tool.enabled, enabled]}
                tool.ask, tool.enabled = ask, enabled
                tool.save(update_fields=["ask", "enabled"])
                self.record(request, "changed", tool, {"name": tool.name, **changed})
            number += 1
        words = "1 tool was changed." if number == 1 else f"{number} tools were changed."
        messages.success(request, words if number else "Nothing changed.")
        return HttpResponseRedirect(page_of(row))

    def changes_view(self, request: HttpRequest, pk: int) -> HttpResponse:
        """Show what is new or different, whole, before it is accepted."""
        row = self.row_of(request, pk)
        tools = [each for each in row.tools.order_by("name") if each.state in {"new", "changed"}]
        context = self.admin_site.each_context(request) | {
            "title": f"New and changed tools of {row}",
            "opts": self.model._meta,
            "row": row,
            "differences": [mcp_differences.of(each) for each in tools],
        }
        return TemplateResponse(request, "mcp/changes.html", context)

    @method_decorator(require_POST)
    def accept_view(self, request: HttpRequest, pk: int) -> HttpResponse:
        """Accept the chosen tools, each as it was shown."""
        row = self.row_of(request, pk)
        ids = {str(each.pk): each for each in row.tools.all()}
        for choice in request.POST.getlist("accept"):
            number, _, digest = choice.partition(":")
            tool = ids.get(number)
            if tool is None:
                continue
            with atomic_write():
                accepted = pins.accept(tool.pk, digest, now=timezone.now())
                if accepted is not None:
                    data: dict[str, object] = {"name": tool.name, "hash": digest}
                    self.record(request, "accepted", accepted, data)
            if accepted is None:
                words = "is another one by now: look at it again."
                messages.warning(request, f"{visible_line(tool.name)} {words}")
            else:
                messages.success(request, f"{visible_line(tool.name)} is on.")
        return HttpResponseRedirect(page_of(row))


def is_moved(form: Any) -> bool:
    """Return whether a form changes the address, or how it is signed in to."""
    return bool({"url", "authentication", "client_id"} & set(form.changed_data))


def show_test(request: HttpRequest, row: McpServer) -> None:
    """Ask a server for its tools; show and store what was found."""
    try:
        number = asyncio.run(refresh.refresh(info_of(row)))
    except McpError as error:
        words = f"{error}"
        level = messages.WARNING if words == OWNER_FIRST else messages.ERROR
        messages.add_message(request, level, visible_line(f"{row}: {words}", 600))
    else:
        row.refresh_from_db()
        words = f"It answers (protocol {row.protocol}) and offers {counted(number, 'tool')}."
        waiting = sum(each.state in {"new", "changed"} for each in row.tools.all())
        more = f" {counted(waiting, 'waits', 'wait')} to be accepted." if waiting else ""
        messages.success(request, f"{row}: {visible_line(words)}{more}")
    values = {"check_result": one_line(words, 500), "checked_at": timezone.now()}
    with atomic_write():
        McpServer.objects.filter(pk=row.pk).update(**values)
