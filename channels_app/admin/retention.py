"""The owner's rules how long things are kept, and a dry run of them."""

from typing import Any

from django.contrib import admin
from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponse
from django.template.response import TemplateResponse
from django.urls import URLPattern, path
from django.utils import timezone

from allowlist.admin.audited import AuditedAdmin, OnlyDeciders
from channels_app.worker import retention
from core.models import RetentionRule


@admin.register(RetentionRule)
class RetentionRuleAdmin(OnlyDeciders, AuditedAdmin[RetentionRule]):
    """How long rows are kept, and whose; changed by owners."""

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

    def get_urls(self) -> list[URLPattern]:
        wrap, name = self.admin_site.admin_view, "core_retentionrule_due"
        return [path("due/", wrap(self.due_view), name=name), *super().get_urls()]

    def due_view(self, request: HttpRequest) -> HttpResponse:
        """Say what would go now: the dry run of ``manage.py retention``."""
        if not self.has_view_permission(request):
            raise PermissionDenied
        context: dict[str, Any] = self.admin_site.each_context(request) | {
            "title": "Due now",
            "opts": self.model._meta,
            "found": retention.due(now=timezone.now()),
        }
        return TemplateResponse(request, "dashboard/retention_due.html", context)

    @admin.display(description="for")
    def shown_target(self, row: RetentionRule) -> str:
        return row.target()

    @admin.display(description="kept")
    def shown_duration(self, row: RetentionRule) -> str:
        return row.duration()
