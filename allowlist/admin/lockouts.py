"""Lockouts after failed sign-ins: deleting a row lets its address try again."""

from axes.models import AccessAttempt
from django.contrib import admin
from django.db.models import F
from django.http import HttpRequest

from core.admin.base import ReadOnlyAdmin, shown


@admin.register(AccessAttempt)
class AccessAttemptAdmin(ReadOnlyAdmin[AccessAttempt]):
    """Failed sign-ins, by user name and address."""

    shown_username = shown("username", limit=80)
    shown_user_agent = shown("user_agent")

    list_display = ("shown_username", "ip_address", "failures_since_start", "attempt_time")
    list_filter = ("attempt_time",)
    search_fields = ("username", "ip_address")
    newest_by = F("pk")
    ordering = ("-attempt_time",)
    fields = (*list_display, "shown_user_agent")
    actions = ("delete_selected",)

    def has_delete_permission(self, request: HttpRequest, obj: AccessAttempt | None = None) -> bool:
        return request.user.has_perm("axes.delete_accessattempt")
