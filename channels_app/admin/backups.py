"""Backups in the admin: the list, the schedule, and "Back up now"."""

from typing import Any

from django.conf import settings
from django.contrib import admin, messages
from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.shortcuts import redirect
from django.template.defaultfilters import filesizeformat
from django.urls import reverse
from django.utils import timezone
from django.utils.decorators import method_decorator
from django.views.decorators.http import require_POST

from allowlist.admin.audited import AuditedAdmin, OnlyDeciders
from channels_app.owner import backups
from core.admin.base import ChangedFieldsOnly, ModelForm, ReadOnlyAdmin, shown, shown_state
from core.models import Backup, BackupSchedule

COLOURS = {
    Backup.State.WAITING: "queued",
    Backup.State.RUNNING: "running",
    Backup.State.GOOD: "succeeded",
    Backup.State.FAILED: "failed",
}


@admin.register(Backup)
class BackupAdmin(ReadOnlyAdmin[Backup]):
    """The backups that were asked for and made, below the schedule."""

    why = shown("error")
    status = shown_state(colours=COLOURS)

    list_display = ("status", "asked_at", "cause", "name", "content", "why")
    list_filter = ("state", "cause")
    search_fields = ("name", "error")
    ordering = ("-id",)
    list_before_template = "dashboard/backups_above.html"
    pages = {"make": "make"}
    fields = ("status", "cause", ("asked_at", "finished_at"), "name", "content", "why")

    @admin.display(description="content")
    def content(self, backup: Backup) -> str | None:
        """Say how much it holds; None of one that was not made."""
        if not backup.name:
            return None
        rows = f"{backup.rows:,} rows, " if backup.rows else ""
        keys = "with keys" if backup.has_keys else "without keys"
        return f"{filesizeformat(backup.size)}: {rows}{backup.files:,} files, {keys}"

    def changelist_view(
        self, request: HttpRequest, extra_context: dict[str, Any] | None = None
    ) -> HttpResponse:
        """Add what stands above the list."""
        schedule = BackupSchedule.objects.filter(id=1).first() or BackupSchedule()
        above = {
            "schedule": schedule,
            "next": backups.next_time(schedule, after=timezone.now()) if schedule.is_on else None,
            "may_make": request.user.has_perm("core.add_backup"),
            "may_change": request.user.has_perm("core.view_backupschedule"),
            "has_passphrase": bool(settings.BACKUP_PASSPHRASE),
            "folder": settings.BACKUP_FOLDER,
        }
        response: HttpResponse = super().changelist_view(
            request, {**(extra_context or {}), "backups": above}
        )
        return response

    @method_decorator(require_POST)
    def make_view(self, request: HttpRequest) -> HttpResponse:
        """Ask for a backup; a worker makes it."""
        if not request.user.has_perm("core.add_backup"):
            raise PermissionDenied
        if backups.ask(cause=Backup.Cause.ADMIN, now=timezone.now()):
            messages.success(request, "A backup is being made: reload this page in a minute.")
        else:
            messages.info(request, "A backup is being made already.")
        return redirect("admin:core_backup_changelist")


class BackupScheduleForm(ChangedFieldsOnly, ModelForm[BackupSchedule]):
    """Day and time, and whether it is on."""


@admin.register(BackupSchedule)
class BackupScheduleAdmin(OnlyDeciders, AuditedAdmin[BackupSchedule]):
    """The one schedule."""

    form = BackupScheduleForm
    fields = ("is_on", "day", "at")

    def has_add_permission(self, request: HttpRequest, *args: Any) -> bool:
        """Allow none: there is one."""
        return False

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        """Allow none: it is switched off instead."""
        return False

    def changelist_view(
        self, request: HttpRequest, extra_context: dict[str, Any] | None = None
    ) -> HttpResponse:
        """Go to the page of the one row."""
        return redirect("admin:core_backupschedule_change", 1)

    def get_object(
        self, request: HttpRequest, object_id: str, from_field: str | None = None
    ) -> BackupSchedule | None:
        """Return the schedule also where none was saved yet."""
        found = super().get_object(request, object_id, from_field)
        return BackupSchedule() if found is None and object_id == "1" else found

    def response_post_save_change(
        self, request: HttpRequest, obj: BackupSchedule
    ) -> HttpResponseRedirect:
        """Go back to the backups."""
        return HttpResponseRedirect(reverse("admin:core_backup_changelist"))

    def save_model(self, request: HttpRequest, obj: BackupSchedule, form: Any, change: Any) -> None:
        """Have the next time planned anew."""
        obj.next_at = None
        super().save_model(request, obj, form, change)
