"""The owner's rules how long things are kept, and the dry run of them that a worker makes."""

from typing import Any

from django.contrib import admin
from django.core.exceptions import PermissionDenied
from django.db.models import Model
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.template.response import TemplateResponse

from allowlist.admin.audited import AuditedAdmin, OnlyDeciders
from core.admin.base import ChangedFieldsOnly, ModelForm
from core.conversations.retention import counts, passes
from core.models import RetentionRule


class RetentionRuleForm(ChangedFieldsOnly, ModelForm[RetentionRule]):
    """A rule; its duration is one of two fields."""

    at_once = frozenset({"days", "newest"})


@admin.register(RetentionRule)
class RetentionRuleAdmin(OnlyDeciders, AuditedAdmin[RetentionRule]):
    """How long rows are kept, and whose; changed by owners."""

    form = RetentionRuleForm
    list_display = ("kind", "shown_target", "shown_duration", "created_at")
    list_filter = ("kind", "account", "assistant")
    list_select_related = RetentionRule.TARGETS
    search_fields = ("user__username", "user__display_name", "assistant__name")
    ordering = ("kind", "id")
    fieldsets = (
        (
            None,
            {
                "fields": ("kind", "user", "account", "assistant", "days", "newest"),
                "description": "Choose a person, an account or an assistant, or none for everyone. "
                "The most specific rule counts, in that order.",
            },
        ),
    )
    autocomplete_fields = ("user",)
    list_before_template = "dashboard/retention_above.html"
    pages = {"due": "due/"}

    def due_view(self, request: HttpRequest) -> HttpResponse:
        """Show what the rules would remove, as a worker counted it; a POST counts again."""
        may_ask, asks = self.has_change_permission(request), request.method == "POST"
        if not (may_ask if asks else self.has_view_permission(request)):
            raise PermissionDenied
        if asks:
            counts.ask()
            return redirect("admin:core_retentionrule_due")
        rules = passes.in_order()
        context: dict[str, Any] = self.admin_site.each_context(request) | {
            "title": "Dry run",
            "opts": self.model._meta,
            "rules": rules,
            "are_counted": all(rule.counts is not None for rule in rules),
            "may_ask": may_ask,
        }
        return TemplateResponse(request, "dashboard/retention_due.html", context)

    def record(
        self, request: HttpRequest, action: str, obj: Model, data: dict[str, object]
    ) -> None:
        """Have all rules counted again, too: one may be about rows of another."""
        super().record(request, action, obj, data)
        counts.ask()

    @admin.display(description="for")
    def shown_target(self, row: RetentionRule) -> str:
        return row.target()

    @admin.display(description="kept")
    def shown_duration(self, row: RetentionRule) -> str:
        return row.duration()
