"""The audit in the admin, read-only."""

import json

from django.contrib import admin
from django.db.models import F

from allowlist.models import AuditEntry
from core.admin.base import ReadOnlyAdmin, shown, visible_line
from core.admin.bounded import NewestValuesFilter


@admin.register(AuditEntry)
class AuditEntryAdmin(ReadOnlyAdmin[AuditEntry]):
    shown_actor = shown("actor")
    shown_subject = shown("subject", limit=400)

    list_display = ("id", "at", "shown_actor", "action", "shown_subject")
    list_filter = (("action", NewestValuesFilter), "at")
    newest_by = F("pk")
    search_fields = ("actor", "action", "subject")
    ordering = ("-id",)
    fields = (
        "at",
        "shown_actor",
        "action",
        "shown_subject",
        "shown_data",
        "previous",
        "digest",
    )

    @admin.display(description="data")
    def shown_data(self, entry: AuditEntry) -> str:
        return visible_line(json.dumps(entry.data, sort_keys=True, ensure_ascii=False), 4000)
