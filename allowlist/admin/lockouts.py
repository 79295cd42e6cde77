"""Sign-ins that failed too often: deleting a row lets its address try again."""

from axes.models import AccessAttempt
from django.contrib import admin
from django.http import HttpRequest

from core.desk import ReadOnlyAdmin


@admin.register(AccessAttempt)
class AccessAttemptAdmin(ReadOnlyAdmin[AccessAttempt]):
    """Failed sign-ins, by user name and address."""

    list_display = ("username", "ip_address", "failures_since_start", "attempt_time")
    list_filter = ("attempt_time",)
    search_fields = ("username", "ip_address")
    ordering = ("-attempt_time",)
    fields = ("username", "ip_address", "failures_since_start", "attempt_time", "user_agent")
    actions = ("delete_selected",)

    def has_delete_permission(self, request: HttpRequest, obj: AccessAttempt | None = None) -> bool:
        """By Django's own right."""
        return request.user.has_perm("axes.delete_accessattempt")
