"""API keys in the admin: created, shown once, revoked; never changed ([A10])."""

from datetime import datetime
from typing import Any

from django import forms
from django.contrib import admin, messages
from django.core.exceptions import ValidationError
from django.db.models import F, Q, QuerySet
from django.http import HttpRequest, HttpResponse
from django.utils import timezone

from allowlist import audit, keys
from allowlist.admin.audited import is_superuser, shown_once
from allowlist.models import ApiKey
from core.admin.base import ModelForm, ThemedAdmin, visible_line
from core.lib.text import counted
from core.models import AssistantBinding, Budget, User


class ApiKeyForm(ModelForm[ApiKey]):
    """A new key of a user or of a bridge account, with its scopes."""

    scopes = forms.MultipleChoiceField(
        choices=ApiKey.Scope.choices, widget=forms.CheckboxSelectMultiple
    )

    class Meta:
        model = ApiKey
        fields = ("name", "user", "account", "scopes", "model_only", "expires_at")

    def clean_expires_at(self) -> datetime | None:
        """Refuse a time that is over: the key would never work, and no answer says why."""
        end: datetime | None = self.cleaned_data["expires_at"]
        if end is not None and end <= timezone.now():
            raise ValidationError("This time is over.")
        return end

    def clean(self) -> dict[str, Any]:
        """Require one user or one bridge; without these fields, use the current user."""
        data = super().clean() or {}
        if "user" in self.fields and bool(data.get("user")) == bool(data.get("account")):
            # Beside a field: else Django would say in its words that a constraint is violated.
            self.add_error("user", "A key belongs to exactly one person or one bridge account.")
        return data


@admin.register(ApiKey)
class ApiKeyAdmin(ThemedAdmin[ApiKey]):
    """API keys: created here, shown once, revoked; never changed."""

    form = ApiKeyForm
    list_display = (
        *("name", "public", "owner", "may", "answered_by", "expires_at", "last_used_at", "usable"),
    )
    list_filter = ("expires_at", "model_only", ("revoked_at", admin.EmptyFieldListFilter))
    list_select_related = ("user", "account")
    search_fields = ("name", "prefix", "user__username", "account__name")
    newest_by = F("pk")
    ordering = ("-id",)
    fields = ("name", "user", "account", "scopes", "model_only", "expires_at")
    autocomplete_fields = ("user",)
    actions = ("revoke",)

    @admin.display(description="key")
    def public(self, key: ApiKey) -> str:
        return f"lk_{key.prefix}_…"

    @admin.display(description="of")
    def owner(self, key: ApiKey) -> str:
        return visible_line(str(key.user or key.account), 60)

    @admin.display(description="scopes")
    def may(self, key: ApiKey) -> str:
        return ", ".join(key.scopes)

    @admin.display(description="answered by", ordering="model_only")
    def answered_by(self, key: ApiKey) -> str:
        return "model only" if key.model_only else "gateway assistant"

    @admin.display(boolean=True)
    def usable(self, key: ApiKey) -> bool:
        return key.is_usable(timezone.now())

    def get_queryset(self, request: HttpRequest) -> QuerySet[ApiKey]:
        """Limit to the user's own keys, except for superusers."""
        mine = Q() if is_superuser(request) else Q(user=request.user.pk)
        return super().get_queryset(request).filter(mine)

    def get_fields(self, request: HttpRequest, obj: ApiKey | None = None) -> Any:
        """Show a created key's data; only superusers create keys for others."""
        if obj is not None:
            shown = ("name", "public", "owner", "may", "answered_by")
            return (*shown, "expires_at", "last_used_at", "revoked_at")
        mine = ("name", "scopes", "model_only", "expires_at")
        return self.fields if is_superuser(request) else mine

    def get_readonly_fields(self, request: HttpRequest, obj: ApiKey | None = None) -> Any:
        return () if obj is None else self.get_fields(request, obj)

    def has_change_permission(self, request: HttpRequest, obj: ApiKey | None = None) -> bool:
        return False

    def has_delete_permission(self, request: HttpRequest, obj: ApiKey | None = None) -> bool:
        """Refuse: revoked keys stay as a record."""
        return False

    def has_revoke_permission(self, request: HttpRequest) -> bool:
        return request.user.has_perm("allowlist.delete_apikey")

    @admin.action(description="Revoke", permissions=["revoke"])
    def revoke(self, request: HttpRequest, queryset: QuerySet[ApiKey]) -> None:
        actor, now = audit.actor_of(request.user), timezone.now()
        done = [keys.revoke(key=key, actor=actor, now=now) for key in queryset]
        messages.info(request, f"Revoked: {counted(sum(done), 'key')}.")
        theirs = Q(key_id__in=[key.pk for key in queryset])
        if any(model.objects.filter(theirs).exists() for model in (Budget, AssistantBinding)):
            said = (
                "A budget or an assistant belongs to it: a new key in its place needs them again."
            )
            messages.warning(request, said)

    def save_model(self, request: HttpRequest, obj: ApiKey, form: Any, change: Any) -> None:
        """Create the key; its token is kept for the response of this request."""
        mine = request.user if isinstance(request.user, User) else None
        made, token = keys.create(
            name=obj.name,
            user=obj.user if is_superuser(request) else mine,
            account=obj.account if is_superuser(request) else None,
            scopes=form.cleaned_data["scopes"],
            expires_at=obj.expires_at,
            model_only=obj.model_only,
            actor=audit.actor_of(request.user),
        )
        obj.pk, obj.prefix, obj.token = made.pk, made.prefix, token

    def response_add(
        self, request: HttpRequest, obj: ApiKey, post_url_continue: str | None = None
    ) -> HttpResponse:
        return shown_once(self, request, f"API key {obj.name}", obj.token, obj)
