"""People in the admin, with their identities; sign-in links; explanation of access."""

from contextlib import nullcontext
from http import HTTPStatus
from typing import TYPE_CHECKING, Any

from django import forms
from django.contrib import admin
from django.contrib.auth.admin import UserAdmin as DjangoUserAdmin
from django.contrib.auth.forms import UserChangeForm
from django.core.exceptions import PermissionDenied, ValidationError
from django.db.models import Count, F, Max, OuterRef, QuerySet, Subquery
from django.db.models.functions import Coalesce
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404
from django.template.response import TemplateResponse
from django.urls import URLPattern, path
from django.utils import timezone
from django.utils.decorators import method_decorator
from django.utils.formats import localize
from django.utils.safestring import SafeString
from django.views.decorators.http import require_POST
from unfold.forms import AdminPasswordChangeForm
from unfold.widgets import UnfoldAdminCheckboxSelectMultipleWidget

from allowlist import link_codes, revocation, sign_in
from allowlist.admin.audited import (
    DeletedInParts,
    OnlyDeciders,
    decides,
    disable_servers_of,
    is_superuser,
    shown_once,
)
from allowlist.identities import InvalidIdentity, normalise
from allowlist.permissions import Sender, decide, explain, open_kinds
from core.admin.base import (
    ChangedFieldsOnly,
    ModelForm,
    PlainForm,
    RowsFormSet,
    ThemedInline,
    badge,
    visible_line,
)
from core.conversations import push_subscriptions
from core.conversations.schedules.rule_text import RuleError
from core.conversations.schedules.zones import zone_named
from core.database import transactions
from core.models import ChannelAccount, ChannelIdentity, User

if TYPE_CHECKING:
    _DjangoUserAdmin = DjangoUserAdmin[User]
    _UserForm = UserChangeForm[User]
else:
    _DjangoUserAdmin = DjangoUserAdmin
    _UserForm = UserChangeForm

# Fields that only a superuser may change.
MANY_RIGHTS = ("groups", "user_permissions")
RIGHTS = ("is_staff", "is_superuser", "is_owner", *MANY_RIGHTS)
SINGLE_RIGHTS = "Single permissions"  # shown to superusers only, folded
OWN_ACCOUNT = "your own account"
# Fields that only an owner may change: they decide about access.
ADMITTED = ("only_listed", "is_active")


class IdentityForm(ChangedFieldsOnly, ModelForm[ChannelIdentity]):
    """Normalise an identity ([A2])."""

    at_once = frozenset({"kind", "channel", "account", "value"})

    class Meta:
        model = ChannelIdentity
        fields = ("kind", "channel", "account", "value", "expires_at")

    def clean(self) -> dict[str, Any]:
        """Normalise the value; the channel follows from the account."""
        data = super().clean() or {}
        if data.get("account") is not None:
            data["channel"] = data["account"].channel
        if not data.get("kind") or not data.get("value"):
            return data
        try:
            data["value"] = normalise(
                kind=data["kind"], value=data["value"], channel=data.get("channel") or ""
            )
        except InvalidIdentity as error:
            raise ValidationError({"value": str(error)}) from error
        return data


class IdentityFormSet(RowsFormSet):
    """The identities of a person, each once."""

    def clean(self) -> None:
        """Add the error beside the address: the database knows it only when it is stored."""
        super().clean()
        seen = set()
        for form in self.forms:
            row, data = form.instance, getattr(form, "cleaned_data", None) or {}
            if not row.value or data.get("DELETE"):
                continue
            identity = (row.kind, row.account_id, row.channel, row.value)
            if identity in seen:
                form.add_error("value", "This identity is in another row already.")
            seen.add(identity)


class IdentityInline(OnlyDeciders, ThemedInline[ChannelIdentity, User]):
    model = ChannelIdentity
    form = IdentityForm
    formset = IdentityFormSet
    fields = ("kind", "channel", "account", "value", "expires_at")
    verbose_name_plural = "identities: senders that speak as this person"


