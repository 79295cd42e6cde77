"""Block patterns in the admin."""

from typing import Any

from django.contrib import admin, messages
from django.core.exceptions import PermissionDenied, ValidationError
from django.http import HttpRequest
from django.utils import timezone
from django.utils.translation import gettext

from allowlist import patterns
from allowlist.admin.audited import AuditedAdmin
from allowlist.models import BlockPattern
from channels_app.owner import notices
from core.admin.base import ModelForm, shown
from core.models import User


class PatternForm(ModelForm[BlockPattern]):
    """A pattern that is not too general."""

    class Meta:
        model = BlockPattern
        fields = ("pattern", "kind", "account", "note")

    def clean_pattern(self) -> str:
        """Trim the pattern; refuse one that matches nearly every sender."""
        try:
            return patterns.check(self.cleaned_data["pattern"])
        except patterns.InvalidPattern as error:
            raise ValidationError(str(error)) from error


@admin.register(BlockPattern)
class BlockPatternAdmin(AuditedAdmin[BlockPattern]):
    """Block patterns: created and removed by owners ([A6]), never changed."""

    shown_pattern = shown("pattern")
    shown_note = shown("note")

    form = PatternForm
    list_display = ("shown_pattern", "kind", "account", "shown_note", "hits", "last_hit_at")
    list_filter = ("kind", "account", "last_hit_at")
    list_select_related = ("account",)
    search_fields = ("pattern", "note")
    ordering = ("-id",)
    fields = ("pattern", "kind", "account", "note")

    def get_fields(self, request: HttpRequest, obj: BlockPattern | None = None) -> Any:
        if obj is None:
            return self.fields
        return ("shown_pattern", "kind", "account", "shown_note", "hits", "last_hit_at")

    def get_readonly_fields(self, request: HttpRequest, obj: BlockPattern | None = None) -> Any:
        return () if obj is None else self.get_fields(request, obj)

    def has_add_permission(self, request: HttpRequest) -> bool:
        return isinstance(request.user, User) and request.user.is_owner

    def has_change_permission(self, request: HttpRequest, obj: BlockPattern | None = None) -> bool:
        """Refuse: its counters would no longer belong to the pattern shown."""
        return False

    def has_delete_permission(self, request: HttpRequest, obj: BlockPattern | None = None) -> bool:
        return self.has_add_permission(request)

    def save_model(self, request: HttpRequest, obj: BlockPattern, form: Any, change: Any) -> None:
        """Save, deny the matching pending requests, and remove the buttons of their notices."""
        if not isinstance(request.user, User):
            raise PermissionDenied
        obj.created_by = request.user
        # First: like a decision it locks requests before the audit.
        rows = patterns.apply(pattern=obj, owner=request.user, now=timezone.now())
        super().save_model(request, obj, form, change)

        def denied() -> str:
            return gettext("Denied: {pattern} is blocked.").format(pattern=obj)

        for row in rows:
            if row.notice_at is not None:
                notices.decided(row, text=denied)
        messages.info(request, f"Pending unknown senders that are denied now: {len(rows)}.")
