"""Unknown requests with their decisions in the admin."""

from datetime import datetime
from typing import Any

from django.contrib import admin, messages
from django.core.exceptions import PermissionDenied
from django.db.models import F, QuerySet
from django.http import HttpRequest, HttpResponse, HttpResponseBadRequest, HttpResponseRedirect
from django.template.loader import render_to_string
from django.template.response import TemplateResponse
from django.urls import reverse
from django.utils import timezone
from django.utils.decorators import method_decorator
from django.utils.safestring import SafeString
from django.views.decorators.http import require_POST

from allowlist import held_messages, patterns, unknown_requests
from allowlist.identities import InvalidIdentity
from allowlist.models import UnknownRequest
from channels_app.admin import place_form
from channels_app.intake import decisions
from core.admin.base import ExtraContext, ReadOnlyAdmin, chosen, shown, state_badge, visible_line
from core.lib.text import counted
from core.models import User

MOST_HELD = 200


def decide_chosen(description: str, verdict: str) -> Any:
    """Return an action of the list that decides the chosen requests."""

    @admin.action(description=description, permissions=["decide"])
    def act(
        page: "UnknownRequestAdmin", request: HttpRequest, queryset: QuerySet[UnknownRequest]
    ) -> None:
        ids = dict(queryset.values_list("pk", "public_id"))
        for pk in chosen(queryset):
            page.decide(request, ids[pk], verdict)

    return act