class NewUserForm(ModelForm[User]):
    """A new user without a password: sign-in is by link, or by the channel's credential."""

    class Meta:
        model = User
        fields = ("username", "display_name", "only_listed")


class PersonForm(ChangedFieldsOnly, _UserForm):
    """A person; their time zone is one that exists. An old page lets no one in again."""

    def clean_time_zone(self) -> str:
        """Return the IANA name of the time zone; empty for none."""
        given: str = self.cleaned_data["time_zone"].strip()
        try:
            return zone_named(given).key if given else ""
        except RuleError as error:
            raise ValidationError(str(error)) from error


class OpenFilter(admin.SimpleListFilter):
    title = "open to everyone"
    parameter_name = "open"

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, str]]:
        return [("yes", "Yes")]

    def queryset(self, request: HttpRequest, queryset: QuerySet[User]) -> QuerySet[User]:
        if self.value() != "yes":
            return queryset
        return queryset.filter(pk__in=[user.pk for user in open_kinds()])


class AccessForm(PlainForm):
    """The sender to explain."""

    account = forms.ModelChoiceField(ChannelAccount.objects.order_by("channel", "name"))
    kind = forms.ChoiceField(choices=ChannelIdentity.Kind.choices)
    sender = forms.CharField(max_length=320, label="Sender's id")
    group = forms.CharField(max_length=320, required=False, label="Group's id, in a group")


