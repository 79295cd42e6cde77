"""API keys in the admin: made, shown once, revoked; never changed ([A10])."""

from typing import Any

from django import forms
from django.contrib import admin, messages
from django.core.exceptions import ValidationError
from django.db.models import Q, QuerySet
from django.http import HttpRequest, HttpResponse
from django.utils import timezone

from allowlist import keys
from allowlist.admin.audited import actor, is_superuser, shown_once
from allowlist.models import ApiKey
from core.admin.base import ModelForm, ThemedAdmin, visible_line
from core.models import User


class ApiKeyForm(ModelForm[ApiKey]):
    """A new key: of a person or of a bridge account, with its scopes."""

    scopes = forms.MultipleChoiceField(
        choices=ApiKey.Scope.choices, widget=forms.CheckboxSelectMultiple
    )

    class Meta:
        """Its fields."""

        model = ApiKey
        fields = ("name", "user", "account", "scopes", "expires_at")

    def clean(self) -> dict[str, Any]:
        """One person or one bridge; without these fields, the visitor's own."""
        data = super().clean() or {}
        if "user" in self.fields and bool(data.get("user")) == bool(data.get("account")):
            raise ValidationError("A key belongs to exactly one person or one bridge account.")
        return data


@admin.register(ApiKey)
class ApiKeyAdmin(ThemedAdmin[ApiKey]):
    """API keys: made here, shown once, revoked; never changed."""

    form = ApiKeyForm
    list_display = ("name", "public", "owner", "may", "expires_at", "last_used_at", "usable")
    list_filter = ("expires_at", ("revoked_at", admin.EmptyFieldListFilter))
    list_select_related = ("user", "account")
    search_fields = ("name", "prefix", "user__username", "account__name")
    ordering = ("-id",)
    fields = ("name", "user", "account", "scopes", "expires_at")
    autocomplete_fields = ("user",)
    actions = ("revoke",)

    @admin.display(description="key")
    def public(self, key: ApiKey) -> str:
        """Its public part."""
        return f"lk_{key.prefix}_…"

    @admin.display(description="of")
    def owner(self, key: ApiKey) -> str:
        """The person or the bridge."""
        return visible_line(str(key.user or key.account), 60)

    @admin.display(description="scopes")
    def may(self, key: ApiKey) -> str:
        """What it may do."""
        return ", ".join(key.scopes)

    @admin.display(boolean=True)
    def usable(self, key: ApiKey) -> bool:
        """Neither revoked nor expired, and its owner active."""
        return keys.usable(key, timezone.now())

    def get_queryset(self, request: HttpRequest) -> QuerySet[ApiKey]:
        """One's own, for everybody but a superuser."""
        mine = Q() if is_superuser(request) else Q(user=request.user.pk)
        return super().get_queryset(request).filter(mine)

    def get_fields(self, request: HttpRequest, obj: ApiKey | None = None) -> Any:
        """A made key shows what it is; who is no superuser makes keys of their own only."""
        if obj is not None:
            return ("name", "public", "owner", "may", "expires_at", "last_used_at", "revoked_at")
        return self.fields if is_superuser(request) else ("name", "scopes", "expires_at")

    def get_readonly_fields(self, request: HttpRequest, obj: ApiKey | None = None) -> Any:
        """All of a made key."""
        return () if obj is None else self.get_fields(request, obj)

    def has_change_permission(self, request: HttpRequest, obj: ApiKey | None = None) -> bool:
        """A key is never changed."""
        return False

    def has_delete_permission(self, request: HttpRequest, obj: ApiKey | None = None) -> bool:
        """Nor deleted: revoked ones stay for the record."""
        return False

    def has_revoke_permission(self, request: HttpRequest) -> bool:
        """Who may delete keys may revoke them."""
        return request.user.has_perm("allowlist.delete_apikey")

    @admin.action(description="Revoke", permissions=["revoke"])
    def revoke(self, request: HttpRequest, queryset: QuerySet[ApiKey]) -> None:
        """End the chosen keys."""
        now = timezone.now()
        done = [keys.revoke(key=key, actor=actor(request), now=now) for key in queryset]
        messages.info(request, f"{sum(done)} keys were revoked.")

    def save_model(self, request: HttpRequest, obj: ApiKey, form: Any, change: Any) -> None:
        """Made by ``keys``; the token waits for the answer of this request."""
        mine = request.user if isinstance(request.user, User) else None
        made, token = keys.create(
            name=obj.name,
            user=obj.user if is_superuser(request) else mine,
            account=obj.account if is_superuser(request) else None,
            scopes=form.cleaned_data["scopes"],
            expires_at=obj.expires_at,
            actor=actor(request),
        )
        obj.pk, obj.prefix, obj.token = made.pk, made.prefix, token

    def response_add(
        self, request: HttpRequest, obj: ApiKey, post_url_continue: str | None = None
    ) -> HttpResponse:
        """Show the token, this once."""
        return shown_once(self, request, f"API key {obj.name}", obj.token, obj)