@admin.register(UnknownRequest)
class UnknownRequestAdmin(ExtraContext, ReadOnlyAdmin[UnknownRequest]):
    """Unknown senders: their held messages and the four decisions ([A6])."""

    shown_sender = shown("sender")
    shown_sender_name = shown("sender_name")
    shown_chat = shown("chat")

    pages = {
        "decide": "<str:public_id>/decide/",
        "everywhere": "<str:public_id>/everywhere/",
        "groups": "groups/",
    }
    list_display = ("sender_label", "said", "count", "status", "last_seen_at", "buttons")
    list_filter = ("state", "account", "kind", "last_seen_at")
    list_select_related = ("account", "decided_by")
    list_fullwidth = True
    search_fields = ("sender", "sender_name", "last_text", "chat", "public_id")
    newest_by = F("last_seen_at")
    public_ids = ("public_id",)
    ordering = ("-last_seen_at",)
    change_form_template = "dashboard/request.html"
    fields = (
        ("account", "kind"),
        ("shown_sender", "shown_sender_name"),
        ("shown_chat", "count"),
        ("status", "expires_at"),
        ("first_seen_at", "last_seen_at"),
        ("decided_by", "decided_at"),
        ("decided_via", "granted_user"),
        "access_until",
    )
    actions = ("approve", "approve_24h", "deny", "block", "unblock")

    @admin.display(description="sender", ordering="sender")
    def sender_label(self, row: UnknownRequest) -> SafeString:
        """Show the sender's name and id as the platform gave them."""
        return render_to_string("dashboard/sender.html", {"row": row})

    @admin.display(description="last message")
    def said(self, row: UnknownRequest) -> SafeString:
        """Show the last message, cut, with invisible characters visible; links to the request."""
        return render_to_string("dashboard/last_message.html", {"row": row})

    @admin.display(description="state", ordering="state")
    def status(self, row: UnknownRequest) -> SafeString:
        return state_badge(row.state, row.get_state_display())

    @admin.display(description="decide")
    def buttons(self, row: UnknownRequest) -> SafeString | str:
        """Show the four decisions while the request is pending."""
        if row.state != UnknownRequest.State.PENDING:
            return self.outcome(row)
        return render_to_string("dashboard/buttons.html", {"row": row, "form": "changelist-form"})

    @admin.display(description="access until")
    def access_until(self, row: UnknownRequest) -> datetime | None:
        return unknown_requests.end_of(row)

    @admin.display(description="decision")
    def outcome(self, row: UnknownRequest) -> str:
        """Show the decision in place of the buttons, for staff that may not decide."""
        if row.state == UnknownRequest.State.PENDING:
            return "–"
        return visible_line(unknown_requests.Verdict(row, first=True).text)

    def get_list_display(self, request: HttpRequest) -> Any:
        """Show the buttons to those whose press they take."""
        if self.has_decide_permission(request):
            return self.list_display
        return tuple("outcome" if each == "buttons" else each for each in self.list_display)

    approve = decide_chosen("Approve", "approve")
    approve_24h = decide_chosen("Approve for 24 h", "approve_24h")
    deny = decide_chosen("Deny", "deny")
    block = decide_chosen("Block", "block")

    @admin.action(description="Unblock", permissions=["decide"])
    def unblock(self, request: HttpRequest, queryset: QuerySet[UnknownRequest]) -> None:
        """Let senders who were blocked by mistake ask again."""
        assert isinstance(request.user, User)  # noqa: S101 - who may decide is one
        now = timezone.now()
        rows = unknown_requests.unblock(queryset, owner=request.user, via="admin", now=now)
        by = [found.pattern for row in rows if (found := patterns.of(row))]
        number = len(rows) - len(by)
        if by:
            names = ", ".join(sorted({visible_line(each, 60) for each in by}))
            text = f"{counted(len(by), 'sender')} still blocked by a pattern: {names}"
            messages.warning(request, f"{text}. Remove it under Block patterns.")
        if number or not by:
            text = f"{counted(number, 'sender')} unblocked: you are asked with the next message."
            messages.success(request, text)

    def has_decide_permission(self, request: HttpRequest) -> bool:
        return isinstance(request.user, User) and request.user.is_owner

    def groups_view(self, request: HttpRequest) -> HttpResponse:
        """Group pending senders, so that a flood shows as one line with a pattern to block it."""
        if not self.has_view_permission(request):
            raise PermissionDenied
        context = self.admin_site.each_context(request) | {
            "title": "Unknown senders by pattern",
            "groups": patterns.groups(),
            "may_decide": self.has_decide_permission(request),
        }
        return TemplateResponse(request, "dashboard/sender_groups.html", context)

    def decide_view(self, request: HttpRequest, public_id: str) -> HttpResponse:
        """Carry out one decision (POST) and redirect to the page it came from."""
        verdict = request.POST.get("verdict", "")
        if request.method != "POST" or verdict not in unknown_requests.STATES:
            return HttpResponseBadRequest("A decision must be a POST with a verdict.")
        person = None
        if request.POST.get("person"):
            person = User.objects.filter(username=request.POST["person"], is_active=True).first()
            if person is None:
                messages.error(request, "There is no active user with this username.")
                return self._back(request)
        everywhere = request.POST.get("everywhere") == "on"
        self.decide(request, public_id, verdict, person, everywhere=everywhere)
        return self._back(request)

    @method_decorator(require_POST)
    def everywhere_view(self, request: HttpRequest, public_id: str) -> HttpResponse:
        """List an approved sender on every account of the channel."""
        if not isinstance(request.user, User):
            raise PermissionDenied
        try:
            row = unknown_requests.extend(
                request=public_id, owner=request.user, via="admin", now=timezone.now()
            )
        except unknown_requests.NotAnOwner as error:
            raise PermissionDenied from error
        except unknown_requests.RequestNotFound as error:
            messages.error(request, str(error))
            return self._back(request)
        messages.success(request, f"Listed on every account of {row.account.channel}.")
        return HttpResponseRedirect(reverse("admin:allowlist_unknownrequest_change", args=[row.pk]))

    def page_context(self, request: HttpRequest, row: UnknownRequest) -> dict[str, Any]:
        """Return the held messages and the users that the sender may be approved as."""
        return {
            "held": held_messages.of(row)[:MOST_HELD],
            "people": place_form.people(),
            "may_decide": self.has_decide_permission(request),
            "pattern": patterns.suggestion(row),
            "unknown_on": unknown_requests.unknown_on(row, now=timezone.now()),
        }

    def decide(
        self,
        request: HttpRequest,
        public_id: str,
        verdict: str,
        person: User | None = None,
        *,
        everywhere: bool = False,
    ) -> None:
        """Carry out one decision; say what came of it."""
        if not isinstance(request.user, User):
            raise PermissionDenied
        try:
            outcome = decisions.decide(
                request=public_id,
                verdict=unknown_requests.choice(verdict),
                owner=request.user,
                via="admin",
                now=timezone.now(),
                user=person,
                everywhere=everywhere,
            )
        except unknown_requests.NotAnOwner as error:
            raise PermissionDenied from error
        except (unknown_requests.RequestNotFound, InvalidIdentity) as error:
            messages.error(request, str(error))
            return
        who = visible_line(outcome.request.sender_name or outcome.request.sender, 60)
        level = messages.SUCCESS if outcome.first else messages.WARNING
        held = f" Messages that run now: {outcome.replayed}." if outcome.replayed else ""
        messages.add_message(request, level, f"{who}: {outcome.text}{held}")

    def _back(self, request: HttpRequest) -> HttpResponse:
        name = (
            "index"
            if request.POST.get("back") == "dashboard"
            else "allowlist_unknownrequest_changelist"
        )
        return HttpResponseRedirect(reverse(f"admin:{name}"))