@admin.register(User)
class UserAdmin(_DjangoUserAdmin, DeletedInParts[User]):
    """Users; only superusers grant permissions or change users who have any."""

    form = PersonForm
    change_password_form = AdminPasswordChangeForm
    add_form = NewUserForm
    add_form_template = None
    change_form_template = "dashboard/user.html"
    delete_confirmation_template = "dashboard/delete_person.html"
    inlines = (IdentityInline,)
    list_display = (
        "name",
        "username",
        "speaks_from",
        "open_badge",
        "is_owner",
        "is_active",
        "last_spoke_at",
    )
    list_filter = ("is_active", "is_owner", "is_staff", OpenFilter)
    list_select_related = ("last_account",)
    search_fields = ("username", "display_name", "email", "identities__value")
    newest_by = F("pk")
    searches_all = True
    ordering = (F("last_spoke_at").desc(nulls_last=True), "username")
    filter_horizontal = ("user_permissions",)
    readonly_fields = ("last_account", "last_spoke_at", "last_login", "date_joined", "open_badge")
    add_fieldsets = ((None, {"fields": ("username", "display_name", "only_listed")}),)
    fieldsets = (
        (
            None,
            {"fields": (("username", "display_name"), ("language", "time_zone"), "show_progress")},
        ),
        ("Access", {"fields": (("only_listed", "is_active"), "open_badge")}),
        (
            "Rights",
            {
                "fields": ("is_owner", ("is_staff", "is_superuser"), "groups"),
                "description": "Only owners decide about access; for their pages in the admin they "
                "are staff with roles as well. Roles apply to staff; a superuser has all of them.",
            },
        ),
        (SINGLE_RIGHTS, {"fields": ("user_permissions",), "classes": ("collapse",)}),
        ("Seen", {"fields": (("last_account", "last_spoke_at"), ("last_login", "date_joined"))}),
    )

    @admin.display(description="person", ordering="display_name")
    def name(self, user: User) -> str:
        return visible_line(str(user), 60)

    @admin.display(description="identities")
    def speaks_from(self, user: User) -> str:
        """Show how many they are, and for a guest, whose all end, until when one is listed."""
        number, until = getattr(user, "identity_count", 0), getattr(user, "guest_until", None)
        return f"{number}, until {localize(timezone.localtime(until))}" if until else str(number)

    @admin.display(description="open to everyone")
    def open_badge(self, user: User) -> SafeString | str:
        """Show a red badge for each kind that is open to everyone ([A1])."""
        kinds = open_kinds(only=user).get(user, []) if user.pk and not user.only_listed else []
        return badge(f"open to everyone on {', '.join(kinds)}", "danger") if kinds else "no"

    def get_queryset(self, request: HttpRequest) -> QuerySet[User]:
        people: QuerySet[User] = super().get_queryset(request)
        theirs = ChannelIdentity.objects.filter(user=OuterRef("pk")).order_by().values("user")
        counted = theirs.annotate(number=Count("pk"), ending=Count("expires_at"))
        of_guests = counted.filter(number=F("ending")).annotate(last=Max("expires_at"))
        return people.annotate(
            identity_count=Coalesce(Subquery(counted.values("number")), 0),
            guest_until=Subquery(of_guests.values("last")),
        )

    def add_view(
        self,
        request: HttpRequest,
        form_url: str = "",
        extra_context: dict[str, Any] | None = None,
    ) -> HttpResponse:
        """Wait in the queue of writers: Django's view of a new user opens a transaction."""
        with transactions.atomic_write() if request.method == "POST" else nullcontext():
            response: HttpResponse = super().add_view(request, form_url, extra_context)
        return response

    def user_change_password(
        self,
        request: HttpRequest,
        id: str,  # noqa: A002 - Django's name
        form_url: str = "",
    ) -> HttpResponse:
        """Show Django's page to superusers and record a new password.

        A password gives access as that user: the same as a sign-in link. The session here gets
        another key.
        """
        if not is_superuser(request):
            raise PermissionDenied
        before = request.session.session_key or ""
        response: HttpResponse = super().user_change_password(request, id, form_url)
        if request.method == "POST" and response.status_code == HTTPStatus.FOUND:
            push_subscriptions.follow(before, request.session.session_key or "")
            person = get_object_or_404(User, pk=id)
            self.record(request, "password_set", person, {})
            revocation.check_sessions(user_id=person.pk)
        return response

    def has_change_permission(self, request: HttpRequest, obj: User | None = None) -> bool:
        """Let only superusers change users with permissions."""
        return super().has_change_permission(request, obj) and may_touch(request, obj)

    def has_delete_permission(self, request: HttpRequest, obj: User | None = None) -> bool:
        """As for changing; deleting oneself is refused."""
        if obj is not None and obj.pk == request.user.pk:
            return False
        return super().has_delete_permission(request, obj) and may_touch(request, obj)

    def forbidden(self, objs: Any, request: HttpRequest) -> set[str]:
        """Refuse oneself among those that are chosen in the list, too."""
        found = super().forbidden(objs, request)
        is_among = any(obj.pk == request.user.pk for obj in objs)
        return found | {OWN_ACCOUNT} if is_among else found

    def get_fieldsets(self, request: HttpRequest, obj: User | None = None) -> Any:
        """Show single permissions to superusers only; others assign roles."""
        found = super().get_fieldsets(request, obj)
        shown = is_superuser(request)
        return [each for each in found if shown or each[0] != SINGLE_RIGHTS]

    def formfield_for_manytomany(self, db_field: Any, request: HttpRequest, **kwargs: Any) -> Any:
        """Show roles as checkboxes."""
        found = super().formfield_for_manytomany(db_field, request, **kwargs)
        if found is not None and db_field.name == "groups":
            found.label, found.help_text = "Roles", ""
            found.widget = UnfoldAdminCheckboxSelectMultipleWidget()
            found.widget.choices = found.choices
        return found

    def get_readonly_fields(self, request: HttpRequest, obj: User | None = None) -> Any:
        """Lock access for non-owners, permissions for non-superusers, one's own access."""
        fields = tuple(super().get_readonly_fields(request, obj))
        if not is_superuser(request):
            return (*fields, *RIGHTS, *(() if decides(request) else ADMITTED))
        own = obj is not None and obj.pk == request.user.pk
        return (*fields, "is_active", "is_staff", "is_superuser") if own else fields

    def save_model(self, request: HttpRequest, obj: User, form: Any, change: Any) -> None:
        """Create users without a password; end sessions and runs that a change revokes ([A9])."""
        if not change:
            obj.set_unusable_password()
        is_over = change and "is_active" in form.changed_data and not obj.is_active
        if is_over:
            revocation.end_questions(user_id=obj.pk)
        super().save_model(request, obj, form, change)
        if is_over:
            revocation.end_user(user_id=obj.pk)
        elif change and "only_listed" in form.changed_data and obj.only_listed:
            revocation.end_open_lists(user_id=obj.pk)

    def save_related(self, request: HttpRequest, form: Any, formsets: Any, change: Any) -> None:
        """Record changes of roles and single permissions, which are in other tables."""
        super().save_related(request, form, formsets, change)
        data: dict[str, object] = {
            name: sorted(str(each) for each in form.cleaned_data[name])
            for name in MANY_RIGHTS
            if name in form.changed_data
        }
        if data:
            self.record(request, "rights_set", form.instance, data)

    def remove_before(self, request: HttpRequest, obj: User) -> None:
        """Disable the MCP servers of this person alone before all that names them goes."""
        disable_servers_of(self, request, obj)
        super().remove_before(request, obj)

    def stop(self, obj: User) -> None:
        """End sessions and runs ([A9])."""
        User.objects.filter(pk=obj.pk).update(is_active=False)
        revocation.end_user(user_id=obj.pk)

    def save_formset(
        self,
        request: HttpRequest,
        form: Any,
        formset: Any,
        change: Any,
    ) -> None:
        """Record each changed identity; end the runs of a removed one ([A9]), and a link code that
        it may have asked for. The first one of its kind closes an open list.
        """
        olds = {row.pk: row for row in ChannelIdentity.objects.filter(user=form.instance.pk)}
        formset.save()
        if formset.changed_objects or formset.deleted_objects:
            link_codes.end_open(user_id=form.instance.pk)  # before the audit, as its use
        for row, _ in formset.changed_objects:
            self.record(request, "changed", row, {"user": row.user_id, "before": str(olds[row.pk])})
            _end(olds[row.pk])
        for row in formset.new_objects:
            self.record(request, "added", row, {"user": row.user_id})
        if change and formset.new_objects:
            revocation.end_open_lists(user_id=form.instance.pk)
        for row in formset.deleted_objects:
            self.record(request, "deleted", row, {"user": row.user_id})
            _end(row)

    def get_urls(self) -> list[URLPattern]:
        wrap = self.admin_site.admin_view
        return [
            path("<int:pk>/sign-in-link/", wrap(self.sign_in_link), name="core_user_sign_in_link"),
            path("access-check/", wrap(self.access_check), name="access_check"),
            *super().get_urls(),
        ]

    @method_decorator(require_POST)
    def sign_in_link(self, request: HttpRequest, pk: int) -> HttpResponse:
        """Create a one-time sign-in link, shown once."""
        person = get_object_or_404(User, pk=pk, is_active=True)
        if not is_superuser(request):  # the link signs its holder in as that user
            raise PermissionDenied
        now = timezone.now()
        token = sign_in.create(user=person, now=now)
        self.record(request, "sign_in_link", person, {})
        secret = request.build_absolute_uri(f"/sign-in/{token}")
        return shown_once(self, request, f"Sign-in link of {person}", secret, person)

    def access_check(self, request: HttpRequest) -> HttpResponse:
        """Explain the rule for one sender ([A8])."""
        if not self.has_view_permission(request):
            raise PermissionDenied
        form = AccessForm(request.GET or None)
        context = self.admin_site.each_context(request) | {"title": "Explain access", "form": form}
        if request.GET and form.is_valid():
            data = form.cleaned_data
            sender = Sender(data["account"], data["kind"], data["sender"], data["group"])
            now = timezone.now()
            context |= {
                "rows": explain(sender=sender, now=now),
                "decision": decide(sender=sender, now=now),
            }
        return TemplateResponse(request, "dashboard/access_check.html", context)


def may_touch(request: HttpRequest, person: User | None) -> bool:
    """Return whether the user may act on a person: on one with rights, only a superuser."""
    if person is None or is_superuser(request):
        return True
    return not (person.is_superuser or person.is_owner or person.is_staff)


def _end(identity: ChannelIdentity) -> None:
    revocation.end_identity(user_id=identity.user_id, kind=identity.kind, value=identity.value)
