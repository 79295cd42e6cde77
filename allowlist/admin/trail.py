"""The audit in the admin, to read."""

from django.contrib import admin

from allowlist import audit
from allowlist.models import AuditEntry
from core.desk import ReadOnlyAdmin, visible_line


@admin.register(AuditEntry)
class AuditEntryAdmin(ReadOnlyAdmin[AuditEntry]):
    """The audit, to read."""

    list_display = ("id", "at", "who", "action", "about")
    list_filter = ("action", "at")
    search_fields = ("actor", "action", "subject")
    ordering = ("-id",)
    fields = ("at", "who", "action", "about", "shown_data", "previous", "digest")

    @admin.display(description="actor", ordering="actor")
    def who(self, entry: AuditEntry) -> str:
        """With invisible characters shown."""
        return visible_line(entry.actor, 80)

    @admin.display(description="subject", ordering="subject")
    def about(self, entry: AuditEntry) -> str:
        """With invisible characters shown."""
        return visible_line(entry.subject, 120)

    @admin.display(description="data")
    def shown_data(self, entry: AuditEntry) -> str:
        """As JSON, with invisible characters shown."""
        return visible_line(audit.data_text(entry), 4000)
