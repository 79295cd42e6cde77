"""Channel accounts in the admin: add, enable, test ([C1])."""

from contextlib import suppress
from datetime import UTC, datetime
from typing import Any

from django.contrib import admin, messages
from django.core.exceptions import PermissionDenied
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.shortcuts import get_object_or_404
from django.template.response import TemplateResponse
from django.urls import reverse
from django.utils.decorators import method_decorator
from django.views.decorators.http import require_POST

from allowlist.admin.audited import DeletedInParts, OnlyDeciders
from channels_app import registry
from channels_app.admin.account_form import AccountForm, fields_of, form_for, input_name
from channels_app.base import ChannelError
from channels_app.worker import account_watcher
from core.admin.base import shown, shown_state, visible_line
from core.lib import encryption
from core.models import ChannelAccount

SAVED = (
    "{account} was saved. A worker asks the platform within seconds whether it accepts this; the "
    "status says what it answered."
)
NOT_TOLD = "{account}: the platform was not told that this account is gone. {reason}"
STORED = ("config", "secrets_set")
MORE = (*STORED, ("secret_name", "secret_value"))


@admin.register(ChannelAccount)
class ChannelAccountAdmin(OnlyDeciders, DeletedInParts[ChannelAccount]):
    """Channel accounts, for owners only: a webhook secret lets its holder speak as any sender, and
    deleting an account also removes its identities.
    """

    shown_status_text = shown("status_text", limit=80)
    shown_whole_status = shown("status_text", limit=500)
    state = shown_state("status")

    form = AccountForm
    list_display = ("__str__", "enabled", "state", "shown_status_text", "platform_says")
    actions = ("test_connection",)
    list_filter = ("channel", "enabled", "status")
    search_fields = ("channel", "name", "status_text")
    ordering = ("channel", "name")
    change_form_outer_before_template = "dashboard/account.html"
    pages = {"test": "<int:pk>/test/"}

    @admin.display(description="the platform says")
    def platform_says(self, account: ChannelAccount) -> str:
        """Show what the platform last reported: pending updates, its last error."""
        return ", ".join(
            f"{name.replace('_', ' ')}: {fact(name, value)}"
            for name, value in account.health.items()
            if value or name == "pending"
        )

    @admin.display(description="secrets that are set")
    def secrets_set(self, account: ChannelAccount) -> str:
        """List the names of the stored secrets, without values."""
        try:
            return ", ".join(sorted(encryption.decrypt(account.secrets))) or "none"
        except encryption.DecryptError as error:
            return str(error)

    def get_readonly_fields(
        self, request: HttpRequest, obj: ChannelAccount | None = None
    ) -> tuple[str, ...]:
        """Fix the channel of an existing account: sessions and identities depend on it."""
        fixed = ("state", "shown_whole_status", "platform_says", "secrets_set", "created_at")
        return (*fixed, "channel") if obj is not None else fixed

    def get_fieldsets(self, request: HttpRequest, obj: ChannelAccount | None = None) -> Any:
        """Show the channel's fields, and collapse the rest; without the form show what is stored:
        fields of the form alone would look as if they were empty.
        """
        declared = tuple(input_name(each) for each in fields_of(channel_id(request, obj)))
        state = (("state", "platform_says"), "shown_whole_status") if obj is not None else ()
        top = (None, {"fields": (("channel", "name"), "enabled", *state)})
        if obj is not None and not self.has_change_permission(request, obj):
            return (top, ("Settings and secrets", {"fields": STORED}))
        if not declared:
            return (top, ("Settings and secrets", {"fields": MORE}))
        own = ("Connection", {"fields": declared})
        return (top, own, ("More", {"fields": MORE, "classes": ("collapse",)}))

    def get_form(
        self, request: HttpRequest, obj: ChannelAccount | None = None, *args: Any, **kwargs: Any
    ) -> Any:
        kwargs["form"] = form_for(channel_id(request, obj))
        return super().get_form(request, obj, *args, **kwargs)

    def add_view(
        self, request: HttpRequest, form_url: str = "", extra_context: Any = None
    ) -> HttpResponse:
        """Ask for the channel first, then show the form."""
        if channel_id(request, None):
            return super().add_view(request, form_url, extra_context)
        if not self.has_add_permission(request):
            raise PermissionDenied
        context = self.admin_site.each_context(request) | {
            "title": "Select a channel",
            "opts": self.model._meta,
            "channels": [registry.get(name) for name in registry.offered()],
        }
        return TemplateResponse(request, "dashboard/choose_channel.html", context)

    def save_model(self, request: HttpRequest, obj: ChannelAccount, form: Any, change: Any) -> None:
        """Encrypt the given secrets with the existing ones."""
        given = form.given_secrets(form.cleaned_data)
        if given:
            kept = form.known | given  # replaces secrets that cannot be decrypted
            obj.secrets = encryption.encrypt({name: value for name, value in kept.items() if value})
        super().save_model(request, obj, form, change)
        for name, value in given.items():
            self.record(request, "secret_set" if value else "secret_removed", obj, {"name": name})
        account_watcher.mark_saved(account_id=obj.pk)
        if obj.enabled and registry.get(obj.channel) is not None:
            words = SAVED.format(account=obj)
            messages.info(request, words)
            vars(request)["saved_account"] = words

    def stop(self, obj: ChannelAccount) -> None:
        """Disable the account, so that nothing more comes in."""
        ChannelAccount.objects.filter(pk=obj.pk).update(enabled=False)
        account_watcher.mark_saved(account_id=obj.pk)

    def remove_before(self, request: HttpRequest, obj: ChannelAccount) -> None:
        """Tell the platform before the row goes: no worker can afterwards."""
        super().remove_before(request, obj)
        if obj.status == "stopped":
            return
        try:
            account_watcher.retire_now(obj)
        except (ChannelError, encryption.DecryptError) as error:
            words = NOT_TOLD.format(account=obj, reason=visible_line(str(error)))
            messages.warning(request, words)

    def message_user(
        self,
        request: HttpRequest,
        message: Any,
        level: Any = messages.INFO,
        *args: Any,
        **kwargs: Any,
    ) -> None:
        """Report a saved account as pending until its platform has accepted it."""
        if level != messages.SUCCESS or "saved_account" not in vars(request):
            super().message_user(request, message, level, *args, **kwargs)

    @method_decorator(require_POST)
    def test_view(self, request: HttpRequest, pk: int) -> HttpResponse:
        row = get_object_or_404(ChannelAccount, pk=pk)
        if not self.has_change_permission(request, row):
            raise PermissionDenied
        show_test(request, row)
        return HttpResponseRedirect(reverse("admin:core_channelaccount_change", args=[pk]))

    @admin.action(description="Test the connection", permissions=["change"])
    def test_connection(self, request: HttpRequest, queryset: QuerySet[ChannelAccount]) -> None:
        """Call the platform with the chosen accounts' credentials."""
        for row in queryset:
            show_test(request, row)


def show_test(request: HttpRequest, row: ChannelAccount) -> None:
    """Test an account's credentials against its platform and show the result as a message."""
    try:
        said = account_watcher.test_now(row)
    except (ChannelError, encryption.DecryptError) as error:
        messages.error(request, f"{row}: {visible_line(str(error))}")
    else:
        messages.success(request, f"{row}: {visible_line(said)}")


def channel_id(request: HttpRequest, account: ChannelAccount | None) -> str:
    """Return the channel of a page; empty when none has been chosen yet."""
    if account is not None:
        return account.channel
    return str(request.POST.get("channel") or request.GET.get("channel") or "").strip()


def fact(name: str, value: object) -> str:
    """Format one value that a platform reported; ``…_at`` are seconds since 1970."""
    if name.endswith("_at") and isinstance(value, int):
        with suppress(ValueError, OverflowError, OSError):  # of another unit
            return f"{datetime.fromtimestamp(value, UTC):%Y-%m-%d %H:%M} UTC"
    return visible_line(str(value), 200)
